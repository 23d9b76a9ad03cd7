"""murmur3, murmur3_multi and bucket, against the vector file and against mmh3 one value at a time."""

from __future__ import annotations

import math
import struct
from datetime import date
from decimal import Decimal
from typing import Any

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.errors import InvalidInput
from lance_flight.model.arrow_json import type_from_text
from lance_flight.model.hashing import HashClass, HashKind, bucket, hash_class, murmur3, murmur3_multi

from tests.examples import examples
from tests.model.hash_vectors import VECTORS, vector_array, vector_name

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
STRINGS = [pa.utf8(), pa.large_utf8(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(4)]
DECIMALS = [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal256(76, 2)]
UNITS = ["s", "ms", "us", "ns"]
ZONES = [None, "UTC", "America/Los_Angeles"]
TIMESTAMPS = [pa.timestamp(unit, zone) for unit in UNITS for zone in ZONES]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
DATES = [pa.date32(), pa.date64()]
HASHABLE = [*INTEGERS, *STRINGS, *BINARIES, *DECIMALS, *TIMESTAMPS, *TIMES, *FLOATS, *DATES, pa.bool_()]
UNHASHABLE = [
    pa.null(),
    pa.duration("us"),
    pa.month_day_nano_interval(),
    pa.list_(pa.int8()),
    pa.struct({"a": pa.int8()}),
    pa.map_(pa.utf8(), pa.int8()),
    pa.dictionary(pa.int8(), pa.list_(pa.int8())),
]


# The vector file


@pytest.mark.parametrize("row", VECTORS["murmur3"], ids=vector_name)
def test_murmur3_gives_the_hash_of_the_vector_file(row: dict[str, Any]) -> None:
    array = vector_array(type_from_text(row["type"]), row["value"])
    assert murmur3(array).to_pylist() == [row["murmur3"]]
    assert mmh3.hash(bytes.fromhex(row["hashed_bytes_hex"])) == row["murmur3"]


@pytest.mark.parametrize("row", VECTORS["murmur3_multi"], ids=vector_name)
def test_murmur3_multi_gives_the_hash_of_the_vector_file(row: dict[str, Any]) -> None:
    kinds = map(type_from_text, row["types"])
    columns = [vector_array(kind, value) for kind, value in zip(kinds, row["values"], strict=True)]
    assert murmur3_multi(columns).to_pylist() == [row["murmur3_multi"]]


@pytest.mark.parametrize("row", VECTORS["bucket"], ids=vector_name)
def test_bucket_gives_the_number_of_the_vector_file(row: dict[str, Any]) -> None:
    assert bucket(pa.array([row["murmur3"]], pa.int32()), row["num_buckets"]).to_pylist() == [row["bucket"]]


# A slow hash, one value at a time


def encoded(kind: pa.DataType, scalar: pa.Scalar) -> bytes:
    """The bytes of decision 7, written for one value with nothing but Python's own numbers."""
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        nanoseconds = scalar.value * {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        return (nanoseconds // 1000 % 2**64).to_bytes(8, "little")
    if pa.types.is_date(kind):
        return (scalar.as_py() - date(1970, 1, 1)).days.to_bytes(8, "little", signed=True)
    value = scalar.as_py()
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return (int(value) % 2**64).to_bytes(8, "little")
    if pa.types.is_floating(kind):
        return struct.pack("<d", math.nan if math.isnan(value) else value or 0.0)
    if pa.types.is_decimal(kind):
        negative, digits, _ = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if negative else 1)
        return next(
            unscaled.to_bytes(size, "big", signed=True)
            for size in range(1, 33)
            if -(2 ** (8 * size - 1)) <= unscaled < 2 ** (8 * size - 1)
        )
    return value.encode() if isinstance(value, str) else bytes(value)


def slow(columns: list[pa.Array]) -> list[int | None]:
    """murmur3_multi of each row, by mmh3."""
    hashes = []
    for row in zip(*columns, strict=True):
        parts = [encoded(column.type, value) for column, value in zip(columns, row, strict=True) if value.is_valid]
        hashes.append(mmh3.hash(b"".join(parts)) if parts else None)
    return hashes


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values as Arrow stores them, small ones often, so that columns repeat some."""
    if kind in STRINGS:
        return st.text(max_size=9)
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if kind in BINARIES:
        return st.binary(max_size=9)
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda unscaled: Decimal(f"{unscaled}E{-kind.scale}"))
    if pa.types.is_floating(kind):
        return st.sampled_from([0.0, -0.0, math.nan]) | st.floats(width=kind.bit_width)  # type: ignore[arg-type]
    if pa.types.is_boolean(kind):
        return st.booleans()
    least, most = bounds(kind)
    return st.integers(max(least, -3), min(most, 300)) | st.integers(least, most)


def bounds(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_date(kind):
        return (-700_000, 2_900_000)
    if pa.types.is_time(kind):
        return (0, {"s": 86_399, "ms": 86_399_999, "us": 86_399_999_999, "ns": 86_399_999_999_999}[kind.unit])
    if pa.types.is_timestamp(kind):
        kind = pa.int64()
    if pa.types.is_unsigned_integer(kind):
        return (0, 2**kind.bit_width - 1)
    return (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)


def array_of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).view(pa.date32()).cast(kind)
    if pa.types.is_time32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_time64(kind) or pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind, from_pandas=False)


@st.composite
def columns_of_one_length(draw: st.DrawFn, least: int = 1, most: int = 3) -> list[pa.Array]:
    kinds = draw(st.lists(st.sampled_from(HASHABLE), min_size=least, max_size=most))
    size = draw(st.integers(0, 12))
    nullable = draw(st.booleans())
    columns = []
    for kind in kinds:
        value = values_of(kind) | st.none() if nullable else values_of(kind)
        columns.append(array_of(kind, draw(st.lists(value, min_size=size, max_size=size))))
    return columns


@given(columns_of_one_length())
@examples(100)
def test_murmur3_multi_hashes_each_row_as_mmh3_does(columns: list[pa.Array]) -> None:
    result = murmur3_multi(columns)
    assert result.type == pa.int32()
    assert result.to_pylist() == slow(columns)


@pytest.mark.parametrize("kind", HASHABLE, ids=str)
@given(st.data())
@examples(12)
def test_murmur3_hashes_each_value_as_mmh3_does(kind: pa.DataType, data: st.DataObject) -> None:
    column = array_of(kind, data.draw(st.lists(values_of(kind) | st.none(), max_size=20)))
    expected = slow([column])
    assert murmur3(column).to_pylist() == expected
    assert murmur3_multi([column]).to_pylist() == expected
    assert murmur3(column.slice(2, 9)).to_pylist() == expected[2:11]


@given(columns_of_one_length(), st.integers(0, 12), st.integers(0, 12))
@examples(50)
def test_slices_and_chunks_hash_as_the_rows_they_hold(columns: list[pa.Array], start: int, length: int) -> None:
    expected = slow([column.slice(start, length) for column in columns])
    assert murmur3_multi([column.slice(start, length) for column in columns]).to_pylist() == expected
    assert murmur3(columns[0].slice(start, length)).to_pylist() == slow([columns[0].slice(start, length)])
    chunked = [pa.chunked_array([column.slice(0, start), column.slice(start)]) for column in columns]
    assert murmur3_multi(chunked).to_pylist() == slow(columns)
    assert murmur3(chunked[0]).to_pylist() == slow([columns[0]])


@given(columns_of_one_length(least=2))
@examples(50)
def test_dictionaries_hash_as_the_values_they_stand_for(columns: list[pa.Array]) -> None:
    mixed = [columns[0], *map(as_dictionary, columns[1:])]
    assert murmur3_multi(mixed).to_pylist() == slow(columns)
    assert murmur3(mixed[1]).to_pylist() == slow([columns[1]])


def as_dictionary(column: pa.Array) -> pa.Array:
    """Every value a dictionary entry of its own, NULLs and repeated values too."""
    return pa.DictionaryArray.from_arrays(pa.array(range(len(column)), pa.int16()), column)


def test_chunks_may_have_dictionaries_of_their_own() -> None:
    chunks = pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()])
    columns = [pa.array(["a", "b", "c", "a"]), pa.array([1, 2, 3, None])]
    assert murmur3_multi([chunks, columns[1]]).to_pylist() == slow(columns)
    assert murmur3(chunks).to_pylist() == slow(columns[:1])


@pytest.mark.parametrize(
    "kind", [pa.decimal128(9, 2), pa.decimal32(9, 2), pa.utf8(), pa.int64(), pa.binary(4)], ids=str
)
def test_a_null_inside_a_dictionary_is_left_out(kind: pa.DataType) -> None:
    columns = [pa.array([34]), pa.array(["iceberg"]), pa.nulls(1, kind)]
    assert murmur3_multi([columns[0], columns[1], as_dictionary(columns[2])]).to_pylist() == [875336289]
    assert murmur3_multi([columns[0], as_dictionary(columns[2])]).to_pylist() == [2017239379]
    assert murmur3(as_dictionary(columns[2])).to_pylist() == [None]


# Rows beyond the sizes at which the work is done in another way


REPEATED = {
    "text": pa.array(["a", None, "", "éa", "a long text of more than one block"] * 2_000),
    "numbers": pa.array([7, None, -1, 2**62, 0] * 2_000),
    "distinct numbers": pa.array(range(10_000), pa.int32()),
    "distinct text": pa.array([str(number) for number in range(10_000)]),
    "small decimals": pa.array([Decimal("1.50"), None, Decimal("-0.01"), Decimal(0), Decimal(7)] * 2_000, DECIMALS[0]),
    "wide decimals": pa.array([Decimal("1.50"), None, Decimal("-0.01"), Decimal(0), Decimal(7)] * 2_000, DECIMALS[3]),
    "views": pa.array(["x", "y", None, "z", "x"] * 2_000, pa.string_view()),
    "bytes": pa.array([b"\0\0\0\0", None, b"abc\0", b"1234", b"\0\0\0\1"] * 2_000, pa.binary(4)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_long_columns_hash_as_their_rows_do(name: str) -> None:
    assert murmur3(REPEATED[name]).to_pylist() == slow([REPEATED[name]])


@pytest.mark.parametrize("pair", [(a, b) for a in REPEATED for b in REPEATED if a < b], ids=" and ".join)
def test_long_pairs_of_columns_hash_as_their_rows_do(pair: tuple[str, str]) -> None:
    columns = [REPEATED[name] for name in pair]
    assert murmur3_multi(columns).to_pylist() == slow(columns)


def test_blocks_of_rows_meet_without_a_gap() -> None:
    numbers = pa.array(range(-20_000, 20_000))
    whole = murmur3(numbers)
    assert whole.slice(16_380, 10).to_pylist() == slow([numbers.slice(16_380, 10)])
    assert whole.slice(32_760, 10).to_pylist() == slow([numbers.slice(32_760, 10)])


# Equal values


def test_a_date64_that_is_not_midnight_hashes_as_its_day() -> None:
    inside = pa.array([-1, 86_400_001]).view(pa.date64())
    assert murmur3(inside).equals(murmur3(pa.array([-1, 1])))


def test_nanoseconds_before_1970_are_rounded_down() -> None:
    before = pa.array([-1]).view(pa.timestamp("ns"))
    assert murmur3(before).equals(murmur3(pa.array([-1]).view(pa.timestamp("us"))))


def test_instants_beyond_the_range_of_microseconds_hash_alike_in_seconds_and_milliseconds() -> None:
    far = 10**14
    seconds, milliseconds = pa.array([far]).view(pa.timestamp("s")), pa.array([far * 1000]).view(pa.timestamp("ms"))
    assert murmur3(seconds).equals(murmur3(milliseconds))


def test_every_nan_hashes_as_one() -> None:
    patterns = pa.array([0x7FF8000000000000, 0x7FF0000000000001, -1, 0x7FFFFFFFFFFFFFFF])
    assert len(set(murmur3(patterns.view(pa.float64())))) == 1


# NULL, nothing, and what is refused


def test_an_empty_text_is_not_a_null() -> None:
    nothing = pa.array([None], pa.utf8())
    assert murmur3_multi([pa.array([""]), nothing]).to_pylist() == [0]
    assert murmur3_multi([nothing, nothing]).to_pylist() == [None]


def test_a_removed_column_counts_as_null() -> None:
    removed, present = pa.nulls(2), pa.array([34, None])
    assert murmur3(removed).to_pylist() == [None, None]
    assert murmur3_multi([removed, present]).equals(murmur3(present))
    assert murmur3_multi([removed, removed]).to_pylist() == [None, None]
    assert murmur3_multi([removed, present, pa.array(["", None])]).to_pylist() == [2017239379, None]


@pytest.mark.parametrize("kind", UNHASHABLE[1:], ids=str)
def test_a_type_that_has_no_hash_is_refused_by_name(kind: pa.DataType) -> None:
    assert hash_class(kind) is None
    values = pa.nulls(1, kind)
    named = str(kind.value_type if pa.types.is_dictionary(kind) else kind)
    with pytest.raises(InvalidInput, match="murmur3 is not defined for") as raised:
        murmur3(values)
    assert named in str(raised.value)
    with pytest.raises(InvalidInput, match="murmur3 is not defined for"):
        murmur3_multi([pa.array([1]), values])


def test_columns_of_different_lengths_and_no_columns_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"\[1, 2\] rows"):
        murmur3_multi([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(InvalidInput, match="expected one length"):
        murmur3_multi([])


@pytest.mark.parametrize("number", [0, -1, 2**31])
def test_a_number_of_buckets_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(InvalidInput, match=f"num_buckets is {number}"):
        bucket(pa.array([1], pa.int32()), number)


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)), st.integers(1, 2**31 - 1))
def test_a_bucket_lies_between_0_and_the_number_of_buckets(hashes: list[int | None], number: int) -> None:
    result = bucket(pa.array(hashes, pa.int32()), number)
    assert result.type == pa.int32()
    assert result.to_pylist() == [None if one is None else abs(one) % number for one in hashes]


# Hash classes

CLASSES = {
    HashClass(kind=HashKind.INTEGER): [*INTEGERS, *DATES, pa.dictionary(pa.int8(), pa.int64())],
    HashClass(kind=HashKind.TIME): [*TIMESTAMPS, *TIMES],
    HashClass(kind=HashKind.FLOAT): FLOATS,
    HashClass(kind=HashKind.BOOL): [pa.bool_()],
    HashClass(kind=HashKind.STRING): [*STRINGS, pa.dictionary(pa.int8(), pa.utf8())],
    HashClass(kind=HashKind.BINARY): BINARIES,
    HashClass(kind=HashKind.DECIMAL, scale=2): DECIMALS,
    HashClass(kind=HashKind.DECIMAL, scale=3): [pa.decimal128(9, 3)],
    HashClass(kind=HashKind.DECIMAL, scale=-2): [pa.decimal128(9, -2)],
}


@pytest.mark.parametrize(
    ("expected", "kind"), [(known, kind) for known, kinds in CLASSES.items() for kind in kinds], ids=str
)
def test_each_type_has_the_hash_class_of_its_family(expected: HashClass, kind: pa.DataType) -> None:
    assert hash_class(kind) == expected


def test_a_null_type_has_no_hash_class() -> None:
    assert hash_class(pa.null()) is None
