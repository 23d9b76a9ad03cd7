"""Numeric columns as NumPy arrays and back, as the transforms of numbers store them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def numbers_of(column: pa.Array) -> np.ndarray:
    """Return the values of a numeric column, with 0 in place of NULL."""
    values: np.ndarray = pc.fill_null(column, pa.scalar(0).cast(column.type)).to_numpy(zero_copy_only=False)
    return values


def canonical_floats(values: np.ndarray, column: pa.Array) -> pa.Array:
    """Return floats in the type and with the NULLs of `column`, with one zero and one NaN."""
    canonical = np.where(np.isnan(values), values.dtype.type(np.nan), np.where(values == 0, 0, values))
    return with_nulls_of(canonical.astype(values.dtype), column)


def with_nulls_of(values: np.ndarray, column: pa.Array) -> pa.Array:
    """Return numbers in the type and with the NULLs of `column`."""
    return pa.array(values, column.type, mask=column.is_null().to_numpy(zero_copy_only=False))
