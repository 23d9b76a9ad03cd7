"""Writers that die half-way through statements over unusual specs, and through the publication of a branch: what was done is there whole or not at all, and the statement can be run again.

`faults/test_killed_writes` stops at each point of each write to tables of one spec with fields.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engine.database import Database
from tests.faults.failpoints import Stopped, left_behind
from tests.stock import manifest, stored_tables

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
DONE = ("committed", "evolved")
"""Failpoints at which a statement is done."""
STATEMENTS: dict[str, tuple[tuple[str, ...], tuple[Stopped, ...]]] = {
    "INSERT INTO {t} VALUES (50, 1, 'a')": (NO_FIELDS, (("data_written", 1), ("all_staged", 1))),
    "ALTER TABLE {t} ALTER COLUMN c TYPE BIGINT": (TWO_SPECS, (("table_staged", 1), ("evolved", 1))),
    "ALTER TABLE {t} REWRITE PARTITIONS": (TWO_SPECS, (("data_written", 1), ("table_staged", 1))),
    "ALTER TABLE {t} PUBLISH BRANCH draft": (
        A_BRANCH,
        (("columns_added", 1), ("table_staged", 1), ("table_staged", 3), ("evolved", 1)),
    ),
}
"""A statement, what is done before it, and where it is killed beside the two sides of its commit."""


def seen(database: Database, table: str) -> tuple[Any, ...]:
    """Rows and columns as queries have them, and rows by their partitions and types as stock Lance has them."""
    place = database.root / table.replace(".", "/")
    found = database.query(f"SELECT * FROM {table} ORDER BY id")
    stored = Counter(
        (each.spec_id, *filter(None, each.values.values()), *each.dataset.to_table()["id"].to_pylist())
        for each in stored_tables(place)
        if each.dataset.count_rows()
    )
    return found.schema, found.to_pylist(), stored


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_is_done_or_not_and_can_be_run_then(tmp_path: Path, sql: str) -> None:
    before, points = STATEMENTS[sql]
    database = Database(tmp_path)
    for statement in before:
        database.run(statement)
    undisturbed = database.copy("t", "undisturbed")
    states = [seen(database, "t")]
    database.rows(sql.format(t=undisturbed))
    states.append(seen(database, undisturbed))
    assert states[0] != states[1]
    stops: list[Stopped] = [("manifest_written", 1), ("committed", 1), *points]
    # Each copy is a table of a schema of its own: a branch names the files of its table by their root.
    with left_behind(tmp_path / "t", tmp_path, stops) as left:
        database.rows(sql.format(t="t"))
    assert left.keys() == {*stops}
    new = "INSERT INTO {t} (id, c, p) VALUES (60, 1, 'a'), (61, 5, 'new')"
    database.rows(new.format(t=undisturbed))
    for point, number in stops:
        table = f"{point}_{number}.t"
        is_done = point in DONE
        assert seen(database, table) == states[is_done]
        for again in (*([sql] * (not is_done)), new, "VACUUM {t} RETAIN 0 HOURS FORCE"):
            database.rows(again.format(t=table))
        assert seen(database, table) == seen(database, undisturbed)
        assert manifest(tmp_path / table.replace(".", "/")).schema == manifest(tmp_path / undisturbed).schema
        assert {row[-1] for row in database.rows(f"VERIFY TABLE {table}")} == {None}
