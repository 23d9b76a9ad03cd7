"""Columns of Arrow, whether they come in one piece or in several."""

from __future__ import annotations

import pyarrow as pa


def contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array.

    >>> contiguous(pa.chunked_array([[1, 2], [3]])).to_pylist()
    [1, 2, 3]
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    # Arrow leaves what it takes for too much in several chunks.
    return pa.concat_arrays(whole.chunks or [pa.nulls(0, whole.type)]) if isinstance(whole, pa.ChunkedArray) else whole
