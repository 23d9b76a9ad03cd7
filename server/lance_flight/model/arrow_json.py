"""JsonArrowSchema and JsonArrowDataType of the Lance namespace specification ⇄ Arrow.

Spec: Metadata Definition, Appendix A; decision 9. A JsonArrow type has a name, child `fields` and one `length`, and
so cannot say everything: every timestamp is `timestamp`, a dictionary is its values. What is written is what released
Lance code writes and reads; where that loses something, the exact type stands beside it as text, in the field's
metadata under `lance_flight:arrow_type`, and is preferred when reading. Type names are read as such text too, so that
what others write (`Timestamp[us, tz=UTC]`, `decimal(10, 2)`) is understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import types

from lance_flight.errors import SchemaError
from lance_flight.model.arrow_fields import (
    extension_metadata,
    make_field,
    metadata_from_json,
    metadata_to_json,
    with_extension,
)
from lance_flight.model.arrow_text import parts_from_text, type_from_text, type_to_text
from lance_flight.model.arrow_types import TypeParts, build_type, parts_of, storage_of

ARROW_TYPE = "lance_flight:arrow_type"

_T = TypeVar("_T")


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Return the JsonArrowSchema of an Arrow schema; `SchemaError` names everything that cannot be written."""
    problems: list[str] = []
    fields = _collected(problems, "", _fields_to_json, schema)
    metadata = _collected(problems, "metadata", metadata_to_json, schema.metadata)
    if problems:
        raise SchemaError("schema", problems)
    return {"fields": fields} | ({"metadata": metadata} if metadata else {})


def schema_from_json(value: Any) -> pa.Schema:
    """Return the Arrow schema of a JsonArrowSchema; `SchemaError` lists every problem of every field with its place.

    >>> schema_from_json({"fields": [{"name": "id", "nullable": False, "type": {"type": "INT64"}}]})
    id: int64 not null
    >>> schema_from_json({"fields": [{"name": "id", "type": {"type": "int46"}}]})
    Traceback (most recent call last):
    lance_flight.errors.SchemaError: schema: fields[0].type: unknown type 'int46'
    """
    if not isinstance(value, Mapping):
        raise SchemaError("schema", [f"{value!r} is not an object"])
    problems: list[str] = []
    fields = _collected(problems, "", _fields_from_json, value.get("fields"))
    metadata = _collected(problems, "metadata", metadata_from_json, value.get("metadata"))
    if problems:
        raise SchemaError("schema", problems)
    return pa.schema(fields or [], metadata or None)


def field_to_json(field: pa.Field) -> dict[str, Any]:
    """Return the JsonArrowField of an Arrow field; `metadata` is absent where there is none.

    >>> field_to_json(pa.field("at", pa.timestamp("s")))["metadata"]
    {'lance_flight:arrow_type': 'timestamp[s]'}
    """
    problems: list[str] = []
    kind = _collected(problems, "type", type_to_json, field.type)
    metadata = _collected(problems, "metadata", metadata_to_json, field.metadata) or {}
    if problems:
        raise SchemaError(f"field {field.name!r}", problems)
    metadata.pop(ARROW_TYPE, None)
    metadata |= extension_metadata(field.type)
    if type_from_json(kind) != storage_of(field.type):
        metadata[ARROW_TYPE] = type_to_text(field.type)
    value = {"name": field.name, "nullable": field.nullable, "type": kind}
    return value | ({"metadata": metadata} if metadata else {})


def field_from_json(value: Any) -> pa.Field:
    """Return the Arrow field of a JsonArrowField, nullable unless it says otherwise.

    `SchemaError` lists every problem.
    """
    if not isinstance(value, Mapping):
        raise SchemaError("field", [f"{value!r} is not an object"])
    problems: list[str] = []
    name, nullable = value.get("name"), value.get("nullable")
    if not isinstance(name, str):
        problems.append(f"name: {name!r} is not a string")
    if not (nullable is None or isinstance(nullable, bool)):
        problems.append(f"nullable: {nullable!r} is not true or false")
    kind = _collected(problems, "type", type_from_json, value.get("type"))
    metadata = _collected(problems, "metadata", metadata_from_json, value.get("metadata")) or {}
    exact = metadata.pop(ARROW_TYPE, None)
    if kind is not None and exact is not None:
        kind = _collected(problems, "metadata", _exact_type(kind), exact)
    if problems:
        raise SchemaError("field", problems)
    return with_extension(make_field(name, kind, metadata, nullable=nullable is not False))


