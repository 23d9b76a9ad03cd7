"""EXISTS and IN over subqueries in SELECT lists: three values, as DuckDB computes them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.engine.database import Database

Peers = tuple[Database, duckdb.DuckDBPyConnection]
ROWS = {
    "CREATE TABLE t (id BIGINT, a BIGINT, flag BOOLEAN)": "(1, 1, true), (2, 3, false), (3, NULL, NULL), (4, 9, true)",
    "CREATE TABLE u (k BIGINT, v BIGINT)": "(1, 2), (3, NULL), (1, 5)",
    "CREATE TABLE w (k BIGINT)": "(9), (NULL)",
}


@pytest.fixture(scope="module")
def peers(database: Database) -> Iterator[Peers]:
    peer = duckdb.connect()
    for created, rows in ROWS.items():
        for run in (database.run, peer.execute):
            run(created)
            run(f"INSERT INTO {created.split()[2]} VALUES {rows}")
    yield database, peer
    for created in ROWS:
        database.run(f"DROP TABLE {created.split()[2]}")


EXPRESSIONS = (
    *("EXISTS (SELECT k FROM u WHERE u.k = t.a)", "EXISTS (SELECT u.k AS x, 1 FROM u WHERE k = t.a)"),
    *("a IN (SELECT k FROM u)", "a NOT IN (SELECT k FROM u)", "a IN (SELECT k FROM w)", "a NOT IN (SELECT k FROM w)"),
    *(
        "a IN (SELECT k FROM w WHERE false)",
        "a NOT IN (SELECT k FROM w WHERE false)",
        "(a IN (SELECT k FROM w)) IS NULL",
    ),
    *(
        "EXISTS (SELECT 1 FROM u WHERE k = t.a)",
        "NOT EXISTS (SELECT * FROM u WHERE u.k = t.a)",
        "EXISTS (SELECT 1 FROM u)",
    ),
    *(
        "EXISTS (SELECT 1 FROM u WHERE false)",
        "EXISTS (SELECT DISTINCT k FROM u)",
        "EXISTS (SELECT count(*) FROM u WHERE false)",
    ),
    *(
        "EXISTS (SELECT k FROM u GROUP BY k HAVING count(*) > 1)",
        "EXISTS (SELECT k FROM u LIMIT 0)",
        "EXISTS (SELECT 1)",
    ),
    *("CASE WHEN a IN (SELECT k FROM u) THEN 'yes' ELSE 'no' END", "coalesce(a IN (SELECT k FROM w), false)"),
    *("a IN (SELECT k FROM u) AND flag", "a + 1 IN (SELECT v FROM u) OR NOT flag", "1 IN (SELECT k FROM u)"),
    *("a IN (SELECT k FROM u UNION SELECT k FROM w)", "a IN (VALUES (1), (3))", "a IN (1, 9)", "a IS DISTINCT FROM 1"),
    "CASE WHEN EXISTS (SELECT 1 FROM u WHERE k = t.id) THEN 1 WHEN id IN (SELECT v FROM u) THEN 2 ELSE 3 END",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_of_a_select_list(peers: Peers, expression: str) -> None:
    database, peer = peers
    query = f"SELECT id, {expression} AS found FROM t ORDER BY id"
    assert database.rows(query) == peer.execute(query).fetchall()


QUERIES = (
    "SELECT EXISTS (SELECT 1 FROM u) AS x",
    "SELECT 3 NOT IN (SELECT k FROM w) AS x, 9 IN (SELECT k FROM w) AS y",
    "SELECT a IN (SELECT k FROM u) AS x, count(*) FROM t GROUP BY a",
    "SELECT x, count(*) FROM (SELECT a IN (SELECT k FROM u) AS x FROM t) AS q GROUP BY x",
    "SELECT id FROM (SELECT id, a IN (SELECT k FROM u) AS x FROM t) AS q ORDER BY x, id",
    "SELECT sum(CASE WHEN x THEN 1 ELSE 0 END) FROM (SELECT a IN (SELECT k FROM u) AS x FROM t) AS q",
    "WITH q AS (SELECT id, EXISTS (SELECT 1 FROM u WHERE k = t.id) AS x FROM t) SELECT * FROM q WHERE x",
    "SELECT count(*), (SELECT count(*) FROM u) FROM t",
    "SELECT count(*), (SELECT count(*) FROM u), (SELECT count(*) FROM w) FROM t",
    "SELECT max(id), (SELECT max(k) FROM u) FROM t",
    "SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM t)",
    "SELECT extract(year FROM DATE '2024-01-01') IN (SELECT v FROM u) AS x FROM t WHERE id IN (SELECT k FROM u)",
)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query(peers: Peers, query: str) -> None:
    database, peer = peers
    assert sorted(database.rows(query), key=str) == sorted(peer.execute(query).fetchall(), key=str)


def test_names_of_columns_stay(peers: Peers) -> None:
    found = peers[0].query("SELECT count(*), (SELECT count(*) FROM u), (SELECT max(k) AS most FROM u) FROM t")
    assert found.schema.names == ["count(*)", "count(*)", "most"]


def test_columns_are_called_as_they_are_written(peers: Peers) -> None:
    items = ("id IN (SELECT k FROM u)", "EXISTS (SELECT 1 FROM u)", "CASE WHEN a IN (SELECT k FROM u) THEN 1 END", "id")
    assert peers[0].query(f"SELECT {', '.join(items)} FROM t").schema.names == list(items)


def test_rows_are_changed_by_what_is_found(peers: Peers, table: str) -> None:
    database = peers[0]
    database.run(f"CREATE TABLE {table} AS SELECT id, a, flag FROM t")
    assert database.run(f"UPDATE {table} SET flag = a IN (SELECT k FROM w)") == 4
    assert database.rows(f"SELECT id, flag FROM {table} ORDER BY id") == [(1, None), (2, None), (3, None), (4, True)]


REFUSED = {
    "SELECT count(*) IN (SELECT k FROM u) FROM t": "of an aggregate",
    "SELECT EXISTS (SELECT a IN (SELECT k FROM u) FROM t)": "not offered within each other",
    "SELECT EXISTS (SELECT nope FROM u WHERE k = t.id) FROM t": "No field named nope",
    "SELECT a IN (SELECT v FROM u WHERE u.k = t.id) FROM t": "write EXISTS (SELECT 1 FROM u WHERE u.k = t.a AND …)",
    "SELECT CASE WHEN a NOT IN (SELECT v FROM u WHERE u.k = t.id) THEN 1 END FROM t": "write EXISTS (SELECT 1",
    "SELECT nope IN (SELECT k FROM u) FROM t": "No field named nope.",
    "SELECT id FROM t WHERE (id, nope) NOT IN (SELECT k, v FROM u)": "No field named nope.",
    "SELECT a IN (SELECT v FROM u WHERE u.k < t.id) FROM t": "a subquery of a SELECT list",
    "SELECT id FROM t ORDER BY a IN (SELECT k FROM u)": "write it in the SELECT list",
    "SELECT EXISTS (SELECT 1 FROM u WHERE k < t.id) FROM t": "in equalities alone",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_has_no_plan_is_refused(peers: Peers, sql: str) -> None:
    said = peers[0].refuses(sql)
    assert REFUSED[sql] in said
    assert "$" not in said
