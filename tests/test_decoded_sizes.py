"""The bytes of arrays whose values take no room, or share it: no fewer than those of the same values laid out one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance_flight.arrow_streams import decoded_bytes
from lance_flight.flight.rows import client_type, convert

MANY = 100_000
LONG = "x" * 1000
OFFSETS, ONCE = pa.array([0, MANY], pa.int32()), pa.array([0] * MANY, pa.int32())
SHARED = pa.DictionaryArray.from_arrays(ONCE, [LONG])
RUN = pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), [LONG])
LISTS = pa.ListViewArray.from_arrays(ONCE, pa.array([3] * MANY, pa.int32()), pa.array(["a", LONG, "b"]))
_ONE = pa.array([LONG], pa.string_view()).buffers()
VIEWS = pa.Array.from_buffers(pa.string_view(), MANY, [None, pa.py_buffer(_ONE[1].to_pybytes()[:16] * MANY), *_ONE[2:]])
CASES = {
    "NULLs": (pa.nulls(MANY), 8 * MANY),
    "booleans": (pa.nulls(MANY, pa.bool_()), 8 * MANY),
    "one byte each": (pa.nulls(MANY, pa.int8()), 8 * MANY),
    "NULLs in a list": (pa.ListArray.from_arrays(OFFSETS, pa.nulls(MANY)), 8 * MANY),
    "NULLs in a fixed-size list": (pa.FixedSizeListArray.from_arrays(pa.nulls(MANY), MANY), 8 * MANY),
    "NULLs in a struct": (pa.StructArray.from_arrays([pa.nulls(MANY)] * 3, list("abc")), 32 * MANY),
    "NULLs in a map": (pa.MapArray.from_arrays(OFFSETS, pa.array(range(MANY)), pa.nulls(MANY)), 16 * MANY),
    "a dictionary": (SHARED, 1000 * MANY),
    "a dictionary in a list": (pa.ListArray.from_arrays(OFFSETS, SHARED), 1000 * MANY),
    "a dictionary of a dictionary": (pa.DictionaryArray.from_arrays(ONCE, SHARED), 1000 * MANY),
    "a dictionary of lists": (pa.DictionaryArray.from_arrays(ONCE, pa.array([[LONG]])), 1000 * MANY),
    "a run": (RUN, 1000 * MANY),
    "a run of booleans": (pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), [True]), 8 * MANY),
    "a part of a run": (RUN.slice(MANY // 2), 500 * MANY),
    "list views": (LISTS, 1000 * MANY),
    "text views": (VIEWS, 1000 * MANY),
    "a union": (
        pa.UnionArray.from_dense(pa.array([0] * MANY, pa.int8()), ONCE, [pa.array([LONG]), pa.array([1])]),
        1000 * MANY,
    ),
    "an extension type": (pa.ExtensionArray.from_storage(pa.opaque(pa.null(), "t", "v"), pa.nulls(MANY)), 8 * MANY),
}


@pytest.mark.parametrize(("column", "least"), CASES.values(), ids=CASES)
def test_each_value_counts_by_itself(column: pa.Array, least: int) -> None:
    counted = decoded_bytes(pa.record_batch({"a": column}), 1 << 40, least=8)
    assert least <= counted <= 1.1 * least + 100_000
    assert decoded_bytes(pa.record_batch({"a": column}), least // 2, least=8) > least // 2
    if not pa.types.is_union(column.type):
        plain = convert(column, client_type(column.type))
        assert plain.nbytes <= counted
    assert decoded_bytes(pa.record_batch({"a": column.slice(0, 0)}), 1 << 20) < 1 << 14


def test_a_long_value_beside_short_ones_counts_once() -> None:
    texts = pa.array([LONG * 1000, *["a"] * MANY])
    for column in (texts, texts.dictionary_encode(), pa.array(texts.to_pylist(), pa.string_view())):
        assert decoded_bytes(pa.record_batch({"a": column}), 1 << 40) < 4_000_000


def test_a_billion_values_are_not_laid_out_to_be_counted() -> None:
    run = pa.RunEndEncodedArray.from_arrays(pa.array([2_000_000_000], pa.int32()), ["a"])
    nested = pa.DictionaryArray.from_arrays(ONCE, run)
    before = pa.total_allocated_bytes()
    for column in (pa.nulls(2_000_000_000), run, nested, pa.ListViewArray.from_arrays(ONCE, ONCE, run)):
        assert decoded_bytes(pa.record_batch({"a": column}), 1 << 30) > 1 << 30
    assert pa.total_allocated_bytes() - before < 1 << 20
