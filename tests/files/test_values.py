"""The formatter of values: every Arrow type, with extremes, as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance_flight_client.console.queries import shown_texts
from lance_flight_client.files.writing import write_directory
from lance_flight_client.output import CsvWriter, JsonWriter, align_table
from lance_flight_client.values import JSON, SQL, texts, write_enclosed

from tests.selection import IS_FULL

UNITS = ("s", "ms", "us", "ns")
ZONES = (None, "UTC", "Europe/Oslo", "-03:30", "Nowhere/Atall")
I32, I64 = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) | st.sampled_from((0, 1, -1)) for bits in (32, 64))
AS_NUMBERS: list[tuple[pa.DataType, pa.DataType]] = [
    (pa.date32(), pa.int32()),
    (pa.date64(), pa.int64()),
    *((pa.time32(unit), pa.int32()) for unit in UNITS[:2]),
    *((pa.time64(unit), pa.int64()) for unit in UNITS[2:]),
    *((pa.duration(unit), pa.int64()) for unit in UNITS),
    *((pa.timestamp(unit, zone), pa.int64()) for unit in UNITS for zone in ZONES),
]
"""Types that are numbers inside, of which any may be stored, and what they are stored as."""


def integers(kind: pa.DataType) -> st.SearchStrategy[int]:
    signed = pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1) if signed else (0, 2**kind.bit_width - 1)
    return st.integers(low, high) | st.sampled_from((low, high))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return (st.integers(-most, most) | st.sampled_from((0, most, -most))).map(lambda n: Decimal(f"{n}E{-scale}"))


WORDS = st.text(max_size=6) | st.sampled_from(("", "NULL", 'a"b', "a,b", "a'b", "a\nb", "=1", "\x1b[2J", "広間"))
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    *((kind, integers(kind)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((kind, integers(kind)) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float16(), st.floats(width=16)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal32(9, 4), decimals(9, 4)),
    (pa.decimal64(18, 0), decimals(18, 0)),
    (pa.decimal128(38, 38), decimals(38, 38)),
    (pa.decimal128(5, -2), decimals(5, -2)),
    (pa.decimal256(76, 10), decimals(76, 10)),
    *((kind, WORDS) for kind in (pa.utf8(), pa.large_utf8(), pa.string_view(), pa.json_())),
    *((kind, st.binary(max_size=5)) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.uuid(), st.binary(min_size=16, max_size=16)),
    (pa.month_day_nano_interval(), st.tuples(I32, I32, I64)),
]


@st.composite
def leaves(draw: st.DrawFn, length: int, *, is_valid: bool = False) -> pa.Array:
    """A column of a type without others in it; days and times that are in none with `is_valid`."""
    place = draw(st.integers(0, len(VALUES) - 1 if is_valid else len(VALUES) + len(AS_NUMBERS)))
    if place == len(VALUES) + len(AS_NUMBERS):
        return pa.ExtensionArray.from_storage(pa.bool8(), pa.array(draw(some(integers(pa.int8()), length)), pa.int8()))
    if place >= len(VALUES):
        kind, storage = AS_NUMBERS[place - len(VALUES)]
        return pa.array(draw(some(integers(storage), length)), storage).view(kind)
    kind, values = VALUES[place]
    found = draw(some(values, length))
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(found, kind.storage_type))
    return pa.array(found, kind)


def some(values: st.SearchStrategy[Any], length: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, min_size=length, max_size=length)


@st.composite
def columns(draw: st.DrawFn, length: int, depth: int = 2) -> pa.Array:
    """A column of any type, which may be a part of a longer one."""
    before = draw(st.integers(0, 2))
    whole = draw(nested(length + before, depth) if depth and draw(st.booleans()) else leaves(length + before))
    return whole.slice(before)


@st.composite
def nested(draw: st.DrawFn, length: int, depth: int) -> pa.Array:
    sizes = draw(st.lists(st.integers(0, 3), min_size=length, max_size=length))
    ends = [sum(sizes[:place]) for place in range(length + 1)]
    inner = partial(columns, depth=depth - 1)
    mask = pa.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)), pa.bool_())
    make = draw(st.sampled_from(("list", "large", "view", "fixed", "struct", "map", "dictionary", "runs", "union")))
    if make in {"list", "large", "view"}:
        kind = {"list": pa.ListArray, "large": pa.LargeListArray, "view": pa.ListViewArray}[make]
        if make == "view":
            return kind.from_arrays(pa.array(ends[:-1], pa.int32()), pa.array(sizes, pa.int32()), draw(inner(ends[-1])))
        offsets = pa.array(ends, pa.int64() if make == "large" else pa.int32())
        return kind.from_arrays(offsets, draw(inner(ends[-1])), mask=mask if length else None)
    if make == "fixed":
        return pa.FixedSizeListArray.from_arrays(draw(inner(2 * length)), 2, mask=mask if length else None)
    if make == "struct":
        parts = [draw(inner(length)), draw(inner(length))]
        return pa.StructArray.from_arrays(parts, names=["a", draw(st.sampled_from(("a", "b'\"")))], mask=mask)
    if make == "map":
        keys = pa.array(list(map(str, range(ends[-1]))))
        return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, draw(inner(ends[-1])))
    if make == "dictionary":
        indices = pa.array(draw(some(st.integers(0, 3), length)), pa.int8())
        return pa.DictionaryArray.from_arrays(indices, draw(inner(4)))
    if make == "runs":
        return pa.RunEndEncodedArray.from_arrays(
            pa.array([*range(1, length + 1)], pa.int32()), draw(leaves(length, is_valid=True))
        )
    kinds = pa.array(draw(st.lists(st.integers(0, 1), min_size=length, max_size=length)), pa.int8())
    return pa.UnionArray.from_sparse(kinds, [draw(leaves(length)), draw(leaves(length))])


def refused(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


ANY = settings(max_examples=2_000 if IS_FULL else 200, deadline=None)


@ANY
@given(columns(4))
def test_every_value_of_every_type_is_a_text(column: pa.Array) -> None:
    found = texts(column)
    assert [type(text) for text in found] == [str if scalar.is_valid else type(None) for scalar in column] or (
        # These have no validity of their own.
        any(map(pa.types.is_union, [column.type])) or pa.types.is_dictionary(column.type)
    )
    assert len(found) == len(column)
    assert [texts(column.slice(place, 1))[0] for place in range(len(column))] == found
    assert len(shown_texts(column)) == len(column)
    assert [text is None for text in texts(column, most=2)] == [text is None for text in found]
    for document in write_enclosed(column, JSON):
        json.loads(document, parse_constant=refused)


@ANY
@given(columns(3), columns(3))
def test_every_row_is_a_line_on_a_terminal_of_json_and_of_csv(one: pa.Array, two: pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([one, two], names=["a", "a"])
    lines = align_table(pa.Table.from_batches([batch]), null="NULL").split("\n")
    assert len(lines) == 1 + batch.num_rows
    out = io.BytesIO()
    with JsonWriter(out) as writer:
        writer.write_batch(batch)
    rows = [json.loads(line, parse_constant=refused) for line in out.getvalue().decode().split("\n")[:-1]]
    assert [list(row) for row in rows] == [["a", "a_1"]] * batch.num_rows
    out = io.BytesIO()
    with CsvWriter.of(out, batch.schema) as writer:
        writer.write_batch(batch)
    said = list(csv.reader(io.StringIO(out.getvalue().decode(), newline=""), strict=True))
    assert [len(line) for line in said] == [2] * (1 + batch.num_rows)


SHOWN: list[tuple[Any, pa.DataType, str]] = [
    (1.0, pa.float64(), "1.0"),
    (1e300, pa.float64(), "1e+300"),
    (0.1, pa.float32(), "0.1"),
    (math.nan, pa.float64(), "nan"),
    (-math.inf, pa.float32(), "-inf"),
    (Decimal("0E-10"), pa.decimal128(20, 10), "0.0000000000"),
    (Decimal(10**76 - 1), pa.decimal256(76, 0), "9" * 76),
    (True, pa.bool_(), "true"),
    (b"\x00\xff", pa.binary(), "X'00FF'"),
    ((14, -2, 3_000_000_001), pa.month_day_nano_interval(), "14 months -2 days 3.000000001 seconds"),
    ((0, 0, -1), pa.month_day_nano_interval(), "-0.000000001 seconds"),
    ([1, None], pa.list_(pa.int8()), "[1, NULL]"),
    ([("k", 1.5)], pa.map_(pa.utf8(), pa.float64()), "{'k'=1.5}"),
    ({"a": "it's", "b": None}, pa.struct({"a": pa.utf8(), "b": pa.date32()}), "{'a': 'it''s', 'b': NULL}"),
]


@pytest.mark.parametrize(("value", "kind", "expected"), SHOWN, ids=lambda value: str(value)[:30])
def test_a_value_is_shown_as_sql_writes_it(value: object, kind: pa.DataType, expected: str) -> None:
    assert texts(pa.array([value], kind)) == [expected]


@ANY
@given(
    st.integers(-9_223_372_022_400_000_000, 2**63 - 2)
    | st.sampled_from((0, -62_135_596_800_000_001, 253_402_300_800_000_000))
)
def test_moments_are_those_of_duckdb(value: int) -> None:
    (moment,) = duckdb.execute("SELECT CAST(make_timestamp(?) AS VARCHAR)", [value]).fetchone() or ()
    day, _, clock = moment.replace(" (BC)", "").partition(" ")
    era = " BC" if "(BC)" in moment else ""
    assert texts(pa.array([value], pa.int64()).view(pa.timestamp("us"))) == [f"{day} {clock}{era}"]
    assert texts(pa.array([value], pa.int64()).view(pa.timestamp("us", "+01:00")))[0] is not None


def test_bytes_that_are_no_text_are_shown() -> None:
    for kind in (pa.utf8(), pa.large_utf8()):
        offsets = pa.array([0, 2], pa.int64() if kind == pa.large_utf8() else pa.int32())
        broken = pa.Array.from_buffers(kind, 1, [None, offsets.buffers()[1], pa.py_buffer(b"a\xff")])
        assert texts(broken) == ["a\ufffd"]
        assert write_enclosed(broken, SQL) == ["'a\ufffd'"]


def test_a_huge_list_costs_what_is_shown_of_it() -> None:
    column = pa.array([range(5_000_000)], pa.list_(pa.int64()))
    text = texts(column, most=60)[0]
    assert text is not None
    assert (text[:12], len(text)) == ("[0, 1, 2, 3,", 230)
    assert align_table(pa.table({"l": column})).split("\n")[1].endswith("16, …")


def test_a_directory_of_csv_has_the_texts_of_one_file(tmp_path: Path) -> None:
    moments = pa.array([2**62, 1], pa.int64()).view(pa.timestamp("s"))
    rows = pa.table({"site": ["a", "a"], "at": moments, "l": [[1], None], "n": [0.5, 1.5], "b": [b"\xff", b""]})
    write_directory(str(tmp_path / "out"), "csv", rows.schema, rows.to_batches(), ["site"])
    (file,) = (tmp_path / "out" / "site=a").iterdir()
    found = list(csv.reader(io.StringIO(file.read_text(), newline="")))
    assert found[1:] == [
        ["146138514283-06-19 07:45:04", "[1]", "0.5", "\\xff"],
        ["1970-01-01 00:00:01", "", "1.5", "\\x"],
    ]


def test_json_has_texts_for_numbers_that_it_has_not() -> None:
    column = pa.array([math.nan, math.inf, -math.inf, 1.0])
    assert write_enclosed(column, JSON) == ['"NaN"', '"Infinity"', '"-Infinity"', "1.0"]
