"""Arrow schemas and types in JSON (JsonArrowSchema of the Lance namespace specification) and in text, with every detail.

Metadata are bytes in Arrow and strings here, `SchemaError` where they are no UTF-8. An extension type stands in them
as Arrow itself writes it: its name and, where it has any, its parameters.

One form is written. Read is also what others write (`Timestamp[us, tz=UTC]`, `decimal(10, 2)`): in any case, with or
without underscores, with either bracket. `SchemaError` says where a text stops being a type.

```text
type  = name ["[" argument {"," argument} "]"] ["<" [field {"," field}] ">"]
field = (word | JSON string) ":" type ["not null"] [JSON object: its metadata]

timestamp[ns, tz=Europe/Paris]     dictionary[ordered]<indices: int8, values: utf8>
decimal128[9, 2]                   list_view<item: float32 not null {"unit":"m"}>
```

Spec: Metadata Definition, Appendix A; decision 9. A JsonArrow type has a name, child `fields` and one `length`, and
so cannot say everything: every timestamp is `timestamp`, a dictionary is its values. What is written is what released
Lance code writes and reads; where that loses something, the exact type stands beside it as text, in the field's
metadata under `lance_flight:arrow_type`, and is preferred when reading. Type names are read as such text too, so that
what others write (`Timestamp[us, tz=UTC]`, `decimal(10, 2)`) is understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import types

from lance_flight.errors import SchemaError
from lance_flight.model.arrow_types import TYPE_NAMES, TypeParts, build_type, parts_of, storage_of

EXTENSION_NAME, EXTENSION_METADATA = "ARROW:extension:name", "ARROW:extension:metadata"


def make_field(name: Any, kind: Any, metadata: Mapping[str, str], *, nullable: bool) -> pa.Field:
    """Return the field; `SchemaError` where its type is null and it may not be."""
    if types.is_null(kind) and not nullable:
        raise SchemaError("field", ["nullable: a field of the null type cannot be without nulls"])
    return pa.field(name, kind, nullable, metadata or None)


def metadata_to_json(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return Arrow's metadata as strings, empty where there are none.

    >>> metadata_to_json({b"unit": b"m"})
    {'unit': 'm'}
    """
    try:
        return {key.decode(): value.decode() for key, value in (metadata or {}).items()}
    except UnicodeDecodeError as exc:
        raise SchemaError("metadata", [f"{metadata!r} is not UTF-8, which JSON needs"]) from exc


