"""One number for a set of rows, whatever their order and however they are cut into files or batches.

It tells whether two places hold the same rows: before and after maintenance, in a copy, in the answers of two plans. It is no
signature: who wants two different sets to have the same number can find some.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

Words = npt.NDArray[np.uint64]

MODULUS = 1 << 64
FACTOR = 0x9E3779B97F4A7C15
"""2⁶⁴ ÷ the golden ratio: odd, so that it has an inverse, and its bits are evenly spread."""

INVERSE = pow(FACTOR, -1, MODULUS)

_NULL = np.uint64(0xD6E8FEB86659FD93)
_SHIFT = np.uint64(29)
_WORD = 8


@dataclass(frozen=True, slots=True)
class Checksum:
    """Number of rows, and the sum of their hashes, modulo 2⁶⁴.

    Columns are of any type that Lance stores; they count by their place and not by their name, texts and lists of every layout alike. Values count by their bytes: −0.0 is
    not 0.0.

    >>> Checksum.of([pa.record_batch({"a": [1, None]})]) == Checksum.of([pa.record_batch({"b": [None, 1]})])
    True
    """

    rows: int = 0
    hashes: int = 0

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Self:
        """Return the checksum of all rows of some batches."""
        rows = hashes = 0
        for batch in batches:
            rows += batch.num_rows
            hashes += int(_mix_columns(batch.columns, batch.num_rows).sum(dtype=np.uint64))
        return cls(rows, hashes % MODULUS)

    def __add__(self, other: Checksum) -> Checksum:
        """Return the checksum of the rows of both."""
        return Checksum(self.rows + other.rows, (self.hashes + other.hashes) % MODULUS)

    def __str__(self) -> str:
        return f"{self.hashes:016x}"


def _mix_columns(columns: Sequence[pa.Array], rows: int) -> Words:
    """Return one word for each row, from the columns in their order."""
    mixed = np.zeros(rows, np.uint64)
    for column in columns:
        _mix(mixed, _hashes(column))
    return mixed


def _mix(mixed: Words, words: Words) -> None:
    np.bitwise_xor(mixed, words, out=mixed)
    np.multiply(mixed, np.uint64(FACTOR), out=mixed)
    np.bitwise_xor(mixed, mixed >> _SHIFT, out=mixed)


def _hashes(column: pa.Array) -> Words:
    """Return one word for each value, the same one for every NULL."""
    words = _of_values(column)
    if column.null_count:
        words = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, words)
    return words


def _of_values(column: pa.Array) -> Words:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _hashes(column.storage)
    if types.is_null(kind):
        return np.zeros(len(column), np.uint64)
    if types.is_dictionary(kind):
        return _hashes(column.dictionary_decode())
    if types.is_struct(kind):
        return _mix_columns(column.flatten(), len(column))
    if types.is_fixed_size_list(kind):
        return _of_fixed_lists(column, kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return _of_lists(column)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return _of_values(column.cast(pa.large_binary()))
    if _is_of_bytes(kind):
        return _of_bytes(column)
    return _of_fixed_width(column)


def _is_of_bytes(kind: pa.DataType) -> bool:
    return kind in {pa.utf8(), pa.large_utf8(), pa.binary(), pa.large_binary()}


def _of_fixed_width(column: pa.Array) -> Words:
    """Return words from values of equally many bytes each, eight of them at a time."""
    if types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    width = column.type.bit_width // 8
    content = column.buffers()[1]
    if content is None:
        return np.zeros(len(column), np.uint64)
    items = np.frombuffer(content, np.uint8, len(column) * width, column.offset * width).reshape(len(column), width)
    padded = np.zeros((len(column), -(-width // _WORD) * _WORD), np.uint8)
    padded[:, :width] = items
    mixed = np.zeros(len(column), np.uint64)
    for words in padded.view(np.uint64).T:
        _mix(mixed, words)
    return mixed


def _of_bytes(column: pa.Array) -> Words:
    large = column.cast(pa.large_binary())
    _, offsets, content = large.buffers()
    ends = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
    return _of_stretches(np.frombuffer(content or b"", np.uint8)[ends[0] : ends[-1]], ends)


def _of_lists(column: pa.Array) -> Words:
    ends = np.asarray(column.offsets.to_numpy(), np.int64)
    return _of_stretches(_hashes(column.values.slice(int(ends[0]), int(ends[-1] - ends[0]))), ends)


def _of_fixed_lists(column: pa.Array, size: int) -> Words:
    inner = _hashes(column.values.slice(column.offset * size, len(column) * size)).reshape(len(column), size)
    mixed = np.zeros(len(column), np.uint64)
    for words in inner.T:
        _mix(mixed, words)
    return mixed


def _of_stretches(items: npt.NDArray[np.uint8] | Words, ends: npt.NDArray[np.int64]) -> Words:
    """Return the polynomial of each stretch of items, from differences of running sums.

    Item i of all counts FACTORⁱ times.
    """
    ends = ends - ends[0]
    sums = np.zeros(items.size + 1, np.uint64)
    np.multiply(items, _powers(FACTOR, items.size), out=sums[1:], dtype=np.uint64)
    np.cumsum(sums, out=sums)
    differences = np.diff(sums[ends]) * _powers(INVERSE, items.size + 1)[ends[:-1]] + np.diff(ends).astype(np.uint64)
    mixed = np.zeros(differences.size, np.uint64)
    _mix(mixed, differences)
    return mixed


def _powers(base: int, count: int) -> Words:
    return _many_powers(base, 1 << count.bit_length())[:count]


@lru_cache(16)
def _many_powers(base: int, count: int) -> Words:
    powers = np.full(count, base, np.uint64)
    powers[:1] = 1
    return np.cumprod(powers, dtype=np.uint64)
