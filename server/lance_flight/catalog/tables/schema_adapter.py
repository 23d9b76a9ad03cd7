"""A column of one table as the namespace has it: fields found at every depth, types cast, what is missing filled or NULL.

First draft of the spec, section 4 (reads). A field of a table holds that of the namespace whose id is in its metadata. Where
none of its neighbours has an id there, it is the one of its name, and else the one whose id is Lance's own number of it. Names come
first, since Lance numbers the columns of a new table by position: a writer that leaves out a column, or has them in another
order, gives the others numbers of which the namespace knows nothing, but nobody gives a column another's name unawares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from lance_flight.catalog.storage.blobs import columns_of
from lance_flight.catalog.storage.lance_fields import field_id, numbered_columns
from lance_flight.catalog.tables.filling import NO_FILLS, Fill, Fills
from lance_flight.model.arrow_types import children, is_binary, is_string, rebuilt
from lance_flight.model.schema import FIELD_ID, TABLE_FIELD_ID, NamespaceSchema, Path


def namespace_id(field: pa.Field) -> int | None:
    """Return the id of a field of the namespace schema, or of one of a partition table."""
    text = (field.metadata or {}).get(FIELD_ID, b"")
    return int(text) if text.isdigit() else field_id(field)


def ids_within(field: pa.Field) -> Iterator[int]:
    """Yield the ids of a field and of those inside it."""
    number = namespace_id(field)
    if number is not None:
        yield number
    for child in children(field.type):
        yield from ids_within(child)


def matching(field: pa.Field, among: Sequence[pa.Field]) -> int | None:
    """Return the place of the field of a table that holds a field of the namespace.

    By id, or by name where either has none.
    """
    mine, ids = namespace_id(field), [field_id(each) for each in among]
    if mine is not None and any(number is not None for number in ids):
        return ids.index(mine) if mine in ids else None
    names = [each.name for each in among]
    return names.index(field.name) if field.name in names else None


def path_within(columns: Sequence[pa.Field], namespace: NamespaceSchema, number: int) -> tuple[Path, pa.Field] | None:
    """Return where a table, whose columns have the namespace's ids, keeps a field of it: the path there, and the field.

    None where the table lacks it, or the namespace.
    """
    path = namespace.source_paths.get(number, ())
    wanted = [namespace.sources[namespace.source_ids[path[:depth]]].field for depth in range(1, len(path) + 1)]
    return path_of(columns, wanted)


def path_of(columns: Sequence[pa.Field], wanted: Sequence[pa.Field]) -> tuple[Path, pa.Field] | None:
    """Return where a table keeps the last of some fields of the namespace, of which each lies inside the one before."""
    names: list[str] = []
    found: pa.Field | None = None
    for field in wanted:
        place = matching(field, columns)
        if place is None:
            return None
        found = columns[place]
        names.append(found.name)
        columns = children(found.type)
    return None if found is None else (tuple(names), found)


def identified(dataset: LanceDataset, namespace: NamespaceSchema) -> list[pa.Field]:
    """Return a table's columns with the ids of the namespace's that they hold, even if the table does not keep them."""
    if namespace.is_numbered_by_lance:
        return numbered_columns(dataset)
    physical = columns_of(dataset)
    stored = [] if any(field_id(each) is not None for each in physical) else dataset.lance_schema.fields()
    return _with_ids(physical, list(namespace.arrow), stored)


def _with_ids(physical: Sequence[pa.Field], namespace: Sequence[pa.Field], stored: Sequence[Any]) -> list[pa.Field]:
    held = {place: each for each in namespace if (place := matching(each, physical)) is not None}
    if all(field_id(each) is None for each in physical) and len(stored) == len(physical):
        by_number = {int(each.id()): place for place, each in enumerate(stored) if place not in held}
        named = {namespace_id(each) for each in held.values()}
        for each in namespace:
            number = namespace_id(each)
            place = None if number is None or number in named else by_number.get(number)
            if place is not None and _is_alike(physical[place].type, each.type):
                held[place] = each
    deeper: Sequence[Any] = stored if len(stored) == len(physical) else [None] * len(physical)
    return [
        _with_id(each, held[place], deeper[place]) if place in held else each for place, each in enumerate(physical)
    ]


def _is_alike(mine: pa.DataType, other: pa.DataType) -> bool:
    """Return whether a column of one type can be the other under another name: Lance gives what is cast a new number."""
    return bool(mine.id == other.id) or any(is_kind(mine) and is_kind(other) for is_kind in (is_string, is_binary))


def _with_id(physical: pa.Field, of: pa.Field, stored: Any) -> pa.Field:
    # Lance has a field more between a map and its sides, and none inside a vector: these are known by name.
    below = [] if stored is None or pa.types.is_map(physical.type) else stored.children()
    inner = _with_ids(children(physical.type), children(of.type), below)
    metadata = {**(physical.metadata or {}), TABLE_FIELD_ID: str(namespace_id(of)).encode()}
    return pa.field(
        physical.name, rebuilt(physical.type, inner) if inner else physical.type, physical.nullable, metadata
    )


def adapted(column: pa.Array, physical: pa.Field, target: pa.Field, fills: Fills = NO_FILLS) -> pa.Array:
    """Return a column as `target`; `pa.ArrowInvalid` or `pa.ArrowNotImplementedError` where a value cannot be cast.

    Fields that the table, or its files, lack have the values that `fills` has for them.
    """
    fill = _fill(target, fills)
    if fill is not None and fill.rows is not None:
        return pc.if_else(fill.rows, fill.values.cast(target.type), adapted(column, physical, target))
    if column.type.equals(target.type) and same_fields(physical, target) and not _holds(target, fills):
        return column
    kind, inner, wanted = target.type, children(physical.type), children(target.type)
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        return _adapted_struct(column, inner, target, fills)
    if any(test(kind) and test(column.type) for test in _LISTS):
        values = adapted(column.values, inner[0], wanted[0])
        buffers = column.buffers()[: 1 if pa.types.is_fixed_size_list(kind) else 2]
        return pa.Array.from_buffers(kind, len(column), buffers, offset=column.offset, children=[values])
    if pa.types.is_map(kind) and pa.types.is_map(column.type):
        sides = [adapted(*each) for each in zip((column.keys, column.items), inner, wanted, strict=True)]
        entries = pa.StructArray.from_arrays(sides, fields=wanted)
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], offset=column.offset, children=[entries])
    return column.cast(kind)


def missing(rows: int, target: pa.Field, fills: Fills = NO_FILLS) -> pa.Array:
    """Return a column that a table lacks: what `fills` has for it, or for the fields inside it, else NULL."""
    fill = _fill(target, fills)
    if fill is not None:
        return fill.values.cast(target.type)
    if not pa.types.is_struct(target.type) or not _holds(target, fills):
        return pa.nulls(rows, target.type)
    return _adapted_struct(pa.nulls(rows, pa.struct([])), [], target, fills)


def _adapted_struct(column: pa.Array, inner: Sequence[pa.Field], target: pa.Field, fills: Fills) -> pa.Array:
    wanted = children(target.type)
    places = [matching(field, inner) for field in wanted]
    for field, place in zip(wanted, places, strict=True):
        is_missing = place is None and not field.nullable and not _holds(field, fills)
        if is_missing and column.null_count < len(column):
            raise pa.ArrowInvalid(f"field {field.name!r} is NOT NULL and missing")
    found = [
        missing(len(column), field, fills)
        if place is None
        else adapted(column.field(place), inner[place], field, fills)
        for place, field in zip(places, wanted, strict=True)
    ]
    is_null = column.is_null()
    for field, filled in zip(wanted, found, strict=True):
        if _holds(field, fills):
            # A struct with a value inside is not NULL.
            is_null = pc.and_(is_null, filled.is_null())
    return pa.StructArray.from_arrays(found, fields=wanted, mask=is_null)


def _fill(target: pa.Field, fills: Fills) -> Fill | None:
    number = namespace_id(target) if fills else None
    return None if number is None else fills.get(number)


def _holds(field: pa.Field, fills: Fills) -> bool:
    """Return whether a field, or one inside it, is filled."""
    if not fills:
        return False
    return namespace_id(field) in fills or any(_holds(child, fills) for child in children(field.type))


def same_fields(physical: pa.Field, target: pa.Field) -> bool:
    """Return whether the fields inside a column are, one by one, those of the namespace, as far as both have ids."""
    inner, wanted = children(physical.type), children(target.type)
    return len(inner) == len(wanted) and all(
        (None in (ids := (namespace_id(a), namespace_id(b))) or ids[0] == ids[1]) and same_fields(a, b)
        for a, b in zip(inner, wanted, strict=True)
    )


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
