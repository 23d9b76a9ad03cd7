"""Changes that read other tables: UPDATE … FROM, DELETE … USING, INSERT … ON CONFLICT, and INSERT BY NAME, against DuckDB."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import duckdb
import pytest
from lance_flight.engine.writes.ingest import WritableTable

from tests.engine.database import Database

COLUMNS = "id BIGINT NOT NULL, p VARCHAR, v BIGINT, w BIGINT DEFAULT 7"
ROWS = "(1, 'a', 10, 1), (2, 'b', 20, 1), (3, 'a', 30, NULL), (4, NULL, 40, 1), (5, 'b', NULL, 1)"
OTHERS = (
    "CREATE TABLE u (id BIGINT, p VARCHAR, x BIGINT)",
    "INSERT INTO u VALUES (1, 'c', 100), (3, 'a', 300), (3, 'a', 301), (9, 'z', 900), (NULL, 'a', 1)",
    "CREATE TABLE one (id BIGINT, x BIGINT)",
    "INSERT INTO one VALUES (1, 100), (5, 500), (7, 700)",
)
LAYOUTS = {
    "partitioned": " PARTITIONED BY (p)",
    "by a bucket of the key": " PARTITIONED BY (bucket(3, id))",
    "plain": "",
}
CHANGES = (
    "UPDATE {t} SET v = one.x FROM one WHERE {t}.id = one.id",
    "UPDATE {t} AS q SET v = x + q.v, w = 0 FROM one AS o WHERE q.id = o.id AND x > 100",
    "UPDATE {t} SET v = x FROM (SELECT id AS k, max(x) AS x FROM u GROUP BY 1) AS s WHERE {t}.id = s.k",
    "UPDATE {t} SET v = o.x + s.n FROM one AS o, (VALUES (5, 2), (1, 3)) AS s (k, n) WHERE {t}.id = o.id AND s.k = o.id",
    "UPDATE {t} SET p = 'new' FROM one WHERE {t}.id = one.id AND one.x IS DISTINCT FROM 100",
    "UPDATE {t} SET w = CASE WHEN v IS DISTINCT FROM 10 THEN 1 ELSE 2 END, v = 0 WHERE p IS NOT DISTINCT FROM 'a'",
    "UPDATE {t} SET v = 1 FROM one WHERE false",
    "UPDATE {t} SET v = other.v + 1 FROM {t} AS other WHERE {t}.id = other.id + 1",
    "DELETE FROM {t} USING u WHERE {t}.id = u.id",
    "DELETE FROM {t} USING u, one WHERE {t}.id = u.id AND one.id = u.id",
    "DELETE FROM {t} AS q USING (SELECT id AS k FROM u) AS s WHERE q.id = s.k AND q.p = 'a'",
    "DELETE FROM {t} USING one WHERE v > 10 AND {t}.id < one.id",
    "INSERT INTO {t} BY NAME SELECT 'q' AS p, 8 AS id",
    "INSERT INTO {t} BY NAME SELECT x AS v, id + 100 AS id FROM one",
    "INSERT INTO {t} VALUES (1, 'c', 11, 2), (6, 'f', 60, 2) ON CONFLICT (id) DO NOTHING",
    "INSERT INTO {t} (id, v) VALUES (1, 11), (6, 60) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "INSERT INTO {t} SELECT id, 'n', x, 0 FROM one ON CONFLICT (id) DO UPDATE SET v = {t}.v + excluded.v, p = excluded.p",
    "INSERT INTO {t} (id, v) SELECT id, x FROM one ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE {t}.p = 'a'",
    "INSERT INTO {t} (id, v) SELECT id, x FROM one ON CONFLICT DO NOTHING",
    "INSERT OR IGNORE INTO {t} (id, v) SELECT id, x FROM one",
    "INSERT OR REPLACE INTO {t} VALUES (1, 'c', 11, 2), (6, 'f', 60, 2)",
    "INSERT OR REPLACE INTO {t} (id, v) VALUES (1, 11), (6, 60)",
)


@pytest.fixture(scope="module")
def templates(database: Database) -> dict[str, str]:
    """A table of each layout, which nobody changes, and the tables that changes read."""
    templates = {layout: f"template{number}" for number, layout in enumerate(LAYOUTS.values())}
    for layout, name in templates.items():
        database.run(f"CREATE TABLE {name} ({COLUMNS}){layout}")
        database.run(f"INSERT INTO {name} VALUES {ROWS}")
        database.run(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    for sql in OTHERS:
        database.run(sql)
    return templates


@pytest.fixture
def made(database: Database, templates: dict[str, str], table: str) -> Callable[[str], str]:
    def make(layout: str) -> str:
        end = "" if layout else ".lance"
        database.copy(templates[layout] + end, table + end)
        return table

    return make


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same tables in DuckDB."""
    with duckdb.connect() as duck:
        duck.execute(f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id))")
        for sql in (f"INSERT INTO t VALUES {ROWS}", *OTHERS):
            duck.execute(sql)
        yield duck


