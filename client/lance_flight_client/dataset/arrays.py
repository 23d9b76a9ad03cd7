"""Numeric columns of Arrow batches as NumPy arrays that are written to, as tensors are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from lance_flight.errors import InvalidInput


def check_numeric(schema: pa.Schema) -> None:
    """Raise `InvalidInput` for columns that have no array."""
    others = [f"{field.name} ({field.type})" for field in schema if not _is_numeric(field.type)]
    if others:
        raise InvalidInput(
            f"columns that are no tensors: {', '.join(others)}; leave them out by columns=[…], or give a collate, which is"
            " called with each pyarrow.RecordBatch"
        )


def arrays(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    """Return each column as an array, of two dimensions for lists of a fixed size; NULL is NaN where that is a value.

    >>> arrays(pa.record_batch({"x": [1.5, None]}))
    {'x': array([1.5, nan])}
    """
    return {name: _array(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def _is_numeric(kind: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(kind):
        return _is_numeric(kind.value_type) and not pa.types.is_fixed_size_list(kind.value_type)
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _array(name: str, column: pa.Array) -> np.ndarray:
    if column.null_count and not pa.types.is_floating(column.type):
        raise InvalidInput(
            f"column {name!r} has NULL, which no tensor of {column.type} has; filter by {name} IS NOT NULL, or give a collate"
        )
    if pa.types.is_fixed_size_list(column.type):
        return _array(name, column.flatten()).reshape(len(column), column.type.list_size)
    return np.asarray(column.to_numpy(zero_copy_only=False, writable=True))
