"""Files of a Lance table's versions, in which the addresses of other directories are changed when a table has a new place.

Lance names the directories that a version of a branch reads from (base paths) by absolute addresses. A version file ends with the
position of a protobuf message `Manifest` (length, then message), the format, and `LANC`; nothing before the message refers into it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from lance_flight.errors import Corrupt

_MAGIC = b"LANC"
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_BASE_PATHS = 18
"""Number of `Manifest.base_paths` in Lance's table.proto."""
_PATH = 4
"""Number of `BasePath.path` there."""
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
"""Wire types of fields, and the bytes of those that always have as many."""
_MORE = 128
"""The bit of a varint's byte that says that another one follows."""


def with_base_paths(content: bytes, name: str, moved: Callable[[str], str]) -> bytes:
    """Return a version file in which each absolute address is what `moved` makes of it; the same bytes where none changes."""
    try:
        start, end = _message(content)
        message = b"".join(_moved_fields(content[start:end], moved))
    except (IndexError, OverflowError, struct.error, UnicodeDecodeError) as exc:
        raise Corrupt(f"{name!r} is no version of a Lance table: {exc}") from exc
    return content[: start - _LENGTH.size] + _LENGTH.pack(len(message)) + message + content[end:]


def _message(content: bytes) -> tuple[int, int]:
    """Return where the message begins and ends."""
    position, _, _, magic = _FOOTER.unpack(content[-_FOOTER.size :])
    (length,) = _LENGTH.unpack_from(content, position)
    start = position + _LENGTH.size
    if magic != _MAGIC or start + length > len(content) - _FOOTER.size:
        raise IndexError("its end does not say where its message is")
    return start, start + length


def _moved_fields(message: bytes, moved: Callable[[str], str]) -> Iterator[bytes]:
    for number, kind, raw, value in _fields(message):
        if number == _BASE_PATHS and kind == _BYTES:
            yield _of_bytes(_BASE_PATHS, b"".join(_moved_base(value, moved)))
        else:
            yield raw


def _moved_base(message: bytes, moved: Callable[[str], str]) -> Iterator[bytes]:
    for number, kind, raw, value in _fields(message):
        if number == _PATH and kind == _BYTES:
            yield _of_bytes(_PATH, moved(value.decode()).encode())
        else:
            yield raw


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield the number, the wire type, all bytes and the value (of length-delimited fields) of each field of a message."""
    at = 0
    while at < len(message):
        began = at
        key, at = _varint(message, at)
        kind, value = key & 7, b""
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _BYTES:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise IndexError(f"a field has the wire type {kind}")
        if at > len(message):
            raise IndexError("a field is cut short")
        yield key >> 3, kind, message[began:at], value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value, shift, at = value | (byte & ~_MORE) << shift, shift + 7, at + 1
        if not byte & _MORE:
            return value, at


def _of_bytes(number: int, payload: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(payload)) + payload


def _encoded(value: int) -> bytes:
    more, low = divmod(value, _MORE)
    return bytes([low | _MORE]) + _encoded(more) if more else bytes([low])
