"""Ingest: the four modes, what its rows replace, ids under which rows are stored once, how rows become a table's types, and which are refused."""

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
    ({"overwrit": "table"}, "expected partition_by, stable_row_ids, file_version, overwrite, commit_id or shared"),
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
    pytest.param(pa.array([5, None]).dictionary_encode(), pa.int64(), id="dictionary of numbers"),
    pytest.param(pa.array([b"a", None]).dictionary_encode(), pa.binary(), id="dictionary of bytes"),
    pytest.param(
        pa.ListArray.from_arrays([0, 2, 2], pa.array([7, 8]).dictionary_encode()),
        pa.list_(pa.int64()),
        id="list of a dictionary",
    ),
    pytest.param(
        pa.StructArray.from_arrays([pa.array(["a", None]).dictionary_encode()], ["x"]),
        pa.struct([("x", pa.utf8())]),
        id="struct of a dictionary",
    ),
    pytest.param(
        pa.array([[Decimal("1.50")], None], pa.list_(pa.decimal32(5, 2))),
        pa.list_(pa.decimal128(5, 2)),
        id="list of decimals of 32 bits",
    ),
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
    database.ingest(table, pa.table({"id": [3, 4], "c": column}), "append")
    place = database.root / (table if partition_by else f"{table}.lance")
    stored = stored_rows(place) if partition_by else lance.dataset(str(place)).to_table()
    assert stored.schema.field("c").type == kind
    assert database.query(f"SELECT c FROM {table} ORDER BY id")["c"].to_pylist() == 2 * column.to_pylist()


EMPTY = pa.struct([])


@pytest.mark.parametrize(
    "kind", [EMPTY, pa.list_(EMPTY), pa.struct([("x", EMPTY)]), pa.map_(pa.utf8(), EMPTY)], ids=str
)
@pytest.mark.parametrize("partition_by", [None, "id"], ids=["plain", "partitioned"])
def test_a_struct_without_fields_is_refused(
    database: Database, table: str, partition_by: str | None, kind: pa.DataType
) -> None:
    rows = pa.table({"id": [1], "c": pa.nulls(1, kind)})
    message = database.refuses_ingest(table, rows, partition_by=partition_by)
    assert "[invalid_schema]" in message
    assert "column 'c' is" in message
    assert not list(database.root.glob(f"{table}*"))


def test_texts_of_a_dictionary_are_not_read_as_numbers(database: Database, table: str) -> None:
    database.ingest(table, pa.table({"id": [1]}))
    texts = pa.table({"id": pa.array(["2"]).dictionary_encode()})
    assert "column 'id'" in database.refuses_ingest(table, texts, "append")
    assert database.rows(f"SELECT id FROM {table}") == [(1,)]


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


COLUMNS = "id BIGINT NOT NULL, part INT, price DECIMAL(6, 2), name VARCHAR, d DATE, ratio REAL, n SMALLINT UNSIGNED"
LAYOUTS = {
    "plain": "",
    "by value": " PARTITIONED BY (part)",
    "by bucket": " PARTITIONED BY (bucket(4, id), year(d))",
}


@pytest.fixture(scope="module", params=LAYOUTS)
def target(request: pytest.FixtureRequest, database: Database) -> str:
    """A table of each layout that all tests try to spoil."""
    table = f"by_{list(LAYOUTS).index(request.param)}"
    database.run(f"CREATE TABLE {table} ({COLUMNS}){LAYOUTS[request.param]}")
    database.run(f"INSERT INTO {table} (id, part) VALUES (1, 1)")
    return table


def rows(**columns: Any) -> pa.Table:
    """Three rows with an id and these columns beside it."""
    return pa.table({"id": [10, 11, 12], **columns})


