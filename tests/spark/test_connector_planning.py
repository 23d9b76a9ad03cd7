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

from tests.engine.database import Database
from tests.spark.connector_results import IN_SPARK, plan_of, texts, values

NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


@pytest.fixture
def unbroadcast(sql: SparkSession) -> Iterator[SparkSession]:
    for name, value in NO_BROADCAST.items():
        sql.conf.set(name, value)
    yield sql
    for name in NO_BROADCAST:
        sql.conf.unset(name)


@pytest.fixture(scope="module", autouse=True)
def tables(database: Database) -> None:
    for name, (fields, span) in TABLES.items():
        database.ingest(name, rows(*span), partition_by=fields)


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

    def __str__(self) -> str:
        return f"{self.left} {self.how} {self.right} ON {self.on}"


JOINS = [
    Join("k_b16", "k_b8", "l.id = r.id"),
    Join("k_n16", "k_n16", "l.n = r.n", how="FULL JOIN"),
    Join("k_name_b4", "k_name", "l.name = r.name"),
    # Spark makes two keys of it.
    Join("k_n16", "k_n16", "l.n <=> r.n", is_shuffled=True),
    Join("k_days", "k_months", "l.at = r.at"),
    Join("k_b16", "k_small", "l.id = r.small", is_shuffled=True),
]


def test_a_join_of_tables_that_are_stored_alike_has_no_exchange(unbroadcast: SparkSession, database: Database) -> None:
    for join in JOINS:
        chosen = "l.id, l.small" if "SEMI" in join.how else "l.id, l.small, r.id, r.small"
        query = f"SELECT {chosen} FROM {{0}}{join.left} l {join.how} {{0}}{join.right} r ON {join.on}"
        found = unbroadcast.sql(query.format("lake."))
        expected = texts(database.rows(query.format("").replace("<=>", "IS NOT DISTINCT FROM")))
        assert values(found) == expected, join
        assert bool(re.search(r"Exchange hashpartitioning", plan_of(found))) == join.is_shuffled, (join, plan_of(found))


def test_a_group_by_of_reported_keys_has_no_exchange(sql: SparkSession, database: Database) -> None:
    query = "SELECT name, count(*), sum(id) FROM {}k_name GROUP BY name"
    found = sql.sql(query.format("lake."))
    assert "Exchange" not in plan_of(found)
    assert values(found) == texts(database.rows(query.format("")))
    session = sql.newSession()
    for name in ("lake", "lake.root", "lake.python"):
        session.conf.set(f"spark.sql.catalog.{name}", str(sql.conf.get(f"spark.sql.catalog.{name}")))
    session.conf.set("spark.sql.catalog.lake.groups", "4")
    assert "Exchange" in plan_of(session.sql(query.format("lake.")))


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_a_small_table_is_broadcast_and_its_keys_prune_the_other(
    sql: SparkSession, database: Database, catalog: str
) -> None:
    joined = f"SELECT count(*) FROM {catalog}.k_b16 l JOIN {catalog}.k_months r ON l.small = r.small"
    for most, is_broadcast in (("20000", True), ("200", False)):
        sql.conf.set("spark.sql.autoBroadcastJoinThreshold", most)
        assert ("BroadcastHashJoin" in plan_of(sql.sql(joined))) == is_broadcast
    sql.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    query = "SELECT count(*), sum(l.id) FROM {0}k_b16 l JOIN {0}k_name r ON l.id = r.id WHERE r.x < 3 AND r.name = 'k2'"
    found = sql.sql(query.format(f"{catalog}."))
    assert "dynamicpruning" in plan_of(found)
    assert [tuple(row) for row in found.collect()] == database.rows(query.format(""))
