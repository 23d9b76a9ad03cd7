"""Plans and rows of pushed-down statements in Spark: what is answered from metadata, by a server, or read.

Results are those of the same statement over a copy of the rows that Spark holds itself. Which aggregates, limits and conditions
the connector takes is tested without a JVM: `test_connector_aggregates`, `test_connector_conditions`.
"""

from __future__ import annotations

import re

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.engine.database import Database
from tests.selection import IS_FULL
from tests.spark.connector_results import IN_SPARK, plan_of, values
from tests.spark.statements import BY_SPARK, BY_THE_SERVER, FROM_METADATA, PRUNED


@pytest.fixture(scope="module", autouse=True)
def copies(sql: SparkSession, offered: Database) -> None:
    """Views of the rows of `typed` and `days` that Spark holds."""
    for name in ("typed", "days"):
        rows = offered.query(f"SELECT * FROM {name}")
        frame = sql.table(f"lake.{name}")
        assert frame.count() == rows.num_rows
        sql.createDataFrame(frame.collect(), frame.schema).createOrReplaceTempView(f"{name}_copy")


def both(sql: SparkSession, catalog: str, statement: str) -> tuple[DataFrame, DataFrame]:
    """A statement over a catalog, and over Spark's own copy."""
    source = re.compile(r"\bFROM (\w+)")
    return sql.sql(source.sub(rf"FROM {catalog}.\1", statement)), sql.sql(source.sub(r"FROM \1_copy", statement))


def scans(found: DataFrame) -> int:
    """How many scans of a plan have tasks."""
    return len(re.findall(r"BatchScan", plan_of(found)))


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_aggregates_from_metadata_have_no_task_and_the_types_of_spark(sql: SparkSession, catalog: str) -> None:
    for statement in FROM_METADATA if IS_FULL else FROM_METADATA[3:5] + FROM_METADATA[14:17:2]:
        found, expected = both(sql, catalog, statement)
        assert scans(found) == 0, plan_of(found)
        assert "LocalTableScan" in plan_of(found)
        assert (found.columns, found.dtypes) == (expected.columns, expected.dtypes)
        assert values(found) == values(expected)


def test_aggregates_of_rows_are_computed_by_a_server_or_by_spark(sql: SparkSession) -> None:
    for statement in BY_THE_SERVER if IS_FULL else BY_THE_SERVER[:4:3]:
        found, expected = both(sql, "far", statement)
        assert "Aggregate" not in plan_of(found)
        assert found.rdd.getNumPartitions() == 1
        assert values(found) == values(expected)
    for statement in BY_SPARK if IS_FULL else BY_SPARK[3:4] + BY_SPARK[-1:]:
        found, expected = both(sql, "lake", statement)
        assert scans(found) >= 1, plan_of(found)
        assert values(found) == values(expected)


LIMITS = [
    ("SELECT id FROM typed WHERE month = 2 LIMIT 4 OFFSET 3", 4),
    ("SELECT id FROM typed WHERE id > 80 LIMIT 800", None),
    ("SELECT l.id FROM (SELECT id FROM typed WHERE month = 1 LIMIT 30) l JOIN (SELECT id FROM typed) r ON l.id = r.id", None),
    *([("SELECT * FROM typed LIMIT 4", 4), ("SELECT id FROM typed LIMIT 0", 0)] if IS_FULL else []),
]  # fmt: skip


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_a_limit_leaves_as_many_rows_as_it_says(sql: SparkSession, catalog: str) -> None:
    for statement, rows in LIMITS:
        found = values(both(sql, catalog, statement)[0])
        whole = values(both(sql, catalog, re.sub(r" LIMIT \d+( OFFSET \d+)?", "", statement))[1])
        assert set(found) <= set(whole)
        assert len(set(found)) == len(found) == (len(whole) if rows is None else rows)
    if catalog == "lake":
        some = sql.table("lake.typed").where("month = 2").limit(3)
        assert len(some.collect()) == read_by_scan(some) == 3


def read_by_scan(found: DataFrame) -> int:
    """How many rows the scan of a plan that was run has returned."""
    leaves = found._jdf.queryExecution().executedPlan().collectLeaves()
    metric = leaves.apply(0).metrics().get("numOutputRows")
    return int(metric.get().value())


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_spark_looks_again_at_what_the_connector_does_not_decide(sql: SparkSession, catalog: str) -> None:
    for where, (uses, partitions) in PRUNED["typed"].items():
        found = sql.table(f"{catalog}.typed").filter(where)
        assert ("Filter (" in plan_of(found)) == ("part" in uses and catalog == "lake"), plan_of(found)
        assert catalog == "far" or f"partitions: {partitions} " in plan_of(found)
    ours, copy = (sql.table(name).filter("month = 1 AND id > 20") for name in (f"{catalog}.typed", "typed_copy"))
    assert values(ours) == values(copy)
