"""Servers that die half-way through statements over unusual specs: what was done is there whole or not at all, and the next server goes on.

`faults/test_killed_servers` kills at each point of each write to tables of one spec with fields.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lance_flight.faults import VARIABLE

from tests.engine.database import Database
from tests.service.server_process import started
from tests.stock import manifest, stored_tables

# A cursor that lost its server complains once more when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SET_UP = {
    "the partition without fields": (
        "CREATE TABLE t (id BIGINT, c INT, p VARCHAR) PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 1, 'a')",
        "ALTER TABLE t SET PARTITIONED BY ()",
    ),
    "two specs": (
        "CREATE TABLE t (id BIGINT, c INT, p VARCHAR) PARTITIONED BY (c)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, -7, 'a'), (3, NULL, 'b')",
        "ALTER TABLE t SET PARTITIONED BY (c, p)",
        "INSERT INTO t VALUES (11, 1, 'a'), (12, 2147483647, NULL)",
    ),
}
INSERT, WIDEN, REWRITE = (
    "INSERT INTO {t} VALUES (50, 1, 'a')",
    "ALTER TABLE {t} ALTER COLUMN c TYPE BIGINT",
    "ALTER TABLE {t} REWRITE PARTITIONS",
)
STOPS = [
    pytest.param(before, sql, point, point in {"committed", "evolved"}, id=f"{sql.split()[-2].lower()} {point}")
    for before, sql, points in (
        ("the partition without fields", INSERT, ("data_written", "all_staged", "manifest_written", "committed")),
        ("two specs", WIDEN, ("table_staged", "manifest_written", "committed", "evolved")),
        ("two specs", REWRITE, ("data_written", "table_staged", "manifest_written", "committed")),
    )
    for point in points
]


def seen(database: Database, table: str) -> tuple[Any, ...]:
    """Rows and columns as queries have them, and rows by their partitions and types as stock Lance has them."""
    place = database.root / table
    found = database.query(f"SELECT * FROM {table} ORDER BY id")
    stored = Counter(
        (each.spec_id, *each.values.values(), *each.dataset.to_table()["id"].to_pylist())
        for each in stored_tables(place)
        if each.dataset.count_rows()
    )
    return found.schema, found.to_pylist(), stored, manifest(place).schema


@pytest.mark.parametrize(("before", "sql", "point", "is_done"), STOPS)
def test_a_statement_is_done_or_not_and_the_next_server_goes_on(
    tmp_path: Path, before: str, sql: str, point: str, *, is_done: bool
) -> None:
    database = Database(tmp_path)
    for statement in SET_UP[before]:
        database.run(statement)
    undisturbed = database.copy("t", "undisturbed")
    states = [seen(database, "t")]
    database.rows(sql.format(t=undisturbed))
    states.append(seen(database, undisturbed))
    assert states[0] != states[1]
    with started(tmp_path, environment=os.environ | {VARIABLE: point}) as dying:
        dying.refuses(sql.format(t="t"))
        assert dying.process.wait(60) != 0
    after = Database(tmp_path)
    assert seen(after, "t") == states[is_done]
    for again in (
        *([sql] * (not is_done)),
        "INSERT INTO {t} VALUES (60, 1, 'a'), (61, 5, 'new')",
        "VACUUM {t} RETAIN 0 HOURS FORCE",
    ):
        after.rows(again.format(t="t"))
    after.rows(f"INSERT INTO {undisturbed} VALUES (60, 1, 'a'), (61, 5, 'new')")
    assert seen(after, "t") == seen(after, undisturbed)
    assert {row[-1] for row in after.rows("VERIFY TABLE t")} == {None}
