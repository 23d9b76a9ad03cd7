"""Ingest over the wire: the four modes, partitioning by header and by option, and how rows become a table's types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import lance
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from adbc_driver_manager.dbapi import Connection
from lance_flight.flight.commands import StatementIngest, TableDefinitionOptions
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight_client.adbc import connect, ingest
from lance_flight_client.errors import ServerError

from tests.flight.statements import descriptor
from tests.service.server_process import Server, files
from tests.stock import manifest, stored_by_value, stored_rows, stored_tables

ROWS = pa.table({"id": [1, 2, 3, 4], "c": ["US", "DE", None, "US"]})
MORE = pa.table({"id": [5, 6], "c": ["DE", "FR"]})
SPLIT = {"US": [{"id": 1}, {"id": 4}], "DE": [{"id": 2}], None: [{"id": 3}]}

CREATE, FAIL = 1, 2
APPEND, REPLACE = 2, 3


def put(server: Server, command: StatementIngest, data: pa.Table) -> int:
    """Send rows with a command of our own; the row count of the one PutResult."""
    writer, answers = server.client.do_put(descriptor(command), data.schema)
    with writer:
        writer.write_table(data)
        writer.done_writing()
        answer = answers.read()
        assert answers.read() is None
    return int(pb.DoPutUpdateResult.FromString(answer.to_pybytes()).record_count)


@pytest.mark.parametrize("partition_by", [None, "c"], ids=["plain", "partitioned"])
class TestModes:
    """Each mode on a missing table and on one that is there."""

    def test_create_makes_a_table_and_refuses_one_that_is_there(
        self, server: Server, table: str, partition_by: str | None
    ) -> None:
        assert server.ingest(table, ROWS, "create", partition_by=partition_by) == 4
        before = files(server.root)
        with pytest.raises(Error, match="already_exists"):
            server.ingest(table, MORE, "create", partition_by=partition_by)
        assert files(server.root) == before
        assert server.value(f"SELECT sum(id) FROM {table}") == 10

    def test_append_adds_to_a_table_and_refuses_a_missing_one(
        self, server: Server, table: str, partition_by: str | None
    ) -> None:
        before = files(server.root)
        with pytest.raises(Error, match=f"not_found.*{table}"):
            server.ingest(table, ROWS, "append")
        assert files(server.root) == before
        server.ingest(table, ROWS, "create", partition_by=partition_by)
        assert server.ingest(table, MORE, "append") == 2
        assert sorted(server.rows(f"SELECT id FROM {table}")) == [(n,) for n in range(1, 7)]

    def test_replace_makes_a_table_or_puts_new_rows_in_its_place(
        self, server: Server, table: str, partition_by: str | None
    ) -> None:
        assert server.ingest(table, ROWS, "replace", partition_by=partition_by) == 4
        assert server.ingest(table, MORE.rename_columns(["n", "c"]), "replace", partition_by=partition_by) == 2
        assert sorted(server.rows(f"SELECT n, c FROM {table}")) == [(5, "DE"), (6, "FR")]

    def test_create_append_makes_a_table_and_then_adds_to_it(
        self, server: Server, table: str, partition_by: str | None
    ) -> None:
        assert server.ingest(table, ROWS, "create_append", partition_by=partition_by) == 4
        assert server.ingest(table, MORE, "create_append", partition_by=partition_by) == 2
        assert server.value(f"SELECT count(*) FROM {table}") == 6


def test_a_header_partitions_the_table_that_an_ingest_creates(server: Server, table: str) -> None:
    server.ingest(table, ROWS, partition_by="c")
    assert stored_by_value(server.root / table, "id") == SPLIT
    server.ingest(table, MORE, "append")
    assert stored_by_value(server.root / table, "id") == {
        "US": [{"id": 1}, {"id": 4}],
        "DE": [{"id": 2}, {"id": 5}],
        "FR": [{"id": 6}],
        None: [{"id": 3}],
    }


def test_an_option_of_the_command_partitions_the_table(server: Server, table: str) -> None:
    options = TableDefinitionOptions(if_not_exist=CREATE, if_exists=1)
    made = StatementIngest(table=table, table_definition_options=options, options={"partition_by": "c, bucket(4, id)"})
    assert put(server, made, ROWS) == 4
    assert server.rows(f"SELECT field_id FROM {table}$specs ORDER BY position") == [("c",), ("id_bucket",)]
    added = StatementIngest(
        table=table, table_definition_options=TableDefinitionOptions(if_not_exist=FAIL, if_exists=APPEND)
    )
    assert put(server, added, MORE) == 2
    assert stored_rows(server.root / table).num_rows == 6


@pytest.mark.parametrize(("overwrite", "left"), [("partitions", {1, 3, 4, 7}), ("table", {7})])
def test_a_header_says_which_rows_are_overwritten(server: Server, table: str, overwrite: str, left: set[int]) -> None:
    server.ingest(table, ROWS, partition_by="c")
    new = pa.table({"id": [7], "c": ["DE"]})
    assert ingest(server.connection, table, new, mode="append", overwrite=overwrite) == 1
    assert {row["id"] for each in stored_by_value(server.root / table, "id").values() for row in each} == left
    assert server.value(f'SELECT count(*) FROM "{table}$snapshots"') == 3


def test_rows_with_a_commit_id_are_stored_once(server: Server, table: str) -> None:
    assert ingest(server.connection, table, ROWS, mode="create_append", partition_by="c", commit_id="day 1") == 4
    with pytest.raises(ServerError, match=r"already_committed.*day 1"):
        ingest(server.connection, table, ROWS, mode="create_append", partition_by="c", commit_id="day 1")
    assert stored_by_value(server.root / table, "id") == SPLIT


def test_a_replaced_table_may_change_its_partitioning(server: Server, table: str) -> None:
    server.ingest(table, ROWS, partition_by="c")
    server.ingest(table, ROWS, "replace", partition_by="bucket(2, id)")
    assert server.rows(f"SELECT field_id FROM {table}$specs") == [("id_bucket",)]
    server.ingest(table, ROWS, "replace")
    assert lance.dataset(str(server.root / f"{table}.lance")).count_rows() == 4
    assert not (server.root / table).exists()


def test_rows_of_all_batches_arrive_in_one_commit(server: Server, table: str) -> None:
    server.ingest(table, ROWS.slice(0, 1), partition_by="c")
    version = manifest(server.root / table).version
    batches = [pa.record_batch({"id": [n, -n], "c": ["US", f"c{n % 5}"]}) for n in range(1, 40)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert server.ingest(table, reader, "append") == 78
    assert manifest(server.root / table).version == version + 1
    assert stored_rows(server.root / table).num_rows == 79
    assert server.rows(f"SELECT c, count(*), sum(id) FROM {table} WHERE c <> 'US' GROUP BY c ORDER BY c") == [
        (f"c{n}", len(range(n or 5, 40, 5)), -sum(range(n or 5, 40, 5))) for n in range(5)
    ]


def test_a_batch_without_rows_makes_an_empty_table(server: Server, table: str) -> None:
    empty = pa.RecordBatchReader.from_batches(ROWS.schema, [ROWS.to_batches()[0].slice(0, 0)])
    assert server.ingest(table, empty, partition_by="c") == 0
    assert server.query(f"SELECT * FROM {table}").schema == ROWS.schema
    assert server.rows(f"SELECT count(*), sum(id) FROM {table}") == [(0, None)]
    assert server.ingest(table, ROWS, "append") == 4


EMPTY = {
    "no batch": ROWS.slice(0, 0).combine_chunks(),
    "no batch of a reader": pa.RecordBatchReader.from_batches(ROWS.schema, []),
}


@pytest.mark.parametrize("rows", EMPTY.values(), ids=EMPTY)
def test_our_client_sends_a_table_without_rows(
    server: Server, table: str, rows: pa.Table | pa.RecordBatchReader
) -> None:
    with connect(server.uri) as connection:
        assert ingest(connection, table, rows) == 0
    assert server.value(f"SELECT count(*) FROM {table}") == 0


NEWCOMERS = [
    pytest.param(pa.array(["a", None]).dictionary_encode(), pa.utf8(), id="dictionary"),
    pytest.param(pa.array(["a", None], pa.string_view()), pa.utf8(), id="string view"),
    pytest.param(pa.array([b"a", None], pa.binary_view()), pa.binary(), id="binary view"),
    pytest.param(pa.array([Decimal("1.50"), None], pa.decimal32(5, 2)), pa.decimal128(5, 2), id="decimal of 32 bits"),
    pytest.param(pa.array([Decimal("1.50"), None], pa.decimal64(12, 2)), pa.decimal128(12, 2), id="decimal of 64 bits"),
    pytest.param(pa.array(["a", None], pa.large_utf8()), pa.large_utf8(), id="large text"),
    pytest.param(pa.array([1, None], pa.uint64()), pa.uint64(), id="unsigned"),
    pytest.param(pa.array([1.5, None], pa.float16()), pa.float16(), id="half float"),
    pytest.param(pa.array([[1], None], pa.list_(pa.int8())), pa.list_(pa.int8()), id="list"),
    pytest.param(pa.array([{"x": 1}, None]), pa.struct([("x", pa.int64())]), id="struct"),
    pytest.param(
        pa.array([[("k", 1)], None], pa.map_(pa.utf8(), pa.int32())), pa.map_(pa.utf8(), pa.int32()), id="map"
    ),
    pytest.param(pa.array([b"ab", None], pa.binary(2)), pa.binary(2), id="binary of a fixed size"),
    pytest.param(pa.array([1, None], pa.duration("us")), pa.duration("us"), id="duration"),
    pytest.param(pa.array([0, None], pa.date64()), pa.date64(), id="date of 64 bits"),
    pytest.param(
        pa.array([0, None], pa.timestamp("ms", "America/New_York")),
        pa.timestamp("ms", "America/New_York"),
        id="timestamp in a zone",
    ),
]


@pytest.mark.parametrize(("column", "kind"), NEWCOMERS)
@pytest.mark.parametrize("partition_by", [None, "id"], ids=["plain", "partitioned"])
def test_a_table_takes_the_types_of_its_first_rows(
    server: Server, table: str, partition_by: str | None, column: pa.Array, kind: pa.DataType
) -> None:
    server.ingest(table, pa.table({"id": [1, 2], "c": column}), partition_by=partition_by)
    place = server.root / (table if partition_by else f"{table}.lance")
    stored = stored_rows(place) if partition_by else lance.dataset(str(place)).to_table()
    assert stored.schema.field("c").type == kind
    assert server.query(f"SELECT c FROM {table} ORDER BY id")["c"].to_pylist() == column.to_pylist()


PARTITIONABLE = [
    pytest.param(pa.array([1, None], pa.int8()), id="int8"),
    pytest.param(pa.array([2**64 - 1, None], pa.uint64()), id="uint64"),
    pytest.param(pa.array([1.5, None], pa.float32()), id="float32"),
    pytest.param(pa.array([-0.5, None], pa.float64()), id="float64"),
    pytest.param(pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)), id="decimal128"),
    pytest.param(pa.array([Decimal("1.50"), None], pa.decimal256(50, 2)), id="decimal256"),
    pytest.param(pa.array(["", None]), id="empty text"),
    pytest.param(pa.array(["a$/=\n'\"…", None]), id="text of reserved characters"),
    pytest.param(pa.array(["é", None], pa.large_utf8()), id="large text"),
    pytest.param(pa.array([b"\x00\xff", None]), id="binary"),
    pytest.param(pa.array([b"\x00\xff", None], pa.binary(2)), id="binary of a fixed size"),
    pytest.param(pa.array([True, None]), id="boolean"),
    pytest.param(pa.array([dt.date(1969, 12, 31), None]), id="date32"),
    pytest.param(pa.array([86_400_000, None], pa.date64()), id="date64"),
    pytest.param(pa.array([dt.time(1, 2, 3), None], pa.time32("s")), id="time32"),
    pytest.param(pa.array([dt.time(1, 2, 3), None], pa.time64("us")), id="time64"),
    pytest.param(pa.array([dt.datetime(1969, 12, 31, 23), None], pa.timestamp("s")), id="timestamp of seconds"),
    pytest.param(pa.array([1, None], pa.timestamp("ns")), id="timestamp of nanoseconds"),
    pytest.param(pa.array([dt.datetime(2020, 1, 1), None], pa.timestamp("us", "UTC")), id="timestamp in UTC"),
    pytest.param(pa.array([1, None], pa.timestamp("ms", "America/New_York")), id="timestamp in a zone"),
]


@pytest.mark.parametrize("column", PARTITIONABLE)
def test_any_scalar_type_can_partition_by_its_value(server: Server, table: str, column: pa.Array) -> None:
    server.ingest(table, pa.table({"id": [1, 2], "c": column}), partition_by="c")
    server.ingest(table, pa.table({"id": [3, 4], "c": column}), "append")
    assert manifest(server.root / table).schema.field("partition_field_c").type == column.type
    stored = manifest(server.root / table).to_table(filter="object_type = 'table'")["partition_field_c"]
    assert sorted(map(str, stored.to_pylist())) == sorted(map(str, column.to_pylist()))
    answered = server.query(f"SELECT c, count(*) AS n FROM {table} GROUP BY c ORDER BY c NULLS LAST")
    assert (answered["c"].combine_chunks(), answered["n"].to_pylist()) == (column, [2, 2])


FITTING = [
    pytest.param({"id": pa.array([1], pa.int8())}, {"id": 1, "price": None, "c": None}, id="missing columns are NULL"),
    pytest.param({"c": ["x"], "id": [1]}, {"id": 1, "price": None, "c": "x"}, id="in another order"),
    pytest.param({"id": [1.0]}, {"id": 1, "price": None, "c": None}, id="whole doubles"),
    pytest.param({"id": [1], "price": [7]}, {"id": 1, "price": Decimal("7.00"), "c": None}, id="integers as decimals"),
    pytest.param(
        {"id": [1], "price": [1.25]}, {"id": 1, "price": Decimal("1.25"), "c": None}, id="doubles as decimals"
    ),
    pytest.param(
        {"id": [1], "c": pa.array(["x"]).dictionary_encode()}, {"id": 1, "price": None, "c": "x"}, id="dictionary"
    ),
    pytest.param({"id": [1], "c": pa.nulls(1)}, {"id": 1, "price": None, "c": None}, id="nulls without a type"),
]


@pytest.mark.parametrize(("columns", "expected"), FITTING)
@pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (c)"], ids=["plain", "partitioned"])
def test_rows_that_fit_without_loss_are_cast_to_the_types_of_the_table(
    server: Server, table: str, partitioned_by: str, columns: dict[str, Any], expected: dict[str, Any]
) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, price DECIMAL(10, 2), c VARCHAR){partitioned_by}")
    assert server.ingest(table, pa.table(columns), "append") == 1
    assert server.query(f"SELECT * FROM {table}").to_pylist() == [expected]


def test_a_stream_of_many_partitions_arrives_whole(server: Server, table: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 20_000, 1_000):
            numbers = pa.array(range(start, start + 1_000))
            yield pa.record_batch({"id": numbers, "part": pa.array([n % 150 for n in range(start, start + 1_000)])})

    schema = pa.schema({"id": pa.int64(), "part": pa.int64()})
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    assert server.ingest(table, reader, partition_by="part") == 20_000
    assert server.rows(f"SELECT count(*), sum(id), count(DISTINCT part) FROM {table}") == [(20_000, 199_990_000, 150)]
    assert server.value(f"SELECT count(*) FROM {table}$partitions") == 150


def test_a_schema_of_the_root_holds_tables_of_its_own(server: Server, table: str) -> None:
    (server.root / "staging").mkdir(exist_ok=True)
    server.ingest(table, ROWS, partition_by="c", db_schema_name="staging", catalog_name="lance")
    assert sorted(server.rows(f"SELECT id FROM staging.{table}")) == [(1,), (2,), (3,), (4,)]
    assert stored_by_value(server.root / "staging" / table, "id") == SPLIT
    assert ("staging", table, True) in server.rows("SHOW TABLES")
    assert "not_found" in server.refuses(f"SELECT * FROM {table}")


def test_structs_inside_structs_go_into_several_partitions(server: Server, table: str) -> None:
    inner = pa.struct({"u": pa.int32(), "v": pa.utf8()})
    schema = pa.schema({"id": pa.int64(), "s": pa.struct({"x": pa.int16(), "y": inner})})
    values = [None, {"x": 1, "y": None}, {"x": None, "y": {"u": 2, "v": "b"}}]
    rows = pa.Table.from_pylist([{"id": n, "s": value} for n, value in enumerate(values)], schema=schema)
    assert server.ingest(table, rows, partition_by="id") == len(values)
    server.run(f"INSERT INTO {table} (id) VALUES (3), (4), (5)")
    found = server.query(f"SELECT s FROM {table} ORDER BY id")["s"].to_pylist()
    assert found == [*values, None, None, None]


@pytest.mark.parametrize("partition_by", ["c", None], ids=["partitioned", "plain"])
def test_an_ingest_chooses_the_version_of_the_files(server: Server, table: str, partition_by: str | None) -> None:
    sent = ingest(server.connection, table, ROWS, partition_by=partition_by, file_version="2.0")
    assert sent == ROWS.num_rows
    server.ingest(table, MORE, "append")
    if partition_by is None:
        assert lance.dataset(str(server.root / f"{table}.lance")).data_storage_version == "2.0"
        return
    assert set(server.rows(f"SELECT file_version FROM {table}$files")) == {("2.0",)}
    assert {stored.dataset.data_storage_version for stored in stored_tables(server.root / table)} == {"2.0"}
    assert sorted(server.rows(f"SELECT id FROM {table}")) == [(n,) for n in range(1, 7)]


def test_an_ingest_with_an_unknown_version_of_files_is_refused(server: Server, table: str) -> None:
    with pytest.raises(ServerError, match=r"invalid_input.*file_version is '3\.0'; expected 2\.0, 2\.1 or 2\.2"):
        ingest(server.connection, table, ROWS, partition_by="c", file_version="3.0")


def plain(uri: str) -> Connection:
    """A connection of the driver's own."""
    return dbapi.connect(uri, autocommit=True)


LARGE = {
    "a batch of 40 MB": (["x" * 40_000] * 1000, connect, 1000),
    "a row of 20 MB": (["x" * 20_000_000, "y"], connect, 2),
    "a batch of 40 MB over a connection of the driver's": (["x" * 40_000] * 1000, plain, 1000),
    "a row of 20 MB over a connection of the driver's": (
        ["x" * 20_000_000, "y"],
        plain,
        "raise the option adbc.flight.sql.client_option.with_max_msg_size",
    ),
}


@pytest.mark.parametrize(("values", "open_", "expected"), LARGE.values(), ids=LARGE.keys())
def test_rows_larger_than_a_message_of_the_driver(
    server: Server, table: str, values: list[str], open_: Callable[[str], Connection], expected: int | str
) -> None:
    rows = pa.table({"s": values})
    with open_(server.uri) as connection:
        if isinstance(expected, str):
            with pytest.raises(ServerError, match=expected):
                ingest(connection, table, rows)
            assert not (server.root / f"{table}.lance").exists()
        else:
            assert ingest(connection, table, rows) == expected
            assert server.value(f"SELECT sum(length(s)) FROM {table}") == sum(map(len, values))
