"""Inner joins in another order than the written one, and what the keys of one side prune: the same rows, and fewer on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.partition_wise import division, join_order
from lance_flight.engine.query.tables import provider

from tests.engine.database import Database, open_engine

TABLES = {
    "sales": (
        "item INT, day INT, shop INT, n INT",
        "bucket(3, item)",
        "value % 40, value % 30, value % 5, value % 7",
        600,
    ),
    "stock": ("item INT, day INT, n INT", "bucket(2, day)", "value % 40, value % 30, value % 11", 900),
    "items": (
        "item INT, kind VARCHAR",
        None,
        "value, CASE WHEN value % 4 = 0 THEN NULL ELSE 'k' || (value % 6) END",
        40,
    ),
    "days": ("day INT, week INT, year INT", "year", "value, value / 7, 2020 + value / 10", 30),
    "shops": ("shop INT, name VARCHAR", None, "value, 'shop ' || value", 4),
}
"""Table → its columns, its partitions, how its rows are made of numbers, and how many there are."""
QUERIES = {
    "a star": "SELECT kind, name, sum(n) FROM sales s JOIN items i ON i.item = s.item JOIN days d ON d.day = s.day JOIN shops p ON p.shop = s.shop"
    " WHERE year = 2021 AND kind <> 'k1' GROUP BY kind, name",
    "two facts": "SELECT i.kind, d1.week, count(*) FROM sales s JOIN stock t ON s.item = t.item JOIN items i ON i.item = s.item"
    " JOIN days d1 ON s.day = d1.day JOIN days d2 ON t.day = d2.day WHERE d1.week = d2.week AND t.n < s.n AND d1.year = 2020 GROUP BY i.kind, d1.week",
    "commas": "SELECT s.item, t.n FROM sales s, stock t, days d, shops p WHERE s.item = t.item AND s.day = d.day AND t.day = d.day AND p.shop = s.shop AND year > 2020",
    "all columns": "SELECT * FROM sales s JOIN items i ON i.item = s.item JOIN days d ON d.day = s.day WHERE s.n = 3",
    "below an outer join": "SELECT s.item, d.week, p.name FROM sales s JOIN items i ON i.item = s.item JOIN days d ON d.day = s.day"
    " LEFT JOIN shops p ON p.shop = s.shop AND p.name <> 'shop 1' WHERE s.n > i.item",
    "above an outer join": "SELECT s.item, d.week, p.name FROM sales s LEFT JOIN shops p ON p.shop = s.shop JOIN items i ON i.item = s.item JOIN days d ON d.day = s.day"
    " WHERE p.name IS NULL OR d.week = 1",
    "groups joined": "SELECT a.item, a.n, b.n, kind FROM (SELECT item, sum(n) AS n FROM sales GROUP BY item) a JOIN (SELECT item, max(n) AS n FROM stock GROUP BY item) b"
    " ON a.item = b.item JOIN items i ON i.item = b.item WHERE a.n > b.n",
    "computed keys": "SELECT s.item, d.week FROM sales s JOIN items i ON i.item = s.item + 1 JOIN days d ON d.day = s.day % 7 JOIN shops p ON s.shop = p.shop WHERE i.kind IS NOT NULL",
    "a condition of three": "SELECT s.item, i.kind, d.week FROM sales s JOIN items i ON i.item = s.item JOIN days d ON d.day = s.day AND s.n + i.item > d.week + 20",
    "within a subquery": "SELECT item FROM items WHERE item IN (SELECT s.item FROM sales s JOIN stock t ON s.item = t.item JOIN days d ON d.day = t.day JOIN shops p ON p.shop = s.shop WHERE d.year = 2022)",
    "with itself": "SELECT a.item, c.item FROM sales a JOIN sales b ON a.day = b.day AND a.shop = b.shop JOIN sales c ON c.item = b.item WHERE a.n = 1 AND b.n = 2 AND c.n = 3",
    "common rows": "SELECT s.item, kind FROM sales s JOIN items i ON i.item = s.item JOIN days d ON d.day = s.day WHERE d.year = 2021"
    " INTERSECT SELECT t.item, kind FROM stock t JOIN items i ON i.item = t.item WHERE t.n > 4",
    "other rows": "SELECT s.item, kind FROM sales s JOIN items i ON i.item = s.item JOIN days d ON d.day = s.day"
    " EXCEPT SELECT t.item, kind FROM stock t JOIN items i ON i.item = t.item WHERE t.item > 9",
    "rows of three": "SELECT x.kind FROM (SELECT kind FROM sales s JOIN items i ON i.item = s.item INTERSECT SELECT kind FROM stock t JOIN items i ON i.item = t.item"
    " EXCEPT SELECT kind FROM items WHERE kind > 'k2') x LEFT JOIN items i ON i.kind = x.kind AND i.item < 9",
    "united": "SELECT x.item, kind FROM (SELECT item, day FROM sales WHERE n = 1 UNION ALL SELECT item, day FROM stock WHERE n = 2) x JOIN items i ON i.item = x.item JOIN days d ON d.day = x.day",
    **{
        f"marked, {name}": "SELECT s.item, kind, week FROM sales s JOIN items i ON i.item = s.item JOIN days d ON d.day = s.day"
        f" JOIN shops p ON p.shop = s.shop WHERE {condition}"
        for name, condition in {
            "by IN": "d.year = 2021 OR i.kind IN (SELECT kind FROM items WHERE item > 30)",
            "by NOT IN": "d.year = 2021 OR i.kind NOT IN (SELECT kind FROM items WHERE item > 30 AND kind IS NOT NULL)",
            "by NOT IN with NULL": "d.year = 2021 OR i.kind NOT IN (SELECT kind FROM items)",
            "by EXISTS": "d.year = 2021 OR EXISTS (SELECT 1 FROM stock t WHERE t.item = s.item AND t.day = d.day AND t.n > 3)",
            "by none": "NOT (d.year = 2021 OR EXISTS (SELECT 1 FROM stock t WHERE t.item = s.item AND t.n = s.n + 5))",
            "twice": "EXISTS (SELECT 1 FROM stock t WHERE t.item = s.item AND t.n = 3) OR EXISTS (SELECT 1 FROM stock t WHERE t.day = s.day AND t.n = 4)",
            "by pairs": "d.year = 2021 OR EXISTS (SELECT 1 FROM stock t WHERE t.item = s.item AND t.n > s.n + 4)",
            "by no column": "d.year = 2021 OR EXISTS (SELECT 1 FROM stock t WHERE t.n = 99)",
            "by a computed key": "d.year = 2021 OR EXISTS (SELECT 1 FROM stock t WHERE t.item = s.item + 1 AND t.n = 2)",
        }.items()
    },
    "marked, as a value": "SELECT s.item, kind, d.year = 2021 OR EXISTS (SELECT 1 FROM stock t WHERE t.item = s.item AND t.n = 3) FROM sales s JOIN items i ON i.item = s.item"
    " JOIN days d ON d.day = s.day JOIN shops p ON p.shop = s.shop ORDER BY 3, 1, 2",
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(Path(tmp_path_factory.mktemp("order") / "root"))
    for name, (columns, partitioned_by, rows, count) in TABLES.items():
        database.run(
            f"CREATE TABLE {name} ({columns})" + (f" PARTITIONED BY ({partitioned_by})" if partitioned_by else "")
        )
        database.run(f"INSERT INTO {name} SELECT {rows} FROM generate_series(0, {count - 1})")
    return database


@pytest.fixture(scope="module")
def peer(database: Database) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in TABLES:
        rows = database.query(f"SELECT * FROM {name}")
        connection.register("rows_of_table", rows)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows_of_table")
    return connection


def joins(database: Database, sql: str) -> list[str]:
    """The inner joins of the plan, from above."""
    ((plan,),) = (row[1:] for row in database.rows(f"EXPLAIN {sql}")[:1])
    return [line.strip() for line in plan.splitlines() if "Inner Join:" in line or "Cross Join:" in line]


@pytest.mark.sample(8)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_every_order_gives_the_same_rows(
    database: Database, peer: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    expected = Counter(peer.execute(query).fetchall())
    assert expected
    assert Counter(database.rows(query)) == expected
    # Whatever is taken for the best order is taken.
    monkeypatch.setattr(join_order, "_WORTH", float("inf"))
    monkeypatch.setattr(join_order, "_MANY", -float("inf"))
    assert Counter(database.rows(query + " ")) == expected
    assert not any("Cross" in join for join in joins(database, query))


def test_two_facts_are_joined_when_few_of_their_rows_are_left(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = QUERIES["two facts"]
    assert "s.item = t.item" in joins(database, sql)[-1]  # as it is written: first of all
    monkeypatch.setattr(join_order, "_MANY", 0)
    ordered = joins(database, sql)
    assert "s.item = t.item" not in ordered[-1]
    assert len(ordered) == 4


def test_tables_without_a_condition_are_not_joined_first_where_the_written_order_is_kept(database: Database) -> None:
    sql = "SELECT count(*) FROM shops p, items i, sales s WHERE s.shop = p.shop AND s.item = i.item"
    plans = dict(database.rows(f"EXPLAIN {sql}"))
    assert "HashJoinExec" in plans["physical_plan"]
    assert "CrossJoinExec" not in plans["physical_plan"]


def test_the_order_is_kept_when_the_plan_is_optimised(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_order, "_WORTH", float("inf"))
    monkeypatch.setattr(join_order, "_MANY", -float("inf"))
    chosen: list[Sequence[join_order.Step]] = []
    best = join_order._Order.best

    def noting(order: join_order._Order) -> list[join_order.Step] | None:
        steps = best(order)
        chosen.append(steps or ())
        return steps

    monkeypatch.setattr(join_order._Order, "best", noting)
    sql = f"{QUERIES['two facts']}  "
    first = joins(database, sql)[-1]
    (one, other) = chosen[0][0]
    # The sides as they are written: s, t, i, d1, d2.
    names = [["s", "t", "i", "d1", "d2"][place] for place in (*one, *other)]
    assert all(f"{name}." in first for name in names), (names, first)


def test_the_side_with_fewer_rows_left_is_looked_up(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT count(*) FROM sales s JOIN stock t ON s.item = t.item"
    assert "s.item = t.item" in joins(database, sql)[0]
    monkeypatch.setattr(join_order, "MANY", 0)
    assert "t.item = s.item" in joins(database, f"{sql} WHERE t.n = 3 AND t.day = 4")[0]
    assert "s.item = t.item" in joins(database, f"{sql} WHERE s.n = 3 AND s.day = 4")[0]


def test_rows_that_pruning_leaves_out_are_left_out_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of years leaves the days of these partitions, and says no more of them."""
    monkeypatch.setattr(join_order, "MANY", 0)
    sql = "SELECT count(*) FROM days d JOIN items i ON i.item = d.day WHERE i.kind = 'k1' AND d.year >= 2022"
    assert joins(database, sql)[0].startswith("Inner Join: i.item = d.day")


