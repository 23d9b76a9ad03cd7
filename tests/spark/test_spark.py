"""Spark itself: the format is there, its rows are right in every use of a DataFrame, its types are Spark's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
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
