"""Servers that die half-way through statements over unusual specs, and through the publication of a branch: what was done is there whole or not at all, and the next server goes on.

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
from tests.selection import IS_FULL
from tests.service.server_process import started
from tests.stock import manifest, stored_tables

# A cursor that lost its server complains once more when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

TWO_SPECS = (
    "CREATE TABLE t (id BIGINT, c INT, p VARCHAR) PARTITIONED BY (c)",
    "INSERT INTO t VALUES (1, 1, 'a'), (2, -7, 'a'), (3, NULL, 'b')",
    "ALTER TABLE t SET PARTITIONED BY (c, p)",
    "INSERT INTO t VALUES (11, 1, 'a'), (12, 2147483647, NULL)",
)
NO_FIELDS = (
    "CREATE TABLE t (id BIGINT, c INT, p VARCHAR) PARTITIONED BY (p)",
    "INSERT INTO t VALUES (1, 1, 'a')",
    "ALTER TABLE t SET PARTITIONED BY ()",
)
A_BRANCH = (
    "CREATE TABLE t (id BIGINT, c INT, p VARCHAR) PARTITIONED BY (p)",
    "INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'a'), (3, 30, 'b')",
    "ALTER TABLE t CREATE BRANCH draft",
    'ALTER TABLE "t@draft" ALTER COLUMN c TYPE BIGINT',
    'ALTER TABLE "t@draft" SET PARTITIONED BY (c)',
    "INSERT INTO \"t@draft\" VALUES (4, 40, 'c')",
    "ALTER TABLE t ADD COLUMN d INT DEFAULT 9",
    "INSERT INTO t VALUES (5, 50, 'n', 1)",
)
STATEMENTS = {
    "INSERT INTO {t} VALUES (50, 1, 'a')": (NO_FIELDS, ("data_written", "all_staged")),
    "ALTER TABLE {t} ALTER COLUMN c TYPE BIGINT": (TWO_SPECS, ("table_staged", "evolved")),
    "ALTER TABLE {t} REWRITE PARTITIONS": (TWO_SPECS, ("data_written", "table_staged")),
    "ALTER TABLE {t} PUBLISH BRANCH draft": (A_BRANCH, ("columns_added", "table_staged", "table_staged:3", "evolved")),
}
"""A statement, what is done before it, and where it is killed in full mode beside the two sides of its commit."""
STOPS = [
    (before, sql, point)
    for sql, (before, points) in STATEMENTS.items()
    for point in ("manifest_written", "committed", *(points if IS_FULL else ()))
]


def seen(database: Database, table: str) -> tuple[Any, ...]:
    """Rows and columns as queries have them, and rows by their partitions and types as stock Lance has them."""
    place = database.root / table
    found = database.query(f"SELECT * FROM {table} ORDER BY id")
    stored = Counter(
        (each.spec_id, *filter(None, each.values.values()), *each.dataset.to_table()["id"].to_pylist())
        for each in stored_tables(place)
        if each.dataset.count_rows()
    )
    return found.schema, found.to_pylist(), stored


@pytest.mark.parametrize(("before", "sql", "point"), STOPS)
def test_a_statement_is_done_or_not_and_the_next_server_goes_on(
    tmp_path: Path, before: tuple[str, ...], sql: str, point: str
) -> None:
    is_done = point in {"committed", "evolved"}
    database = Database(tmp_path)
    for statement in before:
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
        "INSERT INTO {t} (id, c, p) VALUES (60, 1, 'a'), (61, 5, 'new')",
        "VACUUM {t} RETAIN 0 HOURS FORCE",
    ):
        after.rows(again.format(t="t"))
    after.rows(f"INSERT INTO {undisturbed} (id, c, p) VALUES (60, 1, 'a'), (61, 5, 'new')")
    assert seen(after, "t") == seen(after, undisturbed)
    assert manifest(tmp_path / "t").schema == manifest(tmp_path / undisturbed).schema
    assert {row[-1] for row in after.rows("VERIFY TABLE t")} == {None}
