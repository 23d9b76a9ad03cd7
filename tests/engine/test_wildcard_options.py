"""EXCLUDE, EXCEPT and REPLACE after `*`, as DuckDB answers them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.engine.database import Database

Peers = tuple[Database, duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def peers(database: Database) -> Iterator[Peers]:
    peer = duckdb.connect()
    for run in (database.run, peer.execute):
        run("CREATE TABLE t (id BIGINT, a BIGINT, s VARCHAR)")
        run("INSERT INTO t VALUES (1, 2, 'x'), (2, 3, 'y'), (3, NULL, 'x')")
    yield database, peer
    database.run("DROP TABLE t")


QUERIES = (
    *("SELECT * REPLACE (a + 1 AS A) FROM t", "SELECT * EXCLUDE (A) FROM t", "SELECT * EXCLUDE A FROM t"),
    *("SELECT * EXCLUDE (s) REPLACE ('z' AS a, -id AS id) FROM t", "SELECT t.* REPLACE (NULL AS a) FROM t"),
    "SELECT x.* REPLACE (y.a AS a), y.id FROM t AS x JOIN t AS y ON x.id = y.a",
    "SELECT * REPLACE (0 AS id) FROM t AS x JOIN t AS y USING (id)",
    "SELECT * REPLACE (id IN (SELECT a FROM t) AS s) FROM t WHERE id = 2",
    "SELECT * REPLACE (sum(a) OVER () AS a) FROM t UNION ALL SELECT 0, 1.5, 'z'",
    "SELECT 2 * replace(s, 'x', '4')::BIGINT AS n, a FROM t WHERE s = 'x'",
)


@pytest.mark.parametrize("query", QUERIES)
def test_a_wildcard_with_options(peers: Peers, query: str) -> None:
    database, peer = peers
    found, wanted = database.query(query), peer.execute(query)
    assert [name.lower() for name in found.schema.names] == [column[0].lower() for column in wanted.description]
    rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
    assert sorted(rows, key=str) == sorted(wanted.fetchall(), key=str)


REFUSED = {
    "SELECT * REPLACE (1 AS nope) FROM t": "No field named nope.",
    "SELECT id FROM (SELECT t.* REPLACE (1 AS NOPE) FROM t) AS q": "No field named t.nope.",
    "SELECT * EXCLUDE (nope) REPLACE (1 AS a) FROM t": "No field named nope.",
    "SELECT * EXCEPT (nope) FROM t": "No field named nope.",
    'SELECT * EXCLUDE ("A") FROM t': 'No field named "A".',
    "SELECT * EXCLUDE (a) REPLACE (1 AS A) FROM t": "name the column 'a' twice",
    "SELECT * REPLACE (1 AS a, 2 AS a) FROM t": "name the column 'a' twice",
    "SELECT * RENAME (nope AS b) FROM t": "RENAME after * is not offered; write the columns",
}


@pytest.mark.parametrize("query", REFUSED)
def test_options_about_no_column_are_refused(peers: Peers, query: str) -> None:
    said = peers[0].refuses(query)
    assert REFUSED[query] in said
    assert "datafusion" not in said
