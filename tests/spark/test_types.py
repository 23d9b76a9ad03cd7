"""Types: every one that Spark can hold goes there and back, with every value; the others are refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.errors import DataError, SchemaError
from lance_flight_client.spark.types import arrow_schema, carried_batch, carried_schema, spark_schema
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

ZONES = st.sampled_from([None, "UTC", "Europe/Paris", "+05:30"])
UNITS = ("s", "ms", "us", "ns")

SCALARS = st.one_of(
    st.sampled_from(
        [
            *(pa.null(), pa.bool_(), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms")),
            *(pa.time64("us"), pa.time64("ns"), pa.float16(), pa.float32(), pa.float64()),
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
            *(pa.utf8(), pa.large_utf8(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
            *(pa.binary(3), *map(pa.duration, UNITS)),
        ]
    ),
    st.builds(pa.timestamp, st.sampled_from(UNITS), ZONES),
    st.builds(
        lambda make, digits, scale: make(digits, min(scale, digits)),
        st.sampled_from([pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256]),
        st.integers(1, 9),
        st.integers(-3, 9),
    ),
)


def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.large_list, inner),
        st.builds(pa.list_, inner, st.integers(0, 3)),
        st.builds(
            lambda kinds: pa.struct([(f"f{n}", kind) for n, kind in enumerate(kinds)]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(lambda kind: pa.map_(pa.utf8(), kind), inner),
    )


TYPES = st.recursive(SCALARS, nested, max_leaves=4)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values that a type has, in no more than microseconds."""
    return st.none() | _values(kind)


