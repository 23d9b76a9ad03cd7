"""Conditions over subqueries with NULLs, in every place of a condition, against DuckDB."""

from __future__ import annotations

import random

import duckdb
import pytest
from lance_flight.errors import Unsupported

from tests.engine.database import Database
from tests.selection import IS_FULL

COMPARED = ["x", "x + 1", "3", "NULL", "coalesce(x, 0)"]
OPERATORS = ["IN", "NOT IN", "= ANY", "<> ALL", "> ALL", "< ANY"]
SUBQUERIES = [
    "SELECT y FROM u",
    "SELECT y FROM u WHERE u.b = t.a",
    "SELECT y FROM u WHERE u.b > t.a",
    "SELECT y FROM u WHERE false",
    "SELECT y FROM u WHERE y IS NOT NULL",
    "SELECT max(y) FROM u",
    "SELECT count(*) FROM u",
    "SELECT sum(y) FROM u GROUP BY b",
    "SELECT y FROM u WHERE u.b = t.a AND y > 1",
]
PLACES = [
    "{}",
    "NOT {}",
    "NOT ({})",
    "{} OR a = 1",
    "NOT ({} OR a = 1)",
    "({}) IS NULL",
    "({}) IS NOT TRUE",
    "a = 1 AND {} AND x > 0",
    "a = 1 AND ({} OR x > 1)",
    "CASE WHEN {} THEN false ELSE true END",
    "({}) = (a = 1)",
    "coalesce({}, true)",
]
ROWS = {
    "t": [(None, 1), (0, 1), (1, None), (2, 1), (3, 2), (3, None), (1, 1)],
    "u": [(1, 1), (None, 1), (3, 2), (2, None), (3, 1)],
    "v": [(1, 1), (3, 2)],
    "w": [],
}


Peers = tuple[Database, duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def peers(database: Database) -> Peers:
    peer = duckdb.connect()
    for name, rows in ROWS.items():
        first, second = "xa" if name == "t" else "yb"
        created = f"CREATE TABLE {name} ({first} BIGINT, {second} BIGINT)"
        peer.execute(created)
        database.run(f"{created} PARTITIONED BY (bucket(2, {first}))")
        for row in rows:
            text = f"INSERT INTO {name} VALUES ({', '.join('NULL' if value is None else str(value) for value in row)})"
            peer.execute(text)
            database.run(text)
    return database, peer


def check(peers: Peers, query: str) -> None:
    database, peer = peers
    expected = sorted(peer.execute(query).fetchall(), key=str)
    found = sorted((tuple(row.values()) for row in database.query(query).to_pylist()), key=str)
    assert found == expected, query


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_comparison_with_a_subquery_may_be_null(peers: Peers, operator: str, place: str) -> None:
    product = [(left, subquery, table) for left in COMPARED for subquery in SUBQUERIES for table in "uvw"]
    chance = random.Random(f"{operator} {place}")  # noqa: S311 - a sample, no secret
    drawn = chance.sample(product, 40 if IS_FULL else 3)
    for left, subquery, table in drawn:
        condition = place.format(f"{left} {operator} ({subquery})".replace("FROM u", f"FROM {table} AS u"))
        check(peers, f"SELECT x, a FROM t WHERE {condition}")


NAMED = [
    "SELECT x FROM t WHERE x <> ALL (SELECT x FROM t WHERE a = 2)",
    "SELECT x FROM t WHERE x > ALL (SELECT x FROM t WHERE a = 1 AND x IS NOT NULL) OR x IS NULL",
    "SELECT x FROM t WHERE NOT (x IN (SELECT x FROM t WHERE a = 2))",
    "SELECT x FROM t WHERE x NOT IN (SELECT a FROM t WHERE a IS NOT NULL) OR a = 2",
    "SELECT x FROM t WHERE x NOT IN (SELECT z.x FROM t AS z WHERE z.a > t.a)",
    "SELECT x FROM t WHERE 3 NOT IN (SELECT x FROM t)",
    "SELECT x FROM t WHERE x NOT IN (SELECT y FROM v) AND NOT EXISTS (SELECT 1 FROM u WHERE u.y = t.x AND u.b = 1)",
    "SELECT x FROM (SELECT 3 AS k, x FROM t) WHERE k NOT IN (SELECT y FROM u)",
    "SELECT x FROM (SELECT CAST(NULL AS BIGINT) AS k, x FROM t) WHERE k NOT IN (SELECT y FROM v)",
    "SELECT a, count(*) FROM t GROUP BY a HAVING a NOT IN (SELECT y FROM u) OR count(*) > 1",
    "SELECT t.x, v.b FROM t JOIN v ON t.a = v.b AND t.x NOT IN (SELECT y FROM v)",
    "SELECT x FROM t WHERE x NOT IN (SELECT y FROM u WHERE u.b = t.a AND u.y NOT IN (SELECT y FROM v WHERE v.b > u.b))",
    "SELECT x FROM t WHERE (a, 1) IS NOT NULL AND x NOT IN (SELECT x FROM t WHERE x IS NOT NULL AND x > 2)",
    "WITH c AS (SELECT x FROM t WHERE x NOT IN (SELECT y FROM u) OR x = 0) SELECT count(*) FROM c",
    "SELECT x FROM t WHERE x BETWEEN 0 AND 3 AND x NOT IN (SELECT y FROM v) ORDER BY x",
]


@pytest.mark.parametrize("query", NAMED)
def test_a_named_query(peers: Peers, query: str) -> None:
    check(peers, query)


def test_parameters_are_compared(peers: Peers) -> None:
    database, _ = peers
    for value, table, expected in [(2, "v", 7), (2, "u", 0), (None, "v", 0), (None, "w", 7), (1, "v", 0)]:
        found = database.value(f"SELECT count(*) FROM t WHERE ? NOT IN (SELECT y FROM {table})", [value])
        assert found == expected, (value, table)


def test_changes_touch_the_same_rows(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, n BIGINT) PARTITIONED BY (bucket(2, id))")
    database.run(f"INSERT INTO {table} VALUES (1, 0), (2, 0), (3, 0)")
    database.run(
        f"UPDATE {table} SET n = 1 WHERE id = 3 OR NOT id IN (SELECT CASE WHEN id > 1 THEN id END FROM {table})"
    )
    assert database.query(f"SELECT id, n FROM {table} ORDER BY id")["n"].to_pylist() == [0, 0, 1]
    database.run(f"DELETE FROM {table} WHERE 7 NOT IN (SELECT CASE WHEN id > 1 THEN id END FROM {table})")
    assert database.value(f"SELECT count(*) FROM {table}") == 3
    database.run(f"DELETE FROM {table} WHERE 7 NOT IN (SELECT id FROM {table}) AND id <> 3")
    assert database.query(f"SELECT id FROM {table}")["id"].to_pylist() == [3]


def test_a_key_that_is_never_null_is_not_in_its_own_table(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, name VARCHAR) PARTITIONED BY (bucket(4, id) AS quarter)")
    database.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'a')")
    condition = f"id NOT IN (SELECT id FROM {table} WHERE name = 'a')"
    assert sorted(database.query(f"SELECT id FROM {table} WHERE {condition}")["id"].to_pylist()) == [2, 3]
    assert database.run(f"DELETE FROM {table} WHERE NOT ({condition})") == 2
    assert sorted(database.query(f"SELECT id FROM {table}")["id"].to_pylist()) == [2, 3]


