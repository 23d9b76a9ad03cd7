"""Queries that are run by partitions: what EXPLAIN says of them, and that a session may choose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.session_registry import QueryOptions

from tests.engine.database import Client, Database, open_engine

# Spec, Appendix F: which of the 16 buckets of orders meet which of the 8 of customers.
APPENDIX_F = {customers: (customers, customers + 8) for customers in range(8)}
KEYS = 400


@pytest.fixture(scope="module")
def shop(database: Database) -> Database:
    """The namespaces of Appendix F, events of three years and four tenants, and a plain table of days."""
    database.run(
        "CREATE TABLE f_orders (id BIGINT, customer_id BIGINT, total BIGINT) PARTITIONED BY (bucket(16, customer_id))"
    )
    database.run("CREATE TABLE f_customers (id BIGINT, name VARCHAR) PARTITIONED BY (bucket(8, id))")
    numbers = f"SELECT unnest(range(0, {KEYS})) AS v"
    database.run(f"INSERT INTO f_orders SELECT v, v, v * 10 FROM ({numbers}) AS n")
    database.run(f"INSERT INTO f_customers SELECT v, concat('c', v) FROM ({numbers}) AS n")
    database.run(
        "CREATE TABLE f_events (id BIGINT, day DATE, tenant VARCHAR) PARTITIONED BY (tenant, year(day), month(day))"
    )
    database.run(
        "INSERT INTO f_events SELECT v, DATE '2021-01-01' + CAST(v * 2 AS INT), "
        f"CASE v % 4 WHEN 3 THEN NULL ELSE concat('t', v % 4) END FROM ({numbers}) AS n"
    )
    database.run("CREATE TABLE f_days (day DATE, label VARCHAR)")
    database.run(f"INSERT INTO f_days SELECT DATE '2021-01-01' + CAST(v AS INT), concat('d', v) FROM ({numbers}) AS n")
    return database


def told(database: Database, sql: str, kind: str, *, analyze: bool = False) -> list[list[str]]:
    """The lines of each row of a plan that has this title."""
    rows = database.rows(f"EXPLAIN {'ANALYZE ' if analyze else ''}{sql}")
    return [text.splitlines() for title, text in rows if title == kind]


def opened(database: Database, sql: str) -> int:
    """How many partition tables a query opens."""
    ((_, text),) = [row for row in database.rows(f"EXPLAIN ANALYZE {sql}") if row[0] == "analyze"]
    found = re.search(r"tables opened: (\d+)", text)
    assert found is not None
    return int(found[1])


@pytest.fixture
def plain(shop: Database) -> Iterator[Client]:
    """A client that has turned all of it off."""
    with shop.client() as client:
        client.run("SET partition_wise_join = 'off'")
        client.run("SET dynamic_pruning = 'off'")
        yield client


def test_appendix_f_is_joined_in_eight_groups(shop: Database) -> None:
    sql = "SELECT o.*, c.name FROM f_orders o JOIN f_customers c ON o.customer_id = c.id"
    (lines,) = told(shop, sql, "groups")
    assert lines[0].startswith("groups: 8  by bucket(customer_id, 8): Inner Join: o.customer_id = c.id")
    assert lines[1:] == [
        f"  {customers}: f_orders {len(orders)} tables, f_customers 1 table" for customers, orders in APPENDIX_F.items()
    ]
    assert sorted(shop.rows(sql)) == [(v, v, v * 10, f"c{v}") for v in range(KEYS)]


def test_the_operators_of_groups_are_added_up(shop: Database) -> None:
    join = "SELECT o.id, c.name FROM f_orders o JOIN f_customers c ON o.customer_id = c.id"
    with shop.client() as client:
        client.run("SET group_rows = 1")
        found = dict(client.rows(f"EXPLAIN ANALYZE {join}"))
    assert f"rows read: {KEYS} of f_customers, {KEYS} of f_orders" in found["analyze"]
    top, *below = found["operators"].splitlines()
    assert re.search(rf"  \[rows: {KEYS}, seconds: \d+\.\d+, plans: 8\]$", top)
    assert "__" not in found["operators"]
    assert sum("DatasetExec" in line for line in below) == 2


IN_GROUPS = [
    pytest.param(
        "SELECT o.total % 7 AS rest, count(*), count(c.name), sum(o.total), min(c.name), max(o.id) FROM f_orders o "
        "LEFT JOIN f_customers c ON o.customer_id = c.id AND c.id < 99 GROUP BY 1",
        "8",
        id="an aggregate of other columns",
    ),
    pytest.param(
        "SELECT count(*), sum(o.total), min(name) FROM f_orders o JOIN f_customers c ON o.customer_id = c.id "
        "WHERE o.total < 0",
        "8",
        id="an aggregate of no rows",
    ),
    pytest.param(
        "SELECT count(*) FROM f_events a JOIN f_events b ON date_part('year', a.day) = date_part('year', b.day) "
        "AND a.tenant = b.tenant AND a.id = b.id",
        "12",
        id="on a date part",
    ),
    pytest.param(
        "SELECT tenant, year, count(*) FROM (SELECT tenant, date_part('year', day) AS year FROM f_events) "
        "GROUP BY 1, 2",
        "12",
        id="by a date part",
    ),
]


@pytest.mark.parametrize(("sql", "groups"), IN_GROUPS)
def test_a_query_in_groups_has_the_same_answer(shop: Database, plain: Client, sql: str, groups: str) -> None:
    assert told(shop, sql, "groups")[0][0].startswith(f"groups: {groups} ")
    expected = plain.query(sql)
    found = shop.query(sql)
    assert found.schema == expected.schema
    numbered = [f"c{place}" for place in range(found.num_columns)]
    tables = [t.rename_columns(numbered).sort_by([(n, "ascending") for n in numbered]) for t in (found, expected)]
    assert tables[0].equals(tables[1])
    assert found.num_rows > 0


APART = [
    ("SELECT * FROM f_orders o JOIN f_days d ON o.id = d.label", "one side of it is not partitioned"),
    ("SELECT * FROM f_orders o JOIN f_customers c ON o.id = c.id", "f_orders has no partition field of id alone"),
    pytest.param(
        "SELECT * FROM f_customers WHERE id NOT IN (SELECT customer_id FROM f_orders)",
        "NOT IN depends on all rows of the other side",
        id="NOT IN",
    ),
    ("SELECT total, count(*) FROM f_orders GROUP BY total", "f_orders has no partition field of total alone"),
]


@pytest.mark.parametrize(("sql", "why"), APART)
def test_explain_says_why_a_query_is_not_run_in_groups(shop: Database, sql: str, why: str) -> None:
    (lines,) = told(shop, sql, "groups")
    assert lines[0] == "groups: none"
    assert why in "\n".join(lines)


def test_a_session_may_turn_it_off(plain: Client) -> None:
    sql = "EXPLAIN SELECT o.id FROM f_orders o JOIN f_customers c ON o.customer_id = c.id"
    assert [text for kind, text in plain.rows(sql) if kind == "groups"] == [
        "groups: none\n  SET partition_wise_join = 'off' keeps this session from it"
    ]


def test_the_keys_of_a_filtered_side_prune_the_other(shop: Database) -> None:
    sql = "SELECT e.id, label FROM f_events e JOIN f_days d ON e.day = d.day WHERE label = 'd100'"
    assert told(shop, sql, "dynamic pruning") == [["day of f_events by the keys d.day, when it is run"]]
    (said,) = told(shop, sql, "dynamic pruning", analyze=True)
    found = re.fullmatch(r"day of f_events by the keys d\.day: (\d+) of (\d+) partitions are left", said[0])
    assert found is not None
    # April 2021: one year and month of three tenants and NULL.
    assert (int(found[1]), int(found[2])) == (4, 108)
    assert opened(shop, sql) == 4
    assert shop.rows(sql) == [(50, "d100")]


def test_the_first_rows_in_the_order_of_partitions_are_in_the_first_of_them(shop: Database) -> None:
    sql = "SELECT day, id FROM f_events ORDER BY day DESC LIMIT 3"
    (lines,) = told(shop, sql, "groups")
    assert lines[0].startswith(
        "groups: 27  by year(day), month(day): Sort: f_events.day DESC NULLS FIRST, fetch=3; in this order"
    )
    assert [row[1] for row in shop.rows(sql)] == [399, 398, 397]
    assert opened(shop, sql) <= 12


COUNTED = [
    pytest.param(
        "SELECT count(*), count(tenant), min(tenant), max(tenant), count(DISTINCT tenant) FROM f_events",
        [(400, 300, "t0", "t2", 3)],
        id="of a field",
    ),
    pytest.param(
        "SELECT tenant, count(*) FROM f_events WHERE tenant > 't0' GROUP BY tenant ORDER BY 1",
        [("t1", 100), ("t2", 100)],
        id="in groups",
    ),
    pytest.param("SELECT count(*) FROM f_events WHERE tenant = 'nobody'", [(0,)], id="nothing"),
]


@pytest.mark.parametrize(("sql", "rows"), COUNTED)
def test_partition_values_and_row_counts_answer_without_reading(
    shop: Database, sql: str, rows: list[tuple[object, ...]]
) -> None:
    assert shop.rows(sql) == rows
    assert opened(shop, sql) == 0
    assert told(shop, sql, "metadata")[0][0].startswith("answered from metadata: Aggregate")


def test_a_filter_on_rows_is_not_answered_from_metadata(shop: Database) -> None:
    assert told(shop, "SELECT count(*) FROM f_events WHERE id > 7", "metadata") == []
    assert shop.rows("SELECT count(*) FROM f_events WHERE id > 7") == [(392,)]


def test_partitions_without_a_live_row_count_for_nothing(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id INT, day INT) PARTITIONED BY (day)")
    database.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
    database.run(f"DELETE FROM {table} WHERE id = 3")
    sql = f"SELECT max(day), count(*), count(DISTINCT day) FROM {table}"
    assert told(database, sql, "metadata")
    assert database.rows(sql) == [(2, 2, 2)]


def test_a_join_larger_than_memory_completes_in_groups(tmp_path: Path) -> None:
    """One group has room; two lanes at the same time do not, and then take turns."""
    engine = open_engine(tmp_path, limits=Limits(server_memory=6 << 20))
    rows = 400_000
    for name in ("a", "b"):
        engine.update(f"CREATE TABLE {name} (id BIGINT, x VARCHAR) PARTITIONED BY (bucket(16, id))")
        engine.update(
            f"INSERT INTO {name} SELECT v, concat('value ', v) FROM (SELECT unnest(range(0, {rows})) AS v) AS n"
        )
    joined = "SELECT a.id, a.x, b.x AS y FROM a JOIN b ON a.id = b.id"
    found = engine.run(Task(sql=joined, execution=QueryOptions(group_rows=0)))
    assert sum(batch.num_rows for batch in found) == rows


def test_a_list_whose_elements_become_rows_makes_no_batches_of_few_rows(tmp_path: Path) -> None:
    """A row of a batch may have a copy of a constant list, but not of one that UNNEST takes apart."""
    engine = open_engine(tmp_path)
    taken_apart, copied, named_alike = (
        max(batch.num_rows for batch in engine.run(Task(sql=sql, execution=QueryOptions())))
        for sql in (
            "SELECT unnest(range(0, 400000)) AS v",
            "SELECT unnest(range(0, 40)) AS v, range(0, 400000) AS copied",
            """SELECT unnest(range(0, 40)) AS v, range(0, 400000) AS "__unnest_placeholder(x" """,
        )
    )
    assert copied < 10
    assert named_alike < 10
    assert taken_apart > 8000
