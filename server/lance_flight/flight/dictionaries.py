"""Dictionary-encoded columns in clients' data: refused before the first frame is read, or decoded on arrival.

pyarrow's server dereferences a null pointer where a dictionary batch is followed by a frame without a header, in its own code and before
a handler sees either. A stream whose schema has no dictionary type cannot get there, nested ones included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lance_flight.errors import SchemaError
from lance_flight.flight.normalise import client_type, convert


def has_dictionary(kind: pa.DataType) -> bool:
    """Return whether a type is a dictionary, or contains one at any depth.

    >>> has_dictionary(pa.list_(pa.struct({"x": pa.dictionary(pa.int8(), pa.utf8())})))
    True
    """
    if isinstance(kind, pa.BaseExtensionType):
        return has_dictionary(kind.storage_type)
    return pa.types.is_dictionary(kind) or any(has_dictionary(kind.field(n).type) for n in range(kind.num_fields))


def refuse_dictionaries(schema: pa.Schema, what: str, why: str) -> None:
    """Raise `SchemaError` that names each column with a dictionary, the reason `why`, and the cast that removes it."""
    problems = [
        f"column {field.name!r} is {field.type}; {why}; expected it cast to {client_type(field.type)} before it is sent"
        for field in _with_dictionaries(schema)
    ]
    if problems:
        raise SchemaError(what, problems)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of batches that `decode_batches` returns: columns that contain dictionaries get the types of the values."""
    fields = [f.with_type(client_type(f.type)) if has_dictionary(f.type) else f for f in schema]
    return pa.schema(fields, metadata=schema.metadata)


def decode_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Convert `batches` to the types of `decoded_schema`."""
    for batch in batches:
        columns = [
            column if column.type == field.type else convert(column, field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_dictionaries(schema: pa.Schema) -> Sequence[pa.Field]:
    types = schema.types
    found = {kind for kind in set(types) if has_dictionary(kind)}
    return [schema.field(place) for place, kind in enumerate(types) if kind in found] if found else []