def type_to_json(kind: pa.DataType) -> dict[str, Any]:
    """Return the JsonArrowDataType of an Arrow type as stock Lance writes it; `SchemaError` where there is none.

    Units, zones, views, dictionaries, run-end encodings and unions lose their details here; those of children are
    kept in the metadata of their fields.

    >>> type_to_json(pa.decimal128(9, 2)), type_to_json(pa.timestamp("ns", "UTC"))
    ({'type': 'decimal128', 'length': 9002}, {'type': 'timestamp'})
    """
    parts = parts_of(kind)
    if parts.name in ("dictionary", "run_end_encoded"):
        return type_to_json(parts.children[1].type)
    value: dict[str, Any] = {"type": _STOCK_NAMES.get(parts.name, parts.name)}
    if types.is_nested(storage_of(kind)):
        entries = pa.field("entries", pa.struct(parts.children), nullable=False)
        value["fields"] = _fields_to_json([entries] if parts.name == "map" else parts.children)
    if parts.name.startswith("decimal"):
        precision, scale = map(int, parts.arguments)
        value["length"] = precision * 1000 + scale
    elif parts.name.startswith("fixed_size_"):
        value["length"] = int(parts.arguments[0])
    return value


def type_from_json(value: Any) -> pa.DataType:
    """Return the Arrow type of a JsonArrowDataType; `SchemaError` lists every problem with its place.

    A detail that is missing has the value that stock code takes: microseconds and no zone for a timestamp.

    >>> type_from_json({"type": "timestamp"}), type_from_json({"type": "Timestamp[ms, tz=UTC]"})
    (TimestampType(timestamp[us]), TimestampType(timestamp[ms, tz=UTC]))
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise SchemaError("type", [f"{value!r} is not an object with a type name under 'type'"])
    problems: list[str] = []
    parts = _collected(problems, "", parts_from_text, value["type"])
    length = value.get("length")
    if not (length is None or (isinstance(length, int) and not isinstance(length, bool))):
        problems.append(f"length: {length!r} is not an integer")
    children = None
    if value.get("fields") is not None:
        children = _collected(problems, "", _fields_from_json, value["fields"])
    if problems or parts is None:
        raise SchemaError("type", problems)
    arguments = parts.arguments or _length_arguments(parts.name, length)
    return build_type(TypeParts(parts.name, arguments, tuple(children or parts.children)))


# What stock code calls a type that it has no name for, or that it turns into another.
_STOCK_NAMES = MappingProxyType(
    {
        "utf8_view": "utf8",
        "binary_view": "binary",
        "list_view": "list",
        "large_list_view": "large_list",
        "sparse_union": "union",
        "dense_union": "union",
    }
)


def _length_arguments(name: str, length: int | None) -> tuple[str, ...]:
    """Return the one number that JSON has beside a type name, as the arguments that text has."""
    if length is None:
        return ()
    if name.startswith("decimal"):
        # Scales go from -128 to 127.
        precision = (length + 128) // 1000
        return str(precision), str(length - precision * 1000)
    return (str(length),) if name.startswith("fixed_size_") else ()


def _exact_type(plain: pa.DataType) -> Callable[[str], pa.DataType]:
    """Return a reader of the exact type that stands beside `plain`, which it must fit.

    Never guess which of two is meant.
    """

    def read(text: str) -> pa.DataType:
        exact = type_from_text(text)
        ours, theirs = type_to_json(exact), type_to_json(plain)
        if (ours["type"], ours.get("length")) != (theirs["type"], theirs.get("length")):
            raise SchemaError("metadata", [f"{ARROW_TYPE} is {text!r}, which is no {type_to_text(plain)}"])
        return exact

    return read


# Fields, and the places of problems

_PLACE = re.compile(r"(fields|name|nullable|type|metadata|length)\b[^ ]*: ")


def _collected(problems: list[str], place: str, work: Callable[[Any], _T], value: Any) -> _T | None:
    """Return `work(value)`; where that fails, None, with each problem noted in `problems` under `place`."""
    try:
        return work(value)
    except SchemaError as exc:
        for problem in exc.problems:
            joint = "" if not place else "." if _PLACE.match(problem) else ": "
            problems.append(place + joint + problem)
        return None


def _fields_to_json(fields: Iterable[pa.Field]) -> list[dict[str, Any]]:
    return _each_field(field_to_json, fields)


def _fields_from_json(value: Any) -> list[pa.Field]:
    if not isinstance(value, list):
        raise SchemaError("fields", [f"fields: {value!r} is not an array"])
    return _each_field(field_from_json, value)


def _each_field(work: Callable[[Any], _T], fields: Iterable[Any]) -> list[_T]:
    problems: list[str] = []
    done = [_collected(problems, f"fields[{place}]", work, field) for place, field in enumerate(fields)]
    if problems:
        raise SchemaError("fields", problems)
    return [field for field in done if field is not None]
