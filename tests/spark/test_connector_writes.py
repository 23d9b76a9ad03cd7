"""INSERT, OVERWRITE, DELETE, UPDATE and MERGE through the connector: each leaves the rows that the service's own SQL leaves, in one commit."""

from __future__ import annotations

import os
from itertools import cycle, product
from typing import cast

import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.errors import QueryFailed
from lance_flight_client.spark.connector import writes
from lance_flight_client.spark.writing.writer import PlannedWrite
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from tests.service.server_process import Server
from tests.spark.connector_results import texts

COLUMNS = "(id BIGINT, k BIGINT, s VARCHAR, at TIMESTAMP, x DOUBLE)"
ROWS = (
    "SELECT value, value % 4, CASE WHEN value % 7 <> 0 THEN 'r' || value END,"
    " to_timestamp(1767225600 + value * 86400), value / 2.0 FROM range(40)"
)
SHAPES = {
    "identity": "PARTITIONED BY (k)",
    "bucket": "PARTITIONED BY (bucket(4, id))",
    "months": "PARTITIONED BY (year(at), month(at))",
    "plain": "",
}
NEW = "SELECT CAST(id AS BIGINT) AS id, CAST(k AS BIGINT) AS k, s FROM (VALUES (1, 1, 'a'), (8, 0, 'b'), (100, 7, NULL)) AS v(id, k, s)"
MERGED = f"MERGE INTO {{t}} AS t USING ({NEW}) AS n ON t.id = n.id"
STATEMENTS = {
    "insert": "INSERT INTO {t} (id, k, s) SELECT id + 1000, k, 'new' FROM ({all}) AS o WHERE k < 2",
    "insert nothing": "INSERT INTO {t} (id, k, s) SELECT id, k, s FROM ({all}) AS o WHERE id < 0",
    "delete by a partition": "DELETE FROM {t} WHERE k = 2",
    "delete by a column": "DELETE FROM {t} WHERE id IN (1, 5, 33) OR s IS NULL",
    "delete by an expression": "DELETE FROM {t} WHERE id % 5 = 3",
    "delete by a subquery": "DELETE FROM {t} WHERE id IN (SELECT id + 1 FROM ({all}) AS o WHERE k = 0)",
    "delete nothing": "DELETE FROM {t} WHERE id % 5 = 7",
    "delete all": "DELETE FROM {t}",
    "update": "UPDATE {t} SET s = 'changed', x = x + 1 WHERE k = 1 AND id % 3 = 0",
    "update the partition": "UPDATE {t} SET k = k + 10 WHERE k >= 2",
    "update to NULL": "UPDATE {t} SET s = NULL WHERE x > 7.5",
    "update all": "UPDATE {t} SET x = 0",
    "update by a subquery": "UPDATE {t} SET s = 'in' WHERE id IN (SELECT id * 2 FROM ({all}) AS o WHERE k = 1)",
    "update to a subquery": "UPDATE {t} SET x = (SELECT max(o.x) FROM ({all}) AS o) WHERE k = 3",
    "merge": f"{MERGED} WHEN MATCHED THEN UPDATE SET s = n.s, k = n.k WHEN NOT MATCHED THEN INSERT (id, k, s) VALUES (n.id, n.k, n.s)",
    "merge that deletes": f"{MERGED} WHEN MATCHED AND n.s = 'a' THEN DELETE WHEN MATCHED THEN UPDATE SET s = 'kept'",
    "merge that only inserts": f"{MERGED} WHEN NOT MATCHED THEN INSERT (id, k, s) VALUES (n.id, n.k, 'only')",
    "merge with a condition": f"{MERGED} AND t.k = 0 WHEN MATCHED THEN UPDATE SET x = -1",
    "merge by the source": f"{MERGED} WHEN MATCHED THEN UPDATE SET s = 'm' WHEN NOT MATCHED BY SOURCE AND t.k = 3 THEN DELETE",
}


def made(server: Server, name: str, shape: str) -> None:
    server.run(f"CREATE TABLE {name} {COLUMNS} {SHAPES[shape]}")
    server.run(f"INSERT INTO {name} {ROWS}")


def versions(server: Server, name: str) -> int:
    return int(server.value(f'SELECT count(*) FROM "{name}$snapshots"'))


PAIRS = list(product(STATEMENTS, SHAPES))
if os.environ.get("LANCE_FLIGHT_TESTS") != "full":
    PAIRS = list(zip(STATEMENTS, cycle(SHAPES), strict=False))


