"""Casts to integers round as DuckDB's do."""

from __future__ import annotations

import duckdb
import pytest

from tests.engine.database import Database

COLUMNS = "k BIGINT, j INT, f DOUBLE, r REAL, m DECIMAL(10, 2)"
ROWS = "(1, 2, 2.5, 2.5, 2.5), (2, 3, 3.5, 3.5, 3.5), (3, -2, -2.5, -2.5, -2.5), (4, 0, 0.49999999999999994, 0.5, 0.5), (5, NULL, NULL, NULL, NULL), (6, 0, 1e15, 1.5, 19.99)"
VALUES = [
    "CAST(f AS BIGINT)",
    "CAST(r AS INT)",
    "r::SMALLINT",
    "CAST(m AS INT)",
    "(m - 0.01)::TINYINT",
    "TRY_CAST(f AS INT)",
    "CAST(m * 100 AS INT)",
    "CAST(m AS DOUBLE)::BIGINT",
    "CAST(CAST(m AS INT) AS BIGINT) + j",
    "CAST(avg(f) OVER () AS BIGINT)",
    "CAST(CASE WHEN j > 2 THEN f END AS INT)",
    "CAST(trunc(m) AS INT)",
    "CAST(round(m, 1) AS INT)",
    "CAST(j AS BIGINT)",
    "CAST(2.5 AS INT) + CAST(-2.5 AS INT) + 3.5::INT + 0.5::BIGINT",
]


@pytest.fixture(scope="module")
def peer(database: Database) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for run in (database.run, connection.execute):
        run(f"CREATE TABLE numbers ({COLUMNS})")
        run(f"INSERT INTO numbers VALUES {ROWS}")
    database.run("CREATE VIEW rounded AS SELECT k, CAST(r AS INT) AS x FROM numbers")
    return connection


@pytest.mark.parametrize("value", VALUES)
def test_a_cast_to_an_integer_rounds(database: Database, peer: duckdb.DuckDBPyConnection, value: str) -> None:
    sql = f"SELECT {value} AS v FROM numbers ORDER BY k"
    assert database.rows(sql) == peer.execute(sql).fetchall()


WHOLE = [
    "SELECT k FROM numbers WHERE CAST(f AS BIGINT) = 2 OR m::INT = 20",
    "SELECT CAST(m AS INT) AS v, count(*) FROM numbers GROUP BY CAST(m AS INT) HAVING CAST(sum(r) AS INT) < 3",
    "SELECT CAST(sum(m) AS BIGINT), CAST(avg(j) AS INT) FROM numbers",
    "SELECT a.k FROM numbers a JOIN numbers b ON CAST(a.m AS INT) = b.j + 1",
    "SELECT k FROM numbers WHERE j IN (SELECT CAST(r AS INT) FROM numbers)",
]


@pytest.mark.parametrize("sql", WHOLE)
def test_casts_of_whole_statements(database: Database, peer: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert sorted(map(str, database.rows(sql))) == sorted(map(str, peer.execute(sql).fetchall()))


def test_a_change_and_a_view_round(database: Database, peer: duckdb.DuckDBPyConnection, table: str) -> None:
    assert database.rows("SELECT x FROM rounded ORDER BY k") == [(2,), (4,), (-2,), (0,), (None,), (2,)]
    database.run(f"CREATE TABLE {table} AS SELECT k, CAST(m AS INT) AS n, r FROM numbers")
    database.run(f"UPDATE {table} SET n = CAST(r AS INT) WHERE k < 4")
    found = database.query(f"SELECT n, CAST(r AS BIGINT) FROM {table} ORDER BY k")
    assert found["n"].to_pylist() == [2, 4, -2, 1, None, 20]
    assert found.column_names == ["n", f"{table}.r"]
