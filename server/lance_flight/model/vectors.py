"""Vectors: lists of a fixed size of floats or bytes, which have a number at each place."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def is_vector(kind: pa.DataType) -> bool:
    """Return whether `kind` is a vector type: a fixed-size list of floats or uint8.

    >>> is_vector(pa.list_(pa.float32(), 8)), is_vector(pa.list_(pa.float32())), is_vector(pa.list_(pa.int64(), 8))
    (True, False, False)
    """
    if not pa.types.is_fixed_size_list(kind):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_uint8(kind.value_type))


def have_gaps(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which vectors of a column have NULL at some place; one that is NULL as a whole has not.

    >>> have_gaps(pa.array([[1, None], None, [1, 2]], pa.list_(pa.uint8(), 2))).tolist()
    [True, False, False]
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return np.concatenate([np.zeros(0, np.bool_), *map(_have_gaps, chunks)])


def _have_gaps(vectors: pa.FixedSizeListArray) -> npt.NDArray[np.bool_]:
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size)
    if not values.null_count:
        return np.zeros(len(vectors), np.bool_)
    missing = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, size)
    gaps: npt.NDArray[np.bool_] = missing.any(axis=1) & vectors.is_valid().to_numpy(zero_copy_only=False)
    return gaps
