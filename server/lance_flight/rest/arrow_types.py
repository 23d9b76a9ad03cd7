"""Arrow types as LanceDB's clients write them in JSON, and as ALTER TABLE names them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lance_flight.errors import InvalidInput, Unsupported
from lance_flight.model.arrow_json import metadata_to_json, type_from_json
from lance_flight.model.schema import FIELD_ID
from lance_flight.model.type_names import type_name

_LOGICAL: Mapping[pa.DataType, str] = MappingProxyType(
    {
        pa.bool_(): "bool",
        pa.float16(): "halffloat",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.utf8(): "string",
        pa.large_utf8(): "large_string",
        pa.date32(): "date32:day",
        pa.date64(): "date64:ms",
    }
)
"""Lance's names of types without arguments, where they are not Arrow's."""


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Return a schema as the clients read it."""
    metadata = metadata_to_json(schema.metadata)
    return {"fields": [_field(field) for field in schema]} | ({"metadata": metadata} if metadata else {})


def _field(field: pa.Field) -> dict[str, Any]:
    metadata = {key: value for key, value in metadata_to_json(field.metadata).items() if key != FIELD_ID.decode()}
    said = {"name": field.name, "type": _type(field.type), "nullable": field.nullable}
    return said | ({"metadata": metadata} if metadata else {})


def _type(kind: pa.DataType) -> dict[str, Any]:
    """Return a type by Lance's name: nested ones with their fields, and the others with their arguments behind colons."""
    if isinstance(kind, pa.BaseExtensionType):
        return _type(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return {"type": "fixed_size_list", "fields": [_field(kind.value_field)], "length": kind.list_size}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed_size_binary", "length": kind.byte_width}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "list" if pa.types.is_list(kind) else "large_list", "fields": [_field(kind.value_field)]}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(field) for field in kind]}
    if pa.types.is_map(kind):
        entries = pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
        return {"type": "map", "fields": [_field(entries)]}
    return {"type": _logical(kind)}


def _logical(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return f"timestamp:{kind.unit}:{kind.tz or '-'}"
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return f"{str(kind).partition('[')[0]}:{kind.unit}"
    if pa.types.is_decimal(kind):
        return f"decimal:{kind.bit_width}:{kind.precision}:{kind.scale}"
    return _LOGICAL.get(kind, str(kind))


def type_to_sql(kind: Any) -> str:
    """Return the name of a type for ALTER TABLE, of an Arrow type or of one in JSON; `Unsupported` names one without a name."""
    if not isinstance(kind, pa.DataType):
        kind = _type_of(kind)
    name = type_name(kind)
    if name == "" or name[0].islower():
        raise Unsupported(f"a column of type {kind}; expected a type that SQL has a name for")
    return name


_BY_NAME = {name: kind for kind, name in _LOGICAL.items()}


def _type_of(value: Any) -> pa.DataType:
    name = value.get("type") if isinstance(value, Mapping) else value
    if not isinstance(name, str):
        raise InvalidInput(f"data_type {value!r}; expected the name of a type, or an object with one")
    parts = name.split(":")
    if name in _BY_NAME:
        return _BY_NAME[name]
    try:
        match parts:
            case ["timestamp", unit, zone]:
                return pa.timestamp(unit, None if zone == "-" else zone)
            case ["decimal", _, precision, scale]:
                return pa.decimal128(int(precision), int(scale))
    except ValueError:
        raise InvalidInput(f"data_type {name!r}; expected a type that Arrow has") from None
    found: pa.DataType = type_from_json(value if isinstance(value, Mapping) else {"type": name})
    return found
