"""Joins and aggregates in groups in Spark: the same rows as Spark's own, and no shuffle. Their groups are tested in `test_groups`."""

from __future__ import annotations

import logging

import pytest
from lance_flight.errors import SchemaError
from lance_flight_client.spark.partition_wise import partition_wise_aggregate, partition_wise_join
from pyspark.sql import DataFrame, SparkSession, functions

from tests.spark.connector_results import plan_of


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


def by_spark(spark: SparkSession, shop: dict[str, dict[str, str]], how: str) -> DataFrame:
    left, right = (spark.read.format("lance_flight").options(**shop[name]).load() for name in ("orders", "customers"))
    return left.join(right, ["customer"], how)


def test_a_join_in_groups_is_sparks_join_without_an_exchange(
    spark: SparkSession, shop: dict[str, dict[str, str]]
) -> None:
    found = partition_wise_join(spark, shop["orders"], shop["customers"], "customer", "full")
    expected = by_spark(spark, shop, "full")
    assert found.columns == expected.columns
    assert "Exchange" not in plan_of(found)
    # A data source would be planned again, in processes of its own.
    assert "BatchScan" in plan_of(expected)
    assert "BatchScan" not in plan_of(found)
    assert found.rdd.getNumPartitions() == spark.sparkContext.defaultParallelism == 2
    assert rows_of(found) == rows_of(expected)
    assert found.count() > 0


def test_groups_are_dealt_out_to_tasks_and_each_is_joined_once(
    spark: SparkSession, shop: dict[str, dict[str, str]]
) -> None:
    found = partition_wise_join(spark, shop["orders"], shop["customers"], "customer", "full", tasks=3)
    assert found.rdd.getNumPartitions() == 3
    assert rows_of(found) == rows_of(by_spark(spark, shop, "full"))
    placed = found.select("customer", functions.spark_partition_id().alias("task")).distinct()
    assert placed.groupBy("customer").count().where("count > 1").count() == 0


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
    "in groups": ("orders", "customer", "full", "customer id_l total_l id_r total_r"),
    "by Spark": (
        "plain_orders",
        [("customer", "customer")],
        "left",
        "id_l customer_l total_l id_r customer_r total_r",
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
    orders, names = shop["orders"], ["id_r", "customer", "total_l"]
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
        found = partition_wise_join(spark, shop["orders"], shop["plain_customers"], "customer")
    assert "joined by Spark: shop_plain_customers is not partitioned" in caplog.text
    assert rows_of(found) == rows_of(by_spark(spark, shop, "inner"))


def test_a_group_by_of_the_key_needs_no_exchange(spark: SparkSession, shop: dict[str, dict[str, str]]) -> None:
    aggregates = {"n": ("id", "count"), "most": ("total", "max"), "all": ("total", "sum"), "avg": ("total", "mean")}
    found = partition_wise_aggregate(spark, shop["orders"], "customer", aggregates)
    assert "Exchange" not in plan_of(found)
    spark.read.format("lance_flight").options(**shop["orders"]).load().createOrReplaceTempView("orders_view")
    expected = spark.sql(
        "SELECT customer, count(id) AS n, max(total) AS most, sum(total) AS all, avg(total) AS avg "
        "FROM orders_view GROUP BY customer"
    )
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert rows_of(found) == rows_of(expected)
