"""EXISTS and IN over subqueries as values, in every clause: three values, as DuckDB computes them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.engine.database import Database

Peers = tuple[Database, duckdb.DuckDBPyConnection]
ROWS = {
    "CREATE TABLE t (id BIGINT, a BIGINT, flag BOOLEAN)": "(1, 1, true), (2, 3, false), (3, NULL, NULL), (4, 9, true)",
    "CREATE TABLE u (k BIGINT, v BIGINT)": "(1, 2), (3, NULL), (1, 5)",
    "CREATE TABLE r (k BIGINT, v BIGINT, w BIGINT)": "(1, 1, 1), (2, NULL, 2), (2, 4, NULL), (4, 9, 4), (NULL, 3, 1), (3, 3, 9)",
    "CREATE TABLE w (k BIGINT)": "(9), (NULL)",
}


@pytest.fixture(scope="module")
def peers(database: Database) -> Iterator[Peers]:
    peer = duckdb.connect()
    for created, rows in ROWS.items():
        for run in (database.run, peer.execute):
            partitions = " PARTITIONED BY (bucket(2, k))" if run == database.run and "w BIGINT" in created else ""
            run(created + partitions)
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
    *("a IN (SELECT v FROM r WHERE r.k = t.id)", "a NOT IN (SELECT v FROM r WHERE r.k = t.id)"),
    *("a IN (SELECT v FROM r WHERE r.k < t.id)", "NOT a IN (SELECT v FROM r WHERE r.k >= t.id)"),
    *("a IN (SELECT v FROM r WHERE r.k = t.id AND false)", "a NOT IN (SELECT v FROM r WHERE r.k = t.id + 9)"),
    *("NULL IN (SELECT v FROM r WHERE r.k = t.id)", "NULL NOT IN (SELECT v FROM r WHERE r.k = t.id)"),
    *("EXISTS (SELECT 1 FROM r WHERE k < t.a)", "NOT EXISTS (SELECT 1 FROM r WHERE k > t.id AND v IS NULL)"),
    *("coalesce(a IN (SELECT v FROM r WHERE r.k = t.id), flag)", "(a IN (SELECT v FROM r WHERE r.k = t.id)) IS NULL"),
    *("flag OR a IN (SELECT v FROM r WHERE r.k = t.id)", "a = ANY (SELECT v FROM r WHERE r.k = t.id)"),
    *("a > ALL (SELECT v FROM r WHERE r.k = t.id)", "a IN (SELECT max(v) FROM r WHERE r.k = t.id GROUP BY w)"),
    *("(id, a) IN (SELECT k, v FROM r)", "(id, a) NOT IN (SELECT k, v FROM r)", "(a, id) IN (SELECT k, v FROM u)"),
    "CASE WHEN a IN (SELECT v FROM r WHERE r.k = t.id) THEN 1 WHEN id NOT IN (SELECT w FROM r WHERE v = t.a) THEN 2 END",
    "CASE WHEN EXISTS (SELECT 1 FROM u WHERE k = t.id) THEN 1 WHEN id IN (SELECT v FROM u) THEN 2 ELSE 3 END",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_of_a_select_list(peers: Peers, expression: str) -> None:
    database, peer = peers
    query = f"SELECT id, {expression} AS found FROM t ORDER BY id"
    assert database.rows(query) == peer.execute(query).fetchall()


QUERIES = (
    "SELECT EXISTS (SELECT 1 FROM u) AS x",
    "SELECT id FROM t WHERE (a IN (VALUES (1), (NULL))) IS NULL ORDER BY a NOT IN (VALUES (9), (1)), id",
    "SELECT id FROM t GROUP BY id HAVING count(*) FILTER (WHERE id IN (SELECT v FROM r WHERE r.w = t.id)) > 0",
    "SELECT EXISTS (SELECT a IN (SELECT k FROM u) FROM t) AS x",
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
    "SELECT *, a IN (SELECT v FROM r WHERE r.k = t.id) AS x FROM t",
    "SELECT t.*, r.w IN (SELECT v FROM u WHERE u.k = t.id) FROM t LEFT JOIN r ON r.k = t.id WHERE t.id > 1 OR flag",
    "SELECT id FROM t ORDER BY a IN (SELECT k FROM w) NULLS FIRST, id",
    "SELECT id FROM t ORDER BY EXISTS (SELECT 1 FROM r WHERE k < t.id) DESC, id LIMIT 2",
    "SELECT id, count(*) OVER (PARTITION BY a IN (SELECT v FROM r WHERE r.k = t.id)) FROM t",
    "SELECT id, sum(id) FILTER (WHERE a IN (SELECT v FROM r WHERE r.k = t.id)) OVER () FROM t",
    "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY (a, 1) IN (SELECT v, 1 FROM r) ORDER BY id) = 1",
    "SELECT count(*) FILTER (WHERE a NOT IN (SELECT k FROM w)), count(*) FROM t",
    "SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM r WHERE r.k < t.a) THEN 1 ELSE 0 END) FROM t WHERE false",
    "SELECT a IN (SELECT v FROM r WHERE r.k = t.id), count(*) FROM t GROUP BY a IN (SELECT v FROM r WHERE r.k = t.id)",
    "SELECT a IN (SELECT v FROM r WHERE r.k = t.id) AS x, count(*) FROM t GROUP BY 1",
    "SELECT (id, a) IN (SELECT k, v FROM r) AS x, max(id) FROM t GROUP BY x HAVING count(*) > 0",
    "SELECT k, EXISTS (SELECT 1 FROM t WHERE t.id > r.k), count(*) FROM r GROUP BY k",
    "SELECT k, count(*) IN (SELECT a FROM t), max(v) NOT IN (SELECT a FROM t) FROM r GROUP BY k HAVING count(*) < 3",
    "SELECT k FROM r GROUP BY k ORDER BY count(*) IN (SELECT k FROM u), k NULLS FIRST",
    "SELECT k FROM r GROUP BY k HAVING CASE WHEN max(v) IN (SELECT a FROM t) THEN k > 1 ELSE k IS NULL END",
    "SELECT id, r.v FROM t LEFT JOIN r ON r.k = id AND a IN (SELECT k FROM w)",
    "SELECT id, r.v FROM t LEFT JOIN r ON r.k = id AND EXISTS (SELECT 1 FROM w WHERE w.k = t.a)",
    "SELECT id, r.v FROM t LEFT JOIN r ON r.k = id AND NOT EXISTS (SELECT 1 FROM t AS x WHERE x.id < r.w)",
    "SELECT * FROM t RIGHT JOIN r ON r.k = id AND r.v NOT IN (SELECT k FROM u WHERE u.v = r.w)",
    "SELECT t.*, r.* FROM t FULL JOIN r ON r.k = id AND (t.a NOT IN (SELECT k FROM w)) IS NULL",
    "SELECT id, r.v FROM t FULL JOIN r ON r.k = id AND (r.k, r.w) IN (SELECT k, v FROM u UNION ALL SELECT 2, 2)",
    "SELECT id, r.v, x.v FROM t LEFT JOIN r ON r.k = id LEFT JOIN r AS x ON x.k = id AND t.a IN (SELECT k FROM w)",
    "SELECT a IN (SELECT v FROM r WHERE r.k = t.id) FROM t UNION ALL SELECT v NOT IN (SELECT a FROM t WHERE id = r.k) FROM r",
    "SELECT id FROM t WHERE coalesce(a IN (SELECT v FROM r WHERE k = id), id NOT IN (SELECT k FROM r WHERE w < a), true)",
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


def test_names_of_columns_stay_where_values_are_columns(peers: Peers) -> None:
    correlated = "a IN (SELECT v FROM r WHERE r.k = t.id)"
    assert peers[0].query(f"SELECT *, {correlated}, id FROM t ORDER BY {correlated}").schema.names == [
        *("id", "a", "flag", correlated, "id")
    ]
    found = peers[0].query("SELECT t.*, r.* FROM t LEFT JOIN r ON k = id AND EXISTS (SELECT 1 FROM w WHERE w.k = t.a)")
    assert found.schema.names == ["id", "a", "flag", "k", "v", "w"]


def test_a_view_has_values_of_subqueries(peers: Peers, table: str) -> None:
    database, peer = peers
    query = "SELECT id, a IN (SELECT v FROM r AS y WHERE y.k = t.id) AS x, r.v FROM t LEFT JOIN r ON k = id AND EXISTS (SELECT 1 FROM w WHERE w.k = t.a)"
    database.run(f"CREATE VIEW {table} AS {query}")
    assert sorted(database.rows(f"SELECT * FROM {table}"), key=str) == sorted(peer.execute(query).fetchall(), key=str)
    database.run(f"DROP VIEW {table}")


def test_values_of_subqueries_have_parameters(peers: Peers) -> None:
    found = peers[0].query(
        "SELECT id, a + ? IN (SELECT v FROM r WHERE r.k = t.id + ?) FROM t WHERE id < ? ORDER BY 1", [1, 1, 3]
    )
    assert [tuple(row.values()) for row in found.to_pylist()] == [(1, None), (2, False)]


def test_rows_are_changed_by_what_is_found(peers: Peers, table: str) -> None:
    database = peers[0]
    database.run(f"CREATE TABLE {table} AS SELECT id, a, flag FROM t")
    assert database.run(f"UPDATE {table} SET flag = a IN (SELECT k FROM w)") == 4
    assert database.rows(f"SELECT id, flag FROM {table} ORDER BY id") == [(1, None), (2, None), (3, None), (4, True)]
    assert (
        database.run(f"UPDATE {table} SET flag = a NOT IN (SELECT v FROM r WHERE r.k = {table}.id) WHERE id > 1") == 3
    )
    assert database.rows(f"SELECT id, flag FROM {table} ORDER BY id") == [(1, None), (2, None), (3, None), (4, False)]
    assert database.run(f"INSERT INTO {table} SELECT id + 10, a, a IN (SELECT v FROM r WHERE r.k = t.id) FROM t") == 4
    assert (
        database.run(
            f"MERGE INTO {table} AS m USING t ON m.id = t.id WHEN MATCHED THEN UPDATE SET flag = EXISTS (SELECT 1 FROM u WHERE u.k = t.a)"
        )
        == 4
    )
    assert database.rows(f"SELECT id, flag FROM {table} ORDER BY id") == [
        *((1, True), (2, True), (3, False), (4, False), (11, True), (12, None), (13, None), (14, True))
    ]


REFUSED = {
    "SELECT count(*) IN (SELECT k FROM u) FROM t": "of an aggregate",
    "SELECT EXISTS (SELECT nope FROM u WHERE k = t.id) FROM t": "No field named nope",
    "SELECT nope IN (SELECT k FROM u) FROM t": "No field named nope.",
    "SELECT id FROM t WHERE (id, nope) NOT IN (SELECT k, v FROM u)": "No field named nope.",
    "SELECT id, a AS id FROM t ORDER BY a + id IN (SELECT k FROM u)": "mbiguous",
    "SELECT a + random() IN (SELECT v FROM u WHERE u.k = t.id) FROM t": "write EXISTS (SELECT 1 FROM u WHERE u.k = t.a AND …)",
    "SELECT id FROM t LEFT JOIN r ON EXISTS (SELECT 1 FROM w WHERE w.k = t.a AND w.k = r.k)": "write a join",
    "SELECT x.id FROM t AS x LEFT JOIN r AS y ON y.k = x.id LEFT JOIN u ON NOT EXISTS (SELECT 1 FROM w WHERE w.k = y.k)": "write a join",
    "SELECT id FROM t LEFT JOIN r ON k = id AND v IN (SELECT t.k FROM u AS t WHERE nope = 1)": "No field named nope",
    "SELECT id FROM t LIMIT CASE WHEN 1 IN (SELECT k FROM w) THEN 1 ELSE 2 END": "LIMIT and OFFSET take a number or a parameter",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_has_no_plan_is_refused(peers: Peers, sql: str) -> None:
    said = peers[0].refuses(sql)
    assert REFUSED[sql] in said
    assert "$" not in said
