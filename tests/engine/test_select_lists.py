"""Which items of a SELECT get a name of their own, because DataFusion would call two columns the same."""

from __future__ import annotations

import pytest
from lance_flight.engine.sql.select_lists import with_distinct_names

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
