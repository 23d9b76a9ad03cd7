"""Statements of Spark that write rows, through both catalogs: each leaves the rows that the service's own SQL leaves, in one commit."""

from __future__ import annotations

import pytest
from adbc_driver_flightsql import dbapi
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from tests.engine.database import Database
from tests.selection import IS_FULL
from tests.service.server_process import Server, files
from tests.spark.connector_results import CATALOGS, IN_SPARK, texts
from tests.spark.row_statements import OVERWRITTEN, PLACES, made, statements_at, versions


@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_statements_leave_the_rows_that_the_service_leaves(
    sql: SparkSession, database: Database, table: str, place: tuple[str, str]
) -> None:
    """One after another, on the same table: what each leaves is what the next one begins with."""
    catalog, shape = place
    ours, theirs = f"{catalog}.{table}", f"{table}_theirs"
    for name in (table, theirs):
        made(database, name, shape)
    for text in statements_at(place):
        if place == ("far", "plain") and not text.startswith(("INSERT", "DELETE")):
            continue
        before = versions(database, table)
        sql.sql(text.format(t=ours, all=f"SELECT * FROM {catalog}.{theirs}"))
        assert versions(database, table) - before <= 1
        database.run(text.format(t=theirs, all=f"SELECT * FROM {theirs}"))
        expected = texts(database.rows(f"SELECT * FROM {theirs}"))
        assert texts(database.rows(f"SELECT * FROM {table}")) == expected, text
    assert texts(sql.table(ours).collect()) == expected


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_an_overwrite_replaces_what_it_names(sql: SparkSession, database: Database, table: str, catalog: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT value AS id, value % 4 AS k, 'r' AS s FROM range(12)")
    for case in OVERWRITTEN if IS_FULL else ["dynamic", "a partition", "static"]:
        mode, statement, kept, new = OVERWRITTEN[case]
        name = f"{table}_{case.replace(' ', '_').replace(',', '')}"
        database.run(f"CREATE TABLE {name} PARTITIONED BY (k) AS SELECT * FROM {table}")
        expected = [*database.rows(f"SELECT * FROM {name} WHERE {kept}"), *new]
        count = versions(database, name)
        sql.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
        sql.sql(statement.format(t=f"{catalog}.{name}"))
        assert texts(database.rows(f"SELECT * FROM {name}")) == texts(expected), case
        assert versions(database, name) - count <= 1
    if catalog == "lake":
        with pytest.raises(PySparkException, match="whole partitions"):
            sql.table(f"lake.{name}").where("id = 3").writeTo(f"lake.{name}").overwrite(col("id") == 3)


def watched(sql: SparkSession, server: Server, said: str) -> None:
    """Register `watched(x)`, which is x; the tasks that evaluate it find out what the server answers to a query, an error's text or its rows."""
    uri = server.uri

    def watching(value: int) -> str:
        with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            try:
                cursor.execute(said)
                return f"{value}: {cursor.fetchall()}"
            except dbapi.Error as exc:
                return f"{value}: {'no table' if 'not_found' in str(exc) else exc}"

    sql.udf.register("watched", watching, "string")


@pytest.mark.parametrize("catalog", CATALOGS if IS_FULL else ["far"])
def test_nobody_sees_a_table_of_a_query_before_it_is_whole(
    sql: SparkSession, server: Server, table: str, catalog: str
) -> None:
    watched(sql, server, f"SELECT count(*) FROM {table}")
    query = "SELECT watched(id) AS s FROM range(2)"
    sql.sql(f"CREATE TABLE {catalog}.{table} PARTITIONED BY (s) COMMENT 'made' AS {query}")
    assert server.rows(f"SELECT s FROM {table} ORDER BY 1") == [("0: no table",), ("1: no table",)]
    assert server.rows(f"SHOW CREATE TABLE {table}")[0][3].endswith("COMMENT 'made'")
    sql.sql(f"CREATE OR REPLACE TABLE {catalog}.{table} AS {query}")
    assert server.rows(f"SELECT s FROM {table} ORDER BY 1") == [("0: [(2,)]",), ("1: [(2,)]",)]
    sql.sql(f"REPLACE TABLE {catalog}.{table} AS SELECT s || 's' AS t, length(s) AS n FROM {catalog}.{table}")
    assert server.rows(f"SELECT t, n FROM {table} ORDER BY 1") == [("0: [(2,)]s", 9), ("1: [(2,)]s", 9)]
    sql.sql(f"REPLACE TABLE {catalog}.{table} (id BIGINT NOT NULL) PARTITIONED BY (bucket(2, id))")
    assert server.query(f"SELECT * FROM {table}").to_pydict() == {"id": []}
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.sql(f"REPLACE TABLE {catalog}.{table}_none AS SELECT 1 AS id")
    sql.range(3).selectExpr("id", "'df' AS s").writeTo(f"{catalog}.{table}").createOrReplace()
    sql.range(3, 5).selectExpr("id", "'more' AS s").writeTo(f"{catalog}.{table}").append()
    assert server.rows(f"SELECT max(id), count(*), count(DISTINCT s) FROM {table}") == [(4, 5, 2)]


MATCHED = "MERGE INTO {t} AS t USING (SELECT 1L AS id UNION ALL SELECT 1L) AS n ON t.id = n.id WHEN MATCHED THEN UPDATE SET k = 7"
FAILING = {
    # Of one task: another one may write its file when the statement has failed, which a sweep removes.
    "CREATE TABLE {t}_new AS SELECT IF(id < 3, id, raise_error('too large')) AS id FROM range(0, 5, 1, 1)": "too large",
    "CREATE OR REPLACE TABLE {t} AS SELECT map('a', 1) AS m": "cannot be made in SQL",
    MATCHED: "MERGE_CARDINALITY_VIOLATION",
    "UPDATE {t} SET id = IF(id < 3, id, raise_error('too large')) WHERE id % 1 = 0": "too large",
}


@pytest.mark.parametrize("catalog", IN_SPARK)
def test_what_fails_leaves_the_tables_and_the_root_as_they_were(
    sql: SparkSession, database: Database, table: str, catalog: str
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, k BIGINT) PARTITIONED BY (k)")
    database.run(f"INSERT INTO {table} SELECT value, value % 3 FROM range(6)")
    before, rows = files(database.root), texts(database.rows(f"SELECT * FROM {table}"))
    for statement, message in FAILING.items():
        with pytest.raises(PySparkException, match=message):
            sql.sql(statement.format(t=f"{catalog}.{table}"))
        assert texts(database.rows(f"SELECT * FROM {table}")) == rows
        if catalog == "far" or statement.startswith("CREATE"):
            assert files(database.root) == before, statement
        # The other tasks of a change in a root may write files when it has failed.
        before = files(database.root)
