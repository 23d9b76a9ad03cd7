"""The eight transforms: what they compute, on which types, and that this is what their derived expression computes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.errors import DataError
from lance_flight.model.transforms import (
    TRANSFORMS,
    Bucket,
    Day,
    Hour,
    Identity,
    Month,
    MultiBucket,
    Transform,
    Truncate,
    Year,
)

BUCKETS = json.loads((Path(__file__).parent / "data" / "murmur3.json").read_text())["bucket"]
ONE_OF_EACH: list[Transform] = [Identity(), Year(), Month(), Day(), Hour(), Bucket(7), MultiBucket(7), Truncate(7)]


def instants(kind: pa.DataType, *texts: str | None) -> pa.Array:
    """Wall clocks in UTC as timestamps of any unit and zone."""
    naive = pa.array([None if text is None else datetime.fromisoformat(text) for text in texts], pa.timestamp("us"))
    return naive.cast(pa.timestamp(kind.unit)).view(pa.int64()).view(kind)


# The table of transforms


def test_the_eight_transforms_have_the_names_of_the_spec() -> None:
    names = ["identity", "year", "month", "day", "hour", "bucket", "multi_bucket", "truncate"]
    assert list(TRANSFORMS) == names
    assert [transform.type for transform in ONE_OF_EACH] == names


EXPRESSIONS = {
    "identity": (Identity(), [pa.int8()], "col0"),
    "year": (Year(), [pa.date32()], "date_part('year', col0)"),
    "month": (Month(), [pa.date32()], "date_part('month', col0)"),
    "day": (Day(), [pa.date32()], "date_part('day', col0)"),
    "hour": (Hour(), [pa.timestamp("s")], "date_part('hour', col0)"),
    "bucket": (Bucket(16), [pa.utf8()], "abs(murmur3(col0)) % 16"),
    "multi_bucket": (MultiBucket(16), [pa.utf8(), pa.int8()], "abs(murmur3_multi(col0, col1)) % 16"),
    "truncate of text": (Truncate(3), [pa.utf8()], "left(col0, 3)"),
    "truncate of a number": (Truncate(3), [pa.int8()], "col0 - (col0 % 3)"),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_transform_derives_the_expression_of_the_spec(name: str) -> None:
    transform, sources, expected = EXPRESSIONS[name]
    assert transform.expression(sources) == expected


def test_only_parameters_of_the_spec_are_written() -> None:
    written = [dict(transform.arguments) for transform in ONE_OF_EACH]
    assert written == [{}, {}, {}, {}, {}, {"num_buckets": 7}, {"num_buckets": 7}, {"width": 7}]


def test_two_transforms_are_equal_where_their_type_and_parameters_are() -> None:
    assert len({*ONE_OF_EACH, Bucket(8), MultiBucket(8), Truncate(8)}) == 11
    assert Bucket(7) == Bucket(7) != MultiBucket(7)
    assert Year() != Month()


RESULTS = {
    "identity of text": (Identity(), [pa.utf8()], pa.utf8()),
    "identity of a dictionary": (Identity(), [pa.dictionary(pa.int8(), pa.utf8())], pa.utf8()),
    "identity of a timestamp": (Identity(), [pa.timestamp("ns", "UTC")], pa.timestamp("ns", "UTC")),
    "year": (Year(), [pa.timestamp("ns", "UTC")], pa.int32()),
    "month": (Month(), [pa.date64()], pa.int32()),
    "day": (Day(), [pa.date32()], pa.int32()),
    "hour": (Hour(), [pa.timestamp("s")], pa.int32()),
    "bucket": (Bucket(4), [pa.binary()], pa.int32()),
    "multi_bucket": (MultiBucket(4), [pa.binary(), pa.int8()], pa.int32()),
    "truncate of text": (Truncate(4), [pa.large_utf8()], pa.large_utf8()),
    "truncate of a decimal": (Truncate(4), [pa.decimal128(9, 2)], pa.decimal128(9, 2)),
    "truncate of a small number": (Truncate(1000), [pa.int8()], pa.int8()),
}


@pytest.mark.parametrize("name", RESULTS)
def test_the_declared_type_is_the_type_of_what_is_computed(name: str) -> None:
    transform, sources, expected = RESULTS[name]
    assert transform.result_type(sources) == expected
    assert not list(transform.problems(sources))
    for rows in (0, 2):
        assert transform.apply([pa.nulls(rows, source) for source in sources]).type == expected


# What each one computes

D = Decimal
APPLIED: dict[str, tuple[Transform, pa.Array, list[Any]]] = {
    "identity keeps what it gets": (Identity(), pa.array(["é", "", None]), ["é", "", None]),
    "identity decodes a dictionary": (Identity(), pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
    "year of a date": (Year(), pa.array([date(2025, 12, 10), date(1969, 12, 31), None]), [2025, 1969, None]),
    "year of a date64": (Year(), pa.array([date(2025, 12, 10), date(1969, 12, 31)], pa.date64()), [2025, 1969]),
    "month is from 1 to 12": (Month(), pa.array([date(2025, 1, 1), date(1969, 12, 31)]), [1, 12]),
    "day is that of the month": (Day(), pa.array([date(2024, 2, 29), date(1969, 12, 31)]), [29, 31]),
    "hour before 1970": (Hour(), instants(pa.timestamp("ms"), "1969-12-31T23:59:59.999", None), [23, None]),
    "year before 1970": (Year(), instants(pa.timestamp("ns"), "1969-12-31T23:59:59.999999"), [1969]),
    "year 1": (Year(), pa.array([date(1, 1, 1), date(9999, 12, 31)]), [1, 9999]),
    "truncate goes toward zero": (Truncate(10), pa.array([-17, -10, -7, -1, 0, 7, 17]), [-10, -10, 0, 0, 0, 0, 10]),
    "truncate by 1": (Truncate(1), pa.array([-2, 0, 3, None]), [-2, 0, 3, None]),
    "truncate beyond the type": (Truncate(1000), pa.array([-128, 127, None], pa.int8()), [0, 0, None]),
    "truncate at the ends of int64": (
        Truncate(10),
        pa.array([-(2**63), 2**63 - 1]),
        [-9223372036854775800, 9223372036854775800],
    ),
    "truncate at the end of uint64": (Truncate(10), pa.array([2**64 - 1], pa.uint64()), [18446744073709551610]),
    "truncate of floats": (Truncate(10), pa.array([-17.5, -7.5, 7.5, 17.5, 1e300]), [-10.0, 0.0, 0.0, 10.0, 1e300]),
    "truncate of halves": (Truncate(10), pa.array([-17.5, 17.5, None], pa.float16()), [-10.0, 10.0, None]),
    "truncate of halves by more than they hold": (Truncate(10**6), pa.array([60000.0], pa.float16()), [0.0]),
    "truncate of a decimal": (
        Truncate(10),
        pa.array([D("-17.50"), D("-7.50"), D("27.25"), None], pa.decimal128(9, 2)),
        [D("-10.00"), D("0.00"), D("20.00"), None],
    ),
    "truncate of a small decimal": (
        Truncate(10),
        pa.array([D("-17.50"), None], pa.decimal32(9, 2)),
        [D("-10.00"), None],
    ),
    "truncate of a decimal of 30 digits": (
        Truncate(10),
        pa.array([D("1234567890123456789012345678.34")], pa.decimal128(38, 2)),
        [D("1234567890123456789012345670.00")],
    ),
    "truncate of a decimal of 38 digits": (Truncate(10), pa.array([D("9" * 38)]), [D("9" * 37 + "0")]),
    "truncate of a decimal of 76 digits": (Truncate(10), pa.array([D("-" + "9" * 76)]), [D("-" + "9" * 75 + "0")]),
    "truncate counts characters": (Truncate(2), pa.array(["😀éa", "a", "", None]), ["😀é", "a", "", None]),
    "truncate of a view": (Truncate(2), pa.array(["😀éa", None], pa.string_view()), ["😀é", None]),
    "truncate of large text": (Truncate(2), pa.array(["abc"], pa.large_utf8()), ["ab"]),
}


@pytest.mark.parametrize("name", APPLIED)
def test_a_transform_computes_the_value_of_the_spec(name: str) -> None:
    transform, column, expected = APPLIED[name]
    assert transform.apply([column]).to_pylist() == expected
    assert transform.apply([column.slice(1)]).to_pylist() == expected[1:]


ZONES = {
    "UTC": [[2025, 1969], [1, 12], [1, 31], [2, 23]],
    "America/New_York": [[2024, 1969], [12, 12], [31, 31], [21, 18]],
    "Asia/Kathmandu": [[2025, 1970], [1, 1], [1, 1], [8, 5]],
    "+14:00": [[2025, 1970], [1, 1], [1, 1], [16, 13]],
}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_timestamp_with_a_zone_is_taken_in_its_zone(unit: str, zone: str) -> None:
    column = instants(pa.timestamp(unit, zone), "2025-01-01T02:30:00", "1969-12-31T23:45:00", None)
    parts = [transform.apply([column]).to_pylist() for transform in (Year(), Month(), Day(), Hour())]
    assert parts == [[*expected, None] for expected in ZONES[zone]]


@pytest.mark.parametrize("transform", [Year(), Hour()], ids=lambda transform: transform.type)
def test_parts_of_a_zone_that_is_not_known_are_refused(transform: Transform) -> None:
    kind = pa.timestamp("us", "Europe/Atlantis")
    (problem,) = transform.problems([kind])
    assert problem == (
        f"{transform.type} of a timestamp[us, tz=Europe/Atlantis] column: DataFusion knows no zone 'Europe/Atlantis'; "
        "expected a name of the tz database or an offset like +02:00"
    )
    with pytest.raises(DataError, match="Atlantis"):
        transform.apply([pa.nulls(1, kind)])


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("transform", [Identity(), Truncate(1)], ids=str)
def test_there_is_one_zero_and_one_nan(kind: pa.DataType, transform: Transform) -> None:
    result = transform.apply([pa.array([-0.0, 0.0, None, -math.nan, math.nan, 2.0]).cast(kind)])
    bits = result.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]).to_pylist()
    assert result.type == kind
    assert bits[0] == bits[1] == 0
    assert bits[2] is None
    assert bits[3] == bits[4] != bits[0]
    assert result[5].as_py() == 2.0


def test_infinities_have_no_remainder() -> None:
    assert all(math.isnan(value) for value in Truncate(10).apply([pa.array([math.inf, -math.inf])]).to_pylist())


@pytest.mark.parametrize("row", BUCKETS, ids=str)
def test_a_bucket_is_the_absolute_value_of_the_hash_modulo_n(row: dict[str, Any]) -> None:
    values = [pa.array([34, 2, None])] * 2
    for transform in (Bucket(row["num_buckets"]), MultiBucket(row["num_buckets"])):
        expected = [2017239379 % row["num_buckets"], 971005196 % row["num_buckets"], None]
        assert transform.apply(values[:1]).to_pylist() == expected
    assert MultiBucket(row["num_buckets"]).apply(values).to_pylist() != expected


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.integers(1, 2**31 - 1))
def test_truncated_numbers_are_multiples_of_the_width_between_zero_and_the_number(
    numbers: list[int | None], width: int
) -> None:
    for number, cut in zip(numbers, Truncate(width).apply([pa.array(numbers, pa.int64())]).to_pylist(), strict=True):
        assert cut == (None if number is None else (abs(number) // width * width) * (1 if number >= 0 else -1))


@given(st.lists(st.none() | st.text()), st.integers(1, 5))
def test_truncated_text_is_its_first_characters(texts: list[str | None], width: int) -> None:
    cut = Truncate(width).apply([pa.array(texts, pa.utf8())]).to_pylist()
    assert cut == [None if text is None else text[:width] for text in texts]


# The six requirements, as far as a transform can break them


@given(st.lists(st.integers(-128, 127), min_size=1))
def test_equal_numbers_have_equal_values_whatever_their_width(numbers: list[int]) -> None:
    """Type-promotion resistant (requirement 3)."""
    widths = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    for transform in (Identity(), Bucket(16), MultiBucket(16), Truncate(10)):
        assert len({tuple(transform.apply([pa.array(numbers, kind)]).to_pylist()) for kind in widths}) == 1


@given(st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)), min_size=1))
def test_equal_instants_have_equal_values_whatever_their_unit(moments: list[datetime]) -> None:
    """Type-promotion resistant (requirement 3)."""
    seconds = pa.array([moment.replace(microsecond=0) for moment in moments], pa.timestamp("us"))
    for transform in (Year(), Month(), Day(), Hour(), Bucket(16)):
        values = {
            tuple(transform.apply([seconds.cast(pa.timestamp(unit))]).to_pylist()) for unit in ("s", "ms", "us", "ns")
        }
        assert len(values) == 1


@pytest.mark.parametrize("transform", ONE_OF_EACH, ids=lambda transform: transform.type)
def test_a_removed_column_gives_null(transform: Transform) -> None:
    """Column removal resistant (requirement 4): the column arrives as NULLs without a type."""
    assert transform.apply([pa.nulls(2)]).to_pylist() == [None, None]


def test_a_removed_column_is_left_out_of_a_hash_of_several() -> None:
    """Column removal resistant, NULL safe (requirements 4 and 5)."""
    present = pa.array(["a", None])
    assert MultiBucket(16).apply([pa.nulls(2), present]).equals(Bucket(16).apply([present]))


# What each one refuses

REFUSED: dict[str, tuple[Transform, list[pa.DataType], list[str]]] = {
    "identity of a list": (
        Identity(),
        [pa.list_(pa.int8())],
        ["identity of a list<item: int8> column; expected a number, string, binary, boolean, date or time"],
    ),
    "identity of nothing": (
        Identity(),
        [pa.null()],
        ["identity of a null column; expected a number, string, binary, boolean, date or time"],
    ),
    "identity of two": (Identity(), [pa.int8(), pa.int8()], ["identity takes one source column, got 2"]),
    "year of text": (Year(), [pa.utf8()], ["year of a string column; expected a date or timestamp"]),
    "hour of a date": (Hour(), [pa.date32()], ["hour of a date32[day] column; expected a timestamp"]),
    "month of a number": (Month(), [pa.int32()], ["month of a int32 column; expected a date or timestamp"]),
    "day of none": (Day(), [], ["day takes one source column, got 0"]),
    "bucket of a struct": (
        Bucket(4),
        [pa.struct({})],
        ["bucket of a struct<> column; expected a type that murmur3 is defined for"],
    ),
    "bucket of two": (Bucket(4), [pa.int8(), pa.int8()], ["bucket takes one source column, got 2"]),
    "0 buckets": (Bucket(0), [pa.int8()], ["num_buckets is 0; expected 1 to 2147483647"]),
    "too many buckets": (MultiBucket(2**31), [pa.int8()], [f"num_buckets is {2**31}; expected 1 to 2147483647"]),
    "multi_bucket of none": (MultiBucket(4), [], ["multi_bucket takes at least one source column"]),
    "multi_bucket of a list, twice": (
        MultiBucket(4),
        [pa.list_(pa.int8()), pa.int8(), pa.duration("s")],
        [
            "multi_bucket of a list<item: int8> column; expected a type that murmur3 is defined for",
            "multi_bucket of a duration[s] column; expected a type that murmur3 is defined for",
        ],
    ),
    "truncate of a date": (
        Truncate(4),
        [pa.date32()],
        ["truncate of a date32[day] column; expected a string or a number"],
    ),
    "truncate of a bool": (Truncate(4), [pa.bool_()], ["truncate of a bool column; expected a string or a number"]),
    "truncate by 0 of two": (
        Truncate(0),
        [pa.utf8(), pa.binary()],
        [
            "truncate takes one source column, got 2",
            "width is 0; expected 1 to 2147483647",
            "truncate of a binary column; expected a string or a number",
        ],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_transform_says_everything_that_is_wrong_with_its_columns(name: str) -> None:
    transform, sources, expected = REFUSED[name]
    assert list(transform.problems(sources)) == expected


# The derived expression, computed by DataFusion


def computed(transform: Transform, column: pa.Array) -> list[Any]:
    context = SessionContext()
    context.register_record_batches("t", [[pa.record_batch([column], ["col0"])]])
    batches: Sequence[pa.RecordBatch] = context.sql(f"SELECT {transform.expression([column.type])} FROM t").collect()
    return [value for batch in batches for value in batch.column(0).to_pylist()]


NUMBERS = [-128, -17, -10, -7, -1, 0, 1, 7, 10, 17, 127, None]
MOMENTS = [
    "1969-12-31T23:59:59",
    "1970-01-01T00:00:00",
    "2024-02-29T12:00:00",
    "2200-01-01T00:00:00",
    "0001-01-01T00:00:00",
]
COMPARED: dict[str, tuple[Transform, pa.Array]] = {
    **{
        f"{transform.type} of {kind}": (transform, instants(kind, *moments, None))
        for kind, moments in [
            (pa.timestamp("s"), MOMENTS),
            (pa.timestamp("ms", "UTC"), MOMENTS),
            (pa.timestamp("us"), MOMENTS),
            (pa.timestamp("ns", "UTC"), MOMENTS[:-1]),
        ]
        for transform in (Year(), Month(), Day(), Hour())
    },
    **{
        f"{transform.type} of {kind}": (transform, pa.array([date.fromisoformat(m[:10]) for m in MOMENTS], kind))
        for kind in (pa.date32(), pa.date64())
        for transform in (Year(), Month(), Day())
    },
    **{
        f"truncate of {kind} by {width}": (Truncate(width), pa.array(NUMBERS, pa.int8()).cast(kind))
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(9, 2))
        for width in (1, 10)
    },
    "truncate of uint8": (Truncate(10), pa.array([0, 9, 10, 255, None], pa.uint8())),
    "truncate of int8 by more": (Truncate(1000), pa.array(NUMBERS, pa.int8())),
    "truncate of float64": (Truncate(10), pa.array([-17.5, 1e300, 0.1, -0.1])),
    "truncate of utf8": (Truncate(2), pa.array(["😀éa", "a", "", None, "e\u0301x"])),
    "truncate of large_utf8": (Truncate(2), pa.array(["😀éa", "a", "", None], pa.large_utf8())),
}


@pytest.mark.parametrize("name", COMPARED)
def test_a_transform_computes_what_its_derived_expression_computes(name: str) -> None:
    transform, column = COMPARED[name]
    assert transform.apply([column]).to_pylist() == computed(transform, column)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(pa.array([2**62], pa.timestamp("us")), id="a microsecond timestamp far ahead"),
        pytest.param(pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32()), id="the last date32"),
        pytest.param(pa.array([-(2**31)], pa.int32()).cast(pa.date32()), id="the first date32"),
    ],
)
def test_a_moment_beyond_the_calendar_is_refused_not_wrapped(values: pa.Array) -> None:
    with pytest.raises(DataError, match="days from 1970"):
        TRANSFORMS["year"]().apply([values])
