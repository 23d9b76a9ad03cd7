"""Queries whose columns repeat a name: the result has them all."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.engine.database import Database

# Query → the names and the values of its only row.
REPEATED = {
    "SELECT a, a FROM {t}": (["a", "a"], [1, 1]),
    "SELECT a, b, a, a FROM {t} ORDER BY a": (["a", "b", "a", "a"], [1, "x", 1, 1]),
    "SELECT *, a FROM {t}": (["a", "b", "a"], [1, "x", 1]),
    "SELECT b, * FROM {t}": (["b", "a", "b"], ["x", 1, "x"]),
    "SELECT count(*), count(*) FROM {t}": (["count(*)", "count(*)"], [1, 1]),
    "SELECT 1 AS x, 2 AS x": (["x", "x"], [1, 2]),
    'SELECT 1 x, 2 "x", 3 AS X': (["x", "x", "x"], [1, 2, 3]),
    "SELECT {t}.a, a, sum(a) s, sum(a) s FROM {t} GROUP BY a": (["a", "a", "s", "s"], [1, 1, 1, 1]),
    "WITH w AS (SELECT a FROM {t}) SELECT a, a FROM w": (["a", "a"], [1, 1]),
    "SELECT a, a FROM {t} UNION SELECT 1, 1": (["a", "a"], [1, 1]),
    "SELECT DISTINCT a, a FROM {t} LIMIT 1": (["a", "a"], [1, 1]),
    "SELECT CAST(a AS INT), CAST(a AS SMALLINT), a + 1, a::INT FROM {t}": (
        ["{t}.a", "{t}.a", "{t}.a + Int64(1)", "{t}.a"],
        [1, 1, 2, 1],
    ),
    "SELECT CAST('1.005' AS DECIMAL(10, 2)), CAST(1.005 AS DECIMAL(10, 2))": (
        ['Utf8("1.005")'] * 2,
        [Decimal("1.01")] * 2,
    ),
    "SELECT 1.0 = 1, 1e0 = 1": (["Float64(1) = Int64(1)"] * 2, [True, True]),
    "SELECT ?::BIGINT AS p, ?::BIGINT AS p": (["p", "p"], [7, 8]),
}


@pytest.mark.parametrize("sql", REPEATED)
def test_columns_of_one_name_are_all_there(database: Database, table: str, sql: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 1 AS a, 'x' AS b")
    text = sql.format(t=table)
    found = database.query(text, [7, 8] if "?" in sql else None)
    names, values = REPEATED[sql]
    assert found.schema.names == [name.format(t=table) for name in names]
    assert [column.to_pylist() for column in found.columns] == [[value] for value in values]
    described = database.engine.describe(text).schema
    assert (described.names, described.types) == (found.schema.names, found.schema.types)
