"""Ingests that break off: whatever was sent, nothing of it is stored. Each test looks after its server has drained."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_manager import Error

from tests.service import interrupted_client
from tests.service.server_process import Server, files, serving

PROGRAM = str(Path(interrupted_client.__file__))
SCHEMA = pa.schema({"id": pa.int64()})
LAYOUTS = pytest.mark.parametrize("partition_by", [None, "bucket(4, id)"], ids=["plain", "partitioned"])
BATCHES = (0, 1, 3, 40)


def failing(sent: int) -> pa.RecordBatchReader:
    """A reader that fails after some batches."""

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(sent):
            yield pa.record_batch({"id": [number] * 1000})
        raise OSError("the disk that was read from is gone")

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def stored(root: Path) -> set[str]:
    """What lies in a root beside the server's own things."""
    return {name for name in files(root) if not name.startswith(".lance-flight")}


def fails(server: Server, table: str, sent: int, mode: str, partition_by: str | None) -> None:
    """Ingest from a reader that fails; the client is told why."""
    with pytest.raises(Error, match="disk that was read from"):
        server.ingest(table, failing(sent), mode, partition_by=partition_by)


@LAYOUTS
def test_a_reader_that_fails_makes_no_table_and_adds_nothing_to_one(tmp_path: Path, partition_by: str | None) -> None:
    with serving(tmp_path / "root") as server:
        for mode in ("create", "replace", "create_append"):
            for sent in BATCHES:
                fails(server, f"{mode}_{sent}", sent, mode, partition_by)
        assert server.rows("SHOW TABLES") == []
        assert stored(tmp_path / "root") == set()
        server.ingest("t", pa.table({"id": [1, 2]}), partition_by=partition_by)
        before = stored(server.root)
        for mode in ("append", "replace", "create_append"):
            for sent in BATCHES:
                fails(server, "t", sent, mode, partition_by)
        assert sorted(server.rows("SELECT id FROM t")) == [(1,), (2,)]
    assert stored(tmp_path / "root") == before
    assert {path.name for path in (tmp_path / "root" / ".lance-flight").iterdir()} == {"ticket.key", "reserve"}


def killed_in_the_middle(server: Server, *arguments: str) -> None:
    """Run a client that has sent rows, and kill it before it ends its stream."""
    command = [sys.executable, PROGRAM, server.uri, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "sent\n"
        client.kill()


@LAYOUTS
def test_a_client_that_is_killed_stores_nothing(tmp_path: Path, partition_by: str | None) -> None:
    partitioning = [] if partition_by is None else [partition_by]
    with serving(tmp_path / "root") as server:
        server.ingest("t", pa.table({"id": [1, 2]}), partition_by=partition_by)
        before = stored(server.root)
        killed_in_the_middle(server, "t")
        killed_in_the_middle(server, "new", *partitioning)
        assert server.value("SELECT count(*) FROM t") == 2
    assert stored(tmp_path / "root") == before
