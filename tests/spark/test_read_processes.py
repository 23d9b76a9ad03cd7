"""Processes of a direct read: Spark plans it once, in the first of them, and each imports what it needs alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest
from lance_flight_client.spark.source import LanceFlightDataSource
from pyspark import cloudpickle

from tests.service.server_process import Server
from tests.spark.tables import rows

HEAVY = ("datafusion", "lance")

PLAN = """
import json, pickle, sys
source = pickle.loads(sys.stdin.buffer.read())
portions = [each.value for each in source.reader(None).partitions()]
print(json.dumps({"portions": [each.hex() for each in portions], "imported": sorted(sys.modules)}))
"""
"""What the process does in which Spark plans a read."""

READ = """
import json, sys
from pyspark.sql.datasource import InputPartition
from lance_flight_client.spark.source import PlanReader
found = [n for portion in json.load(sys.stdin) for batch in PlanReader([]).read(InputPartition(bytes.fromhex(portion)))
         for n in batch.column("id").to_pylist()]
print(json.dumps({"found": sorted(found), "imported": sorted(sys.modules)}))
"""
"""What tasks do."""

DAEMON = """
import json, sys
from lance_flight_client.spark.daemon import import_for
import_for(sys.stdin.read())
print(json.dumps({"imported": sorted(sys.modules)}))
"""


def in_new_process(program: str, given: bytes) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", program], input=given, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def heavy(found: Mapping[str, Any]) -> list[str]:
    return [name for name in HEAVY if name in found["imported"]]


@pytest.mark.parametrize(
    ("condition", "expected", "imported"),
    [
        pytest.param(None, range(20), ["lance"], id="all rows"),
        pytest.param("part = 'p1' AND id < 12", range(1, 12, 5), ["lance"], id="a filter that a scan covers"),
        pytest.param("upper(part) = 'P1'", range(1, 20, 5), ["datafusion", "lance"], id="a condition of the engine's"),
    ],
)
def test_a_read_is_planned_once_and_processes_import_what_they_need(
    server: Server, table: str, condition: str | None, expected: range, imported: list[str]
) -> None:
    server.ingest(table, rows(0, 20), partition_by="part")
    given = {"filter": condition} if condition else {}
    source = LanceFlightDataSource({"root": str(server.root), "table": table, **given})
    assert "id" in source.schema().names
    # What planned again would need the manifest.
    manifest = server.root / table / "__manifest"
    manifest.rename(manifest.with_name("hidden"))
    try:
        planned = in_new_process(PLAN, cloudpickle.dumps(source))  # type: ignore[no-untyped-call]
        assert heavy(planned) == []
        found = in_new_process(READ, json.dumps(planned["portions"]).encode())
    finally:
        manifest.with_name("hidden").rename(manifest)
    assert heavy(found) == imported
    assert found["found"] == list(expected)


@pytest.mark.parametrize(
    ("worker", "imported"),
    [
        pytest.param("pyspark.sql.worker.lookup_data_sources", [], id="formats are looked up"),
        pytest.param("pyspark.sql.worker.plan_data_source_read", [], id="a read is planned"),
        pytest.param(
            "pyspark.sql.worker.create_data_source", ["pandas", "pyarrow.dataset"], id="a schema is asked for"
        ),
        pytest.param("pyspark.worker", ["pandas", "pyarrow.dataset"], id="tasks run"),
    ],
)
def test_a_daemon_imports_what_its_workers_need(worker: str, imported: list[str]) -> None:
    found = in_new_process(DAEMON, worker.encode())
    assert [name for name in ("lance", "pandas", "pyarrow.dataset") if name in found["imported"]] == imported


PLACE = "import lance_flight_client.spark.daemon, pyspark; print(pyspark.__file__)"


@pytest.mark.parametrize(
    ("place", "suffix"), [("installed", "site-packages/pyspark"), ("other", "pyspark.zip/pyspark")]
)
def test_a_worker_imports_the_installed_pyspark_rather_than_its_archive(
    tmp_path: Path, place: str, suffix: str
) -> None:
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    if place == "other":
        archive = Path(shutil.copy(archive, tmp_path))
    path = os.pathsep.join([str(archive), *map(str, archive.parent.glob("py4j*.zip"))])
    done = subprocess.run(
        [sys.executable, "-c", PLACE],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(Path(done.stdout.strip()).parent).endswith(suffix)
