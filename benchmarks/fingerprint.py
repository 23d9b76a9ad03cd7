"""A number for the rows of a result, whatever their order: two plans of one query are held against each other by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks import data

Words = npt.NDArray[np.uint64]

MODULUS = 1 << 64
FACTOR = 0x9E3779B97F4A7C15
"""2⁶⁴ ÷ the golden ratio: odd, so that it has an inverse, and its bits are evenly spread."""

INVERSE = pow(FACTOR, -1, MODULUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """How many rows there are, and the sum of their hashes, modulo 2⁶⁴.

    >>> Fingerprint.of([pa.record_batch({"a": [1, 2]})]) == Fingerprint.of([pa.record_batch({"a": [2, 1]})])
    True
    """

    rows: int
    hashes: int

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Self:
        """Read the batches; columns are of fixed width or text, without NULLs."""
        rows = hashes = 0
        for batch in batches:
            rows += batch.num_rows
            hashes += int(_hashes(batch).sum(dtype=np.uint64))
        return cls(rows=rows, hashes=hashes % MODULUS)


def _hashes(batch: pa.RecordBatch) -> Words:
    mixed = np.zeros(batch.num_rows, np.uint64)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        data.expect(f"NULLs in {name}", column.null_count, 0)
        for words in _words(column):
            mixed = (mixed ^ words) * np.uint64(FACTOR)
            mixed ^= mixed >> np.uint64(29)
    return mixed


def _words(column: pa.Array) -> Iterator[Words]:
    """What a column holds, as one word for each row or several."""
    if pa.types.is_string(column.type):
        yield _of_text(column)
        return
    width = column.type.bit_width // 32
    end = (column.offset + len(column)) * width
    found = np.frombuffer(column.buffers()[1], np.uint32)[column.offset * width : end]
    yield from found.reshape(-1, width).T.astype(np.uint64)


def _of_text(column: pa.Array) -> Words:
    """The polynomial of each text's bytes, from differences of running sums: byte i of the buffer counts FACTORⁱ times."""
    _, offsets, content = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    found = np.frombuffer(content or b"", np.uint8)[ends[0] : ends[-1]]
    ends = ends - ends[0]
    sums = np.zeros(found.size + 1, np.uint64)
    np.multiply(found, _powers(FACTOR, found.size), out=sums[1:])
    np.cumsum(sums, out=sums)
    sizes = np.diff(ends).astype(np.uint64)
    return np.diff(sums[ends]) * _powers(INVERSE, found.size + 1)[ends[:-1]] + sizes


def _powers(base: int, count: int) -> Words:
    return _many_powers(base, 1 << count.bit_length())[:count]


@lru_cache
def _many_powers(base: int, count: int) -> Words:
    powers = np.full(count, base, np.uint64)
    powers[:1] = 1
    return np.cumprod(powers, dtype=np.uint64)