@pytest.mark.parametrize(("statement", "shape"), PAIRS)
def test_a_statement_leaves_the_rows_that_the_service_leaves(
    sql: SparkSession, server: Server, table: str, shape: str, statement: str
) -> None:
    theirs = f"{table}_theirs"
    made(server, table, shape)
    made(server, theirs, shape)
    before = versions(server, table)
    text = STATEMENTS[statement]
    sql.sql(text.format(t=f"lake.{table}", all=f"SELECT * FROM lake.{theirs}"))
    assert versions(server, table) - before <= 1
    server.run(text.format(t=theirs, all=f"SELECT * FROM {theirs}"))
    assert texts(server.rows(f"SELECT * FROM {table}")) == texts(server.rows(f"SELECT * FROM {theirs}"))
    assert texts(sql.table(f"lake.{table}").collect()) == texts(server.rows(f"SELECT * FROM {theirs}"))


OVERWRITTEN = {
    "dynamic": (
        "dynamic",
        "INSERT OVERWRITE {t} VALUES (1, 1, 'x'), (2, 9, 'y')",
        "k NOT IN (1, 9)",
        [(1, 1, "x"), (2, 9, "y")],
    ),
    "static": ("static", "INSERT OVERWRITE {t} VALUES (1, 1, 'x')", "false", [(1, 1, "x")]),
    "a partition": ("static", "INSERT OVERWRITE {t} PARTITION (k = 3) SELECT 5L, 'y'", "k <> 3", [(5, 3, "y")]),
    "a partition, with nothing": (
        "static",
        "INSERT OVERWRITE {t} PARTITION (k = 3) SELECT 5L, 'y' WHERE false",
        "k <> 3",
        [],
    ),
    "a new partition": ("static", "INSERT OVERWRITE {t} PARTITION (k = 77) SELECT 5L, 'y'", "true", [(5, 77, "y")]),
    "truncated": ("static", "TRUNCATE TABLE {t}", "false", []),
}


@pytest.mark.parametrize("case", OVERWRITTEN)
def test_an_overwrite_replaces_what_it_names(sql: SparkSession, server: Server, table: str, case: str) -> None:
    mode, statement, kept, new = OVERWRITTEN[case]
    server.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT, s VARCHAR) PARTITIONED BY (k)")
    server.run(f"INSERT INTO {table} SELECT value, value % 4, 'r' FROM range(12)")
    expected = [*server.rows(f"SELECT * FROM {table} WHERE {kept}"), *new]
    sql.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    sql.sql(statement.format(t=f"lake.{table}"))
    assert texts(server.rows(f"SELECT * FROM {table}")) == texts(expected)


def test_a_table_is_made_of_a_query_and_written_by_dataframes(sql: SparkSession, server: Server, table: str) -> None:
    sql.sql(
        f"CREATE TABLE lake.{table} USING lance_flight PARTITIONED BY (bucket(2, id)) AS SELECT id, id * 2 AS d FROM range(10)"
    )
    sql.range(10, 15).selectExpr("id", "0L AS d").writeTo(f"lake.{table}").append()
    assert server.rows(f"SELECT count(*), sum(d), max(id) FROM {table}") == [(15, 90, 14)]
    assert versions(server, table) == 3


REFUSED: dict[str, tuple[str, str, str]] = {
    "rows through a server": ("far", "INSERT INTO {t} VALUES (3, 3, 's', NULL, 0)", "does not support append"),
    "a change through a server": ("far", "UPDATE {t} SET s = 'x' WHERE id % 3 = 0", "need a catalog over a root"),
    "a row matched twice": (
        "lake",
        "MERGE INTO {t} AS t USING (SELECT 1L AS id UNION ALL SELECT 1L) AS n ON t.id = n.id WHEN MATCHED THEN UPDATE SET s = 'x'",
        "MERGE_CARDINALITY_VIOLATION",
    ),
    "a task that fails": ("lake", "UPDATE {t} SET x = assert_true(id < 30, 'too large') WHERE k >= 0", "too large"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_fails_leaves_the_table_as_it_was(sql: SparkSession, server: Server, table: str, case: str) -> None:
    catalog, statement, message = REFUSED[case]
    made(server, table, "identity")
    before = texts(server.rows(f"SELECT * FROM {table}"))
    count = versions(server, table)
    with pytest.raises(PySparkException, match=message):
        sql.sql(statement.format(t=f"{catalog}.{table}"))
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


def beside(sql: SparkSession, server: Server, table: str, statement: str) -> None:
    """Register `held(s)`: the first row of a task that it is evaluated for has the server run a statement, unless that was run."""
    uri = server.uri

    def held(_: str | None) -> str:
        if not getattr(held, "done", False):
            held.done = True  # type: ignore[attr-defined]
            with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
                cursor.execute(f"SELECT count(*) FROM {table} WHERE s = 'theirs' OR id = 500")
                if cursor.fetchone() == (0,):
                    cursor.execute(statement)
        return "held"

    sql.udf.register("held", held, "string")


def test_a_task_that_says_nothing_is_an_error() -> None:
    with pytest.raises(QueryFailed, match="nothing was committed"):
        writes.commit(cast("PlannedWrite", None), [None], None)
