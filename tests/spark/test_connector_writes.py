"""INSERT, OVERWRITE, DELETE, UPDATE and MERGE through the connector: each leaves the rows that the service's own SQL leaves, in one commit."""

from __future__ import annotations

import os
from itertools import cycle, product
from typing import cast

import pytest
from lance_flight.errors import QueryFailed
from lance_flight_client.spark.connector.writing import writes
from lance_flight_client.spark.writing.writer import PlannedWrite
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from tests.service.server_process import Server
from tests.spark.connector_results import texts
from tests.spark.row_statements import (
    OVERWRITTEN,
    SHAPES,
    STATEMENTS,
    beside,
    check_overwrite,
    check_statement,
    made,
    versions,
)

PAIRS = list(product(STATEMENTS, SHAPES))
if os.environ.get("LANCE_FLIGHT_TESTS") != "full":
    PAIRS = list(zip(STATEMENTS, cycle(SHAPES), strict=False))


@pytest.mark.parametrize(("statement", "shape"), PAIRS)
def test_a_statement_leaves_the_rows_that_the_service_leaves(
    sql: SparkSession, server: Server, table: str, shape: str, statement: str
) -> None:
    check_statement(sql, server, table, "lake", shape, statement)


@pytest.mark.parametrize("case", OVERWRITTEN)
def test_an_overwrite_replaces_what_it_names(sql: SparkSession, server: Server, table: str, case: str) -> None:
    check_overwrite(sql, server, table, "lake", case)


def test_a_table_is_made_of_a_query_and_written_by_dataframes(sql: SparkSession, server: Server, table: str) -> None:
    sql.sql(
        f"CREATE TABLE lake.{table} USING lance_flight PARTITIONED BY (bucket(2, id)) AS SELECT id, id * 2 AS d FROM range(10)"
    )
    sql.range(10, 15).selectExpr("id", "0L AS d").writeTo(f"lake.{table}").append()
    assert server.rows(f"SELECT count(*), sum(d), max(id) FROM {table}") == [(15, 90, 14)]
    assert versions(server, table) == 3


REFUSED = {
    "a row matched twice": (
        "MERGE INTO {t} AS t USING (SELECT 1L AS id UNION ALL SELECT 1L) AS n ON t.id = n.id WHEN MATCHED THEN UPDATE SET s = 'x'",
        "MERGE_CARDINALITY_VIOLATION",
    ),
    "a task that fails": ("UPDATE {t} SET x = assert_true(id < 30, 'too large') WHERE k >= 0", "too large"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_fails_leaves_the_table_as_it_was(sql: SparkSession, server: Server, table: str, case: str) -> None:
    statement, message = REFUSED[case]
    made(server, table, "identity")
    before = texts(server.rows(f"SELECT * FROM {table}"))
    count = versions(server, table)
    with pytest.raises(PySparkException, match=message):
        sql.sql(statement.format(t=f"lake.{table}"))
    assert texts(server.rows(f"SELECT * FROM {table}")) == before
    assert versions(server, table) == count


def test_an_overwrite_of_parts_of_partitions_is_refused(sql: SparkSession, server: Server, table: str) -> None:
    made(server, table, "identity")
    rows = sql.table(f"lake.{table}").where("id = 3")
    with pytest.raises(PySparkException, match="whole partitions"):
        rows.writeTo(f"lake.{table}").overwrite(col("id") == 3)
    assert server.value(f"SELECT count(*) FROM {table}") == 40


def test_rows_through_a_server_are_deleted_by_its_own_sql(sql: SparkSession, server: Server, table: str) -> None:
    made(server, table, "identity")
    sql.sql(f"DELETE FROM far.{table} WHERE id < 10")
    assert server.value(f"SELECT min(id) FROM {table}") == 10


def test_a_change_beside_one_of_the_same_rows_is_a_conflict(sql: SparkSession, server: Server, table: str) -> None:
    made(server, table, "identity")
    beside(sql, server, table, f"UPDATE {table} SET s = 'theirs' WHERE id = 1")
    with pytest.raises(PySparkException, match="changed by another writer"):
        sql.sql(f"UPDATE lake.{table} SET s = held(s) WHERE k = 1 AND id % 1 = 0")
    assert server.rows(f"SELECT count(*), count(DISTINCT s) FROM {table} WHERE s = 'theirs'") == [(1, 1)]


def test_a_change_beside_rows_of_other_partitions_is_none(sql: SparkSession, server: Server, table: str) -> None:
    made(server, table, "identity")
    beside(sql, server, table, f"INSERT INTO {table} (id, k) VALUES (500, 2)")
    sql.sql(f"UPDATE lake.{table} SET s = held(s) WHERE k = 1 AND id % 1 = 0")
    assert server.value(f"SELECT count(*) FROM {table} WHERE s = 'held' OR id = 500") == 11


def test_a_task_that_says_nothing_is_an_error() -> None:
    with pytest.raises(QueryFailed, match="nothing was committed"):
        writes.commit(cast("PlannedWrite", None), [None], None)
