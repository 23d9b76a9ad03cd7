"""Lists of a table are unnested in FROM: the rows that PostgreSQL and DuckDB give, in every way to write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.database import Database


@pytest.fixture(scope="module")
def lists(database: Database) -> Iterator[Database]:
    database.run("CREATE TABLE m (id BIGINT, list BIGINT[], words VARCHAR[], p VARCHAR) PARTITIONED BY (p)")
    database.run(
        "INSERT INTO m VALUES (1, [1, 2], ['a'], 'x'), (2, [], ['b', 'c'], 'x'), (3, NULL, NULL, 'y'), (4, [NULL], ['d'], 'y')"
    )
    database.run("CREATE TABLE o (k BIGINT, v BIGINT)")
    database.run("INSERT INTO o VALUES (1, 10), (1, 20), (9, 30)")
    yield database
    database.run("DROP TABLE m")
    database.run("DROP TABLE o")


ALL = [(1, 1), (1, 2), (4, None)]
ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "SELECT id, n FROM m, unnest(m.list) AS x(n)": ALL,
    "SELECT m.id, x.n FROM m, unnest(m.list) AS x(n)": ALL,
    "SELECT id, n FROM m, unnest(list) AS x(n)": ALL,
    "SELECT id, x FROM m, unnest(list) AS x": ALL,
    "SELECT id, x FROM m, unnest(list) x": ALL,
    "SELECT id, unnest FROM m, unnest(m.list)": ALL,
    "SELECT id, x.n FROM m CROSS JOIN unnest(m.list) AS x(n)": ALL,
    "SELECT id, x.n FROM m CROSS JOIN LATERAL unnest(m.list) AS x(n)": ALL,
    "SELECT id, x.n FROM m JOIN LATERAL unnest(m.list) AS x(n) ON true": ALL,
    "SELECT id, x.n FROM m, LATERAL unnest(m.list) AS x(n)": ALL,
    "SELECT id, x.n FROM m LEFT JOIN LATERAL unnest(m.list) AS x(n) ON true": [*ALL, (2, None), (3, None)],
    "SELECT id, x.n FROM m LEFT JOIN unnest(m.list) AS x(n) ON TRUE": [*ALL, (2, None), (3, None)],
    "SELECT q.id, x.n FROM m AS q, unnest(q.list) AS x(n) WHERE x.n > 1": [(1, 2)],
    "SELECT q.id, n * 2 FROM (SELECT * FROM m WHERE p = 'x') AS q, unnest(q.list) AS x(n)": [(1, 2), (1, 4)],
    "WITH q AS (SELECT * FROM m) SELECT id, n FROM q, unnest(q.list) AS x(n)": ALL,
    "SELECT id, n, w FROM m, unnest(m.list) AS x(n), unnest(m.words) AS y(w)": [
        (1, 1, "a"),
        (1, 2, "a"),
        (4, None, "d"),
    ],
    "SELECT x.n, count(*) FROM m, unnest(m.list) AS x(n) GROUP BY x.n": [(1, 1), (2, 1), (None, 1)],
    "SELECT id, sum(n) FROM m, unnest(m.list) AS x(n) GROUP BY id HAVING sum(n) > 1": [(1, 3)],
    "SELECT m.id, n, v FROM m JOIN o ON m.id = o.k, unnest(m.list) AS x(n)": [
        *[(1, n, v) for n in (1, 2) for v in (10, 20)],
    ],
    "SELECT id, v FROM m, unnest(m.list) AS x(n), o WHERE o.k = x.n": [(1, 10), (1, 20)],
    "SELECT * FROM (SELECT id, list, p FROM m) AS m, unnest(m.list) AS x(n) WHERE n = 2": [(1, [1, 2], "x", 2)],
    "SELECT m.*, n FROM (SELECT id, list FROM m) AS m, unnest(m.list) AS x(n) WHERE n = 2": [(1, [1, 2], 2)],
    "SELECT x.*, id FROM m, unnest(m.list) AS x(n) WHERE n = 2": [(2, 1)],
    "SELECT id, n FROM m, unnest(array_append(m.list, id)) AS x(n) WHERE n IS NOT NULL": [
        *[(1, 1), (1, 2), (1, 1), (2, 2), (3, 3), (4, 4)]
    ],
    "SELECT id, n FROM m, unnest(m.list) AS x(n) WHERE EXISTS (SELECT 1 FROM o WHERE o.k = x.n)": [(1, 1)],
    "SELECT id FROM m WHERE id IN (SELECT x.n FROM m AS q, unnest(q.list) AS x(n))": [(1,), (2,)],
    "SELECT id, n FROM m, unnest([7]) AS x(n) WHERE id = 1": [(1, 7)],
    "SELECT n FROM unnest([7, 8]) AS x(n)": [(7,), (8,)],
    "SELECT id, n FROM m, unnest(m.list) AS x(n) UNION ALL SELECT id, n FROM m, unnest(m.list) AS x(n)": [*ALL, *ALL],
}


@pytest.mark.parametrize("sql", ANSWERS)
def test_lists_of_a_table_are_unnested_in_from(lists: Database, sql: str) -> None:
    assert sorted(lists.rows(sql), key=str) == sorted(ANSWERS[sql], key=str)


REFUSED = {
    "SELECT id FROM m, o, unnest(list) AS x(n)": "named before it as t.list",
    "SELECT * FROM m, o, unnest(m.list) AS x(n)": "name the columns",
    "SELECT id FROM o LEFT JOIN m ON k = id, unnest(m.list) AS x(n)": "unnest of a table of an outer join",
    "SELECT id FROM m, unnest(m.list, m.words) AS x(n, w)": "unnest of several columns",
    "SELECT id FROM m JOIN unnest(m.list) AS x(n) ON n > 1": "write the condition in WHERE",
    "SELECT id FROM m, unnest(m.list) AS x(n) WHERE EXISTS (SELECT 1 FROM o AS x WHERE x.k = 1)": "write another alias",
    "SELECT id FROM m LEFT JOIN unnest(m.list) AS x(n) ON n > 1": "LEFT JOIN … ON true",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_would_have_other_rows_is_refused(lists: Database, sql: str) -> None:
    assert REFUSED[sql] in lists.refuses(sql)


def test_partitions_are_pruned_below_an_unnested_list(lists: Database) -> None:
    told = lists.rows("EXPLAIN SELECT id, n FROM m, unnest(m.list) AS x(n) WHERE p = 'x'")
    assert "partitions: 1 / 2" in str(told)
