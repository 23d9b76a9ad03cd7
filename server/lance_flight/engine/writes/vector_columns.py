"""Vectors among the columns of a new table: lists of floats, as pandas sends them, that all have one length.

A list has any length as far as its type tells, and an index is about vectors alone. So the first rows of an ingest that makes a table
are looked at before it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.tables.rows import check_lengths

LOOKED_AT_BYTES = 64 << 20
"""Rows of so many bytes are held in memory until the types of the columns are decided."""
LEAST_BYTES = 16 << 10
"""Bytes that a table of rows takes at least."""
_SHORTEST = 2


def with_vectors(schema: pa.Schema, rows: Iterable[pa.Table]) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """Return the columns of a new table, lists of floats of one length as vectors, and all of its rows.

    A column with NULL inside a list, or with lists of other lengths among the first `LOOKED_AT_BYTES`, stays one of lists. `DataError`
    names a later row whose list has another length.
    """
    lists = [field.name for field in schema if _is_list_of_floats(field.type)]
    if not lists:
        return schema, iter(rows)
    rest = iter(rows)
    first = list(_first(rest))
    lengths = {name: length for name in lists if (length := _length([table[name] for table in first])) is not None}
    fields = [
        field.with_type(pa.list_(field.type.value_type, lengths[field.name])) if field.name in lengths else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata), chain(first, _checked(rest, lengths))


def _is_list_of_floats(kind: pa.DataType) -> bool:
    return bool((pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_floating(kind.value_type))


def _first(rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    size = 0
    while size < LOOKED_AT_BYTES:
        table = next(rows, None)
        if table is None:
            return
        size += max(table.nbytes, LEAST_BYTES)
        yield table


def _length(columns: list[pa.ChunkedArray]) -> int | None:
    """Return the one length of all lists, none of which has NULL inside; None where there is none."""
    found: set[int] = set()
    for column in columns:
        found.update(pc.list_value_length(column).drop_null().unique().to_pylist())
        if len(found) > 1 or pc.list_flatten(column).null_count:
            return None
    (length,) = found or {0}
    return length if length >= _SHORTEST else None


def _checked(rows: Iterator[pa.Table], lengths: Mapping[str, int]) -> Iterator[pa.Table]:
    for table in rows:
        for name, length in lengths.items():
            why = f", as all rows before have; CREATE TABLE with {name} as a list (FLOAT[]) stores any lengths"
            check_lengths(table[name], name, length, why)
        yield table
