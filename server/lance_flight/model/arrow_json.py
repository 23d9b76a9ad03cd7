"""JsonArrowSchema and JsonArrowDataType of the Lance namespace specification ⇄ Arrow.

Spec: Metadata Definition, Appendix A; decision 9. A JsonArrow type has a name, child `fields` and one `length`, and
so cannot say everything: every timestamp is `timestamp`, a dictionary is its values. What is written is what released
Lance code writes and reads; where that loses something, the exact type stands beside it as text, in the field's
metadata under `lance_flight:arrow_type`, and is preferred when reading. Type names are read as such text too, so that
what others write (`Timestamp[us, tz=UTC]`, `decimal(10, 2)`) is understood: in any case, with either bracket.

```text
type  = name ["[" argument {"," argument} "]"] ["<" [field {"," field}] ">"]
field = (word | JSON string) ":" type ["not null"] [JSON object: its metadata]

timestamp[ns, tz=Europe/Paris]     dictionary[ordered]<indices: int8, values: utf8>
decimal128[9, 2]                   list_view<item: float32 not null {"unit":"m"}>
```
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import types

from lance_flight.errors import SchemaError

ARROW_TYPE = "lance_flight:arrow_type"
EXTENSION_NAME, EXTENSION_METADATA = "ARROW:extension:name", "ARROW:extension:metadata"

_T = TypeVar("_T")
Strings = Sequence[str]
Fields = Sequence[pa.Field]


def schema_to_json(schema: pa.Schema) -> dict[str, Any]:
    """The JsonArrowSchema of an Arrow schema; `SchemaError` names everything that cannot be written."""
    problems: list[str] = []
    fields = _collected(problems, "", _fields_to_json, schema)
    metadata = _collected(problems, "metadata", _metadata_to_json, schema.metadata)
    if problems:
        raise SchemaError("schema", problems)
    return {"fields": fields} | ({"metadata": metadata} if metadata else {})


def schema_from_json(value: Any) -> pa.Schema:
    """The Arrow schema of a JsonArrowSchema; `SchemaError` lists every problem of every field with its place.

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
    metadata = _collected(problems, "metadata", _metadata_from_json, value.get("metadata"))
    if problems:
        raise SchemaError("schema", problems)
    return pa.schema(fields or [], metadata or None)


def field_to_json(field: pa.Field) -> dict[str, Any]:
    """The JsonArrowField of an Arrow field; `metadata` is absent where there is none.

    >>> field_to_json(pa.field("at", pa.timestamp("s")))["metadata"]
    {'lance_flight:arrow_type': 'timestamp[s]'}
    """
    problems: list[str] = []
    kind = _collected(problems, "type", type_to_json, field.type)
    metadata = _collected(problems, "metadata", _metadata_to_json, field.metadata) or {}
    if problems:
        raise SchemaError(f"field {field.name!r}", problems)
    metadata.pop(ARROW_TYPE, None)
    metadata |= _extension_metadata(field.type)
    if type_from_json(kind) != _stored(field.type):
        metadata[ARROW_TYPE] = type_to_text(field.type)
    value = {"name": field.name, "nullable": field.nullable, "type": kind}
    return value | ({"metadata": metadata} if metadata else {})


def field_from_json(value: Any) -> pa.Field:
    """The Arrow field of a JsonArrowField, nullable unless it says otherwise; `SchemaError` lists every problem."""
    if not isinstance(value, Mapping):
        raise SchemaError("field", [f"{value!r} is not an object"])
    problems: list[str] = []
    name, nullable = value.get("name"), value.get("nullable")
    if not isinstance(name, str):
        problems.append(f"name: {name!r} is not a string")
    if not (nullable is None or isinstance(nullable, bool)):
        problems.append(f"nullable: {nullable!r} is not true or false")
    kind = _collected(problems, "type", type_from_json, value.get("type"))
    metadata = _collected(problems, "metadata", _metadata_from_json, value.get("metadata")) or {}
    exact = metadata.pop(ARROW_TYPE, None)
    if kind is not None and exact is not None:
        kind = _collected(problems, "metadata", _exact_type(kind), exact)
    if problems:
        raise SchemaError("field", problems)
    return _with_extension(_field(name, kind, metadata, nullable=nullable is not False))


