"""Arrow types: a table of them by name, their children, vectors, and columns of each in one piece or several.

A type taken apart is its name, its arguments as text and its children as fields: what its text, its JSON and its
constructor have in common. An extension type is taken apart as its storage type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
from pyarrow import types

from lance_flight.errors import SchemaError

Strings = Sequence[str]
Fields = Sequence[pa.Field]

UNIT_NAMES = MappingProxyType({"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"})
"""Names of units of time in the types of `arrow_cast`, by those of pyarrow."""


class TypeParts(NamedTuple):
    """An Arrow type taken apart; `name` is one of the values of `TYPE_NAMES`."""

    name: str
    arguments: tuple[str, ...] = ()
    children: tuple[pa.Field, ...] = ()


def storage_of(kind: pa.DataType) -> pa.DataType:
    """Return the type that values of a type are stored as: its own, but for an extension type."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def parts_of(kind: pa.DataType) -> TypeParts:
    """Return an Arrow type taken apart; `SchemaError` where no row knows it.

    >>> parts_of(pa.timestamp("ns", "UTC"))
    TypeParts(name='timestamp', arguments=('ns', 'tz=UTC'), children=())
    """
    kind = storage_of(kind)
    if kind in _SIMPLE_NAMES:
        return TypeParts(_SIMPLE_NAMES[kind])
    for name, known in _KINDS.items():
        if known.test(kind):
            return TypeParts(name, known.arguments(kind), _children(kind))
    raise SchemaError("type", [f"{kind} has no JSON form"])


def _children(kind: pa.DataType) -> tuple[pa.Field, ...]:
    if types.is_map(kind):
        return kind.key_field, kind.item_field
    if types.is_dictionary(kind):
        return pa.field("indices", kind.index_type), pa.field("values", kind.value_type)
    return tuple(kind.field(place) for place in range(kind.num_fields))


def build_type(parts: TypeParts) -> pa.DataType:
    """Return the Arrow type of its parts; `SchemaError` says which arguments and children its name takes.

    >>> build_type(TypeParts("decimal", ("50", "2")))
    Decimal256Type(decimal256(50, 2))
    """
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


class _Kind(NamedTuple):
    """Family of types with arguments or children: its test, how to take its arguments, and how to build it again."""

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

# Names found in the wild, without underscores: Arrow's printed forms, Java's, and those of other writers.
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

TYPE_NAMES = MappingProxyType({name.replace("_", ""): name for name in (*_SIMPLE, *_KINDS, "decimal")} | _ALIASES)
"""Each name that is understood, in lower case without underscores → the name of its row."""

_DECIMAL = ("decimal[precision, scale]", _decimal)

# Arrow prints these units although the types have no other.
_FIXED_UNITS = MappingProxyType({"date32": ("day",), "date64": ("ms",)})


def is_binary(kind: pa.DataType) -> bool:
    """Return whether `kind` is a type of binary values of any length."""
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether `kind` is a type of binary values, of any length or of one."""
    return is_binary(kind) or bool(types.is_fixed_size_binary(kind))


def is_string(kind: pa.DataType) -> bool:
    """Return whether `kind` is a string type."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether `kind` is a list of any lengths, or of one."""
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return whether `kind` is an integer, float or decimal."""
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def children(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields inside a type; none for a plain one.

    >>> [field.name for field in children(pa.struct({"x": pa.int8(), "y": pa.int8()}))]
    ['x', 'y']
    """
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(i) for i in range(kind.num_fields)]