def test_a_view_compares_as_its_query_does(peers: Peers) -> None:
    database, _ = peers
    for number, condition in enumerate(["x NOT IN (SELECT y FROM u)", "3 NOT IN (SELECT y FROM u)"]):
        database.run(f"CREATE VIEW without_{number} AS SELECT x FROM t WHERE {condition} OR x IS NULL")
        assert database.query(f"SELECT x FROM without_{number}")["x"].to_pylist() == [None]


REFUSED = {
    "EXISTS (SELECT count(*) FROM u WHERE u.b = t.a)": "always true",
    "NOT EXISTS (SELECT DISTINCT max(y) + 1 FROM u WHERE u.b = t.a LIMIT 1)": "always true",
    "x IN (SELECT count(*) FROM u WHERE u.b = t.a)": "= or <>",
    "x <> ALL (SELECT count(*) FROM u WHERE u.b = t.a)": "= or <>",
    "EXISTS (SELECT sum(y) FROM u WHERE u.b = t.a HAVING count(*) = 0)": "HAVING",
    "(SELECT sum(y) FROM u WHERE u.b = t.a HAVING count(*) > 1) IS NULL": "HAVING",
    "EXISTS (SELECT 1 FROM u WHERE u.b = t.a OFFSET 1)": "OFFSET",
    "x IN (SELECT y FROM u WHERE u.b = t.a OFFSET 1)": "OFFSET",
}


@pytest.mark.parametrize("condition", REFUSED)
def test_what_has_no_right_plan_is_refused(peers: Peers, condition: str) -> None:
    database, _ = peers
    with pytest.raises(Unsupported, match=REFUSED[condition]):
        database.query(f"SELECT x FROM t WHERE {condition}")


def test_what_the_refusals_say_to_write_is_right(peers: Peers) -> None:
    for condition in [
        "x = (SELECT count(*) FROM u WHERE u.b = t.a)",
        "x <> (SELECT count(*) FROM u WHERE u.b = t.a)",
        "(SELECT CASE WHEN count(*) > 1 THEN sum(y) END FROM u WHERE u.b = t.a) IS NULL",
    ]:
        check(peers, f"SELECT x, a FROM t WHERE {condition}")
