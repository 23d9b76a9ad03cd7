"""Tables whose columns are not those of their namespace: how their rows are read, and how rows are written to them.

First draft, section 4. Columns of one name, or one field id, are cast, nested fields by their names: what is missing reads
as NULL, what is extra is left out. Who writes leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa
from lance import LanceDataset

from lance_flight.catalog.manifests.partition_context import PartitionContext
from lance_flight.catalog.storage.blobs import columns_with_metadata
from lance_flight.catalog.storage.lance_fields import field_id
from lance_flight.catalog.tables.filling import NO_FILLS, Fills
from lance_flight.catalog.tables.schema_adapter import adapted, identified, matching
from lance_flight.errors import DataError, SchemaError
from lance_flight.model.arrow_types import children, contiguous
from lance_flight.model.schema import TABLE_FIELD_ID

_NO_CAST = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


class Misfit(DataError):
    """Values of a column that cannot be had in another type."""


def physical(columns: Iterable[pa.Field], name: str, field_id: int | None) -> pa.Field | None:
    """Return the column of a table's own schema that holds the namespace's column.

    By field id, or by name where it keeps none.
    """
    if field_id is not None:
        by_id = {(f.metadata or {}).get(TABLE_FIELD_ID): f for f in columns}
        if any(by_id):
            return by_id.get(str(field_id).encode())
    return next((field for field in columns if field.name == name), None)


def cast(
    column: pa.Array | pa.ChunkedArray, theirs: pa.Field, field: pa.Field, table: str, fills: Fills = NO_FILLS
) -> pa.Array | pa.ChunkedArray:
    """Return a column, which is `theirs` there, as `field`.

    `Misfit` names the column, the table and the first value that cannot be.
    """
    try:
        return _converted(column, theirs, field, fills)
    except _NO_CAST as exc:
        why = _what_fails(column, theirs, field)
        raise Misfit(f"column {field.name!r} of table {table!r} {why}: {exc}") from exc


def writable(rows: pa.Table, dataset: LanceDataset, context: PartitionContext, table: str) -> pa.Table:
    """Return rows of the namespace in a table's own columns: converted, and NULL in those that the namespace has not.

    What the manifest says of all rows may be missing in the table.
    """
    schema, ids, known = identified(dataset, context.schema), context.schema.ids, context.identity.by_source
    mine = {field.name: field for field in context.schema.table}
    found = {name: physical(schema, name, ids[name]) for name in rows.column_names}
    names = {field.name: name for name, field in found.items() if field is not None}
    problems = [
        f"column {name!r} is not in the table"
        for name, field in found.items()
        if field is None and not known.keys() >= _leaves(mine[name])
    ]
    problems += [
        f"column {field.name!r} is NOT NULL there, and no column of the namespace"
        for field in schema
        if field.name not in names and not field.nullable
    ]
    for field in schema:
        if field.name in names:
            problems += _lost(field.name, mine[names[field.name]], field, known)
    if problems:
        raise SchemaError(f"partition table {table!r}", problems)
    columns = [
        _with_values(cast(rows[names[field.name]], mine[names[field.name]], field, table), field, table)
        if field.name in names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=columns_with_metadata(dataset))


def readable(schema: pa.Schema, table: pa.Schema) -> list[str]:
    """Return what keeps a table with other columns, found by name, from being read as `schema`, whatever its rows are."""
    problems = []
    for field in schema:
        at = table.get_field_index(field.name)
        if at < 0:
            problems += [f"column {field.name!r} ({field.type} NOT NULL) is missing"] * (not field.nullable)
            continue
        try:
            pa.nulls(0, table.field(at).type).cast(field.type)
        except _NO_CAST:
            problems.append(f"column {field.name!r} is {table.field(at).type}; expected {field.type}")
    return problems


def _what_fails(column: pa.Array | pa.ChunkedArray, theirs: pa.Field, field: pa.Field) -> str:
    """Return the first value without a counterpart; without one, the types alone do not go together."""
    flat = contiguous(column)
    if not len(flat) or not _fits(flat.take(pa.array([], pa.int64())), theirs, field):
        return f"is {flat.type}, not {field.type}"
    # The first place up to which the values do not all fit; a slice of a list would bring along what lies around it.
    low, high = 0, len(flat) - 1
    while low < high:
        middle = (low + high) // 2
        fits = _fits(flat.take(pa.array(range(low, middle + 1))), theirs, field)
        low, high = (middle + 1, high) if fits else (low, middle)
    return f"holds {flat[low].as_py()!r} ({flat.type}), which is no {field.type}"


def _converted(
    column: pa.Array | pa.ChunkedArray, theirs: pa.Field, field: pa.Field, fills: Fills = NO_FILLS
) -> pa.Array | pa.ChunkedArray:
    """Return a column cast, at every depth.

    Arrow itself takes a NULL struct for one whose fields are NULL against their type.
    """
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_converted(chunk, theirs, field) for chunk in column.chunks], field.type)
    return adapted(column, theirs, field, fills)


def _fits(column: pa.Array, theirs: pa.Field, field: pa.Field) -> bool:
    try:
        _converted(column, theirs, field)
    except _NO_CAST:
        return False
    return True


def _lost(path: str, source: pa.Field, target: pa.Field, known: Collection[int]) -> Iterator[str]:
    """Yield the nested fields of `source` that `target` has no place for, and those that it must have and does not get.

    Those that are `known` by their ids need no place.
    """
    mine, theirs = children(source.type), children(target.type)
    if not (pa.types.is_struct(source.type) and pa.types.is_struct(target.type)):
        # Of a map the keys have no fields inside.
        for inner, place in list(zip(mine, theirs, strict=False))[-1:]:
            yield from _lost(path, inner, place, known)
        return
    places = [matching(field, theirs) for field in mine]
    for field, place in zip(mine, places, strict=True):
        if place is not None:
            yield from _lost(f"{path}.{field.name}", field, theirs[place], known)
        elif field_id(field) not in known:
            yield f"field {path}.{field.name} is not in the table"
    for number, field in enumerate(theirs):
        if number not in places and not field.nullable:
            yield f"field {path}.{field.name} is NOT NULL there, and no field of the namespace"


def _leaves(field: pa.Field) -> set[int | None]:
    """Return the ids of the fields with values of their own inside a column, or its own."""
    inner = children(field.type) if pa.types.is_struct(field.type) else []
    return set().union(*map(_leaves, inner)) if inner else {field_id(field)}


def _with_values(column: pa.ChunkedArray, field: pa.Field, table: str) -> pa.ChunkedArray:
    if not field.nullable and column.null_count:
        raise DataError(f"column {field.name!r} of table {table!r} is NOT NULL there, and a row has NULL for it")
    return column
