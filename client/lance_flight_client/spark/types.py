"""Types and names of columns: Arrow's types as Spark's, and Spark's as tables store them.

What Spark has no type for is carried by one that holds every value of it: unsigned integers by the next wider signed one,
fixed-size lists by arrays. The exact Arrow type then stands in the metadata of Spark's column, for whoever writes it again.
All is nullable to Spark, moments are in microseconds; a value that would lose something is refused where it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
from lance_flight.errors import DataError, SchemaError
from lance_flight.model.arrow_json import type_from_text, type_to_text
from lance_flight.model.arrow_types import storage_of
from pyarrow import lib, types
from pyspark.sql import types as spark

ARROW_TYPE = "lance_flight:arrow_type"
"""The key under which the metadata of Spark's column keep the exact Arrow type, where Spark's own says less."""

MOST_DIGITS = 38

HAS_TIMES = hasattr(spark, "TimeType")
"""Spark 4.0 has no times of day."""


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Return the columns of a table as Spark has them; `SchemaError` names each one that it has no type for.

    >>> spark_schema(pa.schema({"id": pa.uint32(), "at": pa.timestamp("s")})).simpleString()
    'struct<id:bigint,at:timestamp_ntz>'
    """
    carried = carried_schema(schema)
    return spark.StructType(
        [
            spark.StructField(field.name, _spark_type(by.type), nullable=True, metadata=_metadata(field.type, by.type))
            for field, by in zip(schema, carried, strict=True)
        ]
    )


def with_required(columns: spark.StructType, schema: pa.Schema) -> spark.StructType:
    """Return columns as NOT NULL where those of a table are, also inside structs.

    >>> table = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64())])
    >>> [column.nullable for column in with_required(spark_schema(table), table)]
    [False, True]
    """
    return spark.StructType([_with_required(column, schema.field(column.name)) for column in columns])


def _with_required(column: spark.StructField, field: pa.Field) -> spark.StructField:
    kind, stored = column.dataType, storage_of(field.type)
    if isinstance(kind, spark.StructType) and types.is_struct(stored):
        kind = spark.StructType([_with_required(child, stored.field(child.name)) for child in kind])
    return spark.StructField(column.name, kind, field.nullable, column.metadata)


def carried_schema(schema: pa.Schema) -> pa.Schema:
    """Return the Arrow schema of the batches that Spark is given for a table; `SchemaError` as above.

    >>> carried_schema(pa.schema({"vector": pa.list_(pa.float16(), 3)})).field(0).type
    ListType(list<element: float>)
    """
    fields, problems = [], []
    for field in schema:
        try:
            fields.append(pa.field(field.name, carried_type(field.type)))
        except SchemaError as exc:
            problems += [
                f"column {field.name!r} is {field.type}, and Spark has no type for {why}" for why in exc.problems
            ]
    problems += [f"column {name!r} is there twice; give one another name" for name in _twice(schema.names)]
    if problems:
        raise SchemaError("schema for Spark", problems)
    return pa.schema(fields)


def carried_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert rows to the types of `carried_schema`; `DataError` names a column and value that would lose something."""
    columns = [_carry(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _carry(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        if _has_nanoseconds(column.type):
            # Spark is given a time of day in nanoseconds, and keeps its microseconds.
            column = column.cast(_in_microseconds(field.type))
        return column if column.type == field.type else column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise DataError(f"column {field.name!r} is {column.type}, which Spark reads as {field.type}: {exc}") from exc


def carried_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that holds every value of `kind` on Spark; `SchemaError` names what Spark cannot hold."""
    kind = storage_of(kind)
    if kind.id in _SAME:
        return kind
    if kind.id in _WIDER:
        return _WIDER[kind.id]
    if types.is_decimal(kind):
        return _carried_decimal(kind)
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_time(kind) and HAS_TIMES:
        return pa.time64("ns")
    if types.is_dictionary(kind):
        return carried_type(kind.value_type)
    return _carried_nested(kind)


