"""What the connector answers from metadata: aggregates without a task that reads rows, limits, and conditions that Spark need not look at again.

Results are those of the same statement over a copy of the rows that Spark holds itself.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.service.server_process import Server
from tests.spark.connector_results import CATALOGS, plan_of, texts, values
from tests.spark.tables import SHAPES

NAME = "pushed_down"
COPY = "pushed_down_copy"


def typed(start: int, stop: int) -> pa.Table:
    """Rows with a partition column of each type, and others."""
    ids = range(start, stop)
    day = dt.datetime(2025, 1, 1)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "region": pa.array([None if n % 5 == 0 else f"r{n % 5}" for n in ids]),
            "month": pa.array([n % 3 for n in ids], pa.int8()),
            "day": pa.array([dt.date(2025, 1, 1 + n % 2) for n in ids], pa.date32()),
            "at": pa.array([day + dt.timedelta(hours=n % 2) for n in ids], pa.timestamp("us", "UTC")),
            "plain_at": pa.array([day - dt.timedelta(days=40_000 * (n % 2)) for n in ids], pa.timestamp("us")),
            "price": pa.array([Decimal(n % 2) / 4 for n in ids], pa.decimal128(10, 2)),
            "raw": pa.array([b"\x00\xff" if n % 2 else None for n in ids], pa.binary()),
            "small": pa.array([2**32 - 1 - n % 2 for n in ids], pa.uint32()),
            "flag": pa.array([n % 2 == 0 for n in ids]),
            "x": pa.array([float("nan") if n % 7 == 0 else -0.0 if n % 3 == 0 else n / 4 for n in ids]),
            "s": [{"a": n} for n in ids],
        }
    )


PARTITIONED_BY = "region, month, day, at, plain_at, price, raw, small, flag"


@pytest.fixture(scope="module", autouse=True)
def _rows(sql: SparkSession, server: Server) -> None:
    server.ingest(NAME, typed(0, 60), partition_by=PARTITIONED_BY)
    server.ingest(NAME, typed(60, 90), "append")
    server.run(f"DELETE FROM {NAME} WHERE id IN (1, 2, 3)")
    # Nothing is left of some partitions, whose tables are still listed.
    server.run(f"DELETE FROM {NAME} WHERE region = 'r4' AND id % 2 = 0")
    rows = sql.table(f"lake.{NAME}")
    sql.createDataFrame(rows.collect(), rows.schema).createOrReplaceTempView(COPY)


def scans(found: DataFrame) -> int:
    """How many scans of a plan have tasks."""
    return len(re.findall(r"BatchScan", plan_of(found)))


FROM_METADATA = {
    "rows": "SELECT count(*) FROM {0}",
    "one": "SELECT count(1), count(*) + 1 FROM {0}",
    "column": "SELECT count(region), count(raw), count(month) FROM {0}",
    "distinct": "SELECT count(DISTINCT region), count(DISTINCT day) FROM {0}",
    "least": "SELECT min(region), min(month), min(day), min(at), min(plain_at), min(price), min(raw), min(small), min(flag) FROM {0}",
    "most": "SELECT max(region), max(month), max(day), max(at), max(plain_at), max(price), max(raw), max(small), max(flag) FROM {0}",
    "computed": "SELECT max(month) - min(month) AS span FROM {0}",
    "where": "SELECT count(*), min(region) FROM {0} WHERE month = 2",
    "in": "SELECT count(*), max(day) FROM {0} WHERE region IN ('r1', 'r2')",
    "null": "SELECT count(*), count(region) FROM {0} WHERE region IS NULL",
    "null-safe": "SELECT count(*) FROM {0} WHERE region <=> 'r3'",
    "not": "SELECT count(*) FROM {0} WHERE NOT (region = 'r1' OR month = 1)",
    "range": "SELECT count(*) FROM {0} WHERE day >= DATE '2025-01-02' AND price < 0.2",
    "nothing": "SELECT count(*), min(month), count(DISTINCT region) FROM {0} WHERE region = 'none'",
    "by-key": "SELECT region, count(*) FROM {0} GROUP BY region",
    "by-keys": "SELECT month + 1 AS next, day, count(raw), max(region) FROM {0} WHERE month > 0 GROUP BY month, day",
    "by-nothing": "SELECT region, count(*) FROM {0} WHERE region = 'none' GROUP BY region",
    "different": "SELECT DISTINCT region, flag FROM {0}",
    "having": "SELECT region FROM {0} GROUP BY region HAVING count(*) > 5 ORDER BY region DESC",
    "subquery": "SELECT count(*) FROM {0} WHERE month = 1 UNION ALL SELECT max(month) FROM {0}",
}


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("case", FROM_METADATA)
def test_aggregates_of_whole_partitions_read_no_row(sql: SparkSession, catalog: str, case: str) -> None:
    statement = FROM_METADATA[case]
    found, expected = sql.sql(statement.format(f"{catalog}.{NAME}")), sql.sql(statement.format(COPY))
    assert scans(found) == 0, plan_of(found)
    assert "LocalTableScan" in plan_of(found)
    assert (found.columns, found.dtypes) == (expected.columns, expected.dtypes)
    assert values(found) == values(expected)


PARTITION_MONTHS = {
    "one": ("day >= DATE '2025-02-01' AND day < DATE '2025-03-01'", 28),
    "several": ("day >= DATE '2025-02-01' AND day < DATE '2025-04-01'", 59),
    "year": ("day >= DATE '2025-01-01' AND day <= DATE '2025-12-31'", 90),
    "last-days": ("day > DATE '2025-01-31' AND day <= DATE '2025-02-28'", 28),
}


@pytest.mark.parametrize("case", PARTITION_MONTHS)
def test_a_range_of_days_that_is_whole_months_is_answered_from_metadata(
    sql: SparkSession, server: Server, table: str, case: str
) -> None:
    day = dt.date(2025, 1, 1)
    rows = pa.table({"day": pa.array([day + dt.timedelta(n) for n in range(90)], pa.date32()), "id": range(90)})
    server.ingest(table, rows, partition_by="year(day), month(day)")
    where, count = PARTITION_MONTHS[case]
    found = sql.sql(f"SELECT count(*) FROM lake.{table} WHERE {where}")
    assert scans(found) == 0, plan_of(found)
    assert values(found) == texts([(count,)])
    assert not re.search(r"\bFilter\b", plan_of(sql.sql(f"SELECT sum(id) FROM lake.{table} WHERE {where}")))
    without_a_day = sql.sql(f"SELECT count(*) FROM lake.{table} WHERE {where} AND day <> DATE '2025-02-07'")
    assert scans(without_a_day) == 1
    assert values(without_a_day) == texts([(count - 1,)])


READ = {
    "other-column": "SELECT min(id), max(id) FROM {0}",
    "other-column-counted": "SELECT count(id) FROM {0}",
    "fraction": "SELECT min(x), max(x), count(DISTINCT x) FROM {0}",
    "struct": "SELECT max(s), max(s.a) FROM {0}",
    "sum": "SELECT sum(month), count(*) FROM {0}",
    "average": "SELECT avg(month), count(*) FROM {0}",
    "filtered": "SELECT count(*) FILTER (WHERE region = 'r1') FROM {0}",
    "of-computed": "SELECT max(month + 1), count(*) FROM {0}",
    "where-rows": "SELECT count(*) FROM {0} WHERE id > 20",
    "where-some-rows": "SELECT count(*), max(region) FROM {0} WHERE month = 1 AND id > 20",
    "where-or": "SELECT count(*) FROM {0} WHERE month = 1 OR id > 20",
    "where-fraction": "SELECT count(*) FROM {0} WHERE x > 3",
    "where-function": "SELECT count(*) FROM {0} WHERE upper(region) = 'R1'",
    "by-computed": "SELECT month % 2, count(*) FROM {0} GROUP BY month % 2",
    "by-column": "SELECT id, count(*) FROM {0} GROUP BY id",
    "by-fraction": "SELECT x, count(*) FROM {0} GROUP BY x",
    "by-rollup": "SELECT region, month, count(*) FROM {0} GROUP BY ROLLUP (region, month)",
}


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("case", READ)
def test_other_aggregates_are_those_of_the_rows(sql: SparkSession, catalog: str, case: str) -> None:
    statement = READ[case]
    found = sql.sql(statement.format(f"{catalog}.{NAME}"))
    assert scans(found) >= 1, plan_of(found)
    assert values(found) == values(sql.sql(statement.format(COPY)))


BY_THE_SERVER = ("other-column", "other-column-counted", "where-rows", "where-some-rows", "where-or")


@pytest.mark.parametrize("case", BY_THE_SERVER)
def test_a_server_computes_what_it_computes_as_spark_does(sql: SparkSession, case: str) -> None:
    found = sql.sql(READ[case].format(f"far.{NAME}"))
    assert "Aggregate" not in plan_of(found)
    assert found.rdd.getNumPartitions() == 1
    assert values(found) == values(sql.sql(READ[case].format(COPY)))


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_every_kind_of_table_are_counted(
    sql: SparkSession, server: Server, table: str, catalog: str, shape: str
) -> None:
    SHAPES[shape].make(server, table)
    found = sql.sql(f"SELECT count(*) FROM {catalog}.{table}")
    assert values(found) == texts([(sql.table(f"{catalog}.{table}").rdd.count(),)])
    if catalog == "lake":
        assert scans(found) == 0


@pytest.mark.parametrize("catalog", CATALOGS)
def test_versions_branches_and_views_are_counted(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    SHAPES["versions"].make(server, table)
    server.run(f"ALTER TABLE {table} CREATE BRANCH b")
    server.run(f"CREATE VIEW {table}_v AS SELECT part, id FROM {table} WHERE id > 20")
    server.run(f"DELETE FROM {table} WHERE id < 25")
    counted = {
        f"{table} VERSION AS OF 'first'": 20,
        f"{table} VERSION AS OF 'b'": 20,
        f"{table}": 5,
        f"{table}_v": 5,
        f"{table}_v WHERE part = 'p1'": 1,
        f"{table}.tags": 1,
    }
    found = {name: sql.sql(f"SELECT count(*) FROM {catalog}.{name}").collect()[0][0] for name in counted}
    assert found == counted


LIMITS = {
    "few": ("SELECT * FROM {0} LIMIT 4", 4),
    "columns": ("SELECT id + 1 FROM {0} LIMIT 5", 5),
    "none": ("SELECT id FROM {0} LIMIT 0", 0),
    "offset": ("SELECT id FROM {0} LIMIT 4 OFFSET 3", 4),
    "more-than-there-are": ("SELECT id FROM {0} LIMIT 1000", None),
    "whole-partitions": ("SELECT id FROM {0} WHERE month = 2 LIMIT 7", 7),
    "more-than-match": ("SELECT id FROM {0} WHERE region = 'r1' LIMIT 1000", None),
    "rows": ("SELECT id FROM {0} WHERE id > 80 LIMIT 8", 8),
    "more-rows-than-match": ("SELECT id FROM {0} WHERE id > 80 LIMIT 800", None),
    "fraction": ("SELECT id FROM {0} WHERE x > 20 LIMIT 1000", None),
    "joined": ("SELECT l.id FROM (SELECT id FROM {0} WHERE month = 1 LIMIT 30) l JOIN {0} r ON l.id = r.id", None),
}


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("case", LIMITS)
def test_a_limit_leaves_as_many_rows_as_it_says(sql: SparkSession, catalog: str, case: str) -> None:
    statement, rows = LIMITS[case]
    found = values(sql.sql(statement.format(f"{catalog}.{NAME}")))
    whole = values(sql.sql(re.sub(r" LIMIT \d+( OFFSET \d+)?", "", statement).format(COPY)))
    assert set(found) <= set(whole)
    assert len(set(found)) == len(found) == (len(whole) if rows is None else rows)


@pytest.mark.parametrize("where", ["", " WHERE month = 2", " WHERE region IN ('r1', 'r2')"])
def test_a_limit_reads_tables_until_they_have_enough_rows(sql: SparkSession, where: str) -> None:
    session = sql.newSession()
    for name in ("lake", "lake.root", "lake.python"):
        session.conf.set(f"spark.sql.catalog.{name}", str(sql.conf.get(f"spark.sql.catalog.{name}")))
    session.conf.set("spark.sql.catalog.lake.partitions", "8")
    whole = session.sql(f"SELECT * FROM lake.{NAME}{where}")
    assert whole.rdd.getNumPartitions() > 1
    some = session.sql(f"SELECT * FROM lake.{NAME}{where} LIMIT 3")
    assert len(some.collect()) == 3
    assert read_by_scan(some) == 3
    assert len(whole.head(2)) == len(whole.take(2)) == 2


def read_by_scan(found: DataFrame) -> int:
    """How many rows the scan of a plan that was run has returned."""
    leaves = found._jdf.queryExecution().executedPlan().collectLeaves()
    metric = leaves.apply(0).metrics().get("numOutputRows")
    return int(metric.get().value())


WHOLE = {
    "partition": "month = 2",
    "in": "region IN ('r1', 'r2')",
    "null": "region IS NULL",
    "range": "day > DATE '2025-01-01' AND month <= 1",
    "not": "NOT (region = 'r1' OR month = 1)",
    "nothing": "region = 'none'",
}


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("case", WHOLE)
def test_spark_does_not_look_again_at_what_the_manifest_decides(sql: SparkSession, catalog: str, case: str) -> None:
    found = sql.table(f"{catalog}.{NAME}").filter(WHOLE[case])
    assert "Filter (" not in plan_of(found), plan_of(found)
    assert values(found) == values(sql.table(COPY).filter(WHOLE[case]))


def test_spark_looks_again_at_rows_that_are_read_from_files(sql: SparkSession) -> None:
    assert "Filter (" in plan_of(sql.table(f"lake.{NAME}").filter("month = 1 AND id > 20"))


def test_changes_of_rows_see_all_of_a_partition(sql: SparkSession, server: Server, table: str) -> None:
    server.ingest(table, typed(0, 30).select(["id", "region", "month"]), partition_by="region, month")
    sql.sql(f"UPDATE lake.{table} SET id = id + 1000 WHERE month = 2")
    sql.sql(f"DELETE FROM lake.{table} WHERE region IS NULL AND id % 2 = 0")
    assert values(sql.sql(f"SELECT count(*), count(region) FROM lake.{table}")) == texts(
        server.rows(f"SELECT count(*), count(region) FROM {table}")
    )
    assert (
        server.value(f"SELECT count(*) FROM {table} WHERE id >= 1000")
        == sql.table(f"lake.{table}").filter("id >= 1000 AND month = 2").rdd.count()
    )


def extremes() -> pa.Table:
    """Rows of the types that Spark and SQL compare alike, with the ends of their ranges, in a table without partitions."""
    first, last = dt.datetime(1700, 1, 1), dt.datetime(2199, 12, 31, 23, 59, 59, 999999)
    moments = [first, dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2025, 3, 9, 2, 30), last, None, None]
    seconds = [None if each is None else each.replace(microsecond=0) for each in moments]
    words = ["", "a", "A", "ä", "\U0001f600", None]
    return pa.table(
        {
            "tiny": pa.array([-128, -1, 0, 1, 127, None], pa.int8()),
            "long": pa.array([-(2**63), -1, 0, 1, 2**63 - 1, None], pa.int64()),
            "u8": pa.array([0, 1, 127, 128, 255, None], pa.uint8()),
            "u32": pa.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1, None], pa.uint32()),
            "u64": pa.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1, None], pa.uint64()),
            "word": pa.array(words, pa.string()),
            "wide": pa.array(words, pa.large_string()),
            "coded": pa.array(words).dictionary_encode(),
            "flag": pa.array([True, False, None, True, False, None]),
            "day": pa.array([None if each is None else each.date() for each in moments], pa.date32()),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "at_home": pa.array(moments, pa.timestamp("us", "America/New_York")),
            "plain_at": pa.array(moments, pa.timestamp("us")),
            "at_s": pa.array(seconds, pa.timestamp("s")),
            "at_ms": pa.array(seconds, pa.timestamp("ms", "UTC")),
            "at_ns": pa.array(moments, pa.timestamp("ns")),
            "price": pa.array(
                [Decimal("-99999999.99"), Decimal(0), Decimal("0.01"), Decimal("99999999.99"), None, None]
            ),
            "raw": pa.array([b"", b"\x00", b"\x7f", b"\xff", b"a", None], pa.binary()),
            "items": pa.array([[1], [], None, [None], [2], None], pa.list_(pa.int64())),
        }
    )


COMPARED = {
    "tiny": ("tiny > -1", "tiny = 127", "NOT tiny < 0", "tiny NOT IN (0, 1)"),
    "long": ("long <= -9223372036854775808", "long <> 0", "long <=> 9223372036854775807"),
    "u8": ("u8 < -1", "u8 >= 128", "u8 = 255"),
    "u32": ("u32 > -1", "u32 > 2147483647", "u32 IN (4294967295, -1)", "u32 < long"),
    "u64": ("u64 > 9223372036854775807", "u64 = 18446744073709551615", "u64 <> 0"),
    "word": (
        "word > 'a'",
        "word <= 'ä'",
        "word = ''",
        "word IN ('A', 'x')",
        "word LIKE 'ä%'",
        "word LIKE '%'",
        "word > 'z'",
    ),
    "wide": ("wide < 'a'", "wide LIKE '%a%'", "wide = word", "endswith(wide, 'A')"),
    "coded": ("coded >= 'a'", "NOT (coded <=> 'a')", "coded IN ('', 'a')", "coded LIKE 'a%'"),
    "flag": ("flag", "NOT flag", "flag <=> false", "flag < true", "NOT (flag AND tiny > 0)", "flag OR tiny > 100"),
    "day": (
        "day < DATE '1970-01-01'",
        "day = DATE '2199-12-31'",
        "day > DATE '1700-01-01'",
        "day <> DATE '2025-03-09'",
    ),
    "at": (
        "at > TIMESTAMP '2025-03-09 02:30:00Z'",
        "at = TIMESTAMP '2025-03-09 02:30:00Z'",
        "at < TIMESTAMP '1970-01-01 00:00:00Z'",
    ),
    "plain_at": (
        "plain_at = TIMESTAMP_NTZ '2025-03-09 02:30:00'",
        "plain_at > TIMESTAMP_NTZ '1969-12-31 23:59:58.999999'",
    ),
    "at_s": ("at_s >= TIMESTAMP_NTZ '1969-12-31 23:59:59'", "at_s > TIMESTAMP_NTZ '1969-12-31 23:59:58'"),
    "at_ms": ("at_ms <= TIMESTAMP '2025-03-09 02:30:00.000Z'", "at_ms < TIMESTAMP '2025-03-09 02:30:00Z'"),
    "at_ns": (
        "at_ns <= TIMESTAMP_NTZ '2025-03-09 02:30:00'",
        "at_ns >= TIMESTAMP_NTZ '2199-12-31 23:59:59.999999'",
        "at_ns = plain_at",
    ),
    "price": ("price > 0.01", "price = -99999999.99", "price NOT IN (0, 0.01)", "price <= 0"),
    "raw": ("raw > X'7F'", "raw = X''", "raw IN (X'00', X'FF')", "raw <> X'61'"),
    "items": ("items IS NULL", "items IS NOT NULL AND tiny > 0"),
}


LEFT = {
    "zone": ("at_home >= TIMESTAMP '2025-03-09 02:30:00Z'", "at_home <> at", "at <> at_home"),
    "below-second": (
        "at_s > TIMESTAMP_NTZ '1969-12-31 23:59:58.999999'",
        "at_s < TIMESTAMP_NTZ '2025-03-09 02:30:00.5'",
    ),
    "below-millisecond": (
        "at_ms < TIMESTAMP '2025-03-09 02:30:00.000001Z'",
        "at_ms > TIMESTAMP '1969-12-31 23:59:58.999999Z'",
    ),
    "other-type": ("long > tiny", "at_s < at_ms"),
}
"""What Spark looks at itself, since SQL compares otherwise."""


@pytest.fixture(scope="module")
def compared(sql: SparkSession, server: Server) -> str:
    server.ingest("extremes", extremes())
    server.run("CREATE VIEW extremes_v AS SELECT * FROM extremes")
    rows = sql.table("lake.extremes")
    sql.createDataFrame(rows.collect(), rows.schema).createOrReplaceTempView("extremes_copy")
    return "extremes"


@pytest.mark.parametrize("name", ["far.extremes", "far.extremes_v", "lake.extremes_v"])
@pytest.mark.parametrize("column", COMPARED)
@pytest.mark.usefixtures("compared")
def test_sql_decides_what_spark_does_not_look_at_again(sql: SparkSession, name: str, column: str) -> None:
    found = [sql.table(name).filter(where) for where in COMPARED[column]]
    expected = [sql.table("extremes_copy").filter(where) for where in COMPARED[column]]
    assert not [plan for each in found if "Filter (" in (plan := plan_of(each))]
    assert [values(each) for each in found] == [values(each) for each in expected]


@pytest.mark.parametrize("name", ["far.extremes", "lake.extremes"])
@pytest.mark.parametrize("case", LEFT)
@pytest.mark.usefixtures("compared")
def test_spark_decides_what_sql_compares_otherwise(sql: SparkSession, name: str, case: str) -> None:
    found = [sql.table(name).filter(where) for where in LEFT[case]]
    assert [values(each) for each in found] == [
        values(sql.table("extremes_copy").filter(where)) for where in LEFT[case]
    ]