UNFIT = [
    pytest.param(rows(extra=[1, 2, 3]), ["invalid_schema", "'extra' is not in the table"], id="an extra column"),
    pytest.param(
        pa.table({"part": [1], "x": [1], "name": [5], "d": ["2020-01-01"]}),
        ["invalid_schema", "'id' (BIGINT NOT NULL) is missing", "'x'", "'name' is BIGINT", "'d' is VARCHAR", "DATE"],
        id="every problem at once",
    ),
    pytest.param(pa.table({"part": [1]}), ["invalid_schema", "'id'", "NOT NULL", "missing"], id="no NOT NULL column"),
    pytest.param(
        pa.table([pa.array([1]), pa.array([2])], names=["id", "id"]),
        ["invalid_schema", "'id' stands 2 times"],
        id="twice",
    ),
    pytest.param(
        rows(part=["1", "2", "3"]), ["invalid_schema", "'part' is VARCHAR", "INTEGER"], id="text for a number"
    ),
    pytest.param(rows(name=[1, 2, 3]), ["invalid_schema", "'name' is BIGINT", "VARCHAR"], id="a number for text"),
    pytest.param(rows(part=[[1], [2], [3]]), ["invalid_schema", "'part' is BIGINT[]"], id="a list for a number"),
    pytest.param(
        rows(d=pa.array([b"a", b"b", b"c"])),
        ["invalid_schema", "'d' is VARBINARY", "DATE"],
        id="binary for a date",
    ),
    pytest.param(
        pa.table({"id": [10, None, 12]}),
        ["invalid_data", "'id' is NOT NULL and has NULL in row 2 of a batch of 3"],
        id="NULL in a NOT NULL column",
    ),
    pytest.param(
        pa.concat_tables([pa.table({"id": [10, 11]}), pa.table({"id": pa.array([None], pa.int64())})]),
        ["invalid_data", "row 1 of a batch of 1"],
        id="NULL in a later batch",
    ),
    pytest.param(
        rows(part=[1, 2**40, 3]), ["invalid_data", "'part'", "INTEGER", str(2**40)], id="an integer out of range"
    ),
    pytest.param(rows(part=[1.0, 2.5, 3.0]), ["invalid_data", "'part'", "INTEGER", "2.5"], id="a fraction"),
    pytest.param(rows(part=[1.0, float("nan"), 3.0]), ["invalid_data", "'part'", "nan"], id="not a number"),
    pytest.param(
        rows(n=[1, -2, 3]), ["invalid_data", "'n'", "SMALLINT UNSIGNED", "-2"], id="a negative for an unsigned"
    ),
    pytest.param(
        rows(price=[Decimal("1.00"), Decimal("1.005"), None]),
        ["invalid_data", "'price'", "DECIMAL(6, 2)"],
        id="a digit more",
    ),
    pytest.param(rows(price=[1.0, 1.005, 2.0]), ["invalid_data", "'price'", "1.005"], id="a double that no decimal is"),
    pytest.param(rows(price=[1, 100_000, 2]), ["invalid_data", "'price'", "DECIMAL(6, 2)"], id="too many digits"),
    pytest.param(
        rows(ratio=[0.5, 0.1, 1.0]), ["invalid_data", "'ratio'", "0.1", "REAL"], id="a double that no float is"
    ),
    pytest.param(rows(ratio=[0.5, 1e300, 1.0]), ["invalid_data", "'ratio'", "1e+300"], id="a double out of range"),
    pytest.param(
        rows(d=[dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 10), None]),
        ["invalid_data", "'d'", "DATE", "2020"],
        id="a time of day in a date",
    ),
    pytest.param(
        rows(name=pa.array([b"\xff", b"a", b"b"])), ["invalid_", "'name'", "VARBINARY"], id="bytes that are no text"
    ),
]


@pytest.mark.sample(24)
@pytest.mark.parametrize(("data", "says"), UNFIT)
def test_rows_that_do_not_fit_are_refused_by_column_and_nothing_is_stored(
    database: Database, target: str, data: pa.Table, says: list[str]
) -> None:
    before = files(database.root)
    message = database.refuses_ingest(target, data, "append")
    assert [part for part in says if part not in message] == []
    assert files(database.root) == before
    assert database.rows(f"SELECT id FROM {target}") == [(1,)]


def test_one_bad_value_late_in_a_stream_undoes_all_of_it(database: Database, target: str) -> None:
    before = files(database.root)
    batches = [pa.record_batch({"id": [n], "part": pa.array([n % 7], pa.int64())}) for n in range(2000)]
    batches.append(pa.record_batch({"id": [1], "part": pa.array([2**40], pa.int64())}))
    late = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    assert "'part'" in database.refuses_ingest(target, late, "append")
    assert files(database.root) == before
    assert database.value(f"SELECT count(*) FROM {target}") == 1


