"""Sizes of the batches that tables are read in: fewer rows where these are wide, so that what is read ahead stays small."""

from __future__ import annotations

import pyarrow as pa

from lance_flight.decoded_sizes import fixed_bits, fixed_bytes
from lance_flight.model.arrow_types import storage_of
from lance_flight.model.nested import children

BATCH_ROWS = 64 * 1024
BATCH_BYTES = 16 << 20
"""Bytes of a batch of wide rows; a wide row alone may be larger."""
LEAST_ROWS = 64


def rows_within(schema: pa.Schema, rows: int = BATCH_ROWS) -> int:
    """Return how many rows, `rows` at most, have no more than `BATCH_BYTES` by the widths of their types; what varies in width counts for nothing.

    >>> rows_within(pa.schema({"id": pa.int64(), "vector": pa.list_(pa.float32(), 1024)}))
    4088
    """
    width = sum(fixed_bytes(field.type) for field in schema)
    return min(rows, max(LEAST_ROWS, BATCH_BYTES // max(width, 1)))


def has_open_width(kind: pa.DataType) -> bool:
    """Return whether the values of a type, or of one inside it, vary in width."""
    kind = storage_of(kind)
    if pa.types.is_fixed_size_list(kind):
        return has_open_width(kind.value_type)
    if pa.types.is_struct(kind):
        return any(has_open_width(field.type) for field in children(kind))
    return fixed_bits(kind) is None
