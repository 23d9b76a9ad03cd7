"""A kill while a table becomes a partition, or a partition a table: its rows are found in one place at least."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import lance
import pytest
from lance_flight.catalog.storage.staging_area import settle_abandoned

from tests.engine.database import Database
from tests.faults.failpoints import Stopped, left_behind
from tests.faults.writes import BY, RIVAL, START, table_of
from tests.stock import stored_tables

MOVED = RIVAL[:1]
ATTACH = "ALTER TABLE t ATTACH TABLE 'x' PARTITION (p = 'x')"
DETACH = "ALTER TABLE t DETACH PARTITION (p = 'x') TO x"


@dataclass(frozen=True)
class Stop:
    """A statement, the point where its process dies, and where the moved rows are found after that."""

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


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Mapping[Stopped, Path]]:
    """Runs a statement once, and returns what a kill leaves at each failpoint."""

    @cache
    def ran(statement: str) -> Mapping[Stopped, Path]:
        place = tmp_path_factory.mktemp("moved")
        asked = Database(place / "root")
        asked.ingest("t", table_of(START), partition_by=BY)
        if statement == ATTACH:
            lance.write_dataset(table_of(MOVED), str(asked.root / "x.lance"))
        else:
            asked.ingest("t", table_of(MOVED), "append")
        with left_behind(asked.root, place) as copies:
            asked.run(statement)
        return copies

    return ran


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: f"{stop.statement.split()[3].lower()} at {stop.point}")
def test_the_rows_are_found_wherever_it_stops(left: Callable[[str], Mapping[Stopped, Path]], stop: Stop) -> None:
    asked = Database(left(stop.statement)[stop.point, 1])
    settle_abandoned(asked.engine.root.store)
    assert (("public", "x", False) in asked.rows("SHOW TABLES")) == stop.in_table
    if stop.in_table:
        assert asked.rows("SELECT id, p, n FROM x") == MOVED
    expected = sorted(START + MOVED * stop.in_partition, key=str)
    assert sorted(asked.rows("SELECT id, p, n FROM t"), key=str) == expected
    if stop.in_table and not stop.in_partition and stop.statement == ATTACH:
        assert asked.run(stop.statement) == 1, "it may be said again"
        assert asked.value("SELECT count(*) FROM t") == len(START + MOVED)
    assert {path.name for path in (asked.root / ".lance-flight").glob("*")} <= {"ticket.key", "leases"}
    assert len({table.row["location"] for table in stored_tables(asked.root / "t")}) == len(
        stored_tables(asked.root / "t")
    )
