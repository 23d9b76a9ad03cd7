"""Rows as every client reads them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.flight.rows import (
    FEWEST_ROWS,
    LARGEST_MESSAGE,
    client_batches,
    client_schema,
    client_type,
    convert,
    join_batches,
)

VIEWS = pa.array(["a", None, "c" * 20, "d"], pa.string_view())
WORDS = pa.array(["a", None, "a", "b"]).dictionary_encode()
RUNS = pc.run_end_encode(pa.array([1, 1, None, 2]))
NUMBERS = pa.array([1, 2, 3, 4])
OFFSETS = pa.array([0, 1, 1, 3, 4], pa.int32())
HOLES = pa.array([False, True, False, False])
CENTS = [Decimal("1.25"), None, Decimal("2.00"), Decimal("0.10")]

CONVERTED: dict[str, tuple[pa.Array, str]] = {
    "string_view": (VIEWS, "string"),
    "binary_view": (VIEWS.cast(pa.binary_view()), "binary"),
    "dictionary": (WORDS, "string"),
    "dictionary of views": (pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), VIEWS), "string"),
    "dictionary of lists": (
        pa.DictionaryArray.from_arrays(pa.array([0, None, 0, 1]), pa.array([[1], [2, 3]])),
        "list<item: int64>",
    ),
    "run-end encoded": (RUNS, "int64"),
    "float16": (pa.array([1.5, None, 2.0, 3.0], pa.float16()), "float"),
    "list_view": (pa.array([["a"], None, ["b", "c"], []], pa.list_view(pa.string_view())), "list<item: string>"),
    "large_list_view": (pa.array([[1], None, [2, 3], []], pa.large_list_view(pa.int64())), "large_list<item: int64>"),
    "decimal32": (pa.array(CENTS, pa.decimal32(5, 2)), "decimal128(5, 2)"),
    "decimal64": (pa.array(CENTS, pa.decimal64(15, 2)), "decimal128(15, 2)"),
    "in a list": (pa.ListArray.from_arrays(OFFSETS, WORDS, mask=HOLES), "list<item: string>"),
    "in a large list": (pa.LargeListArray.from_arrays(OFFSETS.cast(pa.int64()), RUNS), "large_list<item: int64>"),
    "in a fixed size list": (
        pa.FixedSizeListArray.from_arrays(pa.array(range(8), pa.float32()).cast(pa.float16()), 2, mask=HOLES),
        "fixed_size_list<item: float>[2]",
    ),
    "in a map": (pa.MapArray.from_arrays(OFFSETS, NUMBERS, VIEWS), "map<int64, string>"),
    "in a struct": (
        pa.StructArray.from_arrays([WORDS, RUNS], names=["x", "y"], mask=HOLES),
        "struct<x: string, y: int64>",
    ),
    "in a struct in a list": (
        pa.ListArray.from_arrays(OFFSETS, pa.StructArray.from_arrays([WORDS], names=["x"])),
        "list<item: struct<x: string>>",
    ),
    "extension over a view": (
        pa.ExtensionArray.from_storage(pa.opaque(pa.string_view(), "thing", "vendor"), VIEWS),
        "string",
    ),
}
SLICES = {"whole": (0, 4), "from one": (1, 3), "one row": (2, 1), "the middle": (1, 2), "no rows": (0, 0)}


@pytest.mark.sample(30)
@pytest.mark.parametrize(("array", "expected"), CONVERTED.values(), ids=CONVERTED.keys())
@pytest.mark.parametrize(("start", "rows"), SLICES.values(), ids=SLICES.keys())
def test_a_type_that_clients_do_not_read_is_converted(array: pa.Array, expected: str, start: int, rows: int) -> None:
    part = array.slice(start, rows)
    converted = convert(part, client_type(part.type))
    converted.validate(full=True)
    assert str(converted.type) == expected
    assert converted.to_pylist() == part.to_pylist()


PLAIN = [
    pa.int64(),
    pa.uint8(),
    pa.utf8(),
    pa.large_utf8(),
    pa.binary(4),
    pa.decimal256(60, 2),
    pa.timestamp("ns", "UTC"),
    pa.duration("us"),
    pa.month_day_nano_interval(),
    pa.null(),
    pa.list_(pa.field("x", pa.int64(), nullable=False, metadata={"k": "v"})),
    pa.list_(pa.float32(), 8),
    pa.map_(pa.utf8(), pa.int64()),
    pa.struct([pa.field("x", pa.int64(), nullable=False)]),
    pa.uuid(),
]


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_a_plain_type_stays(kind: pa.DataType) -> None:
    field = pa.field("x", kind, nullable=kind == pa.null(), metadata={"k": "v"})
    schema = pa.schema([field], metadata={"about": "this"})
    assert client_schema(schema).equals(schema, check_metadata=True)


def test_names_nullability_and_metadata_stay_when_a_type_changes() -> None:
    field = pa.field("x", pa.string_view(), nullable=False, metadata={"k": "v"})
    nested = pa.field("y", pa.list_(pa.field("inner", pa.float16(), nullable=False, metadata={"i": "n"})))
    expected = pa.field("y", pa.list_(pa.field("inner", pa.float32(), nullable=False, metadata={"i": "n"})))
    schema = client_schema(pa.schema([field, nested], metadata={"about": "this"}))
    assert schema.equals(
        pa.schema([field.with_type(pa.utf8()), expected], metadata={"about": "this"}), check_metadata=True
    )


def test_a_batch_of_plain_types_passes_untouched() -> None:
    batch = pa.record_batch({"n": NUMBERS})
    (sent,) = client_batches([batch], batch.schema)
    assert sent is batch


CUT: dict[str, tuple[pa.Array, int, int]] = {
    "wide rows": (pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 1_000_000), 1000), 3, 3),
    "numbers": (pa.array([0.5] * 1_000_000), 3, 3),
    "words of one length": (pa.array(["0123456789"] * 500_000), 3, 3),
    "one long row among short ones": (pa.array(["x"] * 1000 + ["y" * (LARGEST_MESSAGE + 1)] + ["x"] * 1000), 3, 24),
    "one long row": (pa.array(["y" * (LARGEST_MESSAGE + 1)]), 1, 1),
}


@pytest.mark.parametrize(("column", "least", "most"), CUT.values(), ids=CUT.keys())
def test_a_large_batch_is_cut_into_few_parts(column: pa.Array, least: int, most: int) -> None:
    batch = pa.record_batch({"x": column})
    parts = list(client_batches([batch], batch.schema))
    assert least <= len(parts) <= most
    assert all(part.nbytes <= LARGEST_MESSAGE or part.num_rows == 1 for part in parts)
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([batch]))


def test_cutting_copies_nothing_and_starts_at_aligned_rows() -> None:
    batch = pa.record_batch({"x": pa.array(["0123456789"] * 500_000)})
    parts = list(client_batches([batch], batch.schema))
    address = batch.column(0).buffers()[2].address
    assert all(part.column(0).buffers()[2].address == address for part in parts)
    assert [part.column(0).offset % 64 for part in parts] == [0, 0, 0]


def test_an_encoded_message_is_under_the_usual_limit() -> None:
    batch = pa.record_batch({f"c{n}": pa.array([0.5] * 100_000) for n in range(40)})
    for part in client_batches([batch], batch.schema):
        assert pa.ipc.get_record_batch_size(part) < 4 << 20


JOINED = {
    "one-row batches": ([1] * 5, [5]),
    "up to enough rows": ([5000, 5000, 5000], [10_000, 5000]),
    "a large one goes as it is, in its place": ([3, FEWEST_ROWS, 4, 5], [3, FEWEST_ROWS, 9]),
    "empty ones": ([0, 0], [0]),
    "none": ([], []),
}


@pytest.mark.parametrize(("sizes", "expected"), JOINED.values(), ids=JOINED.keys())
def test_small_batches_are_joined_in_their_order(sizes: list[int], expected: list[int]) -> None:
    schema = pa.schema({"n": pa.int64(), "s": pa.list_(pa.struct({"x": pa.utf8()}))})
    rows = pa.table({"n": range(sum(sizes)), "s": [[{"x": str(n)}] for n in range(sum(sizes))]}, schema=schema)
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    batches = [
        rows.slice(start, size).combine_chunks().to_batches()[0] if size else pa.RecordBatch.from_pylist([], schema)
        for start, size in zip(starts, sizes, strict=True)
    ]
    sent = list(client_batches(batches, schema))
    assert [batch.num_rows for batch in sent] == expected
    assert pa.Table.from_batches(sent, schema) == rows


def test_batches_are_joined_up_to_the_largest_message() -> None:
    batch = pa.record_batch({"s": ["x" * (LARGEST_MESSAGE // 3)]})
    assert [part.num_rows for part in join_batches([batch] * 5)] == [2, 2, 1]


def test_rows_do_not_wait_long_for_others() -> None:
    clock = iter([0.0, 0.01, 0.02, 9.0, 10.0, 10.0])
    batch = pa.record_batch({"n": [1]})
    assert [part.num_rows for part in join_batches([batch] * 3, lambda: next(clock))] == [2, 1]


def test_rows_before_an_error_are_sent() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise ValueError("the disk is gone")

    sent = join_batches(failing())
    assert next(sent).num_rows == 1
    with pytest.raises(ValueError, match="disk"):
        next(sent)
