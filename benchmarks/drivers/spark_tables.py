"""Tables of TPC-H in Spark, each engine in a session of its own: loads, queries, a join by buckets, a MERGE, a compaction.

They run in the environment of their engine: pyspark is all that is always there.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
BUCKETS = 8
FIRST, LAST = "1995-03-01", "1995-04-01"
PRICES = ("count(*) AS n", "sum(l_extendedprice) AS price")
Q1 = """SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS price,
 sum(l_extendedprice * (1 - l_discount)) AS discounted, count(*) AS n
 FROM {months} WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus"""
JOINED = ("o_orderdate", "l_extendedprice")
JOIN = "SELECT o_orderdate, l_extendedprice FROM {orders} JOIN {lines} ON o_orderkey = l_orderkey"
TOTALS = (*PRICES, "max(o_orderdate) AS last")
MERGE = """MERGE INTO {lines} AS t USING changed AS n ON t.l_orderkey = n.l_orderkey AND t.l_linenumber = n.l_linenumber
 WHEN MATCHED THEN UPDATE SET l_quantity = n.l_quantity"""
AFTER = "SELECT count(*) AS n, sum(l_quantity) AS quantity FROM {lines}"


class Unsupported(Exception):
    """The engine has no such operation."""


class SparkTables:
    """Tables of an engine in the catalog `lake`; an operation that is not overridden is said in SQL that all of them know."""

    packages: ClassVar[tuple[str, ...]] = ()
    settings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    using: ClassVar[str] = ""
    by_month: ClassVar[str] = ""
    by_bucket: ClassVar[str] = ""
    table: ClassVar[str] = "lake.bench.{name}"

    def __init__(self, place: Path) -> None:
        self.place = place
        self.names = {name: self.table.format(name=name, place=place) for name in ("months", "orders", "lines")}
        self.spark = self.start()

    def start(self) -> SparkSession:
        """Start the session."""
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        builder = SparkSession.builder.master("local[2]").appName("benchmarks")
        own = {name: text.format(place=self.place) for name, text in self.settings.items()}
        if self.packages:
            own["spark.jars.packages"] = ",".join(self.packages)
        for name, value in {**SETTINGS, "spark.sql.warehouse.dir": f"{self.place}/warehouse", **own}.items():
            builder = builder.config(name, value)
        return self.configured(builder).getOrCreate()

    def configured(self, builder: SparkSession.Builder) -> SparkSession.Builder:
        """Return the builder with what is the engine's own."""
        return builder

    def load_months(self, rows: str) -> None:
        """Store line items by year and month."""
        self._create("months", f"SELECT * FROM parquet.`{rows}/lineitem.parquet`", self.by_month)

    def load_buckets(self, rows: str) -> None:
        """Store orders and line items in buckets of the order's key."""
        for name, file, key in (("orders", "orders", "o_orderkey"), ("lines", "lineitem", "l_orderkey")):
            self._create(name, f"SELECT * FROM parquet.`{rows}/{file}.parquet`", self.by_bucket.format(key=key))

    def _create(self, name: str, query: str, by: str) -> None:
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        self.spark.sql(f"DROP TABLE IF EXISTS {self.names[name]}")
        partitioned = f"PARTITIONED BY ({by})" * bool(by)
        self.spark.sql(f"CREATE TABLE {self.names[name]} USING {self.using} {partitioned} AS {query}")

    def month(self) -> DataFrame:
        """Return the totals of one month, chosen by `df.filter`."""
        return self.chosen(self.spark.table(self.names["months"])).selectExpr(*PRICES)

    def chosen(self, months: DataFrame) -> DataFrame:
        """Return the rows of the month."""
        return months.filter(f"l_shipdate >= DATE '{FIRST}' AND l_shipdate < DATE '{LAST}'")

    def q1(self) -> DataFrame:
        """Return the answer to TPC-H's first question, without its averages."""
        return self.spark.sql(Q1.format(**self.names))

    def join(self) -> DataFrame:
        """Return the totals of orders with their line items."""
        return self.spark.sql(JOIN.format(**self.names)).selectExpr(*TOTALS)

    def merge(self, rows: str) -> None:
        """Change the quantity of one line item in a hundred."""
        lines = self.spark.read.parquet(f"{rows}/lineitem.parquet")
        one = lines.where("l_orderkey % 100 = 7").selectExpr(
            "l_orderkey", "l_linenumber", "l_quantity + 1 AS l_quantity"
        )
        one.createOrReplaceTempView("changed")
        self.spark.sql(MERGE.format(**self.names))

    def merged(self) -> DataFrame:
        """Return what the MERGE has left."""
        return self.spark.sql(AFTER.format(**self.names))

    def compact(self) -> None:
        """Write small files together."""
        raise Unsupported


class Iceberg(SparkTables):
    packages = ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",)
    using = "iceberg"
    by_month = "months(l_shipdate)"
    by_bucket = f"bucket({BUCKETS}, {{key}})"
    settings = MappingProxyType(
        {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": "{place}/iceberg",
            "spark.sql.sources.v2.bucketing.enabled": "true",
            "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
            "spark.sql.iceberg.planning.preserve-data-grouping": "true",
            "spark.sql.requireAllClusterKeysForCoPartition": "false",
        }
    )

    def compact(self) -> None:
        self.spark.sql(
            "CALL lake.system.rewrite_data_files(table => 'bench.lines', options => map('rewrite-all', 'true'))"
        ).collect()


class Delta(SparkTables):
    packages = ("io.delta:delta-spark_4.1_2.13:4.4.0",)
    table = "delta.`{place}/{name}`"
    settings = MappingProxyType(
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalogImplementation": "in-memory",
        }
    )

    def load_months(self, rows: str) -> None:
        # Its partitions are columns of their own, which a query has to name.
        columns = "*, year(l_shipdate) AS y, month(l_shipdate) AS m"
        self._create("months", f"SELECT {columns} FROM parquet.`{rows}/lineitem.parquet`", "y, m")

    def _create(self, name: str, query: str, by: str) -> None:
        shutil.rmtree(self.place / name, ignore_errors=True)
        partitioned = f"PARTITIONED BY ({by})" * bool(by)
        self.spark.sql(f"CREATE TABLE {self.names[name]} USING delta {partitioned} AS {query}")

    def chosen(self, months: DataFrame) -> DataFrame:
        return super().chosen(months.filter("y = 1995 AND m = 3"))

    def compact(self) -> None:
        self.spark.sql(f"OPTIMIZE {self.names['lines']}").collect()