def contains(kind: pa.DataType, is_one: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type, or one inside it at any depth, is one of a kind.

    >>> contains(pa.list_(pa.struct({"x": pa.int8()})), pa.types.is_struct)
    True
    """
    return is_one(kind) or any(contains(field.type, is_one) for field in children(kind))


def within(field: pa.Field, path: Sequence[str]) -> list[pa.Field] | None:
    """Return a field and those inside its structs down to a path below it; None where there is no such path.

    >>> [each.name for each in within(pa.field("a", pa.struct({"b": pa.int8()})), ["b"]) or []]
    ['a', 'b']
    """
    fields = [field]
    for name in path:
        kind = fields[-1].type
        place = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if place < 0:
            return None
        fields.append(kind.field(place))
    return fields


def field_at(schema: pa.Schema, path: str) -> pa.Field:
    """Return a column, or a field inside structs by its dotted path, under that path; `KeyError` where there is none."""
    root, *inner = path.split(".")
    fields = within(schema.field(root), inner)
    if fields is None:
        raise KeyError(path)
    return fields[-1].with_name(path)


def rebuilt(kind: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Return `kind` with other fields inside: any number in a struct, as many as it has in any other type."""
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if not fields:
        return kind
    if pa.types.is_map(kind):
        return pa.map_(fields[0], fields[1], keys_sorted=kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(fields[0])
    if pa.types.is_list(kind):
        return pa.list_(fields[0])
    raise SchemaError("schema", [f"type {kind} cannot be stored; expected struct, list, fixed-size list or map"])


def replace_innermost(kind: pa.DataType, replace: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with each type replaced that lies in no other one: itself, or those inside its structs, lists and maps.

    >>> replace_innermost(pa.list_(pa.struct({"x": pa.int8()})), lambda _: pa.int64())
    ListType(list<item: struct<x: int64>>)
    """
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or is_list(kind):
        return rebuilt(kind, [child.with_type(replace_innermost(child.type, replace)) for child in children(kind)])
    return replace(kind)


def contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array.

    >>> contiguous(pa.chunked_array([[1, 2], [3]])).to_pylist()
    [1, 2, 3]
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    # Arrow leaves what it takes for too much in several chunks.
    return pa.concat_arrays(whole.chunks or [pa.nulls(0, whole.type)]) if isinstance(whole, pa.ChunkedArray) else whole


def without_columns(rows: int) -> pa.Table:
    """Return a table of so many rows and no column.

    >>> without_columns(3).num_rows
    3
    """
    return pa.table({"": pa.nulls(rows)}).select([])


def concatenate_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables with equal columns; Arrow's own function forgets the rows of tables without any.

    >>> concatenate_tables([without_columns(2), without_columns(1)]).num_rows
    3
    """
    return pa.concat_tables(tables) if tables[0].num_columns else without_columns(sum(t.num_rows for t in tables))


def is_vector(kind: pa.DataType) -> bool:
    """Return whether `kind` is a vector type: a fixed-size list of floats or uint8.

    >>> is_vector(pa.list_(pa.float32(), 8)), is_vector(pa.list_(pa.float32())), is_vector(pa.list_(pa.int64(), 8))
    (True, False, False)
    """
    if not pa.types.is_fixed_size_list(kind):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_uint8(kind.value_type))


def is_multivector(kind: pa.DataType) -> bool:
    """Return whether `kind` is a multivector type: a list of any length of vectors.

    >>> is_multivector(pa.list_(pa.list_(pa.float32(), 8))), is_multivector(pa.list_(pa.float32(), 8))
    (True, False)
    """
    return bool(pa.types.is_list(kind) and is_vector(kind.value_type))


def vector_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of each vector of a multivector; any other type as it is."""
    return kind.value_type if is_multivector(kind) else kind


ALIGNMENT = 16


def align_buffers(batch: pa.RecordBatch, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Return `batch` with every buffer where a value of its type may begin, and nested columns whole; `schema` takes the place of its own.

    Copied only where one is not.

    What arrives over the wire lies wherever the message put it, and Lance stops at such memory, as it does at a part of
    a column of structs with structs inside.
    """
    columns = [_align_array(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema or batch.schema)


def _align_array(column: pa.Array) -> pa.Array:
    is_whole = not pa.types.is_nested(column.type) or _begins_at_its_memory(column)
    if is_whole and all(buffer is None or buffer.address % ALIGNMENT == 0 for buffer in column.buffers()):
        return column
    # Concatenation copies as soon as there are two arrays.
    return pa.concat_arrays([column, column.slice(0, 0)])


def _begins_at_its_memory(column: pa.Array) -> bool:
    """Return whether neither a column nor a field inside its structs is a later part of its memory."""
    inner = [column.field(place) for place in range(column.type.num_fields)] if pa.types.is_struct(column.type) else []
    return bool(column.offset == 0) and all(map(_begins_at_its_memory, inner))
