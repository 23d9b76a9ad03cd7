"""INSERT, OVERWRITE, DELETE, UPDATE and MERGE through a server: one commit each, of the rows that the service's own SQL leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import cycle, product

import pyarrow as pa
import pytest
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight_client.errors import ServerError
from lance_flight_client.spark.connector.backends import backend_of
from lance_flight_client.spark.connector.reading.relations import ServerTable, load
from lance_flight_client.spark.connector.writing.server_writes import ServerWrite
from lance_flight_client.spark.options import NamedTable
from lance_flight_client.spark.types import spark_schema
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.service.server_process import Server, files
from tests.spark.connector_results import texts
from tests.spark.row_statements import (
    OVERWRITTEN,
    SHAPES,
    STATEMENTS,
    beside,
    check_overwrite,
    check_statement,
    made,
)
from tests.spark.tables import SHAPES as TABLES

PARTITIONED = [shape for shape in SHAPES if shape != "plain"]
PAIRS = list(product(STATEMENTS, PARTITIONED))
if os.environ.get("LANCE_FLIGHT_TESTS") != "full":
    PAIRS = list(zip(STATEMENTS, cycle(PARTITIONED), strict=False))


@pytest.mark.parametrize(("statement", "shape"), [*PAIRS, ("insert", "plain"), ("delete by a column", "plain")])
def test_a_statement_leaves_the_rows_that_the_service_leaves(
    sql: SparkSession, server: Server, table: str, shape: str, statement: str
) -> None:
    check_statement(sql, server, table, "far", shape, statement)


@pytest.mark.parametrize("case", OVERWRITTEN)
def test_an_overwrite_replaces_what_it_names(sql: SparkSession, server: Server, table: str, case: str) -> None:
    check_overwrite(sql, server, table, "far", case)


PLAIN = {
    "static": ("INSERT OVERWRITE {t} SELECT id + 100, 'x' FROM {t} WHERE id < 2", [(100, "x"), (101, "x")]),
    "with nothing": ("INSERT OVERWRITE {t} SELECT id, s FROM {t} WHERE id > 100", []),
    "truncated": ("TRUNCATE TABLE {t}", []),
}


@pytest.mark.parametrize("case", PLAIN)
def test_an_overwrite_replaces_a_plain_table(sql: SparkSession, server: Server, table: str, case: str) -> None:
    statement, expected = PLAIN[case]
    server.run(f"CREATE TABLE {table} AS SELECT value AS id, 's' AS s FROM range(4)")
    sql.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    sql.sql(statement.format(t=f"far.{table}"))
    assert server.rows(f"SELECT * FROM {table} ORDER BY id") == expected


# A partition that was attached without all columns takes no rows, from nobody.
@pytest.mark.parametrize("shape", [shape for shape in TABLES if shape != "disagreeing"])
def test_every_kind_of_table_takes_its_own_rows(sql: SparkSession, server: Server, table: str, shape: str) -> None:
    TABLES[shape].make(server, table)
    before = server.rows(f"SELECT * FROM {table}")
    sql.sql(f"INSERT INTO far.{table} SELECT * FROM far.{table}")
    assert texts(server.rows(f"SELECT * FROM {table}")) == texts([*before, *before])


TYPED = pa.table(
    {
        "id": pa.array([1, 2], pa.uint32()),
        "large": pa.array([2**64 - 1, None], pa.uint64()),
        "half": pa.array([1.5, None], pa.float16()),
        "vector": pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)),
        "nanos": pa.array([1_000, None], pa.timestamp("ns")),
        "tokyo": pa.array([1, None], pa.timestamp("s", "Asia/Tokyo")),
        "day": pa.array([1, None], pa.date32()),
        "money": pa.array([None, 2], pa.decimal128(20, 2)),
        "bytes": pa.array([b"\x00", None], pa.large_binary()),
        "texts": pa.array([["a", None], None], pa.list_(pa.large_utf8())),
        "inner": pa.array([{"x y": 1, "z": None}, None], pa.struct([("x y", pa.uint8()), ("z", pa.utf8())])),
    }
)


@pytest.mark.parametrize("partition_by", ["id", None])
def test_types_that_spark_has_not_are_stored_as_they_were(
    sql: SparkSession, server: Server, table: str, partition_by: str | None
) -> None:
    server.ingest(table, TYPED, partition_by=partition_by)
    stored = server.query(f"SELECT * FROM {table} ORDER BY id")
    sql.sql(f"INSERT INTO far.{table} SELECT * FROM far.{table}")
    found = server.query(f"SELECT * FROM {table} ORDER BY id")
    assert found == pa.concat_tables([stored.slice(at, 1) for at in (0, 0, 1, 1)])


REFUSED = {
    "NULL where there is none": ("identity", "INSERT INTO {t} VALUES (NULL, 1)", "NULL"),
    "a task that fails": ("identity", "INSERT INTO {t} SELECT IF(id < 9, id, raise_error('too large')), 1 FROM range(12)", "too large"),
    "an update that fails": ("identity", "UPDATE {t} SET id = IF(id < 3, id, raise_error('too large')) WHERE id % 1 = 0", "too large"),
    "a row that is matched twice": (
        "identity",
        "MERGE INTO {t} AS t USING (SELECT 1L AS id UNION ALL SELECT 1L) AS n ON t.id = n.id WHEN MATCHED THEN UPDATE SET k = 7",
        "MERGE_CARDINALITY_VIOLATION",
    ),
    "an update of a plain table": ("plain", "UPDATE {t} SET k = k + 1 WHERE id % 2 = 0", "is not partitioned.*option 'root'"),
    "a part of a plain table": ("plain", "INSERT OVERWRITE {t} PARTITION (k = 1) SELECT 5L", "PARTITION|not partitioned"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_fails_leaves_the_table_and_the_root_as_they_were(
    sql: SparkSession, server: Server, table: str, case: str
) -> None:
    shape, statement, message = REFUSED[case]
    server.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, k BIGINT) {SHAPES[shape]}")
    server.run(f"INSERT INTO {table} SELECT value, value % 3 FROM range(6)")
    before = files(server.root)
    with pytest.raises(PySparkException, match=message):
        sql.sql(statement.format(t=f"far.{table}"))
    assert files(server.root) == before


def planned(server: Server, table: str) -> ServerWrite:
    options = {"uri": server.uri}
    relation = load(options, backend_of(options), NamedTable("public", table))
    assert isinstance(relation, ServerTable)
    return ServerWrite.begin(relation, spark_schema(relation.source), Replaces.NOTHING, None)


def test_rows_that_tasks_send_again_are_stored_once(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    before = files(server.root)
    write = planned(server, table)
    parts = [pa.record_batch({"id": [n, n + 1], "k": [n, 0]}) for n in (10, 20)]
    failed = pa.record_batch({"id": [99, 99], "k": [99, 99]})
    with pytest.raises(OSError, match="lost"):
        write.write(lost(failed))
    attempts = [[write.write([part]) for _ in range(2)] for part in parts]
    assert server.value(f"SELECT count(*) FROM {table}") == 0
    write.commit([attempts[0][1], attempts[1][0], write.write([])], None)
    assert server.rows(f"SELECT id, k FROM {table} ORDER BY id") == [(10, 10), (11, 0), (20, 20), (21, 0)]
    assert len(server.rows(f'SELECT * FROM "{table}$snapshots"')) == 2
    with pytest.raises(ServerError, match="session"):
        write.commit([attempts[0][0]], None)
    other = planned(server, table)
    other.write([parts[0]])
    other.abort()
    server.run(f"DROP TABLE {table}")
    assert files(server.root) == {each for each in before if each.partition("/")[0] != table}


def lost(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows of an executor that ends after its first batch."""
    yield batch
    raise OSError("the executor was lost")


