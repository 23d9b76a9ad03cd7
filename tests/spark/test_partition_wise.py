"""Joins and aggregates in groups in Spark: the same rows as Spark's own, and no shuffle. Their groups are tested in `test_groups`."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from lance_flight.errors import SchemaError
from lance_flight_client.spark.partition_wise import partition_wise_aggregate, partition_wise_join
from pyspark.sql import DataFrame, SparkSession, functions

from tests.selection import IS_FULL
from tests.service.server_process import Server


@pytest.fixture(scope="module")
def shop(server: Server, root: Path) -> dict[str, dict[str, str]]:
    """Orders in 16 buckets and customers in 8, with keys that are missing, NULL, and alone; orders by day; and a plain table."""
    server.run(
        "CREATE TABLE w_orders (id BIGINT, customer INT, total BIGINT, vec VARCHAR) PARTITIONED BY (bucket(16, customer))"
    )
    server.run("CREATE TABLE w_customers (customer BIGINT, name VARCHAR) PARTITIONED BY (bucket(8, customer))")
    server.run("CREATE TABLE w_plain (customer BIGINT, name VARCHAR)")
    server.run(
        "INSERT INTO w_orders SELECT v, CASE WHEN v % 9 = 0 THEN NULL ELSE v % 50 END, v * 10, concat('o', v) "
        "FROM (SELECT unnest(range(0, 200)) AS v) AS n"
    )
    for name in ("w_customers", "w_plain"):
        server.run(
            f"INSERT INTO {name} SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE v END, concat('c', v) "
            "FROM (SELECT unnest(range(20, 70)) AS v) AS n"
        )
    server.run("DELETE FROM w_orders WHERE id % 13 = 0")
    server.run("CREATE TABLE w_plain_orders AS SELECT * FROM w_orders")
    return {
        name: {"root": str(root), "table": f"w_{name}"} for name in ("orders", "customers", "plain", "plain_orders")
    }


def plan_of(frame: DataFrame) -> str:
    """The physical plan."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


def by_spark(spark: SparkSession, shop: dict[str, dict[str, str]], how: str) -> DataFrame:
    left, right = (spark.read.format("lance_flight").options(**shop[name]).load() for name in ("orders", "customers"))
    return left.join(right, ["customer"], how)


@pytest.mark.parametrize("how", ["full", *(["semi", "inner", "left", "right", "anti"] if IS_FULL else [])])
def test_a_join_in_groups_is_sparks_join_without_an_exchange(
    spark: SparkSession, shop: dict[str, dict[str, str]], how: str
) -> None:
    found = partition_wise_join(spark, shop["orders"], shop["customers"], "customer", how)
    expected = by_spark(spark, shop, how)
    assert found.columns == expected.columns
    assert "Exchange" not in plan_of(found)
    # A data source would be planned again, in processes of its own.
    assert "BatchScan" in plan_of(expected)
    assert "BatchScan" not in plan_of(found)
    assert found.rdd.getNumPartitions() == spark.sparkContext.defaultParallelism == 2
    assert rows_of(found) == rows_of(expected)
    assert found.count() > 0


@pytest.mark.parametrize(("tasks", "used"), [(3, 3), *([(1, 1), (100, 9)] if IS_FULL else [])])
def test_groups_are_dealt_out_to_tasks_and_each_is_joined_once(
    spark: SparkSession, shop: dict[str, dict[str, str]], tasks: int, used: int
) -> None:
    found = partition_wise_join(spark, shop["orders"], shop["customers"], "customer", "full", tasks=tasks)
    # 8 buckets, and the partitions of NULL.
    assert found.rdd.getNumPartitions() == used
    assert rows_of(found) == rows_of(by_spark(spark, shop, "full"))
    placed = found.select("customer", functions.spark_partition_id().alias("task")).distinct()
    assert placed.groupBy("customer").count().where("count > 1").count() == 0


def test_pairs_of_names_filters_columns_and_conditions(spark: SparkSession, shop: dict[str, dict[str, str]]) -> None:
    customers = shop["customers"] | {"filter": "name > 'c3'"}
    renamed = shop["orders"] | {"columns": "id, customer, total"}
    found = partition_wise_join(
        spark,
        renamed,
        customers | {"columns": "name, customer"},
        ["customer"],
        columns=["id", "name"],
        where="total > 500",
    )
    assert found.columns == ["id", "name"]
    assert "Exchange" not in plan_of(found)
    expected = by_spark(spark, shop, "inner").where("total > 500 AND name > 'c3'").select("id", "name")
    assert rows_of(found) == rows_of(expected)


