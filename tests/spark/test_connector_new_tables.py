"""CREATE TABLE … AS and REPLACE TABLE … AS through the connector: a table comes, or is replaced, whole and at once, or not at all."""

from __future__ import annotations

from itertools import product

import pytest
from adbc_driver_flightsql import dbapi
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.service.server_process import Server, files
from tests.spark.connector_results import texts

CATALOGS = ("lake", "far")
FIELDS = {
    "plain": "",
    "identity": "PARTITIONED BY (k)",
    "bucket": "PARTITIONED BY (bucket(4, id))",
    "days": "PARTITIONED BY (days(at))",
}
SOURCE = "SELECT id, id % 3 AS k, timestamp_seconds(1767225600 + id * 86400) AS at, IF(id % 5 = 0, NULL, 'r' || id) AS s FROM range(30)"
EXPECTED = (
    "SELECT value, value % 3, (1767225600 + value * 86400) * 1000000, CASE WHEN value % 5 <> 0 THEN 'r' || value END"
    " FROM range(30)"
)


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


@pytest.mark.parametrize(("catalog", "fields"), list(product(CATALOGS, FIELDS)))
def test_a_table_is_made_of_a_query(sql: SparkSession, server: Server, table: str, catalog: str, fields: str) -> None:
    sql.sql(f"CREATE TABLE {catalog}.{table} USING lance_flight {FIELDS[fields]} COMMENT 'made' AS {SOURCE}")
    stored = server.rows(f"SELECT id, k, CAST(at AS BIGINT), s FROM {table}")
    assert texts(stored) == texts(server.rows(EXPECTED))
    assert server.rows(f"SHOW CREATE TABLE {table}")[0][3].endswith("COMMENT 'made'")
    sql.sql(f"INSERT INTO {catalog}.{table} {SOURCE}")
    assert server.value(f"SELECT count(*) FROM {table}") == 60


@pytest.mark.parametrize("catalog", CATALOGS)
def test_nobody_sees_a_table_before_it_is_whole(sql: SparkSession, server: Server, table: str, catalog: str) -> None:
    watched(sql, server, f"SELECT count(*) FROM {table}")
    query = "SELECT watched(id) AS s FROM range(2)"
    sql.sql(f"CREATE TABLE {catalog}.{table} PARTITIONED BY (s) AS {query}")
    assert server.rows(f"SELECT s FROM {table} ORDER BY 1") == [("0: no table",), ("1: no table",)]
    sql.sql(f"CREATE OR REPLACE TABLE {catalog}.{table} AS {query}")
    assert server.rows(f"SELECT s FROM {table} ORDER BY 1") == [("0: [(2,)]",), ("1: [(2,)]",)]
    sql.sql(f"REPLACE TABLE {catalog}.{table} AS SELECT s || 's' AS t, length(s) AS n FROM {catalog}.{table}")
    assert server.rows(f"SELECT t, n FROM {table} ORDER BY 1") == [("0: [(2,)]s", 9), ("1: [(2,)]s", 9)]
    sql.sql(f"REPLACE TABLE {catalog}.{table} (id BIGINT NOT NULL) PARTITIONED BY (bucket(2, id))")
    assert server.query(f"SELECT * FROM {table}").to_pydict() == {"id": []}
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.sql(f"REPLACE TABLE {catalog}.{table}_none AS SELECT 1 AS id")


FAILING = {
    # Of one task: another one may write its file when the statement has failed, which a sweep removes.
    "a task": ("AS SELECT IF(id < 3, id, raise_error('too large')) AS id FROM range(0, 5, 1, 1)", "too large"),
    "a type": ("AS SELECT map('a', 1) AS m", "cannot be made in SQL"),
    "a field": ("PARTITIONED BY (nothing(id)) AS SELECT 1L AS id", "nothing"),
    "a column": ("AS SELECT missing FROM range(2)", "missing"),
    "an option": ("TBLPROPERTIES ('color' = 'red') AS SELECT 1L AS id", "color"),
}


@pytest.mark.parametrize("case", FAILING)
@pytest.mark.parametrize("begins", list(map(" TABLE ".join, product(("CREATE", "CREATE OR REPLACE"), CATALOGS))))
def test_what_fails_leaves_no_table_and_no_file(
    sql: SparkSession, server: Server, table: str, case: str, begins: str
) -> None:
    rest, message = FAILING[case]
    if begins.startswith("CREATE OR"):
        server.run(f"CREATE TABLE {table} AS SELECT 7 AS old")
    before = files(server.root)
    with pytest.raises(PySparkException, match=message):
        sql.sql(f"{begins}.{table} {rest}")
    assert files(server.root) == before
    if begins.startswith("CREATE OR"):
        assert server.rows(f"SELECT * FROM {table}") == [(7,)]


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_name_that_is_taken_meanwhile_stays_with_who_took_it(
    sql: SparkSession, server: Server, table: str, catalog: str
) -> None:
    watched(sql, server, f"CREATE TABLE IF NOT EXISTS {table} AS SELECT 'theirs' AS s")
    with pytest.raises(PySparkException, match="there already"):
        sql.sql(f"CREATE TABLE {catalog}.{table} AS SELECT watched(id) AS s FROM range(2)")
    assert server.rows(f"SELECT s FROM {table}") == [("theirs",)]
    sql.sql(f"CREATE TABLE IF NOT EXISTS {catalog}.{table} AS SELECT 'ours' AS s")
    assert server.rows(f"SELECT s FROM {table}") == [("theirs",)]
    sql.range(3).selectExpr("id", "'df' AS s").writeTo(f"{catalog}.{table}").createOrReplace()
    assert server.rows(f"SELECT id, s FROM {table} ORDER BY id") == [(0, "df"), (1, "df"), (2, "df")]