def type_to_json(kind: pa.DataType) -> dict[str, Any]:
    """The JsonArrowDataType of an Arrow type as stock Lance writes it; `SchemaError` where there is none.

    Units, zones, views, dictionaries, run-end encodings and unions lose their details here; those of children are
    kept in the metadata of their fields.

    >>> type_to_json(pa.decimal128(9, 2)), type_to_json(pa.timestamp("ns", "UTC"))
    ({'type': 'decimal128', 'length': 9002}, {'type': 'timestamp'})
    """
    parts = _parts(kind)
    if parts.name in ("dictionary", "run_end_encoded"):
        return type_to_json(parts.children[1].type)
    value: dict[str, Any] = {"type": _STOCK_NAMES.get(parts.name, parts.name)}
    if types.is_nested(_stored(kind)):
        entries = pa.field("entries", pa.struct(parts.children), nullable=False)
        value["fields"] = _fields_to_json([entries] if parts.name == "map" else parts.children)
    if parts.name.startswith("decimal"):
        precision, scale = map(int, parts.arguments)
        value["length"] = precision * 1000 + scale
    elif parts.name.startswith("fixed_size_"):
        value["length"] = int(parts.arguments[0])
    return value


def type_from_json(value: Any) -> pa.DataType:
    """The Arrow type of a JsonArrowDataType; `SchemaError` lists every problem with its place.

    A detail that is missing has the value that stock code takes: microseconds and no zone for a timestamp.

    >>> type_from_json({"type": "timestamp"}), type_from_json({"type": "Timestamp[ms, tz=UTC]"})
    (TimestampType(timestamp[us]), TimestampType(timestamp[ms, tz=UTC]))
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise SchemaError("type", [f"{value!r} is not an object with a type name under 'type'"])
    problems: list[str] = []
    parts = _collected(problems, "", _Text.whole_parts, value["type"])
    length = value.get("length")
    if not (length is None or (isinstance(length, int) and not isinstance(length, bool))):
        problems.append(f"length: {length!r} is not an integer")
    children = None
    if value.get("fields") is not None:
        children = _collected(problems, "", _fields_from_json, value["fields"])
    if problems or parts is None:
        raise SchemaError("type", problems)
    arguments = parts.arguments or _length_arguments(parts.name, length)
    return _built(_Parts(parts.name, arguments, tuple(children or parts.children)))


def type_to_text(kind: pa.DataType) -> str:
    """An Arrow type as canonical text with every detail; its grammar stands at the top of this module.

    >>> type_to_text(pa.struct([pa.field("a b", pa.time32("ms"), nullable=False)]))
    'struct<"a b": time32[ms] not null>'
    """
    name, arguments, children = _parts(kind)
    bracketed = f"[{', '.join(map(_argument_to_text, arguments))}]" if arguments else ""
    inner = f"<{', '.join(map(_field_to_text, children))}>" if children else ""
    return name + bracketed + inner


def type_from_text(text: str) -> pa.DataType:
    """The Arrow type that a text names; `SchemaError` says where the text stops being one.

    >>> type_from_text("dictionary<indices: int8, values: utf8>")
    DictionaryType(dictionary<values=string, indices=int8, ordered=0>)
    """
    return _built(_Text.whole_parts(text))


# One row for each type: what its text, its JSON and its constructor have in common


class _Parts(NamedTuple):
    """An Arrow type taken apart."""

    name: str
    arguments: tuple[str, ...] = ()
    children: tuple[pa.Field, ...] = ()


class _Kind(NamedTuple):
    """How to know a type that has arguments or children, to take its arguments, and to build it again."""

    form: str
    test: Callable[[pa.DataType], bool]
    arguments: Callable[[pa.DataType], tuple[str, ...]]
    build: Callable[[Strings, Fields], pa.DataType]


def _none(_: pa.DataType) -> tuple[str, ...]:
    return ()


def _unit(kind: pa.DataType) -> tuple[str, ...]:
    return (kind.unit,)


def _unit_and_zone(kind: pa.DataType) -> tuple[str, ...]:
    return (kind.unit,) if kind.tz is None else (kind.unit, f"tz={kind.tz}")


def _timestamp(arguments: Strings, _: Fields) -> pa.DataType:
    zones = [argument.removeprefix("tz=") for argument in arguments if argument.startswith("tz=")]
    (unit,) = [argument for argument in arguments if not argument.startswith("tz=")] or ["us"]
    return pa.timestamp(unit, *zones)


def _decimal_kind(bits: int, digits: int, make: Callable[..., pa.DataType]) -> _Kind:
    return _Kind(
        f"decimal{bits}[precision from 1 to {digits}, scale]",
        lambda kind: bool(types.is_decimal(kind) and kind.bit_width == bits),
        lambda kind: (str(kind.precision), str(kind.scale)),
        lambda arguments, _: make(*map(int, arguments)),
    )


def _decimal(arguments: Strings, _: Fields) -> pa.DataType:
    precision, scale = map(int, arguments)
    return (pa.decimal128 if precision <= _DECIMAL128_DIGITS else pa.decimal256)(precision, scale)


def _length(arguments: Strings) -> int:
    (length,) = map(int, arguments)
    if length < 0:
        raise ValueError(length)
    return length


def _map(arguments: Strings, children: Fields) -> pa.DataType:
    # JSON has one child, the entries; text has the two that these consist of.
    key, item = children[0].type if len(children) == 1 else children
    return pa.map_(key.with_nullable(nullable=False), item, keys_sorted=_flag("keys_sorted", arguments))


def _flag(name: str, arguments: Strings) -> bool:
    if list(arguments) not in ([], [name]):
        raise ValueError(arguments)
    return bool(arguments)


def _union_kind(mode: str, make: Callable[..., pa.DataType]) -> _Kind:
    return _Kind(
        f"{mode}_union[one code for each field]<fields>",
        lambda kind: bool(types.is_union(kind) and kind.mode == mode),
        lambda kind: tuple(map(str, kind.type_codes)),
        lambda codes, children: make(children, [int(code) for code in codes] or None),
    )


_DECIMAL128_DIGITS = 38

_SIMPLE: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "null": pa.null(),
        "bool": pa.bool_(),
        "int8": pa.int8(),
        "uint8": pa.uint8(),
        "int16": pa.int16(),
        "uint16": pa.uint16(),
        "int32": pa.int32(),
        "uint32": pa.uint32(),
        "int64": pa.int64(),
        "uint64": pa.uint64(),
        "float16": pa.float16(),
        "float32": pa.float32(),
        "float64": pa.float64(),
        "date32": pa.date32(),
        "date64": pa.date64(),
        "interval": pa.month_day_nano_interval(),
        "utf8": pa.utf8(),
        "large_utf8": pa.large_utf8(),
        "utf8_view": pa.string_view(),
        "binary": pa.binary(),
        "large_binary": pa.large_binary(),
        "binary_view": pa.binary_view(),
    }
)
_SIMPLE_NAMES = {kind: name for name, kind in _SIMPLE.items()}

# `*a` where a type has no arguments: any that are given are then one too many.
_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "timestamp": _Kind("timestamp[unit, tz=zone]", types.is_timestamp, _unit_and_zone, _timestamp),
        "time32": _Kind("time32[s or ms]", types.is_time32, _unit, lambda a, _: pa.time32(*a or ["s"])),
        "time64": _Kind("time64[us or ns]", types.is_time64, _unit, lambda a, _: pa.time64(*a or ["us"])),
        "duration": _Kind("duration[unit]", types.is_duration, _unit, lambda a, _: pa.duration(*a or ["us"])),
        "decimal32": _decimal_kind(32, 9, pa.decimal32),
        "decimal64": _decimal_kind(64, 18, pa.decimal64),
        "decimal128": _decimal_kind(128, _DECIMAL128_DIGITS, pa.decimal128),
        "decimal256": _decimal_kind(256, 76, pa.decimal256),
        "fixed_size_binary": _Kind(
            "fixed_size_binary[length]",
            types.is_fixed_size_binary,
            lambda kind: (str(kind.byte_width),),
            lambda a, _: pa.binary(_length(a)),
        ),
        "list": _Kind("list<one field>", types.is_list, _none, lambda a, c: pa.list_(*c, *a)),
        "large_list": _Kind("large_list<one field>", types.is_large_list, _none, lambda a, c: pa.large_list(*c, *a)),
        "list_view": _Kind("list_view<one field>", types.is_list_view, _none, lambda a, c: pa.list_view(*c, *a)),
        "large_list_view": _Kind(
            "large_list_view<one field>", types.is_large_list_view, _none, lambda a, c: pa.large_list_view(*c, *a)
        ),
        "fixed_size_list": _Kind(
            "fixed_size_list[length]<one field>",
            types.is_fixed_size_list,
            lambda kind: (str(kind.list_size),),
            lambda a, c: pa.list_(*c, _length(a)),
        ),
        "struct": _Kind("struct<fields>", types.is_struct, _none, lambda a, c: pa.struct(c, *a)),
        "map": _Kind(
            "map<key, value> or map[keys_sorted]<key, value>",
            types.is_map,
            lambda kind: ("keys_sorted",) * kind.keys_sorted,
            _map,
        ),
        "dictionary": _Kind(
            "dictionary<indices, values> or dictionary[ordered]<indices, values>",
            types.is_dictionary,
            lambda kind: ("ordered",) * kind.ordered,
            lambda a, c: pa.dictionary(*(field.type for field in c), ordered=_flag("ordered", a)),
        ),
        "run_end_encoded": _Kind(
            "run_end_encoded<run_ends, values>",
            types.is_run_end_encoded,
            _none,
            lambda a, c: pa.run_end_encoded(*(field.type for field in c), *a),
        ),
        "sparse_union": _union_kind("sparse", pa.sparse_union),
        "dense_union": _union_kind("dense", pa.dense_union),
    }
)

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

# Names found in the wild, without underscores: Arrow's printed forms, Java's, and those of the writers named below.
_ALIASES = MappingProxyType(
    {
        "boolean": "bool",
        "halffloat": "float16",
        "float": "float32",
        "double": "float64",
        "string": "utf8",
        "largestring": "large_utf8",
        "stringview": "utf8_view",
        "date": "date32",
        "time": "time64",
        "monthdaynanointerval": "interval",
        "union": "sparse_union",
    }
)
_NAMES = MappingProxyType({name.replace("_", ""): name for name in (*_SIMPLE, *_KINDS, "decimal")} | _ALIASES)

_DECIMAL = ("decimal[precision, scale]", _decimal)

# Arrow prints these units although the types have no other.
_FIXED_UNITS = MappingProxyType({"date32": ("day",), "date64": ("ms",)})


def _stored(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _parts(kind: pa.DataType) -> _Parts:
    kind = _stored(kind)
    if kind in _SIMPLE_NAMES:
        return _Parts(_SIMPLE_NAMES[kind])
    for name, known in _KINDS.items():
        if known.test(kind):
            return _Parts(name, known.arguments(kind), _children(kind))
    raise SchemaError("type", [f"{kind} has no JSON form"])


def _children(kind: pa.DataType) -> tuple[pa.Field, ...]:
    if types.is_map(kind):
        return kind.key_field, kind.item_field
    if types.is_dictionary(kind):
        return pa.field("indices", kind.index_type), pa.field("values", kind.value_type)
    return tuple(kind.field(place) for place in range(kind.num_fields))


def _built(parts: _Parts) -> pa.DataType:
    name, arguments, children = parts
    expected = name
    if name in _SIMPLE:
        if not children and arguments in ((), _FIXED_UNITS.get(name)):
            return _SIMPLE[name]
    else:
        expected, build = _DECIMAL if name == "decimal" else (_KINDS[name].form, _KINDS[name].build)
        with contextlib.suppress(ValueError, TypeError, OverflowError, pa.ArrowException):
            return build(arguments, children)
    given = name + (f"[{', '.join(arguments)}]" if arguments else "") + f" of {len(children)} fields" * bool(children)
    raise SchemaError("type", [f"{given} is no type; expected {expected}"])


def _length_arguments(name: str, length: int | None) -> tuple[str, ...]:
    """The one number that JSON has beside a type name, as the arguments that text has."""
    if length is None:
        return ()
    if name.startswith("decimal"):
        # Scales go from -128 to 127.
        precision = (length + 128) // 1000
        return str(precision), str(length - precision * 1000)
    return (str(length),) if name.startswith("fixed_size_") else ()


# Text

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARGUMENT = re.compile(r"[A-Za-z0-9_+\-/:]+")
_JSON = json.JSONDecoder()


def _field_to_text(field: pa.Field) -> str:
    name = field.name if _BARE.fullmatch(field.name) else json.dumps(field.name, ensure_ascii=False)
    metadata = _metadata_to_json(field.metadata)
    noted = " " + json.dumps(metadata, ensure_ascii=False, separators=(",", ":")) if metadata else ""
    return f"{name}: {type_to_text(field.type)}{'' if field.nullable else ' not null'}{noted}"


def _argument_to_text(argument: str) -> str:
    key, sign, value = argument.rpartition("=") if argument.startswith("tz=") else ("", "", argument)
    return key + sign + (value if _ARGUMENT.fullmatch(value) else json.dumps(value, ensure_ascii=False))


class _Text:
    """A reader of the type grammar; `at` is how far it has come."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @classmethod
    def whole_parts(cls, text: str) -> _Parts:
        """The parts of the type that makes up all of `text`."""
        reader = cls(text)
        parts = reader.parts()
        if reader.at < len(text):
            raise reader.error("the end")
        return parts

    def parts(self) -> _Parts:
        """The parts of one type."""
        word = self.match(_BARE)
        name = _NAMES.get(word.lower().replace("_", ""))
        if name is None:
            raise SchemaError("type", [f"unknown type {word or self.text!r}"])
        arguments = self.listed("[", "]", self.argument) or self.listed("(", ")", self.argument)
        return _Parts(name, arguments, self.listed("<", ">", self.field))

    def field(self) -> pa.Field:
        """One field: name, type, whether it may be null, metadata."""
        name = self.json() if self.follows('"') else self.match(_BARE)
        if not self.skip(":"):
            raise self.error("':'")
        kind = _built(self.parts())
        nullable = not self.skip("not null")
        metadata = _metadata_from_json(self.json() if self.follows("{") else None)
        return _field(name, kind, metadata, nullable=nullable)

    def argument(self) -> str:
        """One argument, without its quotes."""
        key = "tz=" if self.skip("tz=") else ""
        value = self.json() if self.follows('"') else self.match(_ARGUMENT)
        return key + (value if key else value.lower())

    def listed(self, opening: str, closing: str, item: Callable[[], _T]) -> tuple[_T, ...]:
        """What stands between two brackets, separated by commas; nothing where they are absent."""
        if not self.skip(opening):
            return ()
        items: list[_T] = []
        while not self.skip(closing):
            if items and not self.skip(","):
                raise self.error(f"',' or {closing!r}")
            items.append(item())
        return tuple(items)

    def match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.error("a name or value")
        return self.advance(found.end(), found[0])

    def json(self) -> Any:
        try:
            value, end = _JSON.raw_decode(self.text, self.at)
        except json.JSONDecodeError as exc:
            raise self.error("JSON") from exc
        return self.advance(end, value)

    def follows(self, literal: str) -> bool:
        return self.text.startswith(literal, self.at)

    def skip(self, literal: str) -> bool:
        found = self.follows(literal)
        self.advance(self.at + len(literal) * found, None)
        return found

    def advance(self, to: int, value: _T) -> _T:
        """`value`, having come to the first character from `to` on that is no blank."""
        self.at = to + len(self.text[to:]) - len(self.text[to:].lstrip())
        return value

    def error(self, expected: str) -> SchemaError:
        return SchemaError("type", [f"{self.text!r} is not a type: expected {expected} at character {self.at}"])


