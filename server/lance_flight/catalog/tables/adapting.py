"""A column of one table as the namespace has it: fields found by their ids at every depth, what is missing NULL, types cast.

First draft of the spec, section 4 (reads).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_flight.catalog.tables.lance_fields import field_id
from lance_flight.model.nested import children, rebuilt
from lance_flight.model.schema import FIELD_ID, TABLE_FIELD_ID, NamespaceSchema


def namespace_id(field: pa.Field) -> int | None:
    """The id of a field of the namespace schema, or of one of a partition table."""
    text = (field.metadata or {}).get(FIELD_ID, b"")
    return int(text) if text.isdigit() else field_id(field)


def matching(field: pa.Field, among: Sequence[pa.Field]) -> int | None:
    """The place of the field of a table that holds a field of the namespace: by id, or by name where either has none."""
    mine, ids = namespace_id(field), [field_id(each) for each in among]
    if mine is not None and any(number is not None for number in ids):
        return ids.index(mine) if mine in ids else None
    names = [each.name for each in among]
    return names.index(field.name) if field.name in names else None


def identified(schema: pa.Schema, namespace: NamespaceSchema) -> list[pa.Field]:
    """The columns of a table with the ids of the namespace's that they hold, found by name where the table keeps none."""
    return _with_ids(list(schema), list(namespace.arrow))


def _with_ids(physical: Sequence[pa.Field], namespace: Sequence[pa.Field]) -> list[pa.Field]:
    held = {place: each for each in namespace if (place := matching(each, physical)) is not None}
    return [_with_id(each, held[place]) if place in held else each for place, each in enumerate(physical)]


def _with_id(physical: pa.Field, of: pa.Field) -> pa.Field:
    inner = _with_ids(children(physical.type), children(of.type))
    metadata = {**(physical.metadata or {}), TABLE_FIELD_ID: str(namespace_id(of)).encode()}
    return pa.field(
        physical.name, rebuilt(physical.type, inner) if inner else physical.type, physical.nullable, metadata
    )


def adapted(column: pa.Array, physical: pa.Field, target: pa.Field) -> pa.Array:
    """A column as `target`; `pa.ArrowInvalid` or `pa.ArrowNotImplementedError` where a value cannot be cast."""
    if column.type.equals(target.type) and same_fields(physical, target):
        return column
    kind, inner, wanted = target.type, children(physical.type), children(target.type)
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        places = [matching(field, inner) for field in wanted]
        for field, place in zip(wanted, places, strict=True):
            if place is None and not field.nullable and column.null_count < len(column):
                raise pa.ArrowInvalid(f"field {field.name!r} is NOT NULL and missing")
        found = [
            pa.nulls(len(column), field.type) if place is None else adapted(column.field(place), inner[place], field)
            for place, field in zip(places, wanted, strict=True)
        ]
        return pa.StructArray.from_arrays(found, fields=wanted, mask=column.is_null())
    if any(test(kind) and test(column.type) for test in _LISTS):
        values = adapted(column.values, inner[0], wanted[0])
        buffers = column.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
        return pa.Array.from_buffers(kind, len(column), buffers, offset=column.offset, children=[values])
    if pa.types.is_map(kind) and pa.types.is_map(column.type):
        sides = [adapted(*each) for each in zip((column.keys, column.items), inner, wanted, strict=True)]
        entries = pa.StructArray.from_arrays(sides, fields=wanted)
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], offset=column.offset, children=[entries])
    return column.cast(kind)


def same_fields(physical: pa.Field, target: pa.Field) -> bool:
    """Whether the fields inside a column are, one by one, those of the namespace, as far as both have ids."""
    inner, wanted = children(physical.type), children(target.type)
    return len(inner) == len(wanted) and all(
        (None in (ids := (namespace_id(a), namespace_id(b))) or ids[0] == ids[1]) and same_fields(a, b)
        for a, b in zip(inner, wanted, strict=True)
    )


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
