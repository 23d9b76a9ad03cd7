"""Decoding of dictionary-encoded columns: servers that authenticate their callers take no dictionaries."""

from __future__ import annotations

import pyarrow as pa

_PLAIN = {pa.string_view(): pa.utf8(), pa.binary_view(): pa.binary()}
"""Types that the values of a dictionary are cast to first: pyarrow takes no rows of views."""


def decoded(data: pa.Table | pa.RecordBatchReader) -> pa.Table | pa.RecordBatchReader:
    """Return `data` without dictionaries at any depth; what has none is returned as it is."""
    schema = pa.schema([field.with_type(_plain(field.type)) for field in data.schema], metadata=data.schema.metadata)
    if schema.types == data.schema.types:
        return data
    batches = data.to_batches() if isinstance(data, pa.Table) else data
    made = pa.RecordBatchReader.from_batches(schema, (_decoded(batch, schema) for batch in batches))
    return made.read_all() if isinstance(data, pa.Table) else made


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries.

    >>> _plain(pa.list_(pa.dictionary(pa.int8(), pa.string_view())))
    ListType(list<item: string>)
    """
    if pa.types.is_dictionary(kind):
        return _PLAIN.get(kind.value_type, _plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_plain(kind.key_type)), kind.item_field.with_type(_plain(kind.item_type))
        )
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _decoded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(column.type):
        return column if column.type == kind else column.cast(kind)
    return _cast(column.dictionary, kind).take(column.indices)