CONFLICTING = {
    "an update of the same rows": ("UPDATE {t} SET s = held(s) WHERE k = 1 AND id % 1 = 0", True),
    "an overwrite of the table": ("INSERT OVERWRITE {t} SELECT id, k, held(s), at, x FROM {t}", True),
    "an overwrite of other rows": ("INSERT OVERWRITE {t} PARTITION (k = 2) SELECT id, held(s), at, x FROM {t} WHERE k = 2", False),
    "an insert": ("INSERT INTO {t} SELECT id, 77, held(s), at, x FROM {t}", False),
    "an update of other rows": ("UPDATE {t} SET s = held(s) WHERE k = 3 AND id % 1 = 0", False),
}  # fmt: skip


@pytest.mark.parametrize("case", CONFLICTING)
def test_a_change_beside_one_of_the_same_rows_is_a_conflict(
    sql: SparkSession, server: Server, table: str, case: str
) -> None:
    statement, is_conflict = CONFLICTING[case]
    made(server, table, "identity")
    sql.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    beside(sql, server, table, f"UPDATE {table} SET s = 'theirs' WHERE id = 1")
    if is_conflict:
        with pytest.raises(PySparkException, match="changed by another writer"):
            sql.sql(statement.format(t=f"far.{table}"))
    else:
        sql.sql(statement.format(t=f"far.{table}"))
    assert server.rows(f"SELECT count(*), max(id) FROM {table} WHERE s = 'theirs'") == [(1, 1)]
    assert (server.value(f"SELECT count(*) FROM {table} WHERE s = 'held'") == 0) == is_conflict
