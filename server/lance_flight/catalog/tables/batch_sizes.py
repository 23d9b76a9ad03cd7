"""Sizes of the batches that tables are read in: fewer rows where these are wide, so that what is read ahead stays small."""

from __future__ import annotations

import pyarrow as pa

from lance_flight.decoded_sizes import fixed_bytes

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
