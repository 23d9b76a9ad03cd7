"""Columns of Arrow in one piece or in several, and tables that may have no column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array.

    >>> contiguous(pa.chunked_array([[1, 2], [3]])).to_pylist()
    [1, 2, 3]
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    # Arrow leaves what it takes for too much in several chunks.
    return pa.concat_arrays(whole.chunks or [pa.nulls(0, whole.type)]) if isinstance(whole, pa.ChunkedArray) else whole


def without_columns(rows: int) -> pa.Table:
    """Return a table of so many rows and no column.

    >>> without_columns(3).num_rows
    3
    """
    return pa.table({"": pa.nulls(rows)}).select([])


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables with equal columns; Arrow's own function forgets the rows of tables without any.

    >>> concatenated([without_columns(2), without_columns(1)]).num_rows
    3
    """
    return pa.concat_tables(tables) if tables[0].num_columns else without_columns(sum(t.num_rows for t in tables))
