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
sources = pickle.loads(sys.stdin.buffer.read())
portions = [[each.value.hex() for each in source.reader(None).partitions()] for source in sources]
print(json.dumps({"portions": portions, "imported": sorted(sys.modules)}))
"""
"""What the process does in which Spark plans reads."""

READ = """
import json, sys
from pyspark.sql.datasource import InputPartition
from lance_flight_client.spark.source import PlanReader
found = [sorted(n for portion in portions for batch in PlanReader([]).read(InputPartition(bytes.fromhex(portion)))
                for n in batch.column("id").to_pylist()) for portions in json.load(sys.stdin)]
print(json.dumps({"found": found, "imported": sorted(sys.modules)}))
"""
"""What tasks do."""

DAEMON = """
import json, sys
from lance_flight_client.spark.daemon import import_for
for worker in sys.stdin.read().splitlines():
    import_for(worker)
print(json.dumps({"imported": sorted(sys.modules)}))
"""


def in_new_process(program: str, given: bytes) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", program], input=given, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def heavy(found: Mapping[str, Any]) -> list[str]:
    return [name for name in HEAVY if name in found["imported"]]


COVERED = {None: list(range(20)), "part = 'p1' AND id < 12": list(range(1, 12, 5))}
"""Conditions that a scan covers, and the ids of their rows."""
COMPUTED = {"upper(part) = 'P1'": list(range(1, 20, 5))}
"""One that the engine computes."""


def test_a_read_is_planned_once_and_processes_import_what_they_need(server: Server, table: str) -> None:
    server.ingest(table, rows(0, 20), partition_by="part")
    given = {"root": str(server.root), "table": table}
    sources = [
        LanceFlightDataSource({**given, **({} if condition is None else {"filter": condition})})
        for condition in (*COVERED, *COMPUTED)
    ]
    assert all("id" in source.schema().names for source in sources)
    # What planned again would need the manifest.
    manifest = server.root / table / "__manifest"
    manifest.rename(manifest.with_name("hidden"))
    try:
        planned = in_new_process(PLAN, cloudpickle.dumps(sources))  # type: ignore[no-untyped-call]
        assert heavy(planned) == []
        *covered, computed = planned["portions"]
        found = in_new_process(READ, json.dumps(covered).encode())
        other = in_new_process(READ, json.dumps([computed]).encode())
    finally:
        manifest.with_name("hidden").rename(manifest)
    assert (found["found"], heavy(found)) == (list(COVERED.values()), ["lance"])
    assert (other["found"], heavy(other)) == (list(COMPUTED.values()), ["datafusion", "lance"])


DAEMON_IMPORTS = {
    "formats are looked up, a read is planned": (
        ["pyspark.sql.worker.lookup_data_sources", "pyspark.sql.worker.plan_data_source_read"],
        [],
    ),
    "a schema is asked for": (["pyspark.sql.worker.create_data_source"], ["pandas", "pyarrow.dataset"]),
    "tasks run": (["pyspark.worker"], ["pandas", "pyarrow.dataset"]),
}


@pytest.mark.parametrize(("workers", "imported"), DAEMON_IMPORTS.values(), ids=DAEMON_IMPORTS)
def test_a_daemon_imports_what_its_workers_need(workers: list[str], imported: list[str]) -> None:
    found = in_new_process(DAEMON, "\n".join(workers).encode())
    assert [name for name in ("lance", "pandas", "pyarrow.dataset") if name in found["imported"]] == imported


PLACE = """import sys, lance_flight_client.spark.daemon, pyspark, py4j
print(pyspark.__file__, *sorted(place for place in {*sys.path, *sys.path_importer_cache} if ".zip" in place or ".jar" in place))"""


@pytest.mark.parametrize(
    ("place", "suffix"), [("installed", "site-packages/pyspark"), ("other", "pyspark.zip/pyspark")]
)
def test_a_worker_imports_the_installed_pyspark_rather_than_its_archive(
    tmp_path: Path, place: str, suffix: str
) -> None:
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    if place == "other":
        archive = Path(shutil.copy(archive, tmp_path))
    home = Path(pyspark.__file__).parent
    others = [*home.glob("python/lib/py4j*.zip"), *home.glob("jars/spark-core_*.jar")]
    path = os.pathsep.join(map(str, [archive, *others]))
    done = subprocess.run(
        [sys.executable, "-c", PLACE],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    file, *archives = done.stdout.split()
    assert str(Path(file).parent).endswith(suffix)
    # Each task reads the listings of archives again.
    left = [str(archive)] if place == "other" else []
    assert [entry for entry in archives if not entry.startswith((sys.base_prefix, f"{archive}/"))] == left
