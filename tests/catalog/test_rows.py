"""What rows may be stored as which columns, and how many of them a batch has."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_flight.arrow_streams import has_open_width
from lance_flight.catalog.tables.rows import conform, fit, round_to_float
from lance_flight.catalog.tables.scan import BATCH_BYTES, BATCH_ROWS, LEAST_ROWS, rows_within
from lance_flight.errors import DataError, SchemaError
from lance_flight.model.arrow_types import align_buffers

NOT_NULL_WITHIN = pa.struct([pa.field("x", pa.int32(), nullable=False)])
WITHIN = pa.struct([pa.field("x", pa.int32())])


def vectors(size: int) -> pa.DataType:
    return pa.list_(pa.float32(), size)


# Types whose values decide, and those that cannot be whatever the values.
DECIDED_BY_VALUES = {
    "a struct whose child may be NULL": (WITHIN, NOT_NULL_WITHIN),
    "a list as a vector": (pa.list_(pa.float32()), vectors(3)),
    "doubles as a vector": (pa.list_(pa.float64(), 3), vectors(3)),
    "wider integers": (pa.int64(), pa.int16()),
}
NEVER = {
    "a vector of another size": (vectors(2), vectors(3)),
    "text as a number": (pa.string(), pa.int64()),
    "a struct as a number": (WITHIN, pa.int64()),
}


@pytest.mark.parametrize(("source", "target"), DECIDED_BY_VALUES.values(), ids=DECIDED_BY_VALUES)
def test_types_that_values_decide_about_fit(source: pa.DataType, target: pa.DataType) -> None:
    fit(pa.schema([("c", source)]), pa.schema([("c", target)]), what="rows")


@pytest.mark.parametrize(("source", "target"), NEVER.values(), ids=NEVER)
def test_types_that_never_fit_are_named(source: pa.DataType, target: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"column 'c' is .*; expected"):
        fit(pa.schema([("c", source)]), pa.schema([("c", target)]), what="rows")


def test_a_list_of_another_size_than_the_vector_is_named() -> None:
    target = pa.schema([("c", vectors(3))])
    with pytest.raises(DataError, match="column 'c' holds"):
        conform(pa.table({"c": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))}), target)


def test_vectors_of_doubles_become_the_nearest_floats_unless_they_are_out_of_range() -> None:
    target = pa.schema([("c", vectors(2))])
    near = round_to_float(pa.table({"c": [[0.1, 0.2], None]}), target)
    assert conform(near, target)["c"].to_pylist() == pa.array([[0.1, 0.2], None], vectors(2)).to_pylist()
    with pytest.raises(DataError, match="column 'c' holds"):
        conform(round_to_float(pa.table({"c": [[0.1, 1e300]]}), target), target)


def test_structs_of_fields_that_are_parts_of_columns_are_written(tmp_path: Path) -> None:
    flags = pa.array([None, True] * 5).slice(7)
    inner = pa.StructArray.from_arrays([flags], names=["b"], mask=pa.array([False, True, False]))
    outer = pa.StructArray.from_arrays([inner], names=["a"], mask=pa.array([True, False, False]))
    batch = pa.record_batch({"s": outer})
    lance.write_dataset(align_buffers(batch), str(tmp_path / "t"), data_storage_version="2.2")
    assert lance.dataset(str(tmp_path / "t")).to_table()["s"].to_pylist() == [None, {"a": None}, {"a": {"b": True}}]


VECTOR = pa.list_(pa.float32(), 1024)
TYPES = {
    "narrow": (pa.int64(), BATCH_ROWS, False),
    "text": (pa.utf8(), BATCH_ROWS, True),
    "binary": (pa.large_binary(), BATCH_ROWS, True),
    "a list": (pa.list_(pa.int8()), BATCH_ROWS, True),
    "a map": (pa.map_(pa.utf8(), pa.int8()), BATCH_ROWS, True),
    "bytes of one size": (pa.binary(1 << 14), BATCH_BYTES >> 14, False),
    "a vector": (VECTOR, BATCH_BYTES >> 12, False),
    "a vector of halves": (pa.list_(pa.float16(), 1024), BATCH_BYTES >> 11, False),
    "vectors of texts": (pa.list_(pa.utf8(), 1024), BATCH_ROWS, True),
    "a struct": (pa.struct({"a": VECTOR, "b": VECTOR}), BATCH_BYTES >> 13, False),
    "a struct with a text": (pa.struct({"a": VECTOR, "b": pa.utf8()}), BATCH_BYTES >> 12, True),
    "a tensor": (pa.fixed_shape_tensor(pa.float32(), [32, 32]), BATCH_BYTES >> 12, False),
    "wider than a batch": (pa.list_(pa.float32(), BATCH_BYTES), LEAST_ROWS, False),
}


@pytest.mark.parametrize(("kind", "rows", "is_open"), TYPES.values(), ids=TYPES)
def test_a_batch_has_fewer_rows_where_they_are_wide(kind: pa.DataType, rows: int, *, is_open: bool) -> None:
    assert rows_within(pa.schema({"x": kind})) == rows
    assert rows_within(pa.schema({"x": kind}), 10) == 10
    assert has_open_width(kind) == is_open


def test_columns_are_wide_together() -> None:
    assert rows_within(pa.schema({"a": VECTOR, "b": VECTOR})) == BATCH_BYTES >> 13
    assert rows_within(pa.schema([])) == BATCH_ROWS
