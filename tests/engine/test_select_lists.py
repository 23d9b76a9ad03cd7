"""Select lists that repeat a name: what DataFusion is told, and that the result has both columns."""

from __future__ import annotations

import pytest
from lance_flight.engine.sql.select_lists import with_distinct_names

from tests.engine.database import Database

RENAMED = [
    pytest.param("SELECT 1, 1, 1", 'SELECT 1, 1 AS "column 2", 1 AS "column 3"', id="literals"),
    pytest.param("SELECT a, A, t.a FROM t", 'SELECT a, A AS "column 2", t.a AS "column 3" FROM t', id="a column"),
    pytest.param("SELECT a, a::INT FROM t", 'SELECT a, a::INT AS "column 2" FROM t', id="a cast"),
    pytest.param("SELECT f(a), f(CAST(a AS INT))", 'SELECT f(a), f(CAST(a AS INT)) AS "column 2"', id="a cast inside"),
    pytest.param("SELECT DISTINCT a, a", 'SELECT DISTINCT a, a AS "column 2"', id="distinct"),
    pytest.param(
        "SELECT 1,1 UNION SELECT 2,2", 'SELECT 1,1 AS "column 2" UNION SELECT 2,2 AS "column 2"', id="a union"
    ),
    pytest.param("SELECT * FROM (SELECT 1, 1)", 'SELECT * FROM (SELECT 1, 1 AS "column 2")', id="inside"),
    pytest.param(
        "SELECT a IS DISTINCT FROM (b), a IS DISTINCT FROM (b) FROM t",
        'SELECT a IS DISTINCT FROM (b), a IS DISTINCT FROM (b) AS "column 2" FROM t',
        id="a FROM that ends no list",
    ),
]
LEFT = [
    pytest.param("SELECT 1, 2", id="different"),
    pytest.param("SELECT *, t.*, * FROM t", id="stars"),
    pytest.param("SELECT a AS x, a AS x FROM t", id="named"),
    pytest.param("SELECT a x, a x, a 'x', a \"x\" FROM t", id="named without AS"),
    pytest.param("SELECT ' , a', ' , b'", id="commas in strings"),
    pytest.param("SELECT f(1, 1), [1, 1]", id="arguments"),
    pytest.param('SELECT a, "A" FROM t', id="a quoted name"),
    pytest.param("VALUES (1, 1)", id="values"),
    pytest.param("SELECT", id="nothing"),
    pytest.param("SELECT .", id="a sign alone"),
    pytest.param("SELECT ::", id="a cast of nothing"),
]


@pytest.mark.parametrize(("text", "renamed"), RENAMED)
def test_what_repeats_is_named(text: str, renamed: str) -> None:
    assert with_distinct_names(text) == renamed


@pytest.mark.parametrize("text", LEFT)
def test_everything_else_stays_as_it_was_written(text: str) -> None:
    assert with_distinct_names(text) == text


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
    "SELECT ?::BIGINT AS p, ?::BIGINT AS p": (["p", "p"], [7, 8]),
}


@pytest.mark.parametrize("sql", REPEATED)
def test_columns_of_one_name_are_all_there(database: Database, table: str, sql: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 1 AS a, 'x' AS b")
    text = sql.format(t=table)
    found = database.query(text, [7, 8] if "?" in sql else None)
    names, values = REPEATED[sql]
    assert found.schema.names == names
    assert [column.to_pylist() for column in found.columns] == [[value] for value in values]
    described = database.engine.describe(text).schema
    assert (described.names, described.types) == (found.schema.names, found.schema.types)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM (SELECT 1 AS a, 2 AS a)",
        "CREATE TABLE twice AS SELECT 1 AS a, 2 AS a",
        "CREATE VIEW twice AS SELECT 1 AS a, 2 AS a",
    ],
)
def test_a_name_that_stands_for_two_columns_is_refused(database: Database, sql: str) -> None:
    assert "have the same name" in database.refuses(sql)
