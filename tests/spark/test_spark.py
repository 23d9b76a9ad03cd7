"""Spark itself: the format is there, its rows are right in every use of a DataFrame, its types are Spark's."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_flight_client.spark.types import arrow_schema
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.service.server_process import Server

DOCS = Path(__file__).parent.parent.parent / "client" / "docs"
PAGES = ("drivers.md", "spark-read-write.md", "spark-joins.md", "streams.md", "spark-maintenance.md")
"""In this order, since a page goes on with the tables of those before it."""
DOCUMENTED_URI = "grpc://127.0.0.1:32010"
SECRET = "5ecret"  # noqa: S105 - nobody's
PARTS = 4
ROWS = 40
PER_PART = ROWS // PARTS


def load(spark: SparkSession, server: Server, way: str = "root", **options: Any) -> DataFrame:
    place = str(server.root) if way == "root" else server.uri
    return spark.read.format("lance_flight").options(**{way: place}, **options).load()


@pytest.fixture(scope="module")
def numbers(server: Server) -> str:
    """Forty rows in four partitions."""
    data = pa.table({"id": range(ROWS), "p": [n % PARTS for n in range(ROWS)], "x": [n / 2 for n in range(ROWS)]})
    server.ingest("numbers", data, partition_by="p")
    return "numbers"


def one_side_filtered(frame: DataFrame) -> list[int]:
    return [frame.filter("p = 1").union(frame).count(), frame.union(frame.filter("p = 1")).count()]


def self_join(frame: DataFrame) -> list[int]:
    left, right = frame.filter("p = 1").alias("l"), frame.alias("r")
    return [left.join(right, "id").count(), frame.alias("a").join(frame.filter("p < 2").alias("b"), "id").count()]


def subquery(frame: DataFrame) -> list[int]:
    frame.createOrReplaceTempView("reused")
    sql = "SELECT count(*) AS n FROM reused WHERE id >= (SELECT min(id) FROM reused WHERE p = 3) AND p IN (0, 1)"
    return [frame.sparkSession.sql(sql).first().n, frame.count()]  # type: ignore[union-attr]


REUSES = {one_side_filtered: [PER_PART + ROWS] * 2, self_join: [PER_PART, 2 * PER_PART], subquery: [18, ROWS]}


def test_a_dataframe_may_be_used_again(spark: SparkSession, server: Server, numbers: str) -> None:
    for use, expected in REUSES.items():
        assert use(load(spark, server, table=numbers)) == expected, use


def test_the_options_of_one_load_are_not_those_of_another(spark: SparkSession, server: Server, numbers: str) -> None:
    whole = load(spark, server, table=numbers, partitions=4)
    assert whole.rdd.getNumPartitions() == PARTS
    some = load(spark, server, table=numbers, filter="p = 1 AND x > 4", columns="x, id")
    assert some.columns == ["x", "id"]
    both = some.join(whole, "id").select("id", "p")
    assert sorted(both.collect()) == [(n, 1) for n in range(ROWS) if n % PARTS == 1 and n > 8]
    none = load(spark, server, table=numbers, filter="p = 9")
    assert (none.columns, none.collect()) == (["id", "p", "x"], [])


def test_a_dataframe_stays_at_its_version(spark: SparkSession, server: Server, table: str) -> None:
    server.ingest(table, pa.table({"id": [1, 2, 3], "p": [1, 2, None]}), partition_by="p")
    before = {way: load(spark, server, way, table=table) for way in ("root", "uri")}
    server.ingest(table, pa.table({"id": [4], "p": [1]}), "append")
    for way, frame in before.items():
        assert load(spark, server, way, table=table).join(frame, "id", "left_anti").collect() == [(4, 1)]


EVERYTHING = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "big": pa.array([2**64 - 1, None], pa.uint64()),
        "small": pa.array([255, None], pa.uint8()),
        "half": pa.array([1.5, None], pa.float16()),
        "vector": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
        "day": pa.array([date(2025, 1, 31), None], pa.date32()),
        "clock": pa.array([time(1, 2, 3, 4), None], pa.time64("us")),
        "local": pa.array([datetime(2025, 1, 31, 12), None], pa.timestamp("ms")),
        "moment": pa.array([datetime(2025, 1, 31, 12), None], pa.timestamp("us", "Europe/Paris")),
        "lasts": pa.array([timedelta(seconds=5), None], pa.duration("s")),
        "price": pa.array([Decimal("12.34"), None], pa.decimal128(10, 2)),
        "raw": pa.array([b"\0\1", None], pa.binary()),
        "nested": pa.array([{"a": [{"b": 7}]}, None], pa.struct({"a": pa.list_(pa.struct({"b": pa.uint16()}))})),
    }
)
AS_ROW = {
    "id": 1,
    "big": Decimal(2**64 - 1),
    "small": 255,
    "half": 1.5,
    "vector": [1.0, 2.0],
    "day": date(2025, 1, 31),
    "clock": time(1, 2, 3, 4),
    "local": datetime(2025, 1, 31, 12),
    "lasts": timedelta(seconds=5),
    "price": Decimal("12.34"),
    "raw": bytearray(b"\0\1"),
}


def test_every_type_arrives(spark: SparkSession, server: Server, table: str) -> None:
    lance.write_dataset(EVERYTHING, str(server.root / f"{table}.lance"))
    direct = load(spark, server, table=table)
    first, second = direct.orderBy("id").collect()
    assert {name: first[name] for name in AS_ROW} == AS_ROW
    assert first["nested"].asDict(recursive=True) == {"a": [{"b": 7}]}
    assert [value for name, value in second.asDict().items() if name != "id"] == [None] * (len(EVERYTHING.schema) - 1)
    shown = direct.selectExpr("date_format(moment, 'yyyy-MM-dd HH:mm') AS there").first()
    assert shown is not None
    assert shown.there == "2025-01-31 07:00", "in the zone of the session"
    assert arrow_schema(direct.schema).types == EVERYTHING.schema.types
    served = load(spark, server, "uri", table=table)
    assert served.dtypes == direct.dtypes
    assert sorted(map(str, served.collect())) == sorted(map(str, direct.collect()))


def test_tables_of_sparks_own_catalog_are_refused(spark: SparkSession, server: Server, numbers: str) -> None:
    options = f"USING lance_flight OPTIONS (root '{server.root}', table '{numbers}')"
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE kept_{numbers} {options}")
    assert not spark.catalog.tableExists(f"kept_{numbers}")
    # Spark makes this one without asking; what reads it says why it cannot.
    spark.sql(f"CREATE TABLE listed_{numbers} (id BIGINT) {options}")
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
        spark.table(f"listed_{numbers}").collect()
    spark.sql(f"CREATE TEMPORARY VIEW kept_{numbers} {options}")
    assert spark.table(f"kept_{numbers}").count() == ROWS


def test_secrets_stand_in_no_plan(
    spark: SparkSession, server: Server, numbers: str, capfd: pytest.CaptureFixture[str]
) -> None:
    hidden = load(spark, server, "uri", table=numbers, token=SECRET)
    hidden.explain(extended=True)
    hidden.explain("formatted")
    assert hidden.count() == ROWS
    shown = capfd.readouterr()
    assert "lance_flight" in shown.out
    assert SECRET not in shown.out + shown.err
    with pytest.raises(PySparkException) as raised:
        load(spark, server, "uri", table="nothing", token=SECRET)
    assert SECRET not in str(raised.value)


def test_the_documented_examples_run(spark: SparkSession, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    data = pa.table(
        {
            "origin": ["JFK", "EWR", "JFK"],
            "dest": ["LAX", "ORD", "SFO"],
            "month": [6, 6, 7],
            "distance": [2475, 719, 2586],
        }
    )
    server.ingest("flights", data, partition_by="month")
    snapshot = server.value('SELECT max(version) FROM "flights$snapshots"')
    names: dict[str, Any] = {"ROOT": str(server.root), "spark": spark}
    for page in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL):
            code = block.replace(DOCUMENTED_URI, server.uri).replace("snapshot '1'", f"snapshot '{snapshot}'")
            exec(compile(code, page, "exec"), names)  # noqa: S102 - our own documentation
    printed = capsys.readouterr().out
    assert "|   JFK|    2|" in printed
    assert "|   JFK|         5061|" in printed