def test_a_replacement_that_fails_leaves_the_old_table(database: Database, target: str) -> None:
    before = files(database.root)
    for partition_by in (None, "id", "nonsense(id)", "missing"):
        spoilt = pa.table({"id": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
        database.refuses_ingest(target, spoilt, "replace", partition_by=partition_by)
    assert files(database.root) == before
    assert database.rows(f"SELECT id FROM {target}") == [(1,)]


SPECS = [
    pytest.param("part,", ["invalid_sql"], id="a comma too many"),
    pytest.param("week(part)", ["invalid_sql", "'week'", "bucket"], id="an unknown transform"),
    pytest.param("part) AS SELECT 1 --", ["invalid_sql"], id="more than fields"),
    pytest.param(
        "nope, year(part), bucket(0, id)", ["invalid_spec", "'nope'", "'part_year'", "'id_bucket'"], id="all wrong"
    ),
    pytest.param("expr('now()', id)", ["invalid_spec", "now"], id="an expression that is not stable"),
    pytest.param("tags", ["invalid_spec", "'tags'", "list"], id="a list"),
]


@pytest.mark.parametrize(("partition_by", "says"), SPECS)
def test_a_partitioning_that_cannot_be_is_refused(
    database: Database, table: str, partition_by: str, says: list[str]
) -> None:
    before = files(database.root)
    data = pa.table({"id": [1], "part": [1], "tags": [[1]]})
    message = database.refuses_ingest(table, data, partition_by=partition_by)
    assert [part for part in says if part not in message] == []
    assert files(database.root) == before


APPENDED = "part, bucket(4, id) AS b, year(d), expr('upper(col0)', name) AS up"
THE_SAME = [
    pytest.param(APPENDED, id="the same"),
    pytest.param(APPENDED.replace(" AS b", "").replace(" AS up", ""), id="the same without names"),
    pytest.param(
        "identity(part) AS part, BUCKET(4, ID), year(d) AS d_year, expr($$upper(col0)$$, name)", id="otherwise said"
    ),
    pytest.param(None, id="nothing"),
]
OTHERS = [
    pytest.param("part", "got part AS part", id="fewer"),
    pytest.param(APPENDED.replace("bucket(4", "bucket(8"), "bucket(8, id) AS b", id="another number"),
    pytest.param(APPENDED.replace("year", "month"), "month(d) AS d_month", id="another transform"),
    pytest.param(APPENDED.replace("upper", "lower"), "expr('lower(col0)', name) AS up", id="another expression"),
    pytest.param(APPENDED.replace(" AS b", " AS c"), "bucket(4, id) AS c", id="another field id"),
    pytest.param("year(d), " + APPENDED.replace("year(d), ", ""), "got year(d) AS d_year, part", id="another order"),
]


@pytest.mark.parametrize("mode", ["append", "create_append"])
@pytest.mark.parametrize("partition_by", THE_SAME)
def test_an_append_may_repeat_the_partitioning(
    database: Database, table: str, partition_by: str | None, mode: str
) -> None:
    database.run(f"CREATE TABLE {table} ({COLUMNS}) PARTITIONED BY ({APPENDED})")
    assert database.ingest(table, rows(), mode, partition_by=partition_by) == 3
    assert database.value(f"SELECT count(*) FROM {table}") == 3


@pytest.mark.parametrize("mode", ["append", "create_append"])
@pytest.mark.parametrize(("partition_by", "says"), OTHERS)
def test_an_append_may_not_ask_for_another_partitioning(
    database: Database, table: str, partition_by: str, says: str, mode: str
) -> None:
    database.run(f"CREATE TABLE {table} ({COLUMNS}) PARTITIONED BY ({APPENDED})")
    before = files(database.root)
    message = database.refuses_ingest(table, rows(), mode, partition_by=partition_by)
    has = "partitioned by part AS part, bucket(4, id) AS b, year(d) AS d_year, expr('upper(col0)', name) AS up"
    assert [part for part in ("[invalid_spec]", repr(table), has, says) if part not in message] == []
    assert files(database.root) == before


def test_an_append_to_a_plain_table_may_not_partition_it(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT)")
    assert "not partitioned" in database.refuses_ingest(table, rows(), "append", partition_by="id")
    assert database.value(f"SELECT count(*) FROM {table}") == 0


UNSTORABLE = [
    pytest.param(pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "INTERVAL", id="interval"),
    pytest.param(pa.array([[(1, 2, 3)]], pa.list_(pa.month_day_nano_interval())), "INTERVAL[]", id="list of intervals"),
]


@pytest.mark.parametrize(("column", "says"), UNSTORABLE)
@pytest.mark.parametrize("partition_by", [None, "id"])
def test_a_type_that_cannot_be_stored_is_named(
    database: Database, table: str, partition_by: str | None, column: pa.Array, says: str
) -> None:
    before = files(database.root)
    message = database.refuses_ingest(table, pa.table({"id": [1], "c": column}), partition_by=partition_by)
    assert [part for part in ("invalid_schema", "'c'", says) if part not in message] == []
    assert files(database.root) == before
