"""SQL names of Arrow types, as CREATE TABLE reads them, and the numbers that `information_schema.columns` lists of a type."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from lance_flight.model.arrow_json import type_to_text
from lance_flight.model.arrow_types import is_bytes
from lance_flight.model.json_documents import JSON
from lance_flight.model.schema import is_blob

_NAMES: Mapping[pa.DataType, str] = MappingProxyType(
    {
        pa.bool_(): "BOOLEAN",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INTEGER",
        pa.int64(): "BIGINT",
        pa.uint8(): "TINYINT UNSIGNED",
        pa.uint16(): "SMALLINT UNSIGNED",
        pa.uint32(): "INTEGER UNSIGNED",
        pa.uint64(): "BIGINT UNSIGNED",
        pa.float16(): "FLOAT16",
        pa.float32(): "REAL",
        pa.float64(): "DOUBLE",
        pa.utf8(): "VARCHAR",
        JSON: "JSON",
        pa.binary(): "VARBINARY",
        pa.date32(): "DATE",
        pa.time64("ns"): "TIME",
        pa.month_day_nano_interval(): "INTERVAL",
    }
)
_DIGITS = MappingProxyType({"s": 0, "ms": 3, "us": 6, "ns": 9})
_FLOAT_BITS = MappingProxyType({pa.float16(): 11, pa.float32(): 24, pa.float64(): 53})


def column_type_name(field: pa.Field) -> str:
    """Return the SQL name of the type of a stored column: BLOB where it is marked as one."""
    return "BLOB" if is_blob(field) else type_name(field.type)


def type_name(kind: pa.DataType) -> str:
    """Return the SQL name of a type; one that CREATE TABLE has no name for is given as Arrow's text.

    >>> type_name(pa.timestamp("us", "UTC")), type_name(pa.list_(pa.struct({"a": pa.int32()}))), type_name(pa.float16())
    ('TIMESTAMPTZ(6)', 'STRUCT<"a" INTEGER>[]', 'FLOAT16')
    """
    return _sql_name(kind) or type_to_text(kind)


def cast_name(kind: pa.DataType) -> str:
    """Return the SQL name of the type that a text is cast to before it is stored as `kind`.

    >>> cast_name(pa.time32("s")), cast_name(pa.large_binary()), cast_name(pa.int8())
    ('TIME', 'VARBINARY', 'TINYINT')
    """
    if is_bytes(kind):
        return _NAMES[pa.binary()]
    if pa.types.is_time(kind):
        return _NAMES[pa.time64("ns")]
    return _NAMES[pa.date32()] if pa.types.is_date(kind) else type_name(kind)


def _sql_name(kind: pa.DataType) -> str | None:
    """Return the name that CREATE TABLE reads as exactly this type; None without one."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind) and kind.tz in (None, "UTC"):
        return f"TIMESTAMP{'' if kind.tz is None else 'TZ'}({_DIGITS[kind.unit]})"
    if pa.types.is_duration(kind):
        return f"DURATION({_DIGITS[kind.unit]})"
    if (pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)) and kind == _rebuilt(kind):
        item = _sql_name(kind.value_type)
        return None if item is None else f"{item}[{kind.list_size if pa.types.is_fixed_size_list(kind) else ''}]"
    if pa.types.is_struct(kind) and all(field.nullable for field in kind):
        inner = [(field.name, _sql_name(field.type)) for field in kind]
        fields = ", ".join('"' + name.replace('"', '""') + f'" {named}' for name, named in inner)
        return None if any(named is None for _, named in inner) else f"STRUCT<{fields}>"
    if pa.types.is_map(kind) and kind == pa.map_(kind.key_type, kind.item_type):
        key, value = _sql_name(kind.key_type), _sql_name(kind.item_type)
        return None if key is None or value is None else f"MAP({key}, {value})"
    return _NAMES.get(kind)


def _rebuilt(kind: pa.DataType) -> pa.DataType:
    """Return the list type that SQL makes of the same elements."""
    return pa.list_(kind.value_type, kind.list_size if pa.types.is_fixed_size_list(kind) else -1)


def numeric_precision(kind: pa.DataType) -> int | None:
    """Return the digits of a number, in the base of `numeric_radix`; None for other types."""
    if pa.types.is_decimal(kind):
        return int(kind.precision)
    return int(kind.bit_width) if pa.types.is_integer(kind) else _FLOAT_BITS.get(kind)


def numeric_radix(kind: pa.DataType) -> int | None:
    """Return the base in which the precision of a number is counted; None for other types."""
    if pa.types.is_decimal(kind):
        return 10
    return 2 if numeric_precision(kind) is not None else None


def numeric_scale(kind: pa.DataType) -> int | None:
    """Return the digits after the point of an exact number; None for other types."""
    if pa.types.is_decimal(kind):
        return int(kind.scale)
    return 0 if pa.types.is_integer(kind) else None


def datetime_precision(kind: pa.DataType) -> int | None:
    """Return the digits of the fraction of a second; None for types without a time of day."""
    return _DIGITS[kind.unit] if pa.types.is_timestamp(kind) or pa.types.is_time(kind) else None
