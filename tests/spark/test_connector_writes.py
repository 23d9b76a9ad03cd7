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
    "CREATE OR REPLACE TABLE {t} AS SELECT INTERVAL '1' YEAR AS m": "no column has it; expected INT, a number of months",
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


SHAPED = (
    *("k", "bucket(6, id)", "bucket(6, s), k", "months(at)", "days(on_day)", "truncate(10, id)"),
    *("multi_bucket(5, k, s)", "truncate(2, s)", "bucket(3, at)", "bucket(3, on_day), expr('col0 % 2', k)"),
)
ROWS = (
    "id, id % 4 AS k, IF(id % 7 = 0, NULL, 'r' || id % 9) AS s,"
    " TIMESTAMP '2026-01-01' + make_dt_interval(id % 120) AS at, DATE '1969-12-01' + INT(id % 40) AS on_day"
)


@pytest.mark.parametrize("catalog", CATALOGS)
@pytest.mark.parametrize("fields", SHAPED)
def test_a_write_of_many_tasks_makes_a_file_for_each_partition(
    sql: SparkSession, database: Database, table: str, *, fields: str, catalog: str
) -> None:
    query = f"SELECT {ROWS} FROM range(0, 200, 1, 8)"

    def files_of(name: str) -> tuple[int, int]:
        """Files of a table, and its partitions."""
        return (
            database.value(f'SELECT count(*) FROM "{name}$files"'),
            database.value(f'SELECT count(*) FROM "{name}$partitions"'),
        )

    sql.sql(f"CREATE TABLE {catalog}.{table} PARTITIONED BY ({fields}) AS {query}")
    count, partitions = files_of(table)
    assert count == partitions >= 3
    sql.sql(f"INSERT INTO {catalog}.{table} SELECT * FROM ({query})")
    assert files_of(table) == (2 * partitions, partitions)
    assert database.value(f"SELECT count(*) FROM {table}") == 400
    assert not [row for row in database.rows(f"VERIFY TABLE {table}") if "differ" in str(row)]
    if fields != "k":
        return
    sql.sql(f"INSERT INTO {catalog}.{table} WITH (distribution = 'none') SELECT * FROM ({query})")
    assert files_of(table) == (2 * partitions + 8 * partitions, partitions)
    sql.sql(
        f"MERGE INTO {catalog}.{table} AS t USING (SELECT {ROWS} FROM range(0, 240, 1, 8)) AS n ON t.id = n.id AND t.id > 300"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND n.id >= 200 THEN INSERT *"
    )
    assert files_of(table)[0] <= 11 * partitions
    sql.sql(
        f"INSERT OVERWRITE {catalog}.{table} WITH (distribution = 'range', sort_by = 'id') SELECT * FROM ({query}) ORDER BY rand(1)"
    )
    assert database.value(f"SELECT count(*) FROM {table}") == 200
    for k in range(4):
        ids = [row[0] for row in database.rows(f"SELECT id FROM {table} WHERE k = {k}")]
        assert ids == sorted(ids)
    # The table says it of each write that does not.
    sql.sql(f"ALTER TABLE {catalog}.{table} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id DESC")
    sql.sql(f"INSERT OVERWRITE {catalog}.{table} SELECT * FROM ({query}) ORDER BY rand(1)")
    assert files_of(table) == (partitions, partitions)
    for k in range(4):
        ids = [row[0] for row in database.rows(f"SELECT id FROM {table} WHERE k = {k}")]
        assert ids == sorted(ids, reverse=True)
    # The column that orders them goes, and they are written as they come.
    sql.sql(f"ALTER TABLE {catalog}.{table} WRITE ORDERED BY s, id")
    database.run(f"ALTER TABLE {table} DROP COLUMN s")
    sql.sql(f"REFRESH TABLE {catalog}.{table}")
    sql.sql(f"INSERT OVERWRITE {catalog}.{table} BY NAME SELECT id, k, at, on_day FROM ({query})")
    query = f"SELECT id, k, at, on_day FROM ({query})"
    for option, message in {
        "distribution = 'some'": "expected hash, range, none",
        "sort_by = 'nope'": "'sort_by' names 'nope'; expected columns",
        "target_file_size = '0'": "expected a number from 1 on",
    }.items():
        with pytest.raises(PySparkException, match=message):
            sql.sql(f"INSERT INTO {catalog}.{table} WITH ({option}) SELECT * FROM ({query})")
    assert database.value(f"SELECT count(*) FROM {table}") == 200


VALUES = {
    "flag": "id % 3 = 0",
    "tiny": "tinyint(id % 256 - 128)",
    "small": "smallint(id % 65536 - 32768)",
    "whole": "int(-id)",
    "long": "id * 9000000000",
    "real": "float(id / 7)",
    "double": "if(id % 5 = 0, double('NaN'), -id / 7)",
    "price": "cast(id % 1999 - 999 AS decimal(5, 2))",
    "most": "cast(id * -12345678901 AS decimal(18, 0))",
    "wide": "cast(id * -123456789012345 AS decimal(38, 9))",
    "text": "if(id % 1000 = 7, repeat('ü', 40000), string(id % 11))",
    "bytes": "binary(repeat('b', int(id % 40)))",
    "on_day": "date_sub(DATE '2026-01-01', int(id % 40000))",
    "at": "TIMESTAMP '1969-01-01' + make_dt_interval(id)",
    "local": "TIMESTAMP_NTZ '1969-01-01' + make_dt_interval(id)",
    "span": "make_dt_interval(0, id, 0, -1.5)",
    "items": "sequence(0, int(id % 4))",
    "pair": "struct(id AS a, string(id) AS b)",
}
"""Columns of which some values are wide, for more rows than the JVM packs into one batch, in numbers and in bytes."""
SUMS = (
    "min(tiny) sum(small) sum(whole) max(long) sum(price) min(price) max(most) min(most) min(wide) max(on_day)"
    " max(local) sum(length(text)) count(flag)"
).replace(" ", ", ")
"""What Spark and the service say alike, of the bytes that are stored."""


def test_many_rows_of_every_type_are_written_as_they_are(sql: SparkSession, database: Database, table: str) -> None:
    columns = ", ".join(f"if(id % 13 = 4, NULL, {value}) AS {name}" for name, value in VALUES.items())
    rows = f"SELECT id, {columns} FROM range(0, 70000, 1, 1)"
    hashed = f"count(*), sum(cast(xxhash64(id, {', '.join(VALUES)}) AS decimal(38, 0)))"
    name = f"lake.{table}"
    sql.sql(f"CREATE TABLE {name} PARTITIONED BY (bucket(2, id)) AS {rows}")
    assert sql.sql(f"SELECT {hashed} FROM {name}").collect() == sql.sql(f"SELECT {hashed} FROM ({rows})").collect()
    assert texts(database.rows(f"SELECT {SUMS} FROM {table}")) == texts(
        sql.sql(f"SELECT {SUMS} FROM ({rows})").collect()
    )
    sql.sql(f"UPDATE {name} SET whole = 7, text = NULL WHERE id % 4 = 1")
    changed = f"SELECT * EXCEPT (whole, text), if(id % 4 = 1, 7, whole) AS whole, if(id % 4 = 1, NULL, text) AS text FROM ({rows})"
    assert sql.sql(f"SELECT {hashed} FROM {name}").collect() == sql.sql(f"SELECT {hashed} FROM ({changed})").collect()