def _carried_nested(kind: pa.DataType) -> pa.DataType:
    if types.is_map(kind):
        return pa.map_(_field("key", kind.key_type, nullable=False), _field("value", kind.item_type))
    if any(test(kind) for test in _LISTS):
        return pa.list_(_field("element", kind.value_type))
    if types.is_struct(kind) and kind.num_fields > 0:
        twice = _twice([field.name for field in kind])
        if twice:
            raise SchemaError("type", [f"a struct with two fields called {name!r}" for name in twice])
        return pa.struct([_field(field.name, field.type) for field in kind])
    raise SchemaError("type", [f"{kind}; expected {EXPECTED}"])


def _field(name: str, kind: pa.DataType, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, carried_type(kind), nullable=nullable)


def _carried_decimal(kind: pa.DataType) -> pa.DataType:
    scale = max(kind.scale, 0)
    digits = max(kind.precision - min(kind.scale, 0), scale)
    if digits > MOST_DIGITS:
        raise SchemaError("type", [f"{kind}; expected at most {MOST_DIGITS} digits"])
    return pa.decimal128(digits, scale)


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if types.is_time64(kind):
        return bool(kind.unit == "ns")
    return any(_has_nanoseconds(kind.field(place).type) for place in range(kind.num_fields))


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Return a carried type with its times of day in microseconds."""
    if types.is_time64(kind):
        return pa.time64("us")
    if types.is_map(kind):
        return pa.map_(*(field.with_type(_in_microseconds(field.type)) for field in (kind.key_field, kind.item_field)))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_microseconds(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in kind])
    return kind


def _spark_type(kind: pa.DataType) -> spark.DataType:
    """Return the Spark type of a carried one."""
    if types.is_decimal(kind):
        return spark.DecimalType(kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if types.is_map(kind):
        return spark.MapType(_spark_type(kind.key_type), _spark_type(kind.item_type))
    if types.is_list(kind):
        return spark.ArrayType(_spark_type(kind.value_type))
    if types.is_struct(kind):
        return spark.StructType([spark.StructField(field.name, _spark_type(field.type)) for field in kind])
    if types.is_time64(kind):
        return spark.TimeType()
    if types.is_duration(kind):
        return spark.DayTimeIntervalType()
    return _SAME[kind.id]()


def _metadata(exact: pa.DataType, carried: pa.DataType) -> dict[str, str] | None:
    return None if exact == carried else {ARROW_TYPE: type_to_text(exact)}


def _twice(names: Iterable[str]) -> list[str]:
    known: set[str] = set()
    return [name for name in names if name in known or known.add(name)]  # type: ignore[func-returns-value]


_TIME = "time, " if HAS_TIMES else ""
EXPECTED = f"a number, text, binary, boolean, date, {_TIME}timestamp, duration, list, struct or map"

_LISTS = (
    types.is_list,
    types.is_large_list,
    types.is_fixed_size_list,
    types.is_list_view,
    types.is_large_list_view,
)

_SAME: Mapping[int, Callable[[], spark.DataType]] = MappingProxyType(
    {
        lib.Type_NA: spark.NullType,
        lib.Type_BOOL: spark.BooleanType,
        lib.Type_INT8: spark.ByteType,
        lib.Type_INT16: spark.ShortType,
        lib.Type_INT32: spark.IntegerType,
        lib.Type_INT64: spark.LongType,
        lib.Type_FLOAT: spark.FloatType,
        lib.Type_DOUBLE: spark.DoubleType,
        lib.Type_STRING: spark.StringType,
        lib.Type_BINARY: spark.BinaryType,
        lib.Type_DATE32: spark.DateType,
    }
)
"""Arrow types that Spark has itself."""

_WIDER: Mapping[int, pa.DataType] = MappingProxyType(
    {
        lib.Type_UINT8: pa.int16(),
        lib.Type_UINT16: pa.int32(),
        lib.Type_UINT32: pa.int64(),
        lib.Type_UINT64: pa.decimal128(20, 0),
        lib.Type_HALF_FLOAT: pa.float32(),
        lib.Type_DATE64: pa.date32(),
        lib.Type_LARGE_STRING: pa.utf8(),
        lib.Type_STRING_VIEW: pa.utf8(),
        lib.Type_LARGE_BINARY: pa.binary(),
        lib.Type_BINARY_VIEW: pa.binary(),
        lib.Type_FIXED_SIZE_BINARY: pa.binary(),
        lib.Type_DURATION: pa.duration("us"),
    }
)
"""Arrow types that others hold."""


def match_columns(names: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the columns of a table that `names` mean to Spark: in whatever case, where that leaves no choice.

    >>> match_columns(["ID", "a", "A", "x"], ["id", "a", "A"])
    ['id', 'a', 'A', 'x']
    """
    by_lower: dict[str, list[str]] = {}
    for name in known:
        by_lower.setdefault(name.lower(), []).append(name)
    found = []
    for name in names:
        same = by_lower.get(name.lower(), [])
        is_alone = [each.lower() for each in names].count(name.lower()) == 1
        found.append(same[0] if name not in same and len(same) == 1 and is_alone else name)
    return found


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the columns of a DataFrame as a table stores them; `SchemaError` names each one that no table can store.

    >>> from lance_flight_client.spark.types import spark_schema
    >>> arrow_schema(spark_schema(pa.schema({"vector": pa.list_(pa.float16(), 3)}))).field(0).type
    FixedSizeListType(fixed_size_list<item: halffloat>[3])
    """
    fields, problems = [], []
    for field in schema:
        try:
            fields.append(pa.field(field.name, _stored_type(field), field.nullable))
        except SchemaError as exc:
            problems += [f"column {field.name!r}: {why}" for why in exc.problems]
    if problems:
        raise SchemaError("schema from Spark", problems)
    return pa.schema(fields)


def _stored_type(field: spark.StructField) -> pa.DataType:
    """Return the Arrow type to store a Spark column as: the one it was read from, unless its type was changed since."""
    kind = _arrow_type(field.dataType)
    text = (field.metadata or {}).get(ARROW_TYPE)
    if text is None:
        return kind
    exact = type_from_text(text)
    return exact if carried_type(exact) == kind else kind


def _arrow_type(kind: spark.DataType) -> pa.DataType:
    match kind:
        case spark.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case spark.TimestampType():
            return pa.timestamp("us", "UTC")
        case spark.TimestampNTZType():
            return pa.timestamp("us")
        case spark.ArrayType():
            return pa.list_(pa.field("element", _arrow_type(kind.elementType)))
        case spark.MapType():
            key = pa.field("key", _arrow_type(kind.keyType), nullable=False)
            return pa.map_(key, pa.field("value", _arrow_type(kind.valueType)))
        case spark.StructType():
            return pa.struct([pa.field(field.name, _arrow_type(field.dataType)) for field in kind])
        case spark.CharType() | spark.VarcharType():
            return pa.utf8()
    if type(kind).__name__ == "TimeType":
        return pa.time64("ns")
    found = _ARROW.get(type(kind))
    if found is None:
        raise SchemaError("type", [f"{kind.simpleString()} cannot be stored; expected {EXPECTED}"])
    return found


_ARROW: Mapping[type[spark.DataType], pa.DataType] = MappingProxyType(
    {
        spark.NullType: pa.null(),
        spark.BooleanType: pa.bool_(),
        spark.ByteType: pa.int8(),
        spark.ShortType: pa.int16(),
        spark.IntegerType: pa.int32(),
        spark.LongType: pa.int64(),
        spark.FloatType: pa.float32(),
        spark.DoubleType: pa.float64(),
        spark.StringType: pa.utf8(),
        spark.BinaryType: pa.binary(),
        spark.DateType: pa.date32(),
        spark.DayTimeIntervalType: pa.duration("us"),
    }
)
