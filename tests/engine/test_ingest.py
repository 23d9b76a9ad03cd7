"""Ingest: the four modes, what its rows replace, ids under which rows are stored once, and how rows become a table's types."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import lance
import pyarrow as pa
import pytest

from tests.engine.database import Database
from tests.service.server_process import files
from tests.stock import manifest, stored_rows

ROWS = pa.table({"id": [1, 2, 3, 4], "c": ["US", "DE", None, "US"]})
MORE = pa.table({"id": [5, 6], "c": ["DE", "FR"]})
MODES: dict[str, tuple[int | str, int | str]] = {
    "create": (4, "already_exists"),
    "append": ("not_found", 6),
    "replace": (4, 2),
    "create_append": (4, 6),
}
"""A mode, and how many rows a table has after it: one that is made by it, and one of four rows; or why it is refused."""


@pytest.mark.parametrize("partition_by", [None, "c"], ids=["plain", "partitioned"])
@pytest.mark.parametrize(("mode", "made", "there"), [(mode, *left) for mode, left in MODES.items()], ids=MODES)
def test_a_mode_decides_what_becomes_of_a_table(  # noqa: PLR0917
    database: Database, table: str, mode: str, made: int | str, there: int | str, partition_by: str | None
) -> None:
    database.ingest(f"{table}_there", ROWS, partition_by=partition_by)
    for name, rows, left in [(table, ROWS, made), (f"{table}_there", MORE, there)]:
        before = files(database.root)
        if isinstance(left, str):
            assert left in database.refuses_ingest(name, rows, mode)
            assert files(database.root) == before
        else:
            assert database.ingest(name, rows, mode, partition_by=partition_by) == rows.num_rows
            assert database.value(f"SELECT count(*) FROM {name}") == left


OLD, NEW = pa.table({"id": [1, 2, 3], "p": ["a", "b", "b"]}), pa.table({"id": [7, 8], "p": ["b", "c"]})
OVERWRITES = [
    ("p", "nothing", [1, 2, 3, 7, 8]),
    ("p", "partitions", [1, 7, 8]),
    (None, "partitions", [7, 8]),
    ("p", "table", [7, 8]),
    (None, "table", [7, 8]),
    ("bucket(3, id)", "table", [7, 8]),
]


def ids(database: Database, table: str) -> list[int]:
    return [number for (number,) in database.rows(f"SELECT id FROM {table} ORDER BY id")]


@pytest.mark.parametrize(("layout", "overwrite", "expected"), OVERWRITES)
def test_rows_replace_what_they_are_said_to(
    database: Database, table: str, layout: str | None, overwrite: str, expected: list[int]
) -> None:
    database.ingest(table, OLD, partition_by=layout)
    assert database.ingest(table, NEW, "append", overwrite=overwrite) == 2
    assert ids(database, table) == expected


def test_an_overwrite_is_one_version_and_leaves_the_table_if_it_fails(database: Database, table: str) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from NEW.to_batches()
        raise OSError("broken")

    database.ingest(table, OLD, partition_by="p")
    before = manifest(database.root / table).version
    with pytest.raises(OSError, match="broken"):
        database.ingest(table, pa.RecordBatchReader.from_batches(NEW.schema, failing()), "append", overwrite="table")
    assert (ids(database, table), manifest(database.root / table).version) == ([1, 2, 3], before)
    database.ingest(table, NEW, "append", overwrite="table")
    assert manifest(database.root / table).version == before + 1


@pytest.mark.parametrize("layout", [None, "p", "bucket(3, id)"])
@pytest.mark.parametrize("mode", ["create_append", "create", "replace"])
def test_rows_with_an_id_are_stored_once(database: Database, table: str, layout: str | None, mode: str) -> None:
    assert database.ingest(table, OLD, mode, partition_by=layout, commit_id="first") == 3
    again = database.refuses_ingest(table, OLD, mode, partition_by=layout, commit_id="first")
    assert re.search(r"already_committed.*commit_id 'first' was committed at .* with 3 rows", again)
    assert ids(database, table) == [1, 2, 3]
    assert database.ingest(table, NEW, "append", commit_id="second") == 2
    assert "second" in database.refuses_ingest(table, NEW, "append", overwrite="table", commit_id="second")
    if layout is not None:
        assert database.ingest(table, OLD.slice(0, 0), "append", commit_id="none") == 0
        assert "already_committed" in database.refuses_ingest(table, OLD, "append", commit_id="none")
    assert ids(database, table) == [1, 2, 3, 7, 8]


REFUSED = [
    ({"overwrite": "rows"}, "[invalid_input] overwrite is 'rows'; expected nothing, partitions, table"),
    ({"commit_id": "x" * 201}, "[invalid_input] commit_id has 201 characters"),
    ({"overwrit": "table"}, "expected partition_by, stable_row_ids, file_version, overwrite or"),
    ({"overwrite": "table"}, "column 'other' is not in the table"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_is_refused_before_a_row_is_read(
    database: Database, table: str, options: dict[str, str], message: str
) -> None:
    database.ingest(table, OLD, partition_by="p")
    assert message in database.refuses_ingest(table, pa.table({"other": [1]}), "append", **options)
    assert ids(database, table) == [1, 2, 3]


def test_a_replaced_table_may_change_its_partitioning(database: Database, table: str) -> None:
    database.ingest(table, ROWS, partition_by="c")
    database.ingest(table, ROWS, "replace", partition_by="bucket(2, id)")
    assert database.rows(f"SELECT field_id FROM {table}$specs") == [("id_bucket",)]
    database.ingest(table, ROWS, "replace")
    assert lance.dataset(str(database.root / f"{table}.lance")).count_rows() == 4
    assert not (database.root / table).exists()


def test_rows_of_all_batches_arrive_in_one_commit(database: Database, table: str) -> None:
    database.ingest(table, ROWS.slice(0, 1), partition_by="c")
    version = manifest(database.root / table).version
    batches = [pa.record_batch({"id": [n, -n], "c": ["US", f"c{n % 5}"]}) for n in range(1, 40)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert database.ingest(table, reader, "append") == 78
    assert manifest(database.root / table).version == version + 1
    assert stored_rows(database.root / table).num_rows == 79
    assert database.rows(f"SELECT c, count(*), sum(id) FROM {table} WHERE c <> 'US' GROUP BY c ORDER BY c") == [
        (f"c{n}", len(range(n or 5, 40, 5)), -sum(range(n or 5, 40, 5))) for n in range(5)
    ]


def test_a_batch_without_rows_makes_an_empty_table(database: Database, table: str) -> None:
    empty = pa.RecordBatchReader.from_batches(ROWS.schema, [ROWS.to_batches()[0].slice(0, 0)])
    assert database.ingest(table, empty, partition_by="c") == 0
    assert database.query(f"SELECT * FROM {table}").schema == ROWS.schema
    assert database.rows(f"SELECT count(*), sum(id) FROM {table}") == [(0, None)]
    assert database.ingest(table, ROWS, "append") == 4


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
    (pa.array([[("k", 1)], None], pa.map_(pa.utf8(), pa.int32())), pa.map_(pa.utf8(), pa.int32())),
    pytest.param(pa.array([b"ab", None], pa.binary(2)), pa.binary(2), id="binary of a fixed size"),
    pytest.param(pa.array([1, None], pa.duration("us")), pa.duration("us"), id="duration"),
    pytest.param(pa.array([0, None], pa.date64()), pa.date64(), id="date of 64 bits"),
    (pa.array([0, None], pa.timestamp("ms", "America/New_York")), pa.timestamp("ms", "America/New_York")),
]


@pytest.mark.parametrize(("column", "kind"), NEWCOMERS)
@pytest.mark.parametrize("partition_by", [None, "id"], ids=["plain", "partitioned"])
def test_a_table_takes_the_types_of_its_first_rows(
    database: Database, table: str, partition_by: str | None, column: pa.Array, kind: pa.DataType
) -> None:
    database.ingest(table, pa.table({"id": [1, 2], "c": column}), partition_by=partition_by)
    place = database.root / (table if partition_by else f"{table}.lance")
    stored = stored_rows(place) if partition_by else lance.dataset(str(place)).to_table()
    assert stored.schema.field("c").type == kind
    assert database.query(f"SELECT c FROM {table} ORDER BY id")["c"].to_pylist() == column.to_pylist()


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
def test_any_scalar_type_can_partition_by_its_value(database: Database, table: str, column: pa.Array) -> None:
    database.ingest(table, pa.table({"id": [1, 2], "c": column}), partition_by="c")
    database.ingest(table, pa.table({"id": [3, 4], "c": column}), "append")
    assert manifest(database.root / table).schema.field("partition_field_c").type == column.type
    stored = manifest(database.root / table).to_table(filter="object_type = 'table'")["partition_field_c"]
    assert sorted(map(str, stored.to_pylist())) == sorted(map(str, column.to_pylist()))
    answered = database.query(f"SELECT c, count(*) AS n FROM {table} GROUP BY c ORDER BY c NULLS LAST")
    assert (answered["c"].combine_chunks(), answered["n"].to_pylist()) == (column, [2, 2])


FITTING = [
    pytest.param({"id": pa.array([1], pa.int8())}, {"id": 1, "price": None, "c": None}, id="missing columns are NULL"),
    pytest.param({"c": ["x"], "id": [1]}, {"id": 1, "price": None, "c": "x"}, id="in another order"),
    pytest.param({"id": [1.0]}, {"id": 1, "price": None, "c": None}, id="whole doubles"),
    pytest.param({"id": [1], "price": [7]}, {"id": 1, "price": Decimal("7.00"), "c": None}, id="integers as decimals"),
    ({"id": [1], "price": [1.25]}, {"id": 1, "price": Decimal("1.25"), "c": None}),
    ({"id": [1], "c": pa.array(["x"]).dictionary_encode()}, {"id": 1, "price": None, "c": "x"}),
    pytest.param({"id": [1], "c": pa.nulls(1)}, {"id": 1, "price": None, "c": None}, id="nulls without a type"),
]


@pytest.mark.parametrize(("columns", "expected"), FITTING)
@pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (c)"], ids=["plain", "partitioned"])
def test_rows_that_fit_without_loss_are_cast_to_the_types_of_the_table(
    database: Database, table: str, partitioned_by: str, columns: dict[str, Any], expected: dict[str, Any]
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT NOT NULL, price DECIMAL(10, 2), c VARCHAR){partitioned_by}")
    assert database.ingest(table, pa.table(columns), "append") == 1
    assert database.query(f"SELECT * FROM {table}").to_pylist() == [expected]


def test_a_stream_of_many_partitions_arrives_whole(database: Database, table: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 20_000, 1_000):
            numbers = pa.array(range(start, start + 1_000))
            yield pa.record_batch({"id": numbers, "part": pa.array([n % 150 for n in range(start, start + 1_000)])})

    schema = pa.schema({"id": pa.int64(), "part": pa.int64()})
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    assert database.ingest(table, reader, partition_by="part") == 20_000
    assert database.rows(f"SELECT count(*), sum(id), count(DISTINCT part) FROM {table}") == [(20_000, 199_990_000, 150)]
    assert database.value(f"SELECT count(*) FROM {table}$partitions") == 150


def test_structs_inside_structs_go_into_several_partitions(database: Database, table: str) -> None:
    inner = pa.struct({"u": pa.int32(), "v": pa.utf8()})
    schema = pa.schema({"id": pa.int64(), "s": pa.struct({"x": pa.int16(), "y": inner})})
    values = [None, {"x": 1, "y": None}, {"x": None, "y": {"u": 2, "v": "b"}}]
    rows = pa.Table.from_pylist([{"id": n, "s": value} for n, value in enumerate(values)], schema=schema)
    assert database.ingest(table, rows, partition_by="id") == len(values)
    database.run(f"INSERT INTO {table} (id) VALUES (3), (4), (5)")
    found = database.query(f"SELECT s FROM {table} ORDER BY id")["s"].to_pylist()
    assert found == [*values, None, None, None]