@pytest.fixture
def peer(duck: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """A transaction in DuckDB, which is rolled back."""
    duck.begin()
    yield duck
    duck.rollback()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_leaves_what_it_leaves_in_duckdb(
    database: Database, made: Callable[[str], str], peer: duckdb.DuckDBPyConnection, change: str, layout: str
) -> None:
    table = made(layout)
    assert [(database.run(change.format(t=table)),)] == peer.execute(change.format(t="t")).fetchall()
    assert database.rows(f"SELECT * FROM {table} ORDER BY id") == peer.execute("SELECT * FROM t ORDER BY id").fetchall()


RETURNED = (
    "INSERT INTO {t} (id, v) VALUES (6, 1), (7, NULL) RETURNING *",
    "INSERT INTO {t} (id, p) SELECT id + 100, 'q' FROM one RETURNING id AS k, w + 1, upper(p) || '!', w > 6",
    "INSERT INTO {t} BY NAME SELECT 'q' AS p, 8 AS id RETURNING * EXCLUDE (v)",
    "INSERT INTO {t} (id, v) VALUES (1, 11), (6, 60) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING *",
    "INSERT INTO {t} (id, v) SELECT id, x FROM one ON CONFLICT DO NOTHING RETURNING id, v, w",
    "INSERT OR REPLACE INTO {t} VALUES (1, 'c', 11, 2), (6, 'f', 60, 2) RETURNING id, p",
    "UPDATE {t} SET v = v + 1, p = 'm' WHERE w = 1 RETURNING id, v, p",
    "UPDATE {t} AS q SET w = 0 WHERE p = 'a' RETURNING q.id, q.w, id, CASE WHEN v > 10 THEN 'big' END AS size",
    "UPDATE {t} SET v = one.x FROM one WHERE {t}.id = one.id RETURNING {t}.id, v",
    "UPDATE {t} SET v = 1 WHERE false RETURNING *",
    "DELETE FROM {t} WHERE p = 'a' RETURNING *",
    "DELETE FROM {t} RETURNING id IS DISTINCT FROM 3, coalesce(v, -1)",
    "DELETE FROM {t} AS q USING u WHERE q.id = u.id RETURNING q.id, q.v",
    (
        "MERGE INTO {t} USING u AS s ON {t}.id = s.id AND s.x < 301 WHEN MATCHED AND {t}.id = 1 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET v = s.x WHEN NOT MATCHED AND s.id = 9 THEN INSERT (id, p) VALUES (s.id, s.p)"
        " RETURNING {t}.id, {t}.p, {t}.v"
    ),
)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("change", RETURNED)
def test_a_change_returns_what_it_returns_in_duckdb(
    database: Database, made: Callable[[str], str], peer: duckdb.DuckDBPyConnection, change: str, layout: str
) -> None:
    table = made(layout)
    returned = peer.execute(change.format(t="t")).fetchall()
    assert sorted(database.rows(change.format(t=table)), key=repr) == sorted(returned, key=repr)
    left = peer.execute("SELECT * FROM t ORDER BY id").fetchall()
    assert database.rows(f"SELECT * FROM {table} ORDER BY id") == left


def test_new_rows_without_a_key_conflict_with_nothing(database: Database, table: str) -> None:
    """What PostgreSQL does where the key is a unique column, which NULL may stand in."""
    database.run(f"CREATE TABLE {table} (k BIGINT, v BIGINT) PARTITIONED BY (bucket(2, v))")
    database.run(f"INSERT INTO {table} VALUES (NULL, 1), (1, 1)")
    new = f"INSERT INTO {table} VALUES (NULL, 2), (NULL, 3), (1, 4), (2, 5), (2, 5) ON CONFLICT (k) DO NOTHING"
    assert database.run(new) == 3
    assert sorted(database.rows(f"SELECT k, v FROM {table}"), key=str) == [
        (1, 1),
        (2, 5),
        (None, 1),
        (None, 2),
        (None, 3),
    ]


REFUSED = {
    "UPDATE {t} SET v = x FROM u WHERE {t}.id = u.id": "UPDATE finds several rows of its source for one row of",
    "UPDATE {t} SET v = x FROM one JOIN u USING (id) WHERE {t}.id = one.id": "expected WHERE or ','; tables that are joined stand in a query, as (SELECT …) AS s, got 'JOIN'",
    "UPDATE {t} SET v = 1 FROM one UNION SELECT 1, 2": "expected the end of the statement, got 'SELECT'",
    "DELETE FROM {t} USING u WHERE id = u.id": "mbiguous",
    "INSERT INTO {t} (id, v) VALUES (6, 1), (6, 2) ON CONFLICT (id) DO UPDATE SET v = 3": "several new rows with id = 6",
    "INSERT INTO {t} (id, v) VALUES (1, 1), (1, 2) ON CONFLICT (id) DO UPDATE SET v = 3": "finds several rows of its source",
    "INSERT INTO {t} (v) VALUES (1) ON CONFLICT (id) DO NOTHING": "the key 'id' of ON CONFLICT is not among the columns",
    "INSERT INTO {t} (id, v) VALUES (1) ON CONFLICT (id) DO NOTHING": "has 1 values for 2 columns (id, v)",
    "INSERT INTO {t} (id, nope) VALUES (1, 2) ON CONFLICT (id) DO NOTHING": "no column 'nope'",
    "INSERT INTO {t} BY NAME SELECT 1 AS id, 2 AS nope": "no column 'nope'",
    "INSERT INTO {t} BY NAME SELECT 1 AS id, 2 AS id": "two columns have the same name",
    "INSERT INTO {t} BY NAME SELECT 1 AS id ON CONFLICT DO NOTHING": "ON CONFLICT goes with INSERT INTO t [(columns)] alone",
    "INSERT INTO one VALUES (1, 1) ON CONFLICT DO NOTHING": "has no primary key; expected ON CONFLICT (column, …)",
    "INSERT INTO {t} (id) VALUES (6) RETURNING nope": "No field named nope",
    "UPDATE {t} SET v = 1 WHERE id = 1 RETURNING 1 / (v - v)": "Divide by zero",
    "DELETE FROM {t} WHERE id = 1 RETURNING count(*)": "expressions over the columns of one row",
    "DELETE FROM {t} WHERE id = 1 RETURNING (SELECT 1)": "expressions over the columns of one row",
    "DELETE FROM {t} WHERE id = 1 RETURNING v ORDER BY v": "expected the end of the statement, got 'ORDER'",
    "INSERT INTO {t} (id) VALUES (6) RETURNING id + ?": "takes no parameters",
    "INSERT OVERWRITE {t} SELECT * FROM {t} RETURNING id": "write BEGIN, the INSERT, a SELECT",
    "INSERT INTO {t} (id, p) SELECT n, repeat('w', 2000) FROM generate_series(1, 20000) AS s(n) RETURNING id": "at most 16 MiB",
}


@pytest.mark.parametrize("change", REFUSED)
def test_a_change_is_refused_and_nothing_is_changed(
    database: Database, made: Callable[[str], str], change: str
) -> None:
    table = made(LAYOUTS["partitioned"])
    before = database.rows(f"SELECT * FROM {table} ORDER BY id")
    assert REFUSED[change] in database.refuses(change.format(t=table))
    assert database.rows(f"SELECT * FROM {table} ORDER BY id") == before


def test_parameters_have_the_types_of_the_columns(database: Database, made: Callable[[str], str]) -> None:
    table = made(LAYOUTS["partitioned"])
    upsert = f"INSERT INTO {table} (id, v) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET v = excluded.v + ?"
    assert [database.run(upsert, each) for each in ([1, 100, 1], [6, 600, 1])] == [1, 1]
    assert database.run(f"UPDATE {table} SET w = ? FROM one WHERE {table}.id = one.id AND one.x > ?", [5, 400]) == 1
    assert database.rows(f"SELECT id, v, w FROM {table} WHERE id IN (1, 5, 6) ORDER BY id") == [
        (1, 101, 1),
        (5, None, 5),
        (6, 600, 7),
    ]


WORDS = ("SELECT id AS returning FROM one", "SELECT x.id FROM one AS x JOIN (SELECT true AS conflict) AS y ON conflict")


@pytest.mark.parametrize("query", WORDS)
def test_words_of_clauses_are_names_where_names_stand(
    database: Database, made: Callable[[str], str], query: str
) -> None:
    table = made(LAYOUTS["plain"])
    database.run(f"TRUNCATE {table}")
    assert database.run(f"INSERT INTO {table} (id) {query}") == 3


@pytest.mark.parametrize(
    ("layout", "begun"),
    [
        *itertools.product(["PARTITIONED BY (p)", "PARTITIONED BY (bucket(3, id))"], ["", "BEGIN"]),
        ("", ""),
    ],
)
def test_a_key_is_inserted_once_by_two_writers(
    database: Database, table: str, layout: str, begun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second finds what the first has inserted after it had looked: it runs again, or its transaction fails."""
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, p VARCHAR, v BIGINT) {layout}")
    database.run(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    upsert = f"INSERT INTO {table} VALUES (9, 'a', {{}}) ON CONFLICT (id) DO UPDATE SET v = {table}.v + excluded.v"
    with database.client() as first, database.client() as second:
        if begun:
            first.run(begun)
            assert first.run(upsert.format(10)) == 1
            assert second.run(upsert.format(100)) == 1
            assert "[serialization_failure]" in first.refuses("COMMIT")
            assert second.rows(f"SELECT v FROM {table} WHERE id = 9") == [(100,)]
            return
        real, others = WritableTable.change, [second]

        def change(*arguments: object) -> int:
            count = real(*arguments)
            if others:
                assert others.pop().run(upsert.format(100)) == 1
            return count

        monkeypatch.setattr(WritableTable, "change", change)
        assert first.run(upsert.format(10)) == 1
    assert database.rows(f"SELECT v FROM {table} WHERE id = 9") == [(110,)]
