"""Tables, namespaces, views and procedures in Spark's SQL, through both catalogs; what they become is tested in `test_connector_tables`."""

from __future__ import annotations

import pyspark
import pytest
from lance_flight_client.spark.connector.foreign_words import COPIES, FOREIGN
from lance_flight_client.spark.connector.procedures import CHANGELOG, PROCEDURES
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import SparkSession

from tests.engine.database import Database
from tests.spark.connector_results import IN_SPARK, texts, values
from tests.spark.offers import DEFINED

HAS_VIEWS = pyspark.__version__ >= "4.2"
"""Spark 4.1 plans no statement about views of a catalog."""


def is_listed(database: Database, table: str) -> bool:
    return bool(database.rows(f"SHOW TABLES LIKE '{table}'"))


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_a_table_is_made_changed_renamed_and_dropped(
    sql: SparkSession, database: Database, table: str, catalog: str
) -> None:
    name = f"{catalog}.{table}"
    for rest, message in {
        "(id BIGINT) USING parquet": "expected USING lance_flight",
        "(id BIGINT) PARTITIONED BY (bucket(4, nope))": "nope",
    }.items():
        with pytest.raises(PySparkException, match=message):
            sql.sql(f"CREATE TABLE {name} {rest}")
    assert not is_listed(database, table)
    sql.sql(
        f"CREATE TABLE {name} ({DEFINED}) USING lance_flight PARTITIONED BY (bucket(16, id), years(ts)) COMMENT 'it''s'"
    )
    assert database.rows(f'SELECT count(*) FROM "{table}$specs"') == [(2,)]
    assert dict(sql.table(name).dtypes)["o"] == "struct<a:int,B c:string>"
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        sql.sql(f"CREATE TABLE {name} (id BIGINT)")
    sql.sql(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT)")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql.sql(f"CREATE TABLE {catalog}.nowhere.t (id BIGINT)")
    for change in (
        "ALTER TABLE {} ADD COLUMNS (c INT COMMENT 'x', o.e STRING)",
        "ALTER TABLE {} RENAME COLUMN day TO on_day",
        "ALTER TABLE {} ALTER COLUMN y TYPE INT",
        "ALTER TABLE {} DROP COLUMN b",
        "ALTER TABLE {} DROP COLUMN IF EXISTS nothing",
        "ALTER TABLE {} SET TBLPROPERTIES ('partitioned_by' = 'bucket(8, id)')",
        "COMMENT ON TABLE {} IS 'changed'",
    ):
        sql.sql(change.format(name))
    shown = {row.col_name: row for row in sql.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
    assert (shown["id"].comment, shown["c"].comment) == ("the key", "x")
    assert shown["o"].data_type == "struct<a:int,B c:string,e:string>"
    assert (shown["y"].data_type, shown["Comment"].data_type) == ("int", "changed")
    assert "on_day" in shown
    assert "b" not in shown
    assert "COMMENT 'changed'" in sql.sql(f"SHOW CREATE TABLE {name}").collect()[0][0]
    sql.sql(f"ALTER TABLE {name} ADD COLUMN f2 INT FIRST")
    assert sql.table(name).columns[0] == "f2"
    with pytest.raises(UnsupportedOperationException, match=r"\[unsupported\] column 'id' is the source") as raised:
        sql.sql(f"ALTER TABLE {name} REPLACE COLUMNS (id BIGINT)")
    assert raised.value.getSqlState() == "0A000"
    sql.sql(f"ALTER TABLE {catalog}.public.{table} RENAME TO public.{table}_new")
    with pytest.raises(PySparkException, match="cannot be moved"):
        sql.sql(f"ALTER TABLE {catalog}.public.{table}_new RENAME TO other.{table}")
    sql.sql(f"DROP TABLE {name}_new")
    assert not is_listed(database, f"{table}_new")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        sql.sql(f"DROP TABLE {name}_new")
    sql.sql(f"DROP TABLE IF EXISTS {name}_new")


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_what_show_create_table_says_makes_the_same_table(
    sql: SparkSession, database: Database, table: str, catalog: str
) -> None:
    columns = (
        "id BIGINT NOT NULL COMMENT 'the key', k INT PRIMARY KEY, at TIMESTAMP, s STRUCT<a: STRING, b: ARRAY<DATE>>"
    )
    defaults = (
        "t STRING DEFAULT 'it''s', d DECIMAL(10, 2) DEFAULT 1.5, n TIMESTAMP_NTZ DEFAULT TIMESTAMP_NTZ '2026-01-01'"
    )
    by = "k, days(at), bucket(4, id), truncate(3, t)"
    sql.sql(f"CREATE TABLE {catalog}.{table} ({columns}, {defaults}) PARTITIONED BY ({by}) COMMENT 'it''s'")
    made = database.rows(f"SHOW CREATE TABLE {table}")
    shown = sql.sql(f"SHOW CREATE TABLE {catalog}.{table}").collect()[0][0]
    sql.sql(f"DROP TABLE {catalog}.{table}")
    sql.sql(shown)
    assert database.rows(f"SHOW CREATE TABLE {table}") == made
    assert 'PRIMARY KEY ("k")' in str(made)


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_a_namespace_is_made_and_dropped_when_it_is_empty_or_with_its_tables(
    sql: SparkSession, table: str, catalog: str
) -> None:
    space = f"{catalog}.{table}_s"
    sql.sql(f"CREATE NAMESPACE {space}")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        sql.sql(f"CREATE NAMESPACE {space}")
    sql.sql(f"CREATE TABLE {space}.t (id BIGINT)")
    with pytest.raises(PySparkException, match="not empty"):
        sql.sql(f"DROP NAMESPACE {space}")
    sql.sql(f"DROP TABLE {space}.t")
    sql.sql(f"DROP NAMESPACE {space}")
    sql.sql(f"CREATE NAMESPACE {space}")
    sql.sql(f"CREATE TABLE {space}.t (id BIGINT)")
    sql.sql(f"CREATE TABLE {space}.u (id BIGINT)")
    sql.sql(f"CALL {catalog}.system.create_view('{table}_s.v', 'SELECT 1 AS one')")
    with pytest.raises(PySparkException, match="public stays"):
        sql.sql(f"DROP NAMESPACE {catalog}.public CASCADE")
    sql.sql(f"DROP NAMESPACE {space} CASCADE")
    assert f"('{table}_s',)" not in values(sql.sql(f"SHOW NAMESPACES IN {catalog}"))


DEFAULTS = {
    "n": "BIGINT DEFAULT 3",
    "s": "VARCHAR DEFAULT 'it''s \\ \"x\"'",
    "d": "DECIMAL(10, 2) DEFAULT 1.5",
    "f": "DOUBLE DEFAULT 0.5",
    "b": "BOOLEAN DEFAULT true",
    "ts": "TIMESTAMPTZ DEFAULT TIMESTAMP '2026-01-01'",
    "at": "TIMESTAMP DEFAULT '2026-01-01T00:00:00.5'",
    "day": "DATE DEFAULT '2026-01-02'",
    "small": "TINYINT UNSIGNED DEFAULT 200",
    "r": "REAL DEFAULT 0.1",
}


def test_rows_that_name_no_value_get_the_default(sql: SparkSession, database: Database, table: str) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in DEFAULTS.items())
    database.run(f"CREATE TABLE {table} (id BIGINT, {columns}) PARTITIONED BY (bucket(2, id))")
    database.run(f"INSERT INTO {table} (id) VALUES (1)")
    sql.sql(f"INSERT INTO lake.{table} (id) VALUES (2)")
    sql.sql(f"INSERT INTO lake.{table} (id, s, n) VALUES (3, DEFAULT, NULL)")
    one, two, three = database.rows(f"SELECT {', '.join(DEFAULTS)} FROM {table} ORDER BY id")
    assert one == two
    assert three == (None, *one[1:])
    sql.sql(f"UPDATE lake.{table} SET s = DEFAULT WHERE id = 3")
    assert values(sql.sql(f"SELECT s FROM lake.{table} WHERE id = 3")) == [repr((one[1],))]


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_procedures_are_called_and_listed(sql: SparkSession, database: Database, table: str, catalog: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT value AS id FROM range(9)")
    call = f"CALL {catalog}.system"
    (said,) = sql.sql(f"{call}.create_tag('{table}', 'first')").collect()
    assert said == (f'ALTER TABLE "public"."{table}" CREATE TAG "first"',)
    database.run(f"INSERT INTO {table} VALUES (9)")
    sql.sql(f"{call}.rollback(version => 'first', table => 'public.{table}')")
    assert database.value(f"SELECT count(*) FROM {table}") == 9
    report = sql.sql(f"{call}.vacuum('{table}', retain_hours => '200', dry_run => 'true')")
    assert report.columns == database.query(f"VACUUM {table} RETAIN 200 HOURS DRY RUN").column_names
    assert {row[-1] for row in sql.sql(f"SHOW PROCEDURES IN {catalog}.system").collect()} == {
        *PROCEDURES,
        *FOREIGN,
        *COPIES,
        CHANGELOG,
    }
    with pytest.raises(PySparkException, match=r"no procedure .nothing.; expected system.*compact"):
        sql.sql(f"{call}.nothing('t')").collect()
    with pytest.raises(PySparkException, match="parameter 'tag' is NULL"):
        sql.sql(f"{call}.drop_tag('{table}', NULL)").collect()


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_views_are_read_listed_and_dropped(sql: SparkSession, database: Database, table: str, catalog: str) -> None:
    view = f"{table}_v"
    database.run(f"CREATE TABLE {table} AS SELECT value AS id, value % 3 AS k FROM range(9)")
    sql.sql(f"CALL {catalog}.system.create_view('{view}', 'SELECT k, count(*) AS n FROM {table} GROUP BY k')")
    assert values(sql.sql(f"SELECT * FROM {catalog}.{view} WHERE k > 0")) == texts([(1, 3), (2, 3)])
    listed = {row.tableName for row in sql.sql(f"SHOW TABLES IN {catalog}.public").collect()}
    # From 4.2 on Spark lists the views of any catalog among its tables.
    assert {table, view} & listed == ({table, view} if HAS_VIEWS else {table})
    with pytest.raises(PySparkException, match="is a view; expected DROP VIEW"):
        sql.sql(f"DROP TABLE {catalog}.public.{view}")
    for verb, procedure in (("CREATE VIEW", "create_view"), ("CREATE OR REPLACE VIEW", "replace_view")):
        told = rf"not of Spark; expected CALL {catalog}\.system\.{procedure}\('public\.{view}_x', 'SELECT …'\)"
        with pytest.raises(PySparkException, match=told if HAS_VIEWS else "does not support views"):
            sql.sql(f"{verb} {catalog}.public.{view}_x AS SELECT 1 AS one")
    if HAS_VIEWS:
        check_statements_about_views(sql, table, catalog)
    else:
        sql.sql(f"CALL {catalog}.system.drop_view('{view}')")
    assert database.rows(f"SELECT * FROM information_schema.views WHERE table_name LIKE '{view}%'") == []
    assert is_listed(database, table)


def check_statements_about_views(sql: SparkSession, table: str, catalog: str) -> None:
    view = f"{table}_v"
    found = [tuple(row)[:2] for row in sql.sql(f"SHOW VIEWS IN {catalog}.public").collect()]
    assert ("public", view) in found
    assert ("public", table) not in found
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql.sql(f"SHOW VIEWS IN {catalog}.nowhere")
    with pytest.raises(AnalysisException, match="Use DROP TABLE"):
        sql.sql(f"DROP VIEW {catalog}.public.{table}")
    sql.sql(f"DROP VIEW {catalog}.public.{view}")
    sql.sql(f"DROP VIEW IF EXISTS {catalog}.public.{view}")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        sql.sql(f"DROP VIEW {catalog}.public.{view}")
