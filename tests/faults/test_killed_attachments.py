"""Servers that die while a table becomes a partition, or a partition a table: its rows are found in one place at least."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path

import lance
import pytest
from adbc_driver_manager import Error
from lance_flight.faults import VARIABLE

from tests.faults.writes import RIVAL, START, table_of
from tests.service.server_process import Server, serving, started
from tests.stock import stored_tables

MOVED = RIVAL[:1]
ATTACH = "ALTER TABLE t ATTACH TABLE 'x' PARTITION (p = 'x')"
DETACH = "ALTER TABLE t DETACH PARTITION (p = 'x') TO x"

# A cursor that lost its server complains once more when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@dataclass(frozen=True)
class Stop:
    """A statement, the point where the server dies, and where the moved rows are found after that."""

    statement: str
    point: str
    in_table: bool
    in_partition: bool


STOPS = [
    Stop(ATTACH, "table_linked", in_table=True, in_partition=False),
    Stop(ATTACH, "manifest_written", in_table=True, in_partition=False),
    Stop(ATTACH, "committed", in_table=True, in_partition=True),
    Stop(ATTACH, "table_dropped", in_table=False, in_partition=True),
    Stop(DETACH, "namespace_made", in_table=False, in_partition=True),
    Stop(DETACH, "table_moved", in_table=True, in_partition=True),
    Stop(DETACH, "manifest_written", in_table=True, in_partition=True),
    Stop(DETACH, "committed", in_table=True, in_partition=False),
]
if os.environ.get("LANCE_FLIGHT_TESTS") != "full":
    STOPS = random.Random(2).sample(STOPS, 2)  # noqa: S311 - a sample of cases, no secret


def prepare(server: Server, statement: str) -> None:
    server.ingest("t", table_of(START), partition_by="p")
    if statement == ATTACH:
        lance.write_dataset(table_of(MOVED), str(server.root / "x.lance"))
    else:
        server.ingest("t", table_of(MOVED), "append")


def tables(root: Path) -> set[str]:
    """The places of partitions that have a row in the `__manifest`."""
    return {table.row["location"] for table in stored_tables(root / "t")}


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: f"{stop.statement.split()[3].lower()} at {stop.point}")
def test_the_rows_are_found_wherever_it_stops(tmp_path: Path, stop: Stop) -> None:
    root = tmp_path / "root"
    with serving(root) as server:
        prepare(server, stop.statement)
    with started(root, environment=os.environ | {VARIABLE: stop.point}) as server:
        with pytest.raises(Error, match="Unavailable"):
            server.run(stop.statement)
        assert server.process.wait(60) == -signal.SIGKILL
    with serving(root) as server:
        assert (("public", "x", False) in server.rows("SHOW TABLES")) == stop.in_table
        if stop.in_table:
            assert server.rows("SELECT id, p, n FROM x") == MOVED
        expected = sorted(START + MOVED * stop.in_partition, key=str)
        assert sorted(server.rows("SELECT id, p, n FROM t"), key=str) == expected
        if stop.in_table and not stop.in_partition and stop.statement == ATTACH:
            assert server.run(stop.statement) == 1, "it may be said again"
            assert server.value("SELECT count(*) FROM t") == len(START + MOVED)
        assert {path.name for path in (root / ".lance-flight").iterdir()} <= {"ticket.key", "leases"}
        assert len(tables(root)) == len(stored_tables(root / "t"))
