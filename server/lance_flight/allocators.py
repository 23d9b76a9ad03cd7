"""Gives memory that nothing uses back to the system, as far as allocators let themselves be asked.

The C library's has what Python and Lance use, Arrow's the buffers of pyarrow; DataFusion's cannot be asked from outside, and gives
back by itself, while it is used.
"""

from __future__ import annotations

import ctypes

import pyarrow as pa


def release_unused() -> None:
    """Give back what the C library's allocator and Arrow's pool keep for later; this takes up to some hundredths of a second."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)
    pa.default_memory_pool().release_unused()