# Fields, metadata, and the places of problems

_PLACE = re.compile(r"(fields|name|nullable|type|metadata|length)\b[^ ]*: ")


def _collected(problems: list[str], place: str, work: Callable[[Any], _T], value: Any) -> _T | None:
    """`work(value)`; where that fails, None, with each problem noted in `problems` under `place`."""
    try:
        return work(value)
    except SchemaError as exc:
        for problem in exc.problems:
            joint = "" if not place else "." if _PLACE.match(problem) else ": "
            problems.append(place + joint + problem)
        return None


def _field(name: Any, kind: Any, metadata: Mapping[str, str], *, nullable: bool) -> pa.Field:
    if types.is_null(kind) and not nullable:
        raise SchemaError("field", ["nullable: a field of the null type cannot be without nulls"])
    return pa.field(name, kind, nullable, metadata or None)


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


def _metadata_to_json(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    try:
        return {key.decode(): value.decode() for key, value in (metadata or {}).items()}
    except UnicodeDecodeError as exc:
        raise SchemaError("metadata", [f"{metadata!r} is not UTF-8, which JSON needs"]) from exc


def _metadata_from_json(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SchemaError("metadata", [f"{value!r} is not an object"])
    wrong = [f"{key}: {text!r} is not a string" for key, text in value.items() if not isinstance(text, str)]
    if wrong:
        raise SchemaError("metadata", wrong)
    return dict(value)


def _exact_type(plain: pa.DataType) -> Callable[[str], pa.DataType]:
    """A reader of the exact type that stands beside `plain`, which it must fit: never guess which of two is meant."""

    def read(text: str) -> pa.DataType:
        exact = type_from_text(text)
        ours, theirs = type_to_json(exact), type_to_json(plain)
        if (ours["type"], ours.get("length")) != (theirs["type"], theirs.get("length")):
            raise SchemaError("metadata", [f"{ARROW_TYPE} is {text!r}, which is no {type_to_text(plain)}"])
        return exact

    return read


def _extension_metadata(kind: pa.DataType) -> dict[str, str]:
    """What Arrow itself keeps beside the storage type of an extension type."""
    if not isinstance(kind, pa.BaseExtensionType):
        return {}
    parameters = kind.__arrow_ext_serialize__().decode() if isinstance(kind, pa.ExtensionType) else ""
    return {EXTENSION_NAME: kind.extension_name} | ({EXTENSION_METADATA: parameters} if parameters else {})


def _with_extension(field: pa.Field) -> pa.Field:
    """The field with the extension type that its metadata names, where this process knows it."""
    if EXTENSION_NAME.encode() not in (field.metadata or {}):
        return field
    return pa.ipc.read_schema(pa.schema([field]).serialize()).field(0)
