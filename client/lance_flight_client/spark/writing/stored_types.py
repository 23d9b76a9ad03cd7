"""Spark's types as tables store them: the Arrow type that a column was read from, or else Spark's own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa
from lance_flight.errors import SchemaError
from lance_flight.model.arrow_text import type_from_text
from pyspark.sql import types as spark

from lance_flight_client.spark.types import ARROW_TYPE, EXPECTED, carried_type


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the columns of a DataFrame as a table stores them; `SchemaError` names each one that no table can store.

    >>> from lance_flight_client.spark.types import spark_schema
    >>> arrow_schema(spark_schema(pa.schema({"vector": pa.list_(pa.float16(), 3)}))).field(0).type
    FixedSizeListType(fixed_size_list<item: halffloat>[3])
    """
    fields, problems = [], []
    for field in schema:
        try:
            fields.append(pa.field(field.name, _stored(field), field.nullable))
        except SchemaError as exc:
            problems += [f"column {field.name!r}: {why}" for why in exc.problems]
    if problems:
        raise SchemaError("schema from Spark", problems)
    return pa.schema(fields)


def _stored(field: spark.StructField) -> pa.DataType:
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