def _values(kind: pa.DataType) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0912 - one line for each type
    t = pa.types
    if t.is_null(kind):
        return st.none()
    if t.is_boolean(kind):
        return st.booleans()
    if t.is_integer(kind):
        low = 0 if t.is_unsigned_integer(kind) else -(1 << (kind.bit_width - 1))
        return st.integers(low, low + (1 << kind.bit_width) - 1)
    if t.is_floating(kind):
        return st.floats(width=kind.bit_width, allow_nan=False)
    if t.is_decimal(kind):
        unscaled = st.integers(-(10**kind.precision) + 1, 10**kind.precision - 1)
        return unscaled.map(lambda number: Decimal(number).scaleb(-kind.scale))
    if t.is_date(kind):
        return st.dates()
    if t.is_timestamp(kind):
        # What fits into 64 bits of nanoseconds.
        zone = None if kind.tz is None else dt.UTC
        moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
        return moments.map(lambda moment: _coarse(moment, kind.unit).replace(tzinfo=zone))
    if t.is_time(kind):
        return st.times().map(lambda time: _coarse(time, kind.unit))
    if t.is_duration(kind):
        return st.integers(-(10**5), 10**5).map(lambda seconds: dt.timedelta(seconds=seconds))
    if t.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if t.is_map(kind):
        return st.dictionaries(st.text(max_size=3), values(kind.item_type), max_size=2).map(lambda d: list(d.items()))
    if t.is_fixed_size_list(kind):
        return st.lists(values(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    if t.is_list(kind) or t.is_large_list(kind):
        return st.lists(values(kind.value_type), max_size=3)
    if t.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    return st.text(max_size=5) if "string" in str(kind) else st.binary(max_size=5)


def _coarse(moment: Any, unit: str) -> Any:
    steps = {"s": 10**6, "ms": 10**3}
    return moment.replace(microsecond=moment.microsecond // steps.get(unit, 1) * steps.get(unit, 1))


@given(st.data())
def test_a_type_goes_to_spark_and_back_with_every_value(data: st.DataObject) -> None:
    kind = data.draw(TYPES, "type")
    column = pa.array(data.draw(st.lists(values(kind), max_size=3), "values"), kind)
    schema = pa.schema([("c", kind)])
    carried = carried_schema(schema)
    there = spark_schema(schema)
    assert to_arrow_schema(there, timezone="UTC").equals(carried), "what Spark itself expects of the first batch"
    assert arrow_schema(there).field("c").type == kind
    batch = carried_batch(pa.RecordBatch.from_arrays([column], schema=schema), carried)
    assert batch.schema == carried
    assert batch.column(0).cast(kind).equals(column)


DEFAULTS = [
    pytest.param(pa.uint64(), "decimal(20,0)", id="uint64"),
    pytest.param(pa.uint32(), "bigint", id="uint32"),
    pytest.param(pa.float16(), "float", id="float16"),
    pytest.param(pa.list_(pa.float32(), 768), "array<float>", id="a vector"),
    pytest.param(pa.timestamp("ns"), "timestamp_ntz", id="a timestamp"),
    pytest.param(pa.timestamp("s", "Asia/Tokyo"), "timestamp", id="a timestamp with a zone"),
    pytest.param(pa.time32("s"), "time(6)", id="a time"),
    pytest.param(pa.duration("s"), "interval day to second", id="a duration"),
    pytest.param(pa.decimal256(38, 3), "decimal(38,3)", id="a wide decimal"),
    pytest.param(pa.decimal128(5, -2), "decimal(7,0)", id="a decimal of hundreds"),
    pytest.param(pa.dictionary(pa.int8(), pa.uint8()), "smallint", id="a dictionary"),
    pytest.param(pa.list_view(pa.string_view()), "array<string>", id="a view"),
    pytest.param(pa.map_(pa.utf8(), pa.uint16()), "map<string,int>", id="a map"),
    pytest.param(pa.struct({"x y": pa.uint8()}), "struct<x y:smallint>", id="a struct"),
    pytest.param(pa.bool8(), "tinyint", id="an extension type"),
]


@pytest.mark.parametrize(("kind", "name"), DEFAULTS)
def test_a_type_is_to_spark(kind: pa.DataType, name: str) -> None:
    assert spark_schema(pa.schema([("c", kind)]))["c"].dataType.simpleString() == name


REFUSED = [
    pytest.param(pa.decimal256(39, 0), "at most 38 digits", id="too many digits"),
    pytest.param(pa.decimal128(38, -2), "at most 38 digits", id="too many digits before the point"),
    pytest.param(pa.month_day_nano_interval(), "expected a number", id="an interval"),
    pytest.param(pa.dense_union([pa.field("a", pa.int8())]), "expected a number", id="a union"),
    pytest.param(pa.run_end_encoded(pa.int32(), pa.int8()), "expected a number", id="runs"),
    pytest.param(pa.struct([("a", pa.int8()), ("a", pa.int8())]), "two fields called 'a'", id="a field twice"),
    pytest.param(pa.struct([]), "expected a number", id="no fields"),
    pytest.param(pa.list_(pa.month_day_nano_interval()), "month_day_nano_interval", id="inside a list"),
]


@pytest.mark.parametrize(("kind", "message"), REFUSED)
def test_what_spark_cannot_hold_is_refused_by_name(kind: pa.DataType, message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        spark_schema(pa.schema([("fine", pa.int8()), ("this one", kind), ("that one", kind)]))
    (first, second) = raised.value.problems
    assert first.startswith(f"column 'this one' is {kind}")
    assert second.startswith("column 'that one'")
    assert message in first


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SchemaError, match="column 'a' is there twice"):
        spark_schema(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


LOST = [
    pytest.param(pa.timestamp("ns"), 1001, id="a timestamp"),
    pytest.param(pa.time64("ns"), 1001, id="a time"),
    pytest.param(pa.duration("ns"), 1001, id="a duration"),
    pytest.param(pa.list_(pa.time64("ns")), [1001], id="a time in a list"),
    pytest.param(pa.timestamp("s"), 2**62, id="a timestamp that is too far away"),
]


@pytest.mark.parametrize(("kind", "value"), LOST)
def test_a_value_that_would_lose_something_is_refused(kind: pa.DataType, value: Any) -> None:
    column = pa.array([value], kind)
    schema = pa.schema([("c", kind)])
    with pytest.raises(DataError, match="column 'c' is"):
        carried_batch(pa.RecordBatch.from_arrays([column], schema=schema), carried_schema(schema))


NOT_STORED = [spark.VariantType(), spark.YearMonthIntervalType(), spark.CalendarIntervalType()]


@pytest.mark.parametrize("kind", NOT_STORED, ids=str)
def test_what_no_table_can_store_is_refused_by_name(kind: spark.DataType) -> None:
    with pytest.raises(SchemaError, match=r"column 'c': .* cannot be stored"):
        arrow_schema(spark.StructType([spark.StructField("c", kind)]))


def test_a_column_whose_type_was_changed_is_stored_as_that() -> None:
    there = spark_schema(pa.schema([("v", pa.list_(pa.float16(), 3))]))
    there["v"].dataType = spark.ArrayType(spark.DoubleType())
    assert arrow_schema(there).field("v").type == pa.list_(pa.field("element", pa.float64()))
