"""Types with fields inside: their children, and the same type over other ones."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_flight.errors import SchemaError


def children(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields inside a type; none for a plain one.

    >>> [field.name for field in children(pa.struct({"x": pa.int8(), "y": pa.int8()}))]
    ['x', 'y']
    """
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(i) for i in range(kind.num_fields)]


def within(field: pa.Field, path: Sequence[str]) -> list[pa.Field] | None:
    """Return a field and those inside its structs down to a path below it; None where there is no such path.

    >>> [each.name for each in within(pa.field("a", pa.struct({"b": pa.int8()})), ["b"]) or []]
    ['a', 'b']
    """
    found = [field]
    for name in path:
        kind = found[-1].type
        place = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if place < 0:
            return None
        found.append(kind.field(place))
    return found


def field_at(schema: pa.Schema, path: str) -> pa.Field:
    """Return a column, or a field inside structs by its dotted path, under that path; `KeyError` where there is none."""
    root, *inner = path.split(".")
    found = within(schema.field(root), inner)
    if found is None:
        raise KeyError(path)
    return found[-1].with_name(path)


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
