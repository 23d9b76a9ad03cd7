"""Vectors: lists of a fixed size of floats or bytes, which have a number at each place; multivectors: lists of any length of these."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def is_vector(kind: pa.DataType) -> bool:
    """Return whether `kind` is a vector type: a fixed-size list of floats or uint8.

    >>> is_vector(pa.list_(pa.float32(), 8)), is_vector(pa.list_(pa.float32())), is_vector(pa.list_(pa.int64(), 8))
    (True, False, False)
    """
    if not pa.types.is_fixed_size_list(kind):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_uint8(kind.value_type))


def is_multivector(kind: pa.DataType) -> bool:
    """Return whether `kind` is a multivector type: a list of any length of vectors.

    >>> is_multivector(pa.list_(pa.list_(pa.float32(), 8))), is_multivector(pa.list_(pa.float32(), 8))
    (True, False)
    """
    return bool(pa.types.is_list(kind) and is_vector(kind.value_type))


def vector_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of each vector of a multivector; any other type as it is."""
    return kind.value_type if is_multivector(kind) else kind


def have_gaps(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which vectors or multivectors of a column have NULL at some place; one that is NULL as a whole has not.

    >>> have_gaps(pa.array([[1, None], None, [1, 2]], pa.list_(pa.uint8(), 2))).tolist()
    [True, False, False]
    >>> have_gaps(pa.array([[[1, 2], None], None, [], [[1, 2]]], pa.list_(pa.list_(pa.uint8(), 2)))).tolist()
    [True, False, False, False]
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return np.concatenate([np.zeros(0, np.bool_), *map(_have_gaps, chunks)])


def _have_gaps(column: pa.Array) -> npt.NDArray[np.bool_]:
    if not is_multivector(column.type):
        return _vectors_with_gaps(column)
    vectors, rows = column.flatten(), pc.list_parent_indices(column).to_numpy()
    missing = vectors.is_null().to_numpy(zero_copy_only=False) | _vectors_with_gaps(vectors)
    gaps = np.zeros(len(column), np.bool_)
    gaps[rows[missing]] = True
    return gaps


def _vectors_with_gaps(vectors: pa.FixedSizeListArray) -> npt.NDArray[np.bool_]:
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size)
    if not values.null_count:
        return np.zeros(len(vectors), np.bool_)
    missing = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, size)
    gaps: npt.NDArray[np.bool_] = missing.any(axis=1) & vectors.is_valid().to_numpy(zero_copy_only=False)
    return gaps
