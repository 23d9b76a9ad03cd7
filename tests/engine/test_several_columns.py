"""ALTER TABLE with several changes of columns: one commit, or nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.engine.database import Database

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.utf8()), ("n", pa.int32()), ("s", pa.struct([("x", pa.int32())]))])
ROWS = [{"id": n, "p": "ab"[n % 2], "n": None if n == 3 else n, "s": {"x": n}} for n in range(4)]
SHAPES = [pytest.param("p", id="partitioned"), pytest.param(None, id="plain")]


def made(database: Database, table: str, by: str | None) -> None:
    if by is None:
        database.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR, n INT, s STRUCT<x INT>)")
        values = ", ".join(
            f"({row['id']}, '{row['p']}', {'NULL' if row['n'] is None else row['n']}, {{x: {row['id']}}})"
            for row in ROWS
        )
        database.run(f"INSERT INTO {table} VALUES {values}")
    else:
        database.ingest(table, pa.Table.from_pylist(ROWS, schema=SCHEMA), partition_by=by)


def state(database: Database, table: str) -> tuple[Any, ...]:
    """The columns with what is said of them, the rows, and the commits of the history."""
    described = database.rows(f"DESCRIBE {table}")
    rows = database.query(f"SELECT * FROM {table}").to_pylist()
    return (
        described,
        sorted(rows, key=str),
        database.rows(f"SELECT version FROM \"{table}$snapshots\" WHERE operation <> 'metadata'"),
    )


TOGETHER = {
    "ADD COLUMN c INT, ADD COLUMN d INT NOT NULL DEFAULT 7": [row | {"c": None, "d": 7} for row in ROWS],
    "ADD COLUMN c DECIMAL(9, 2) DEFAULT round(1.5, 1), DROP COLUMN n": [
        {"id": row["id"], "p": row["p"], "s": row["s"], "c": pa.scalar("1.50").cast(pa.decimal128(9, 2)).as_py()}
        for row in ROWS
    ],
    # A computed column is one of the columns before the statement.
    "RENAME COLUMN n TO m, ADD COLUMN n BIGINT AS (n + coalesce(id, 0)), ALTER COLUMN m TYPE BIGINT": [
        {
            "id": row["id"],
            "p": row["p"],
            "m": row["n"],
            "s": row["s"],
            "n": None if row["n"] is None else row["n"] + row["id"],
        }
        for row in ROWS
    ],
    "RENAME COLUMN id TO t, RENAME COLUMN n TO id, RENAME COLUMN t TO n": [
        {"n": row["id"], "p": row["p"], "id": row["n"], "s": row["s"]} for row in ROWS
    ],
    "RENAME COLUMN id TO key, ALTER COLUMN key SET NOT NULL, ADD COLUMN s.y INT, DROP COLUMN s.x": [
        {"key": row["id"], "p": row["p"], "n": row["n"], "s": {"y": None}} for row in ROWS
    ],
    "DROP COLUMN id, DROP COLUMN n, DROP COLUMN s, DROP COLUMN p, ADD COLUMN id VARCHAR": [{"id": None} for _ in ROWS],
}


@pytest.mark.parametrize("by", SHAPES)
@pytest.mark.parametrize("changes", TOGETHER)
def test_several_changes_are_one_commit(database: Database, table: str, by: str | None, changes: str) -> None:
    made(database, table, by)
    _, _, versions = state(database, table)
    if by is None and "SET NOT NULL" in changes:  # which a plain table cannot keep
        assert "cannot become NOT NULL" in database.refuses(f"ALTER TABLE {table} {changes}")
        return
    assert database.run(f"ALTER TABLE {table} {changes}") == 0
    _, rows, after = state(database, table)
    assert rows == sorted(TOGETHER[changes], key=str)
    assert len(after) == len(versions) + 1
    assert database.query(f"SELECT * FROM {table} LIMIT 0").column_names == list(TOGETHER[changes][0])
    database.run(f"INSERT INTO {table} SELECT * FROM {table}")
    assert database.value(f"SELECT count(*) FROM {table}") == 2 * len(ROWS)
    assert len(database.rows(f"SELECT * FROM {table}@{versions[-1][0]}")) == len(ROWS)


@pytest.mark.parametrize("by", SHAPES)
def test_comments_are_changes_of_columns(database: Database, table: str, by: str | None) -> None:
    made(database, table, by)
    _, _, versions = state(database, table)
    database.run(f"ALTER TABLE {table} ADD COLUMN c INT DEFAULT 3 COMMENT 'of c', ALTER COLUMN n COMMENT 'it''s n'")
    _, _, after = state(database, table)
    comments = f"SELECT column_name, column_comment FROM information_schema.columns WHERE table_name = '{table}'"
    assert set(database.rows(comments)) == {("id", None), ("p", None), ("n", "it's n"), ("s", None), ("c", "of c")}
    assert len(after) == len(versions) + 1
    database.run(f"ALTER TABLE {table} ALTER COLUMN n COMMENT NULL")
    assert ("n", None) in database.rows(comments)