def test_expressions_may_be_chosen_and_names_of_both_sides_may_not(
    spark: SparkSession, shop: dict[str, dict[str, str]]
) -> None:
    orders, customers = shop["orders"], shop["customers"]
    found = partition_wise_join(spark, orders, customers, "customer", columns=["TOTAL", "*"])
    assert rows_of(found) == rows_of(by_spark(spark, shop, "inner").select("TOTAL", "*"))
    both = partition_wise_join(spark, orders, customers, [("customer", "customer")], columns=["name"])
    assert rows_of(both) == rows_of(by_spark(spark, shop, "inner").select("name"))
    with pytest.raises(SchemaError, match="'customer' is there twice"):
        partition_wise_join(spark, orders, customers, [("customer", "customer")], columns=["customer"])


SUFFIXED = {
    "in groups": ("orders", "customer", "full", "customer id_l total_l vec_l id_r total_r vec_r"),
    "by Spark": (
        "plain_orders",
        [("customer", "customer")],
        "left",
        "id_l customer_l total_l vec_l id_r customer_r total_r vec_r",
    ),
}


@pytest.mark.parametrize(("right", "on", "how", "expected"), SUFFIXED.values(), ids=SUFFIXED)
def test_suffixes_tell_apart_the_columns_that_both_sides_have(
    spark: SparkSession,
    shop: dict[str, dict[str, str]],
    right: str,
    *,
    on: str | list[tuple[str, str]],
    how: str,
    expected: str,
) -> None:
    found = partition_wise_join(spark, shop["orders"], shop[right], on, how, suffixes=("_l", "_r"))
    assert found.columns == expected.split()
    assert ("Exchange" in plan_of(found)) == (right == "plain_orders")
    frames = [spark.read.format("lance_flight").options(**shop["orders"]).load().alias(side) for side in "lr"]
    keys = functions.col("l.customer") == functions.col("r.customer")
    joined = frames[0].join(frames[1], ["customer"] if on == "customer" else keys, how)
    assert rows_of(found) == rows_of(joined)
    assert found.count() > 0


def test_suffixed_names_are_those_of_columns_and_conditions(
    spark: SparkSession, shop: dict[str, dict[str, str]]
) -> None:
    orders, names = shop["orders"], ["id_r", "customer", "vec_l"]
    found = partition_wise_join(
        spark, orders, orders, "customer", columns=names, where="id_l < id_r", suffixes=("_l", "_r")
    )
    some = partition_wise_join(spark, orders, orders, "customer", columns=["id_l", "id_r"], suffixes=("_l", "_r"))
    assert (found.columns, some.columns) == (names, ["id_l", "id_r"])
    assert found.count() == some.where("id_l < id_r").count() > 0


def test_tables_that_are_not_partitioned_alike_are_joined_by_spark(
    spark: SparkSession, shop: dict[str, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = partition_wise_join(spark, shop["orders"], shop["plain"], "customer")
    assert "joined by Spark: w_plain is not partitioned" in caplog.text
    assert rows_of(found) == rows_of(by_spark(spark, shop, "inner"))


def test_a_group_by_of_the_key_needs_no_exchange(spark: SparkSession, shop: dict[str, dict[str, str]]) -> None:
    aggregates = {"n": ("id", "count"), "most": ("total", "max"), "all": ("total", "sum"), "avg": ("total", "mean")}
    found = partition_wise_aggregate(spark, shop["orders"], "customer", aggregates)
    assert "Exchange" not in plan_of(found)
    spark.read.format("lance_flight").options(**shop["orders"]).load().createOrReplaceTempView("w_orders_view")
    expected = spark.sql(
        "SELECT customer, count(id) AS n, max(total) AS most, sum(total) AS all, avg(total) AS avg "
        "FROM w_orders_view GROUP BY customer"
    )
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert rows_of(found) == rows_of(expected)


def test_a_group_by_of_another_column_is_sparks(
    spark: SparkSession, shop: dict[str, dict[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = partition_wise_aggregate(spark, shop["orders"], "vec", {"n": ("id", "count")})
    assert "grouped by Spark: w_orders has no partition field of vec alone" in caplog.text
    assert found.count() == 184


def test_a_join_stays_at_the_versions_that_it_was_made_of(
    spark: SparkSession, server: Server, root: Path, table: str
) -> None:
    server.run(f"CREATE TABLE {table} (k INT, x INT) PARTITIONED BY (bucket(4, k))")
    server.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3), (7, 7)")
    options = {"root": str(root), "table": table}
    found = partition_wise_join(spark, options, options | {"columns": "k"}, "k", "semi")
    before = found.count()
    server.run(f"INSERT INTO {table} VALUES (4, 4), (5, 5)")
    assert (before, found.count()) == (4, 4)


def test_a_join_without_groups_has_no_rows(spark: SparkSession, shop: dict[str, dict[str, str]]) -> None:
    nothing = shop["customers"] | {"filter": "customer = 21 AND customer = 22"}
    assert partition_wise_join(spark, shop["orders"], nothing, "customer").count() == 0
