"""Views of the service in Spark's SQL: made by a procedure, read, listed and dropped, and refused where Spark would make its own."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.spark.connector_results import CATALOGS, texts, values

HAS_VIEWS = pyspark.__version__ >= "4.2"
"""Spark 4.1 plans no statement about views of a catalog."""
ONLY_WITH_VIEWS = pytest.mark.skipif(not HAS_VIEWS, reason="Spark 4.1 plans no views")


@pytest.fixture
def view(server: Server, table: str) -> str:
    server.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    server.run(f"INSERT INTO {table} SELECT value, value % 3 FROM range(9)")
    return f"{table}_v"


def service_views(server: Server, name: str) -> list[tuple[str, ...]]:
    return server.rows(f"SELECT table_name FROM information_schema.views WHERE table_name = '{name}'")


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_view_is_made_read_and_dropped(
    sql: SparkSession, server: Server, table: str, view: str, catalog: str
) -> None:
    query = f"SELECT k, count(*) AS n FROM {table} GROUP BY k"
    sql.sql(f"CALL {catalog}.system.create_view('{view}', '{query}')")
    assert values(sql.sql(f"SELECT * FROM {catalog}.{view} WHERE k > 0")) == texts([(1, 3), (2, 3)])
    with pytest.raises(PySparkException, match=view):
        sql.sql(f"CALL {catalog}.system.create_view('{view}', '{query}')")
    sql.sql(f"CALL {catalog}.system.replace_view('public.{view}', 'SELECT id FROM {table} WHERE k = 0')")
    assert values(sql.table(f"{catalog}.{view}")) == texts([(0,), (3,), (6,)])
    listed = {row.tableName for row in sql.sql(f"SHOW TABLES IN {catalog}.public").collect()}
    # From 4.2 on Spark lists the views of any catalog among its tables.
    assert {table, view} & listed == ({table, view} if HAS_VIEWS else {table})
    with pytest.raises(PySparkException, match="is a view; expected DROP VIEW"):
        sql.sql(f"DROP TABLE {catalog}.public.{view}")
    sql.sql(f"CALL {catalog}.system.drop_view('{view}')")
    assert service_views(server, view) == []


@ONLY_WITH_VIEWS
@pytest.mark.parametrize("catalog", CATALOGS)
def test_views_are_listed_and_dropped(sql: SparkSession, server: Server, table: str, view: str, catalog: str) -> None:
    server.run(f"CREATE VIEW {view} AS SELECT id FROM {table}")
    found = sql.sql(f"SHOW VIEWS IN {catalog}.public").collect()
    assert ("public", view) in [tuple(row)[:2] for row in found]
    assert table not in [row.viewName for row in found]
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        sql.sql(f"SHOW VIEWS IN {catalog}.nowhere")
    with pytest.raises(AnalysisException, match="Use DROP TABLE"):
        sql.sql(f"DROP VIEW {catalog}.public.{table}")
    assert server.value(f"SELECT count(*) FROM {view}") == 9
    sql.sql(f"DROP VIEW {catalog}.public.{view}")
    sql.sql(f"DROP VIEW IF EXISTS {catalog}.public.{view}")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        sql.sql(f"DROP VIEW {catalog}.public.{view}")
    assert service_views(server, view) == []


@pytest.mark.parametrize("statement", ["CREATE VIEW", "CREATE OR REPLACE VIEW"])
@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_view_of_spark_is_refused_by_what_to_do(
    sql: SparkSession, server: Server, view: str, catalog: str, statement: str
) -> None:
    procedure = "replace_view" if "REPLACE" in statement else "create_view"
    told = rf"not of Spark; expected CALL {catalog}\.system\.{procedure}\('public\.{view}', 'SELECT …'\)"
    with pytest.raises(PySparkException, match=told if HAS_VIEWS else "does not support views"):
        sql.sql(f"{statement} {catalog}.public.{view} AS SELECT 1 AS one")
    assert service_views(server, view) == []
