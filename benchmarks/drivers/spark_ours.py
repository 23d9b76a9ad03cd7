"""Our tables in Spark: through the connector's catalog, and by the format and its options."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import MappingProxyType

from lance_flight_client.spark import configure, maintenance
from lance_flight_client.spark.partition_wise import partition_wise_join
from pyspark.sql import DataFrame, SparkSession

from benchmarks.drivers.spark_tables import BUCKETS, FIRST, JOINED, LAST, PRICES, Q1, TOTALS, SparkTables, Unsupported


class Connector(SparkTables):
    """Our tables through the connector's catalog."""

    using = "lance_flight"
    by_month = "year(l_shipdate), month(l_shipdate)"
    by_bucket = f"bucket({BUCKETS}, {{key}})"
    settings = MappingProxyType({"spark.python.daemon.module": "lance_flight_client.spark.daemon"})

    @property
    def root(self) -> Path:
        root = self.place / "root"
        root.mkdir(exist_ok=True)
        return root

    def configured(self, builder: SparkSession.Builder) -> SparkSession.Builder:
        return configure(builder, lake=str(self.root))

    def compact(self) -> None:
        maintenance.compact(self.spark, str(self.root), "bench.lines")


class Options(Connector):
    """Our tables by `format("lance_flight")` and its options, without the connector."""

    def configured(self, builder: SparkSession.Builder) -> SparkSession.Builder:
        return builder

    def _create(self, name: str, query: str, by: str) -> None:
        shutil.rmtree(self.root / name, ignore_errors=True)
        writer = self.spark.sql(query).write.format("lance_flight").mode("append")
        writer.options(root=str(self.root), table=name, partition_by=by).save()

    def _table(self, name: str, **options: str) -> DataFrame:
        return self.spark.read.format("lance_flight").options(root=str(self.root), table=name, **options).load()

    def month(self) -> DataFrame:
        found = self._table(
            "months",
            filter=f"l_shipdate >= DATE '{FIRST}' AND l_shipdate < DATE '{LAST}'",
            columns="l_extendedprice",
        )
        return found.selectExpr(*PRICES)

    def q1(self) -> DataFrame:
        columns = "l_returnflag, l_linestatus, l_quantity, l_extendedprice, l_discount"
        self._table("months", filter="l_shipdate <= DATE '1998-09-02'", columns=columns).createOrReplaceTempView(
            "chosen"
        )
        return self.spark.sql(Q1.format(months="chosen").replace("WHERE l_shipdate <= DATE '1998-09-02'", ""))

    def join(self) -> DataFrame:
        sides = (
            {"root": str(self.root), "table": "orders", "columns": "o_orderkey, o_orderdate"},
            {"root": str(self.root), "table": "lines", "columns": "l_orderkey, l_extendedprice"},
        )
        joined = partition_wise_join(self.spark, *sides, [("o_orderkey", "l_orderkey")], columns=JOINED)
        return joined.selectExpr(*TOTALS)

    def merge(self, rows: str) -> None:
        raise Unsupported

    def merged(self) -> DataFrame:
        raise Unsupported

    def compact(self) -> None:
        maintenance.compact(self.spark, str(self.root), "lines")
