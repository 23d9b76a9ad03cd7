"""Conditions that are NULL or constants, in lists side by side, on scans, in branches of UNION, and above joins."""

from __future__ import annotations

import pytest

from tests.engine.database import Database

ROWS = "(1, 1, true), (2, 1, NULL), (NULL, 2, false), (3, 2, true)"

# Condition → the rows that it is TRUE for, by the values of x.
CONDITIONS = {
    "x NOT IN (1) OR x NOT IN (2)": [1, 2, 3],
    "x NOT IN (1, 5, 6, 7) OR x NOT IN (2, 8, 9, 10)": [1, 2, 3],
    "(x NOT IN (1, 5, 6, 7) OR x NOT IN (2, 8, 9, 10)) IS NULL": [None],
    "NOT (x IN (1, 5)) OR NOT (x IN (2, 6))": [1, 2, 3],
    "x NOT IN (1) OR x NOT IN (2, a)": [2, 3],
    "x IN (1, a, 5, 6) AND x NOT IN (a, 7, 8, 9)": [],
    "(x IN (1, 5) AND x IN (2, 6)) IS NULL": [None],
    "NOT (x IN (1, 5, 7, 8) AND x IN (2, 6, 9, 10))": [1, 2, 3],
    "(x IN (1, 2, NULL, 4) AND x NOT IN (2, 3, 4, 5)) IS NULL": [None],
    "x + 1 IN (2, 3) AND x + 1 IN (3, 4)": [2],
    "(x = 1 AND x IN (2, 3, 4, 5)) IS NULL": [None],
    "x NOT IN (1, 5, 6, 7) OR x < a": [2, 3],
    "(x IN (1, 2, 5, 6) AND x = a) IS NULL": [None],
    "(x NOT IN (1, 2, 5, NULL) OR x = a) IS NULL": [None, 3],
    "x BETWEEN CAST(NULL AS BIGINT) AND x": [],
    "x NOT BETWEEN CAST(NULL AS BIGINT) AND 2": [3],
    "2 BETWEEN CAST(NULL AS BIGINT) AND x": [],
    "(NULL AND x > 1) IS NULL": [2, None, 3],
    "b NOT IN (CAST(NULL AS BOOLEAN), b) AND x > 0": [],
    "a > 0 AND (x = 1 OR CAST(NULL AS BOOLEAN))": [1],
}


@pytest.fixture(scope="module", params=["", " PARTITIONED BY (bucket(2, x), a)"], ids=["plain", "partitioned"])
def rows(database: Database, request: pytest.FixtureRequest) -> str:
    name = "parted" if request.param else "plain"
    database.run(f"CREATE TABLE {name} (x BIGINT, a BIGINT, b BOOLEAN){request.param}")
    database.run(f"INSERT INTO {name} VALUES {ROWS}")
    return name


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_keeps_what_it_is_true_for(database: Database, rows: str, condition: str) -> None:
    for selected in ("x", "x + 0"):  # a plain scan is read without DataFusion
        found = database.query(f"SELECT {selected} AS x FROM {rows} WHERE {condition}")["x"].to_pylist()
        assert sorted(found, key=str) == sorted(CONDITIONS[condition], key=str), selected


def test_a_deletion_touches_the_same_rows(database: Database, table: str) -> None:
    for condition, left in CONDITIONS.items():
        database.run(f"CREATE OR REPLACE TABLE {table} (x BIGINT, a BIGINT, b BOOLEAN) PARTITIONED BY (a)")
        database.run(f"INSERT INTO {table} VALUES {ROWS}")
        assert database.run(f"DELETE FROM {table} WHERE {condition}") == len(left), condition


