"""murmur3 (x86, 32 bits, seed 0, signed) of many inputs: inputs of one length together, the rest one by one."""

from __future__ import annotations

from collections.abc import Sequence

import mmh3
import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]
Halves = npt.NDArray[np.uint32]

# Constants of murmur3 x86 32-bit.
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_ADD, _FIVE = np.uint32(0xE6546B64), np.uint32(5)
_MIX1, _MIX2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)

# Rows hashed at a time: the five working arrays of 4 bytes a row stay in a core's own cache.
_BLOCK = 1 << 14


def hash_words(words: Sequence[Words]) -> npt.NDArray[np.int32]:
    """Return the hash of each row of words, as if they were 8·len(words) bytes."""
    size = len(words[0])
    halves = [word.astype("<i8", copy=False).view("<u4").reshape(-1, 2) for word in words]
    hashes = np.zeros(size, np.uint32)
    for start in range(0, size, _BLOCK):
        rows = slice(start, start + _BLOCK)
        for half in halves:
            _mix(hashes[rows], half[rows, 0])
            _mix(hashes[rows], half[rows, 1])
        _finish(hashes[rows], 8 * len(words))
    return hashes.view(np.int32)


def hash_bytes(values: Sequence[bytes]) -> npt.NDArray[np.int32]:
    """Return the hash of each value."""
    return np.fromiter(map(mmh3.mmh3_32_sintdigest, values), np.int32, len(values))


def _mix(hashes: Halves, block: Halves) -> None:
    """Run one round of murmur3, in place: `hashes` takes in one 4-byte block of each row."""
    turned = block * _C1
    _rotate(turned, 15)
    turned *= _C2
    hashes ^= turned
    _rotate(hashes, 13)
    hashes *= _FIVE
    hashes += _ADD


def _rotate(values: Halves, bits: int) -> None:
    high = values >> np.uint32(32 - bits)
    values <<= np.uint32(bits)
    values |= high


def _finish(hashes: Halves, length: int) -> None:
    """Run the last step of murmur3, in place, for inputs of `length` bytes."""
    hashes ^= np.uint32(length)
    hashes ^= hashes >> np.uint32(16)
    hashes *= _MIX1
    hashes ^= hashes >> np.uint32(13)
    hashes *= _MIX2
    hashes ^= hashes >> np.uint32(16)
