"""What the connector tells Spark's planner: keys of tasks (joins without an exchange), sizes, and filters at run time.

Results are those of the server's own SQL.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.spark.connector_results import plan_of, texts, values

NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


@pytest.fixture
def unbroadcast(sql: SparkSession) -> Iterator[SparkSession]:
    for name, value in NO_BROADCAST.items():
        sql.conf.set(name, value)
    yield sql
    for name in NO_BROADCAST:
        sql.conf.unset(name)


@pytest.fixture(scope="module")
def tables(server: Server) -> None:
    for name, (fields, span) in TABLES.items():
        server.ingest(name, rows(*span), partition_by=fields)


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "small": pa.array([n % 1000 for n in ids], pa.int32()),
            "name": [f"k{n % 7}" for n in ids],
            "x": [n / 3 for n in ids],
            "at": pa.array([dt.datetime(2025, 1, 1) + n * dt.timedelta(hours=7) for n in ids], pa.timestamp("us")),
            "n": pa.array([None if n % 10 == 0 else n for n in ids], pa.int64()),
        }
    )


TABLES = {
    "k_b16": ("bucket(16, id)", (-300, 900)),
    "k_b8": ("bucket(8, id)", (-100, 500)),
    "k_b12": ("bucket(12, id)", (0, 700)),
    "k_n16": ("bucket(16, n)", (0, 400)),
    "k_name": ("name", (0, 200)),
    "k_name_b4": ("name, bucket(4, id)", (100, 400)),
    "k_days": ("year(at), month(at), day(at)", (0, 120)),
    "k_months": ("year(at), month(at)", (50, 150)),
    "k_small": ("bucket(16, small)", (0, 300)),
}


@dataclass(frozen=True)
class Join:
    left: str
    right: str
    on: str
    is_shuffled: bool = False
    how: str = "JOIN"


JOINS = {
    "same": Join("k_b16", "k_b16", "l.id = r.id"),
    "divides": Join("k_b16", "k_b8", "l.id = r.id"),
    "divided": Join("k_b8", "k_b16", "l.id = r.id"),
    "common-divisor": Join("k_b16", "k_b12", "l.id = r.id"),
    "left": Join("k_b16", "k_b8", "l.id = r.id", how="LEFT JOIN"),
    "full": Join("k_b16", "k_b8", "l.id = r.id", how="FULL JOIN"),
    "semi": Join("k_b8", "k_b16", "l.id = r.id", how="LEFT SEMI JOIN"),
    "null-keys": Join("k_n16", "k_n16", "l.n = r.n", how="FULL JOIN"),
    # Spark makes two keys of it.
    "null-safe": Join("k_n16", "k_n16", "l.n <=> r.n", is_shuffled=True),
    "identity": Join("k_name", "k_name", "l.name = r.name AND l.id = r.id"),
    "subset": Join("k_name_b4", "k_name_b4", "l.name = r.name"),
    "subset-of-one": Join("k_name_b4", "k_name", "l.name = r.name"),
    "days": Join("k_days", "k_days", "l.at = r.at"),
    "days-months": Join("k_days", "k_months", "l.at = r.at"),
    "other-column": Join("k_b16", "k_b8", "l.small = r.small", is_shuffled=True),
    "other-type": Join("k_b16", "k_small", "l.id = r.small", is_shuffled=True),
}


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("case", JOINS)
def test_a_join_of_tables_that_are_stored_alike_has_no_exchange(
    unbroadcast: SparkSession, server: Server, case: str
) -> None:
    join = JOINS[case]
    chosen = "l.id, l.small" if "SEMI" in join.how else "l.id, l.small, r.id, r.small"
    query = f"SELECT {chosen} FROM {{0}}{join.left} l {join.how} {{0}}{join.right} r ON {join.on}"
    found = unbroadcast.sql(query.format("lake."))
    assert values(found) == texts(server.rows(query.format("").replace("<=>", "IS NOT DISTINCT FROM")))
    assert bool(re.search(r"Exchange hashpartitioning", plan_of(found))) == join.is_shuffled, plan_of(found)


@pytest.mark.usefixtures("tables")
def test_a_group_by_of_the_keys_has_no_exchange(sql: SparkSession, server: Server) -> None:
    found = sql.sql("SELECT name, count(*), sum(id) FROM lake.k_name GROUP BY name")
    assert "Exchange" not in plan_of(found)
    assert values(found) == texts(server.rows("SELECT name, count(*), sum(id) FROM k_name GROUP BY name"))


@pytest.mark.usefixtures("tables")
def test_other_keys_are_not_reported(sql: SparkSession) -> None:
    session = sql.newSession()
    for name in ("lake", "lake.root", "lake.python"):
        session.conf.set(f"spark.sql.catalog.{name}", str(sql.conf.get(f"spark.sql.catalog.{name}")))
    session.conf.set("spark.sql.catalog.lake.groups", "4")
    assert "Exchange" in plan_of(session.sql("SELECT name, sum(id) FROM lake.k_name GROUP BY name"))


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("catalog", ["lake", "far"])
def test_a_small_table_is_broadcast(sql: SparkSession, catalog: str) -> None:
    sql.conf.set("spark.sql.autoBroadcastJoinThreshold", "20000")
    try:
        found = sql.sql(f"SELECT count(*) FROM {catalog}.k_b16 l JOIN {catalog}.k_months r ON l.small = r.small")
        assert "BroadcastHashJoin" in plan_of(found)
        sql.conf.set("spark.sql.autoBroadcastJoinThreshold", "200")
        found = sql.sql(f"SELECT count(*) FROM {catalog}.k_b16 l JOIN {catalog}.k_months r ON l.small = r.small")
        assert "BroadcastHashJoin" not in plan_of(found)
    finally:
        sql.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("catalog", ["lake", "far"])
def test_the_keys_of_a_filtered_side_prune_the_other(sql: SparkSession, server: Server, catalog: str) -> None:
    query = "SELECT count(*), sum(l.id) FROM {0}k_b16 l JOIN {0}k_name r ON l.id = r.id WHERE r.x < 3 AND r.name = 'k2'"
    found = sql.sql(query.format(f"{catalog}."))
    assert "dynamicpruning" in plan_of(found)
    assert [tuple(row) for row in found.collect()] == server.rows(query.format(""))
