"""How many rows a batch has, by the widths of its columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance_flight.catalog.tables.batch_sizes import BATCH_BYTES, BATCH_ROWS, LEAST_ROWS, has_open_width, rows_within

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
