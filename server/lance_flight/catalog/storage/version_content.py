"""The content of the file of a Lance table's version: one protobuf message, and where it lies.

A version file ends with the position of a message `Manifest` (length, then message), the format, and `LANC`; nothing before the
message refers into it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

LENGTH = struct.Struct("<I")
VARINT, BYTES = 0, 2
MORE = 128
"""The bit of a varint's byte that says that another one follows."""
MALFORMED = (IndexError, OverflowError, struct.error)
"""Errors of these functions for bytes that are no version of a table."""

_MAGIC = b"LANC"
_FOOTER = struct.Struct("<QHH4s")
_FIXED = {1: 8, 5: 4}
"""Wire types of fields, and the bytes of those that always have as many."""


def locate_message(content: bytes) -> tuple[int, int]:
    """Return where the message begins and ends."""
    position, _, _, magic = _FOOTER.unpack(content[-_FOOTER.size :])
    (length,) = LENGTH.unpack_from(content, position)
    start = position + LENGTH.size
    if magic != _MAGIC or start + length > len(content) - _FOOTER.size:
        raise IndexError("its end does not say where its message is")
    return start, start + length


def split_fields(message: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield the number, the wire type, all bytes and the value (of length-delimited fields) of each field of a message."""
    at = 0
    while at < len(message):
        began = at
        key, at = _varint(message, at)
        kind, value = key & 7, b""
        if kind == VARINT:
            _, at = _varint(message, at)
        elif kind == BYTES:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise IndexError(f"a field has the wire type {kind}")
        if at > len(message):
            raise IndexError("a field is cut short")
        yield key >> 3, kind, message[began:at], value


def is_whole(content: bytes) -> bool:
    """Return whether the bytes are a version file from end to end.

    >>> is_whole(b""), is_whole(bytes(4096))
    (False, False)
    """
    try:
        start, end = locate_message(content)
        numbers = [number for number, *_ in split_fields(content[start:end])]
    except MALFORMED:
        return False
    # Zeros, which a file that was never written through reads as, are fields without a number.
    return bool(numbers) and 0 not in numbers


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value, shift, at = value | (byte & ~MORE) << shift, shift + 7, at + 1
        if not byte & MORE:
            return value, at