def metadata_from_json(value: Any) -> dict[str, str]:
    """Read metadata of JSON, empty where they are absent; `SchemaError` lists every value that is no string."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SchemaError("metadata", [f"{value!r} is not an object"])
    wrong = [f"{key}: {text!r} is not a string" for key, text in value.items() if not isinstance(text, str)]
    if wrong:
        raise SchemaError("metadata", wrong)
    return dict(value)


def extension_metadata(kind: pa.DataType) -> dict[str, str]:
    """Return the metadata that Arrow stores beside the storage type of an extension type."""
    if not isinstance(kind, pa.BaseExtensionType):
        return {}
    parameters = kind.__arrow_ext_serialize__().decode() if isinstance(kind, pa.ExtensionType) else ""
    return {EXTENSION_NAME: kind.extension_name} | ({EXTENSION_METADATA: parameters} if parameters else {})


def with_extension(field: pa.Field) -> pa.Field:
    """Return the field with the extension type that its metadata names, where this process knows it."""
    if EXTENSION_NAME.encode() not in (field.metadata or {}):
        return field
    return pa.ipc.read_schema(pa.schema([field]).serialize()).field(0)


_T = TypeVar("_T")

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARGUMENT = re.compile(r"[A-Za-z0-9_+\-/:]+")
_JSON = json.JSONDecoder()


def type_to_text(kind: pa.DataType) -> str:
    """Return an Arrow type as canonical text with every detail; its grammar stands at the top of this module.

    >>> type_to_text(pa.struct([pa.field("a b", pa.time32("ms"), nullable=False)]))
    'struct<"a b": time32[ms] not null>'
    """
    name, arguments, children = parts_of(kind)
    bracketed = f"[{', '.join(map(_argument_to_text, arguments))}]" if arguments else ""
    inner = f"<{', '.join(map(_field_to_text, children))}>" if children else ""
    return name + bracketed + inner


def type_from_text(text: str) -> pa.DataType:
    """Return the Arrow type that a text names; `SchemaError` says where the text stops being one.

    >>> type_from_text("dictionary<indices: int8, values: utf8>")
    DictionaryType(dictionary<values=string, indices=int8, ordered=0>)
    """
    return build_type(parts_from_text(text))


def parts_from_text(text: str) -> TypeParts:
    """Return the parts of the type that a text names, not yet built: JSON has arguments and children beside the name.

    >>> parts_from_text("Timestamp[MS, tz=UTC]")
    TypeParts(name='timestamp', arguments=('ms', 'tz=UTC'), children=())
    """
    reader = _Reader(text)
    parts = reader.parts()
    if reader.at < len(text):
        raise reader.error("the end")
    return parts


def _field_to_text(field: pa.Field) -> str:
    name = field.name if _BARE.fullmatch(field.name) else json.dumps(field.name, ensure_ascii=False)
    metadata = metadata_to_json(field.metadata)
    noted = " " + json.dumps(metadata, ensure_ascii=False, separators=(",", ":")) if metadata else ""
    return f"{name}: {type_to_text(field.type)}{'' if field.nullable else ' not null'}{noted}"


def _argument_to_text(argument: str) -> str:
    key, sign, value = argument.rpartition("=") if argument.startswith("tz=") else ("", "", argument)
    return key + sign + (value if _ARGUMENT.fullmatch(value) else json.dumps(value, ensure_ascii=False))


class _Reader:
    """A reader of the type grammar; `at` is how far it has come."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def parts(self) -> TypeParts:
        """Return the parts of one type."""
        word = self.match(_BARE)
        name = TYPE_NAMES.get(word.lower().replace("_", ""))
        if name is None:
            raise SchemaError("type", [f"unknown type {word or self.text!r}"])
        arguments = self.read_list("[", "]", self.argument) or self.read_list("(", ")", self.argument)
        return TypeParts(name, arguments, self.read_list("<", ">", self.field))

    def field(self) -> pa.Field:
        """Return one field: name, type, whether it may be null, metadata."""
        name = self.json() if self.follows('"') else self.match(_BARE)
        if not self.skip(":"):
            raise self.error("':'")
        kind = build_type(self.parts())
        nullable = not self.skip("not null")
        metadata = metadata_from_json(self.json() if self.follows("{") else None)
        return make_field(name, kind, metadata, nullable=nullable)

    def argument(self) -> str:
        """Return one argument, without its quotes."""
        key = "tz=" if self.skip("tz=") else ""
        value = self.json() if self.follows('"') else self.match(_ARGUMENT)
        return key + (value if key else value.lower())

    def read_list(self, opening: str, closing: str, item: Callable[[], _T]) -> tuple[_T, ...]:
        """Parse comma-separated items between two brackets; return an empty tuple if the opening one is absent."""
        if not self.skip(opening):
            return ()
        items: list[_T] = []
        while not self.skip(closing):
            if items and not self.skip(","):
                raise self.error(f"',' or {closing!r}")
            items.append(item())
        return tuple(items)

    def match(self, pattern: re.Pattern[str]) -> str:
        match_here = pattern.match(self.text, self.at)
        if match_here is None:
            raise self.error("a name or value")
        return self.advance(match_here.end(), match_here[0])

    def json(self) -> Any:
        try:
            value, end = _JSON.raw_decode(self.text, self.at)
        except json.JSONDecodeError as exc:
            raise self.error("JSON") from exc
        return self.advance(end, value)

    def follows(self, literal: str) -> bool:
        return self.text.startswith(literal, self.at)

    def skip(self, literal: str) -> bool:
        is_there = self.follows(literal)
        self.advance(self.at + len(literal) * is_there, None)
        return is_there

    def advance(self, to: int, value: _T) -> _T:
        """Return `value`, having come to the first character from `to` on that is no blank."""
        self.at = to + len(self.text[to:]) - len(self.text[to:].lstrip())
        return value

    def error(self, expected: str) -> SchemaError:
        return SchemaError("type", [f"{self.text!r} is not a type: expected {expected} at character {self.at}"])


ARROW_TYPE = "lance_flight:arrow_type"


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """Return the JsonArrowSchema of an Arrow schema; `SchemaError` names everything that cannot be written."""
    problems: list[str] = []
    fields = _collect(problems, "", _fields_to_json, schema)
    metadata = _collect(problems, "metadata", metadata_to_json, schema.metadata)
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
    fields = _collect(problems, "", _fields_from_json, value.get("fields"))
    metadata = _collect(problems, "metadata", metadata_from_json, value.get("metadata"))
    if problems:
        raise SchemaError("schema", problems)
    return pa.schema(fields or [], metadata or None)


def field_to_json(field: pa.Field) -> dict[str, Any]:
    """Return the JsonArrowField of an Arrow field; `metadata` is absent where there is none.

    >>> field_to_json(pa.field("at", pa.timestamp("s")))["metadata"]
    {'lance_flight:arrow_type': 'timestamp[s]'}
    """
    problems: list[str] = []
    kind = _collect(problems, "type", type_to_json, field.type)
    metadata = _collect(problems, "metadata", metadata_to_json, field.metadata) or {}
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
    kind = _collect(problems, "type", type_from_json, value.get("type"))
    metadata = _collect(problems, "metadata", metadata_from_json, value.get("metadata")) or {}
    exact = metadata.pop(ARROW_TYPE, None)
    if kind is not None and exact is not None:
        kind = _collect(problems, "metadata", _exact_type(kind), exact)
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
    parts = _collect(problems, "", parts_from_text, value["type"])
    length = value.get("length")
    if not (length is None or (isinstance(length, int) and not isinstance(length, bool))):
        problems.append(f"length: {length!r} is not an integer")
    children = None
    if value.get("fields") is not None:
        children = _collect(problems, "", _fields_from_json, value["fields"])
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


def _collect(problems: list[str], place: str, work: Callable[[Any], _T], value: Any) -> _T | None:
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
    done = [_collect(problems, f"fields[{place}]", work, field) for place, field in enumerate(fields)]
    if problems:
        raise SchemaError("fields", problems)
    return [field for field in done if field is not None]