@pytest.mark.parametrize(
    "condition",
    [
        "t.day IN (SELECT day FROM days WHERE week = 2)",
        "EXISTS (SELECT 1 FROM days d WHERE d.day = t.day AND d.day = t.item)",
        '"__mark" IN (SELECT name FROM shops)',
    ],
)
def test_the_joins_below_a_mark_are_ordered(
    database: Database, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    """What IN beside OR becomes: DataFusion has no such join of frames."""
    monkeypatch.setattr(join_order, "MANY", 0)
    sql = (
        'SELECT t.n FROM stock t JOIN (SELECT item, kind AS "__mark" FROM items) i ON i.item = t.item'
        f" WHERE \"__mark\" = 'k1' OR {condition}"
    )
    assert joins(database, sql)[0].startswith("Inner Join: i.item = t.item")


PADDED = {
    "right of a left join": "SELECT d.c, s.item, s.day FROM sales s LEFT JOIN (SELECT item, 'x' AS c FROM items WHERE item < 9) d ON d.item = s.item",
    "left of a right join": "SELECT d.c, s.item, s.day FROM (SELECT item, 'x' AS c FROM items WHERE item < 9) d RIGHT JOIN sales s ON d.item = s.item",
    "left of a full join": "SELECT d.c, s.item, s.day FROM (SELECT item, 'x' AS c FROM items WHERE item < 9) d FULL JOIN sales s ON d.item = s.item",
    "right of a full join": "SELECT d.c, s.item, s.day FROM sales s FULL JOIN (SELECT item, 'x' AS c FROM items WHERE item < 9) d ON d.item = s.item",
    "by a condition": "SELECT d.c, s.item, s.day FROM sales s LEFT JOIN (SELECT item, n AS c FROM stock WHERE n + 0 = 3) d ON d.item = s.item",
}
"""Joins that fill a column up with NULL which is the same in all rows of its side."""


@pytest.mark.parametrize("most", [0, 1 << 40], ids=["sides exchanged", "as written"])
@pytest.mark.parametrize("query", PADDED.values(), ids=PADDED)
def test_rows_are_sorted_and_counted_by_a_constant_that_is_null_where_nothing_joins(
    database: Database, peer: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, query: str, most: int
) -> None:
    monkeypatch.setattr(join_order, "MANY", most)
    ordered = f"{query} ORDER BY d.c NULLS FIRST, s.item, s.day"
    assert database.rows(ordered) == peer.execute(ordered).fetchall()
    counted = query.replace(
        "s.day FROM", "count(*) OVER (PARTITION BY d.c), count(*) OVER (ORDER BY d.c NULLS FIRST) FROM"
    )
    assert Counter(database.rows(counted)) == Counter(peer.execute(counted).fetchall())


def test_each_row_of_the_smaller_side_is_put_beside_all_of_the_other(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_order, "MANY", 0)
    sql = "SELECT count(*), max(m.n) FROM stock t CROSS JOIN (SELECT max(n) AS n FROM sales) m"
    assert database.rows(sql) == [(900, 6)]
    ((plan,),) = (row[1:] for row in database.rows(f"EXPLAIN {sql}")[:1])
    assert plan.index("TableScan: sales") < plan.index("TableScan: stock")


MOST = 3
JOIN = "SELECT DISTINCT t.k FROM t JOIN d ON t.k = d.k WHERE d.label = '{}' ORDER BY t.k"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A table of 40 partitions, and labels of few keys and of too many, each with NULL among them."""
    engine = open_engine(tmp_path_factory.mktemp("keys"))
    engine.update("CREATE TABLE t (k BIGINT) PARTITIONED BY (k)")
    engine.update("INSERT INTO t SELECT v % 40 FROM (SELECT unnest(range(0, 400)) AS v) AS n")
    engine.update("CREATE TABLE d (k BIGINT, label VARCHAR)")
    rows = [f"({key}, '{name} {first}')" for first in range(10) for name, key in labelled(first)]
    engine.update(f"INSERT INTO d VALUES {', '.join(rows)}")
    return engine


def labelled(first: int) -> list[tuple[str, str]]:
    few = [("few", str(first + number)) for number in range(MOST - 1)]
    many = [("many", str(first + 3 * number)) for number in range(MOST + 1)]
    return [*few, ("few", "NULL"), ("many", "NULL"), *many]


@pytest.mark.parametrize("first", range(10))
@pytest.mark.parametrize(("name", "count"), [("few", MOST - 1), ("many", MOST + 1)])
def test_keys_that_a_limit_cuts_off_prune_nothing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, count: int, first: int
) -> None:
    monkeypatch.setattr(division, "MOST_KEYS", MOST)
    sql = JOIN.format(f"{name} {first}")
    assert engine.query(sql).num_rows == count
    plan = engine.query(f"EXPLAIN ANALYZE {sql}").to_pylist()
    (said,) = [row["plan"] for row in plan if row["plan_type"] == "dynamic pruning"]
    assert said.endswith(f"there are more than {MOST}" if name == "many" else "2 of 40 partitions are left")


COPIES = "WITH w AS (SELECT f.n, f.k, f.t FROM facts f JOIN names d ON f.k = d.k WHERE d.label = 'a')"
LABELLED = "SELECT f.n FROM facts f JOIN names d ON f.k = d.k WHERE"
LOOKS_ALIKE = 'a"), names.t = Utf8("t1'
"""A literal by which one condition reads as two in the text of a plan."""
FILTERED = {
    "inner": "SELECT f.n FROM facts f JOIN names d ON f.k = d.k WHERE d.label = 'a'",
    "a text": "SELECT f.n FROM facts f JOIN names d ON f.t = d.t WHERE d.label = 'a'",
    "a date": "SELECT f.n FROM facts f JOIN names d ON f.d = d.d WHERE d.label = 'a'",
    "of another type": "SELECT f.n FROM facts f JOIN names d ON f.k = d.small WHERE d.label = 'a'",
    "no key": "SELECT f.n FROM facts f JOIN names d ON f.k = d.k WHERE d.label = 'none'",
    "NULL alone": "SELECT f.n FROM facts f JOIN names d ON f.k = d.k WHERE d.label = 'null'",
    "two dimensions": "SELECT f.n FROM facts f JOIN names d ON f.k = d.k JOIN names e ON f.t = e.t WHERE d.label = 'a' AND e.label <> 'b'",
    "semi": "SELECT n FROM facts WHERE k IN (SELECT k FROM names WHERE label = 'a')",
    "anti": "SELECT n FROM facts WHERE k NOT IN (SELECT k FROM names WHERE label = 'a')",
    "NOT EXISTS": "SELECT n FROM facts f WHERE NOT EXISTS (SELECT 1 FROM names d WHERE d.k = f.k AND label = 'a')",
    "left": "SELECT f.n, d.label FROM facts f LEFT JOIN (SELECT * FROM names WHERE label = 'a') d ON f.k = d.k",
    "right": "SELECT f.n, d.label FROM facts f RIGHT JOIN (SELECT * FROM names WHERE label = 'a') d ON f.k = d.k",
    "full": "SELECT f.n, d.label FROM facts f FULL JOIN (SELECT * FROM names WHERE label = 'a') d ON f.k = d.k",
    "left of a filtered side": "SELECT f.n, d.label FROM (SELECT * FROM names WHERE label = 'a') d LEFT JOIN facts f ON f.k = d.k",
    "right of a filtered side": "SELECT f.n, d.label FROM (SELECT * FROM names WHERE label = 'a') d RIGHT JOIN facts f ON f.k = d.k",
    "full of a filtered side": "SELECT f.n, d.label FROM (SELECT * FROM names WHERE label = 'a') d FULL JOIN facts f ON f.k = d.k",
    "NULL beside NULL": "SELECT f.n FROM facts f JOIN names d ON f.k IS NOT DISTINCT FROM d.k WHERE d.label IN ('a', 'null')",
    "groups": "SELECT g.s, g.k FROM (SELECT k, sum(n) AS s FROM facts GROUP BY k) g JOIN names d ON g.k = d.k WHERE d.label = 'a'",
    "groups by another": "SELECT g.s FROM (SELECT n % 3 AS k, count(*) AS s FROM facts GROUP BY n % 3) g JOIN names d ON g.k = d.k WHERE d.label = 'a'",
    "a window of all": "SELECT w.r FROM (SELECT k, count(*) OVER () AS r FROM facts) w JOIN names d ON w.k = d.k WHERE d.label = 'a'",
    "a window of keys": "SELECT w.r FROM (SELECT k, count(*) OVER (PARTITION BY k) AS r FROM facts) w JOIN names d ON w.k = d.k WHERE d.label = 'a'",
    "a limit": "SELECT count(*) FROM (SELECT k FROM facts ORDER BY n LIMIT 7) f JOIN names d ON f.k = d.k WHERE d.label <> 'zzz'",
    "below an outer join": "SELECT f.n, x.n FROM names d JOIN facts f ON f.k = d.k LEFT JOIN facts x ON x.n = f.n + 1 WHERE d.label = 'a'",
    "other keys at each read": "SELECT count(f.n) > 0 FROM names d LEFT JOIN facts f ON f.k = d.k + 4 + CAST(floor(random() * 12) AS BIGINT) WHERE d.label = 'a' AND d.k = 1",
    "a recursive query": "WITH RECURSIVE r AS (SELECT CAST(1 AS BIGINT) AS k UNION ALL SELECT f.n FROM r JOIN facts f ON f.k = r.k WHERE r.k < 5 AND f.n > r.k) SELECT k FROM r",
    "padded by an outer join": "SELECT y.n FROM names e JOIN (SELECT f.k AS fk, f.n FROM names d LEFT JOIN facts f ON f.k = d.k) y ON y.fk = e.k WHERE e.label = 'a'",
    "two copies": f"{COPIES} SELECT a.n, b.n FROM w a JOIN w b ON a.t = b.t",
    "a copy beside NULL": f"{COPIES} SELECT a.n, b.n FROM w a LEFT JOIN w b ON a.n = b.n + 20",
    "two copies of all": f"{COPIES} SELECT a.n, b.n FROM w a FULL JOIN w b ON a.n = b.n + 20",
    "a copy, and all rows": f"{COPIES} SELECT a.n, b.n FROM w a JOIN facts b ON b.n = a.n + 1",
    "no copy of a copy": f"{COPIES} SELECT n FROM w WHERE NOT EXISTS (SELECT 1 FROM w b WHERE b.n = w.n + 1)",
    "a copy and other keys": f"{COPIES} SELECT n FROM w UNION ALL SELECT f.n FROM facts f JOIN names d ON f.k = d.k WHERE d.label = 'b'",
    "a copy and keys of another column": f"{COPIES} SELECT n FROM w UNION ALL SELECT f.n FROM facts f JOIN names d ON f.t = d.t WHERE d.label = 'b'",
    "a copy without rows": f"{COPIES} SELECT n FROM w UNION ALL SELECT f.n FROM facts f JOIN names d ON f.k = d.k WHERE d.label = 'none'",
    "a copy and a part": f"{COPIES} SELECT n FROM w EXCEPT SELECT f.n FROM facts f JOIN names d ON f.k = d.k WHERE d.label = 'a' AND f.n % 2 = 0",
    "a copy with a limit": f"{COPIES} SELECT n FROM w UNION ALL SELECT count(*) FROM (SELECT k FROM facts ORDER BY n LIMIT 7) f JOIN names d ON f.k = d.k WHERE d.label = 'a'",
    "keys of itself": "SELECT a.n, b.n FROM facts a JOIN facts b ON a.k = b.k WHERE a.n < 10 AND b.n > 390",
    "keys of itself and another": "SELECT a.n, b.n FROM facts a JOIN facts b ON a.k = b.n JOIN names d ON d.k = b.k WHERE d.label = 'a' AND a.n < 50",
    "partitions of two copies": "SELECT f.n FROM facts f JOIN names d ON f.n = d.k WHERE d.label = 'a' UNION ALL SELECT f.k FROM facts f JOIN names d ON f.n = d.small WHERE d.label = 'b'",
    "sides that look alike": f"{LABELLED} d.label = 'a' AND d.t = 't1' UNION ALL {LABELLED} d.label = '{LOOKS_ALIKE}'",
    "marked copies": f"{COPIES} SELECT f.n FROM facts f JOIN names d ON f.k = d.k WHERE d.label = 'a' AND (f.n < 9 OR f.n IN (SELECT n + 1 FROM w))",
}
"""Joins with a filtered side; each has rows with and without a match, and NULLs on both sides."""


@pytest.fixture(scope="module", params=["", " PARTITIONED BY (bucket(3, n))"], ids=["plain", "partitioned"])
def facts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("facts") / "root")
    database.run(f"CREATE TABLE facts (n BIGINT, k BIGINT, t VARCHAR, d DATE){request.param}")
    database.run(
        "INSERT INTO facts SELECT v, nullif(v % 20, 3), nullif('t' || (v % 20), 't4'), DATE '2024-01-01' + CAST(v % 20 AS INT)"
        " FROM (SELECT unnest(range(0, 400)) AS v) AS numbers"
    )
    database.run("CREATE TABLE names (k BIGINT, small SMALLINT, t VARCHAR, d DATE, label VARCHAR)")
    database.run(
        "INSERT INTO names VALUES (1, 1, 't1', DATE '2024-01-02', 'a'), (2, 2, 't2', DATE '2024-01-03', 'a'), (77, 77, 't77', NULL, 'a'),"
        f" (5, 5, 't5', DATE '2024-01-06', '{LOOKS_ALIKE}'),"
        " (3, 3, 't3', DATE '2024-01-04', 'b'), (NULL, NULL, NULL, NULL, 'a'), (NULL, NULL, NULL, NULL, 'null')"
    )
    return database


@pytest.mark.sample(24)
@pytest.mark.parametrize("sql", FILTERED.values(), ids=FILTERED)
def test_rows_that_find_none_to_join_with_are_left_out_and_no_others(
    facts: Database, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    with facts.client() as client:
        client.run("SET dynamic_pruning = 'off'")
        expected = Counter(client.rows(sql))
    for name, value in (("_MANY", 0), ("_FEWER", 0), ("_SHARE", 1)):
        monkeypatch.setattr(division, name, value)
    assert Counter(facts.rows(sql)) == expected
    # Whatever keys there are, those of Lance's rows that are not between them are not read.
    monkeypatch.setattr(provider, "_RARE", 1)
    monkeypatch.setattr(provider, "_DENSE", 0)
    assert Counter(facts.rows(f"{sql} ")) == expected


def test_explain_tells_how_many_keys_filter_rows(facts: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(division, "_MANY", 0)
    rows = facts.rows(f"EXPLAIN ANALYZE {FILTERED['inner']}")
    assert ("dynamic pruning", "k of facts by the keys d.k: rows with one of 3 are joined") in rows


def test_copies_of_a_query_are_pruned_by_the_keys_of_all(facts: Database) -> None:
    plans = dict(facts.rows(f"EXPLAIN ANALYZE {FILTERED['partitions of two copies']}"))
    if "bucket" in str(facts.rows("SHOW CREATE TABLE facts")):
        assert "n of facts by the keys k, small: 1 of 3 partitions are left" in plans["dynamic pruning"]
    else:
        assert "dynamic pruning" not in plans  # too few rows


def test_filtering_by_keys_ends_where_nearly_all_rows_have_one() -> None:
    schema = pa.schema({"k": pa.int64()})
    joining = provider._joining({"k": provider.JoinedKeys(pa.array(range(9)), 1.0)}, schema)
    batch = pa.record_batch({"k": range(10)}, schema=schema)
    assert [joining(batch).num_rows for _ in range(6)] == [9, 9, 9, 9, 10, 10]
