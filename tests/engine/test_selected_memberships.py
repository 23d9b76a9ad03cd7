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
