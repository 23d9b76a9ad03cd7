"""Row values are compared part by part, with the three values of SQL: against PostgreSQL's definition, computed in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import product

import pytest

from tests.engine.database import Database

Value = int | None
Truth = bool | None
ROWS = tuple(product((1, 2, None), repeat=2))
PAIRS = ((1, 2), (2, None))


@pytest.fixture(scope="module")
def pairs(database: Database) -> Iterator[Database]:
    database.run("CREATE TABLE r (n BIGINT, a BIGINT, b BIGINT)")
    shown = ", ".join(f"({number}, {_sql(a)}, {_sql(b)})" for number, (a, b) in enumerate(ROWS))
    database.run(f"INSERT INTO r VALUES {shown}")
    database.run("CREATE TABLE q (c BIGINT, d BIGINT, p VARCHAR) PARTITIONED BY (p)")
    database.run("INSERT INTO q VALUES (1, 2, 'x'), (2, NULL, 'y'), (1, 1, 'z')")
    yield database
    database.run("DROP TABLE r")
    database.run("DROP TABLE q")


def _sql(value: Value) -> str:
    return "NULL" if value is None else str(value)


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _and(left: Truth, right: Truth) -> Truth:
    return False if left is False or right is False else None if left is None or right is None else True


def _or(left: Truth, right: Truth) -> Truth:
    return _not(_and(_not(left), _not(right)))


def _equal(mine: tuple[Value, ...], theirs: tuple[Value, ...]) -> Truth:
    pairs = zip(mine, theirs, strict=True)
    return reduce(_and, [None if x is None or y is None else x == y for x, y in pairs])


def _less(mine: tuple[Value, ...], theirs: tuple[Value, ...]) -> Truth:
    (x, *mine_), (y, *theirs_) = mine, theirs
    less = None if x is None or y is None else x < y
    return less if not mine_ else _or(less, _and(_equal((x,), (y,)), _less(tuple(mine_), tuple(theirs_))))


def _in(row: tuple[Value, ...], rows: tuple[tuple[Value, ...], ...]) -> Truth:
    return reduce(_or, [False, *(_equal(row, other) for other in rows)])


CONDITIONS: dict[str, Callable[[tuple[Value, ...]], Truth]] = {
    "(a, b) = (1, 2)": lambda row: _equal(row, (1, 2)),
    "ROW(a, b) = ROW(1, 2)": lambda row: _equal(row, (1, 2)),
    "(1, 2) = (a, b)": lambda row: _equal(row, (1, 2)),
    "(a, b) <> (1, 2)": lambda row: _not(_equal(row, (1, 2))),
    "(a, b) != (1, NULL)": lambda row: _not(_equal(row, (1, None))),
    "(a, b) < (1, 2)": lambda row: _less(row, (1, 2)),
    "(a, b) <= (1, 2)": lambda row: _or(_less(row, (1, 2)), _equal(row, (1, 2))),
    "(a, b) > (1, 1)": lambda row: _less((1, 1), row),
    "(a, b) >= (1, 2)": lambda row: _or(_less((1, 2), row), _equal(row, (1, 2))),
    "(a, b) BETWEEN (1, 2) AND (2, 1)": lambda row: _and(_not(_less(row, (1, 2))), _not(_less((2, 1), row))),
    "(a, b) IN ((1, 2), (2, NULL))": lambda row: _in(row, PAIRS),
    "(a, b) NOT IN ((1, 2), (2, NULL))": lambda row: _not(_in(row, PAIRS)),
    "(a, b) IN ((2, 1))": lambda row: _equal(row, (2, 1)),
    "(a, b) IS NULL": lambda _: False,
    "(a, b) IS NOT DISTINCT FROM (1, NULL)": lambda row: row == (1, None),
    "(a, b) IS DISTINCT FROM (1, NULL)": lambda row: row != (1, None),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_row_values_have_three_values(pairs: Database, condition: str) -> None:
    truths = [CONDITIONS[condition](row) for row in ROWS]
    assert [value for (value,) in pairs.rows(f"SELECT {condition} AS v FROM r ORDER BY n")] == truths
    for form, kept in (("{}", True), ("NOT ({})", False), ("({}) IS NULL", None)):
        found = pairs.rows(f"SELECT n FROM r WHERE {form.format(condition)} ORDER BY n")
        assert [n for (n,) in found] == [n for n, truth in enumerate(truths) if truth is kept], form


QUERY = ((1, 2), (2, None), (1, 1))
OF_QUERIES: dict[str, Callable[[tuple[Value, ...]], Truth]] = {
    "(a, b) IN (SELECT c, d FROM q)": lambda row: _in(row, QUERY),
    "(a, b) NOT IN (SELECT c, d FROM q)": lambda row: _not(_in(row, QUERY)),
    "(a, b) NOT IN (SELECT c, d FROM q WHERE p = 'x')": lambda row: _not(_in(row, QUERY[:1])),
    "n >= 0 AND ((a, b) IN (SELECT c, d FROM q) OR n < 0)": lambda row: _in(row, QUERY),
    "(a, b) IN (SELECT c, d FROM q) AND (b, a) IN (SELECT d, c FROM q)": lambda row: _in(row, QUERY),
    "(a, b) IN (VALUES (1, 2), (2, 1))": lambda row: _in(row, ((1, 2), (2, 1))),
    "(a, b) NOT IN (SELECT c, d FROM q WHERE false)": lambda _: True,
}


@pytest.mark.parametrize("condition", OF_QUERIES)
def test_row_values_are_looked_for_among_the_rows_of_a_query(pairs: Database, condition: str) -> None:
    found = pairs.rows(f"SELECT n FROM r WHERE {condition} ORDER BY n")
    assert [n for (n,) in found] == [n for n, row in enumerate(ROWS) if OF_QUERIES[condition](row)]


VALUES_OF_QUERIES = ("(a, b) IN (SELECT c, d FROM q)", "(a, b) NOT IN (SELECT c, d FROM q)")
KEPT: dict[str, Callable[[Truth], Truth]] = {
    "NOT ({})": _not,
    "({}) IS NULL": lambda truth: truth is None,
    "NOT {}": _not,
    "coalesce({}, true)": lambda truth: truth is not False,
    "({}) IS NOT FALSE AND n >= 0": lambda truth: truth is not False,
    "CASE WHEN {} THEN false ELSE true END": lambda truth: truth is not True,
    "({}) = (n < 100)": lambda truth: truth,
    "(({}) OR n > 100) IS NULL": lambda truth: truth is None,
}


@pytest.mark.parametrize("form", KEPT)
@pytest.mark.parametrize("condition", VALUES_OF_QUERIES)
def test_row_values_in_a_query_have_three_values(pairs: Database, condition: str, form: str) -> None:
    truths = [KEPT[form](OF_QUERIES[condition](row)) for row in ROWS]
    found = pairs.rows(f"SELECT n FROM r WHERE {form.format(condition)} ORDER BY n")
    assert [n for (n,) in found] == [n for n, truth in enumerate(truths) if truth is True]


def test_rows_are_changed_by_row_values(database: Database, pairs: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT * FROM r")
    assert database.run(f"UPDATE {table} SET n = 100 WHERE (a, b) IN ((1, 2), (2, 2))") == 2
    assert database.run(f"DELETE FROM {table} WHERE (a, b) <> (1, 2)") == 5
    assert sorted(database.rows(f"SELECT n, a, b FROM {table}"), key=str) == [
        (100, 1, 2),
        *[(n, a, b) for n, (a, b) in enumerate(ROWS) if (a, b) in {(1, None), (None, 2), (None, None)}],
    ]


def test_many_row_values_are_compared(pairs: Database) -> None:
    listed = ", ".join(f"({n}, {n + 1})" for n in range(1, 1001))
    assert pairs.rows(f"SELECT a, b FROM r WHERE (a, b) IN ({listed})") == [(1, 2)]
    assert pairs.rows("SELECT (a, b) AS s FROM r WHERE n = 0") == [({"c0": 1, "c1": 1},)]
