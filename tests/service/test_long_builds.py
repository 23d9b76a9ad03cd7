"""Builds of indices that take long, from outside: their progress, KILL, a client that goes away, Ctrl-C, and the run that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.engine.waiting import until
from tests.service.server_process import COMMAND, Server
from tests.service.terminal import terminal
from tests.stock import stored_tables

ROWS, DIMENSIONS, TENANTS = 16_000, 64, 2
VECTORS = np.random.default_rng(5).normal(size=(ROWS, DIMENSIONS)).astype(np.float32)
DOCS = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "tenant": [number % TENANTS for number in range(ROWS)],
        "v": pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIMENSIONS),
    }
)
OPTIONS = {"num_partitions": 16, "m": 40, "ef_construction": 400}
"""Graphs that take a while, and of which Lance says often how far it is."""
USING = f"USING ivf_hnsw_sq WITH ({', '.join(f'{name} = {value}' for name, value in OPTIONS.items())})"
QUICK = "USING ivf_flat WITH (num_partitions = 1)"


@pytest.fixture
def docs(server: Server, table: str) -> str:
    """A table of two partitions with enough vectors."""
    assert server.ingest(table, DOCS, partition_by="tenant") == ROWS
    return table


def running(server: Server, docs: str) -> list[tuple[str, str]]:
    """The ids and states of the statements that build an index of a table."""
    return [
        (str(statement), str(state))
        for statement, state in server.rows(
            f"SELECT id, state FROM system.queries WHERE sql LIKE 'CREATE INDEX%{docs}%'"
        )
    ]


def segments(root: Path, docs: str) -> set[str]:
    """The segments that lie in the directories of partition tables."""
    return {path.name for path in (root / docs).glob("*/_indices/*") if "__manifest" not in path.parts}


def stored(server: Server, docs: str) -> set[str]:
    """The segments that partition tables have at their pins."""
    tables = stored_tables(server.root / docs)
    return {s.uuid for each in tables for index in each.dataset.describe_indices() for s in index.segments}


def is_built(server: Server, docs: str) -> bool:
    """Whether Lance has begun to write a segment."""
    return bool(segments(server.root, docs))


def staged(server: Server, docs: str) -> set[str]:
    """The segments that the newest versions of partition tables have, pinned or not."""
    places = (server.root / docs).glob("*$dataset")
    return {s.uuid for place in places for index in lance.dataset(place).describe_indices() for s in index.segments}


def goes_on(server: Server, docs: str, known: Callable[[Server, str], set[str]] = stored) -> None:
    """Nothing is left of the build but whole segments, which are `known`, and another one has its way."""
    until(lambda: stored(server, docs) <= segments(server.root, docs) <= known(server, docs))
    server.run(f"CREATE INDEX other ON {docs} (v) {QUICK}")
    found = server.rows(f"SELECT indexed_rows FROM {docs}$indexes WHERE name = 'other'")
    assert found == [(ROWS,)]


def test_a_build_is_killed(server: Server, docs: str) -> None:
    with (
        dbapi.connect(server.uri, autocommit=True) as connection,
        connection.cursor() as cursor,
        ThreadPoolExecutor(1) as pool,
    ):
        building = pool.submit(cursor.execute, f"CREATE INDEX slow ON {docs} (v) {USING}")
        until(lambda: [state for _, state in running(server, docs) if state == "running"])
        until(lambda: is_built(server, docs))
        ((statement, _),) = running(server, docs)
        server.run(f"KILL '{statement}'")
        with pytest.raises(Error, match=r"\[cancelled\] the statement was cancelled"):
            building.result(30)
    assert running(server, docs) == []
    goes_on(server, docs)


def test_an_interrupted_command_leaves_whole_tables(server: Server, docs: str) -> None:
    options = [word for name, value in OPTIONS.items() for word in ("--option", f"{name}={value}")]
    command = [COMMAND, "create-index", str(server.root), docs, "v", "--kind", "ivf_hnsw_sq", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: is_built(server, docs))
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=120)
    assert (process.returncode, said, errors) == (130, "", "")
    # On a slow machine Ctrl-C meets a commit, which leaves the versions that it has staged.
    goes_on(server, docs, staged)


def test_the_commands_show_how_far_they_are(server: Server, docs: str, tmp_path: Path) -> None:
    command = [COMMAND, "create-index", str(server.root), docs, "id", "--name", "numbers"]
    with terminal(command, {**os.environ, "TERM": "xterm"}, tmp_path) as screen:
        screen.read_until(rf"create-index {docs}: 2 of 2 partition tables, 16,000 rows")
        assert screen.end() == 0
