"""Tables whose columns are not those of their namespace: how their rows are read, and how rows are written to them.

First draft, section 4. Columns of one name, or one field id, are cast, nested fields by their names: what is missing reads
as NULL, what is extra is left out. Who writes leaves nothing out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from lance_flight.catalog.tables.adapting import adapted
from lance_flight.errors import DataError, SchemaError
from lance_flight.model.arrays import contiguous
from lance_flight.model.schema import TABLE_FIELD_ID

_NO_CAST = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


class Misfit(DataError):
    """Values of a column that cannot be had in another type."""


def physical(schema: pa.Schema, name: str, field_id: int | None) -> pa.Field | None:
    """The column of a table's own schema that holds the namespace's column: by field id, or by name where it keeps none."""
    if field_id is not None:
        by_id = {(f.metadata or {}).get(TABLE_FIELD_ID): f for f in schema}
        if any(by_id):
            return by_id.get(str(field_id).encode())
    at = schema.get_field_index(name)
    return schema.field(at) if at >= 0 else None


def cast(
    column: pa.Array | pa.ChunkedArray, theirs: pa.Field, field: pa.Field, table: str
) -> pa.Array | pa.ChunkedArray:
    """A column, which is `theirs` there, as `field`; `Misfit` names the column, the table and the first value that cannot be."""
    try:
        return _converted(column, theirs, field)
    except _NO_CAST as exc:
        why = _what_fails(column, theirs, field)
        raise Misfit(f"column {field.name!r} of table {table!r} {why}: {exc}") from exc


def writable(rows: pa.Table, schema: pa.Schema, ids: Mapping[str, int], table: str) -> pa.Table:
    """Rows of the namespace in a table's own columns: converted, and NULL in those that the namespace has not."""
    found = {name: physical(schema, name, ids.get(name)) for name in rows.column_names}
    names = {field.name: name for name, field in found.items() if field is not None}
    problems = [f"column {name!r} is not in the table" for name, field in found.items() if field is None]
    problems += [
        f"column {field.name!r} is NOT NULL there, and no column of the namespace"
        for field in schema
        if field.name not in names and not field.nullable
    ]
    for field in schema:
        if field.name in names:
            problems += _lost(field.name, rows.schema.field(names[field.name]).type, field.type)
    if problems:
        raise SchemaError(f"partition table {table!r}", problems)
    columns = [
        _with_values(cast(rows[names[field.name]], rows.schema.field(names[field.name]), field, table), field, table)
        if field.name in names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def readable(schema: pa.Schema, table: pa.Schema) -> list[str]:
    """What keeps a table with other columns, found by name, from being read as `schema`, whatever its rows are."""
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
    """The first value without a counterpart; without one, the types alone do not go together."""
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


def _converted(column: pa.Array | pa.ChunkedArray, theirs: pa.Field, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """A column cast, at every depth: Arrow itself takes a NULL struct for one whose fields are NULL against their type."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_converted(chunk, theirs, field) for chunk in column.chunks], field.type)
    return adapted(column, theirs, field)


def _fits(column: pa.Array, theirs: pa.Field, field: pa.Field) -> bool:
    try:
        _converted(column, theirs, field)
    except _NO_CAST:
        return False
    return True


def _lost(path: str, source: pa.DataType, target: pa.DataType) -> Iterator[str]:
    """The nested fields of `source` that `target` has no place for, and those that it must have and does not get."""
    if not (pa.types.is_struct(source) and pa.types.is_struct(target)):
        inner = _values(source), _values(target)
        if inner[0] is not None and inner[1] is not None:
            yield from _lost(path, *inner)
        return
    theirs = {field.name: field for field in target}
    mine = {field.name for field in source}
    for field in source:
        if field.name not in theirs:
            yield f"field {path}.{field.name} is not in the table"
        else:
            yield from _lost(f"{path}.{field.name}", field.type, theirs[field.name].type)
    for field in target:
        if field.name not in mine and not field.nullable:
            yield f"field {path}.{field.name} is NOT NULL there, and no field of the namespace"


def _values(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_map(kind):
        return kind.item_type
    return kind.value_type if pa.types.is_nested(kind) and not pa.types.is_struct(kind) else None


def _with_values(column: pa.ChunkedArray, field: pa.Field, table: str) -> pa.ChunkedArray:
    if not field.nullable and column.null_count:
        raise DataError(f"column {field.name!r} of table {table!r} is NOT NULL there, and a row has NULL for it")
    return column
