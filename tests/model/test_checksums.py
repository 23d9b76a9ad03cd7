"""Checksums: the same for the same rows in any order, cut and layout, and another one for any other value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.model.checksums import Checksum

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [0, 1, -1, 127, None]),
    "uint64": (pa.uint64(), [0, 1, 2**64 - 1, None]),
    "bool": (pa.bool_(), [False, True, None]),
    "float": (pa.float64(), [0.0, -0.0, 1.5, float("inf"), None]),
    "half": (pa.float16(), [0.0, 1.5, None]),
    "decimal": (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("0.01"), Decimal(10) ** 30, None]),
    "date": (pa.date32(), [dt.date(1970, 1, 1), dt.date(2024, 2, 29), None]),
    "timestamp": (pa.timestamp("ns", "UTC"), [0, 1, 10**18, None]),
    "fixed": (pa.binary(3), [b"abc", b"abd", b"\0\0\0", None]),
    "string": (pa.utf8(), ["", "a", "b", "ab", "ba", "ä" * 40, "\0", None]),
    "large": (pa.large_binary(), [b"", b"\0", b"\0\0", None]),
    "view": (pa.string_view(), ["", "a", "a text that is longer than the twelve bytes of a view", None]),
    "list": (pa.list_(pa.int64()), [[], [0], [0, 0], [1, 2], [2, 1], [None], None]),
    "large list": (pa.large_list(pa.utf8()), [[], [""], ["", ""], ["ab"], ["a", "b"], None]),
    "vector": (pa.list_(pa.float32(), 2), [[0, 1], [1, 0], [None, 1], None]),
    "struct": (pa.struct({"a": pa.int8(), "b": pa.utf8()}), [{"a": 1, "b": None}, {"a": None, "b": ""}, {}, None]),
    "map": (pa.map_(pa.utf8(), pa.int8()), [[], [("a", 1)], [("a", 2)], [("b", 1)], None]),
    "nested": (pa.list_(pa.struct({"x": pa.list_(pa.int8())})), [[{"x": [1]}], [{"x": []}], [{"x": None}], [], None]),
    "dictionary": (pa.dictionary(pa.int8(), pa.utf8()), ["a", "b", None]),
}


def checksum(column: pa.Array) -> Checksum:
    return Checksum.of([pa.record_batch([column], names=["x"])])


@pytest.mark.parametrize("name", COLUMNS)
class TestTypes:
    """Each type by itself."""

    def test_every_value_has_a_number_of_its_own(self, name: str) -> None:
        kind, values = COLUMNS[name]
        found = [checksum(pa.array([value], kind)) for value in values]
        assert len(set(found)) == len(values)
        assert {each.rows for each in found} == {1}

    def test_order_cuts_and_offsets_are_no_matter(self, name: str) -> None:
        kind, values = COLUMNS[name]
        whole = checksum(pa.array(values, kind))
        assert checksum(pa.array(values[::-1], kind)) == whole
        padded = pa.array([values[0], *values, values[-1]], kind).slice(1, len(values))
        assert checksum(padded) == whole
        batches = [pa.record_batch([padded.slice(at, 1)], names=["x"]) for at in range(len(values))]
        assert Checksum.of(batches) == whole
        assert sum(map(checksum, (padded.slice(0, 2), padded.slice(2))), Checksum()) == whole

    def test_a_repeated_row_counts_twice(self, name: str) -> None:
        kind, values = COLUMNS[name]
        assert checksum(pa.array(values[:1] * 2, kind)) != checksum(pa.array(values[:1], kind))


LAYOUTS = [
    ("text", pa.utf8(), pa.large_utf8(), ["a", "", None]),
    ("text as a view", pa.utf8(), pa.string_view(), ["a", "", None]),
    ("dictionary", pa.utf8(), pa.dictionary(pa.int32(), pa.utf8()), ["a", "a", None]),
    ("list", pa.list_(pa.int8()), pa.large_list(pa.int8()), [[1, 2], [], None]),
]


@pytest.mark.parametrize(("one", "other", "values"), [each[1:] for each in LAYOUTS], ids=[each[0] for each in LAYOUTS])
def test_layouts_of_one_type_are_alike(one: pa.DataType, other: pa.DataType, values: list[Any]) -> None:
    assert checksum(pa.array(values, one)) == checksum(pa.array(values, other))


def test_what_lies_under_a_null_is_no_matter() -> None:
    hidden = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(b"\1\0\0\0\7\0\0\0")])
    assert checksum(hidden) == checksum(pa.array([1, None], pa.int32()))


@given(st.lists(st.tuples(st.integers(-2, 2), st.sampled_from(["", "a", "b", None])), max_size=8), st.randoms())
def test_equal_sums_mean_equal_rows(rows: list[tuple[int, str | None]], random: Any) -> None:
    def of(some: list[tuple[int, str | None]]) -> Checksum:
        columns = [[row[place] for row in some] for place in (0, 1)]
        return Checksum.of([pa.record_batch([pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.utf8())], "ab")])

    other = [(number, random.choice(["", "a", "b", None])) for number, _ in rows]
    random.shuffle(other)
    key = str
    assert (of(rows) == of(other)) == (sorted(rows, key=key) == sorted(other, key=key))
