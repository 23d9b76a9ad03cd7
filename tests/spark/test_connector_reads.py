"""The connector's catalog, read in Spark's SQL over a root and over its server; results are those of the server's own SQL."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from lance_flight_client.spark.connector.sessions import CATALOG_CLASS
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.spark.connector_results import CATALOGS, plan_of, pushed, texts, values
from tests.spark.tables import SHAPES


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_of_table_is_read_as_the_server_reads_it(
    sql: SparkSession, server: Server, table: str, catalog: str, shape: str
) -> None:
    SHAPES[shape].make(server, table)
    found = sql.table(f"{catalog}.{table}")
    aggregates = ("count(*)", "count(id)", "sum(id)", "min(id)", "max(id)")
    assert found.selectExpr(*aggregates).collect() == server.rows(f"SELECT {', '.join(aggregates)} FROM {table}")
    assert sql.sql(f"DESCRIBE TABLE {catalog}.{table}").count() >= len(found.columns)
    assert found.columns == server.query(f"SELECT * FROM {table} LIMIT 0").column_names


WHERE = {
    "equal": "part = 'p1'",
    "turned": "3 < id",
    "between": "id BETWEEN 20 AND 40",
    "in": "part IN ('p1', 'p3')",
    "in-null": "part IN ('p1', NULL)",
    "not-in": "part NOT IN ('p1', 'p3')",
    "null": "part IS NULL",
    "not-null": "part IS NOT NULL AND id < 50",
    "null-safe": "part <=> 'p2' OR part <=> NULL",
    "not-null-safe": "NOT (part <=> 'p2')",
    "moment": "at >= TIMESTAMP '2025-01-20 07:00:00' AND at < TIMESTAMP '2025-02-01'",
    "prefix": "part LIKE 'p%' AND part NOT LIKE 'p_'",
    "starts": "startswith(part, 'p1')",
    "contains": "part LIKE '%2%' OR part LIKE '%4'",
    "or-and": "(part = 'p1' AND id > 100) OR (part = 'p2' AND NOT id > 100)",
    "nan": "x > 12.25",
    "is-nan": "x = double('NaN')",
    "function": "upper(part) = 'P2'",
    "hash": "id % 7 = 3 AND part = 'p4'",
    "nothing": "part = 'none'",
    "quote": "part = 'it''s' OR part = '\\\\'",
}


@pytest.fixture(scope="module")
def nulls(server: Server) -> str:
    SHAPES["nulls"].make(server, "filtered")
    return "filtered"


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_a_filter_leaves_the_rows_that_spark_leaves(sql: SparkSession, nulls: str, catalog: str, where: str) -> None:
    whole = sql.table(f"{catalog}.{nulls}")
    unpushed = sql.createDataFrame(whole.collect(), whole.schema)
    assert values(whole.filter(where)) == values(unpushed.filter(where))


PUSHED = {
    "partition": ("part = 'p1'", "part IS NOT NULL, part = 'p1'"),
    "in": ("part IN ('p1', 'p2')", "part IN ('p1', 'p2')"),
    "fraction": ("x > 3", "x IS NOT NULL"),
    "function": ("upper(part) = 'P1' AND id = 3", "part IS NOT NULL, id IS NOT NULL, id = 3"),
}


@pytest.mark.parametrize(("where", "expected"), PUSHED.values(), ids=PUSHED)
def test_filters_are_pushed_where_both_compare_alike(sql: SparkSession, nulls: str, where: str, expected: str) -> None:
    assert pushed(sql.table(f"lake.{nulls}").filter(where)) == expected


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_filter_reads_fewer_tasks_and_columns(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    SHAPES["nulls"].make(server, table)
    session = sql.newSession()
    session.conf.set(f"spark.sql.catalog.{catalog}.partitions", "4")
    _copy_catalog(sql, session, catalog)
    whole, some = session.table(f"{catalog}.{table}"), session.table(f"{catalog}.{table}").filter("part = 'p1'")
    assert whole.rdd.getNumPartitions() > 1
    assert values(some.select("id")) == texts(server.rows(f"SELECT id FROM {table} WHERE part = 'p1'"))
    assert re.search(r"BatchScan \S+\[id#\d+L\]", plan_of(session.table(f"{catalog}.{table}").select("id")))


def _copy_catalog(old: SparkSession, new: SparkSession, catalog: str) -> None:
    prefix = f"spark.sql.catalog.{catalog}"
    for name in (prefix, *(f"{prefix}.{option}" for option in ("root", "uri", "python"))):
        value = old.conf.get(name, None)
        if value is not None:
            new.conf.set(name, value)


@pytest.mark.parametrize("kind", ["part", "bucket(2, id)"])
def test_a_plan_says_how_many_partitions_are_read(sql: SparkSession, server: Server, table: str, kind: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, part VARCHAR) PARTITIONED BY ({kind})")
    server.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'b'), (4, 'c')")
    every = server.value(f'SELECT count(*) FROM "{table}$partitions"')
    condition = "part = 'a'" if kind == "part" else "id = 1"
    assert f"] partitions: {every} / {every} " in plan_of(sql.table(f"lake.{table}"))
    assert f"] partitions: 1 / {every} " in plan_of(sql.table(f"lake.{table}").filter(condition))


def test_filters_of_one_dataframe_are_not_those_of_another(sql: SparkSession, nulls: str) -> None:
    found = sql.table(f"lake.{nulls}")
    some = found.filter("part = 'p1'")
    assert some.count() < found.count()
    assert some.union(found.filter("part = 'p2'")).count() == found.filter("part IN ('p1', 'p2')").count()


@pytest.mark.parametrize("catalog", CATALOGS)
def test_namespaces_and_tables_are_listed(sql: SparkSession, server: Server, catalog: str) -> None:
    server.run(f"CREATE SCHEMA {catalog}_s")
    server.run(f"CREATE TABLE {catalog}_s.one (id BIGINT)")
    assert f"('{catalog}_s',)" in values(sql.sql(f"SHOW NAMESPACES IN {catalog}"))
    assert values(sql.sql(f"SHOW TABLES IN {catalog}.{catalog}_s")) == texts([(f"{catalog}_s", "one", False)])
    assert values(sql.table(f"{catalog}.{catalog}_s.one")) == []
    sql.sql(f"USE {catalog}")
    assert sql.sql("SELECT current_schema()").collect() == [("public",)]
    sql.sql(f"USE {catalog}.{catalog}_s")
    assert sql.table("one").count() == 0
    sql.sql("USE spark_catalog.default")


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_view_is_read(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    SHAPES["nulls"].make(server, table)
    server.run(f"CREATE VIEW {table}_v AS SELECT part, sum(id) AS total FROM {table} GROUP BY part")
    found = sql.table(f"{catalog}.{table}_v")
    assert values(found) == texts(server.rows(f"SELECT * FROM {table}_v"))
    assert values(found.filter("part = 'p1'").select("total")) == texts(
        server.rows(f"SELECT total FROM {table}_v WHERE part = 'p1'")
    )


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("kind", ["partitions", "snapshots", "files", "specs"])
def test_metadata_tables_stand_after_their_table(
    sql: SparkSession, nulls: str, server: Server, catalog: str, kind: str
) -> None:
    names = [(f"{catalog}.{nulls}.{kind}"), f"{catalog}.public.{nulls}.{kind}", f"{catalog}.`{nulls}${kind}`"]
    expected = server.value(f'SELECT count(*) FROM "{nulls}${kind}"')
    assert [sql.table(name).count() for name in names] == [expected] * 3


@pytest.mark.parametrize("catalog", CATALOGS)
def test_versions_tags_and_moments_are_read(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    SHAPES["versions"].make(server, table)
    history = server.rows(f'SELECT version, committed_at FROM "{table}$snapshots" ORDER BY version')
    for version, moment in history:
        expected = server.value(f'SELECT count(*) FROM "{table}@{version}"')
        name = f"{catalog}.{table}"
        assert sql.sql(f"SELECT count(*) FROM {name} VERSION AS OF {version}").collect() == [(expected,)]
        at = f"TIMESTAMP AS OF TIMESTAMP '{moment.isoformat()}'"
        assert sql.sql(f"SELECT count(*) FROM {name} {at}").collect() == [(expected,)]
    assert sql.sql(f"SELECT count(*) FROM {catalog}.{table} VERSION AS OF 'first'").collect() == [(20,)]


@pytest.mark.parametrize("catalog", CATALOGS)
def test_what_is_not_there_is_named(sql: SparkSession, nulls: str, catalog: str) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.table(f"{catalog}.nope")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql.sql(f"SHOW TABLES IN {catalog}.nope")
    for version in (1, 900):
        with pytest.raises(IllegalArgumentException, match=f"table '{nulls}' has no version {version}"):
            sql.sql(f"SELECT * FROM {catalog}.{nulls} VERSION AS OF {version}")


def test_a_new_statement_reads_the_newest_version(sql: SparkSession, server: Server, table: str) -> None:
    SHAPES["nulls"].make(server, table)
    before = sql.table(f"lake.{table}").count()
    server.run(f"DELETE FROM {table} WHERE part = 'p1'")
    assert sql.table(f"lake.{table}").count() == server.value(f"SELECT count(*) FROM {table}") < before


def test_a_root_that_is_not_there_is_refused(sql: SparkSession, tmp_path: Path) -> None:
    session = sql.newSession()
    session.conf.set("spark.sql.catalog.gone", CATALOG_CLASS)
    session.conf.set("spark.sql.catalog.gone.root", str(tmp_path / "gone"))
    session.conf.set("spark.sql.catalog.gone.python", sys.executable)
    with pytest.raises(IllegalArgumentException, match="is no directory here"):
        session.table("gone.t")


PARTS_OF_MOMENTS = {
    "moment": ("year(local) = 2025 AND month(local) = 2", "1 / 4"),
    "turned": ("2 < month(day) OR year(day) < 2025", "2 / 4"),
    "not": ("NOT (month(day) = 1)", "3 / 4"),
    "day": ("day(day) <> 1 AND dayofmonth(day) < 3", "4 / 4"),
    "zone": ("month(at) = 2", "4 / 4"),
}


@pytest.mark.parametrize(("where", "read"), PARTS_OF_MOMENTS.values(), ids=PARTS_OF_MOMENTS)
def test_years_months_and_days_prune(sql: SparkSession, months: str, where: str, read: str) -> None:
    (field,) = set(re.findall(r"\((\w+)\)", where))
    whole = sql.table(f"lake.{months}_{field}")
    unpushed = sql.createDataFrame(whole.collect(), whole.schema)
    assert values(whole.filter(where)) == values(unpushed.filter(where))
    assert f"partitions: {read} " in plan_of(whole.filter(where))


def test_rows_of_a_month_are_deleted(sql: SparkSession, server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, day DATE) PARTITIONED BY (id)")
    server.run(f"INSERT INTO {table} VALUES (1, '2025-01-31'), (2, '2025-02-01'), (3, '2024-02-29'), (4, NULL)")
    sql.sql(f"DELETE FROM lake.{table} WHERE month(day) = 2 AND year(day) > 2024")
    assert server.rows(f"SELECT id FROM {table} ORDER BY id") == [(1,), (3,), (4,)]


@pytest.fixture(scope="module")
def months(server: Server) -> str:
    """Tables of four months, each by one of its columns, with moments at both ends of a day."""
    for field in ("at", "local", "day"):
        server.run(
            f"CREATE TABLE months_{field} (id BIGINT, at TIMESTAMPTZ, local TIMESTAMP, day DATE)"
            f" PARTITIONED BY (year({field}), month({field}))"
        )
        rows = [
            f"'{month}-01T00:30:00', '{month}-28T23:30:00'" for month in ("2024-12", "2025-01", "2025-02", "2025-03")
        ]
        moments = ", ".join(rows).split(", ")
        numbered = ", ".join(f"({number}, {moment})" for number, moment in enumerate(moments))
        server.run(
            f"INSERT INTO months_{field} SELECT v.id, CAST(v.t || 'Z' AS TIMESTAMPTZ), CAST(v.t AS TIMESTAMP), CAST(v.t AS DATE)"
            f" FROM (VALUES {numbered}) AS v(id, t)"
        )
    return "months"