OUTER = {
    "SELECT a.k FROM l AS b RIGHT JOIN r AS a ON a.i = b.i LEFT JOIN l AS c ON a.k = c.j"
    " WHERE 0 NOT IN (b.i, c.i, a.i) AND b.j IS DISTINCT FROM 9": [],
    "SELECT l.i FROM l RIGHT JOIN r ON r.i = l.j WHERE coalesce(l.i, 0) = 0 AND r.k >= 0": [None, None],
    "SELECT l.i FROM r LEFT JOIN l ON r.i = l.j WHERE r.k % 2 = 0 AND coalesce(l.i, 0) = 0": [None, None],
    "SELECT l.i FROM r FULL JOIN l ON r.i = l.j WHERE coalesce(l.i, 3) = 3": [None, None, 3, None],
    "SELECT l.i AS n FROM r LEFT JOIN l ON r.i = l.j WHERE nullif(l.i, l.i) IS DISTINCT FROM l.i": [],
    "SELECT count(*) FROM (SELECT l.i AS n, r.k FROM r LEFT JOIN l ON r.i = l.j) AS q WHERE coalesce(n, 0) = 0 AND k >= 0": [
        2
    ],
}


@pytest.fixture(scope="module")
def sides(database: Database) -> Database:
    """Two tables with a column of the same name."""
    database.run("CREATE TABLE l (i BIGINT, j BIGINT)")
    database.run("INSERT INTO l VALUES (NULL, 7), (3, 9)")
    database.run("CREATE TABLE r (k BIGINT, i BIGINT)")
    database.run("INSERT INTO r VALUES (0, 1), (2, 5)")
    return database


@pytest.mark.parametrize("query", OUTER)
def test_a_condition_on_an_outer_join_stays_above_it(sides: Database, query: str) -> None:
    (column,) = sides.query(query).columns
    assert sorted(column.to_pylist(), key=str) == sorted(OUTER[query], key=str)


LITERALS = {
    "SELECT a.i FROM q AS a WHERE a.st = 's' AND a.j > 7": [3],
    "SELECT a.i FROM q AS a WHERE a.j > 1 AND (a.st = 'w' OR a.i = 3)": [3, 2],
    "SELECT a.i FROM q AS a WHERE a.none = 1 AND a.j > 1": [],
    "SELECT a.i FROM q AS a WHERE NOT (a.none = 1 AND a.st = 'x') AND a.j > 1": [None, 3, 2],
    "SELECT a.i FROM q AS a, q AS b WHERE a.j = b.j AND a.st = 's' AND b.st = 's' AND a.j > 1 AND b.j < 9": [None],
    "SELECT a.i FROM q AS a, q AS b WHERE a.st = 's' AND b.st = 'w' AND a.j > 7 AND b.j > 1": [3],
    "SELECT count(*) FROM q AS a, q AS b WHERE a.j = b.j AND a.st = 's' AND b.st = 'w' AND a.j > 1 AND b.j > 1": [0],
    "SELECT count(*) FROM q AS a, q AS b WHERE a.j > b.j AND a.st = 's' AND b.st = 'w' AND a.j > 1 AND b.j > 0": [4],
    "SELECT a.i FROM q AS a LEFT JOIN q AS b ON a.j = b.j AND b.st = 's' AND b.j > 7 WHERE a.st = 's' AND a.j > 1": [
        None,
        3,
    ],
    "SELECT a.i FROM q AS a WHERE a.st = 's' AND a.j > 1 AND EXISTS (SELECT 1 FROM q AS b WHERE b.j = a.j AND b.st = 's' AND b.j > 7)": [
        3
    ],
}
"""Queries whose conditions are constants in the branches of a UNION, beside conditions of columns."""


@pytest.mark.parametrize("query", LITERALS)
def test_a_literal_of_a_branch_is_compared_as_a_column_is(sides: Database, query: str) -> None:
    united = "SELECT i, j, 's' AS st, NULL AS none FROM l UNION ALL SELECT k, i, 'w', CAST(NULL AS BIGINT) FROM r"
    (column,) = sides.query(f"WITH q AS ({united}) {query}").columns
    assert sorted(column.to_pylist(), key=str) == sorted(LITERALS[query], key=str)
