"""Files of a Lance table's versions, in which the addresses of other directories are changed when a table has a new place.

Lance names the directories that a version of a branch reads from (base paths) by absolute addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lance_flight.catalog.storage.version_content import BYTES, LENGTH, MALFORMED, MORE, locate_message, split_fields
from lance_flight.errors import Corrupt

_BASE_PATHS = 18
"""Number of `Manifest.base_paths` in Lance's table.proto."""
_PATH = 4
"""Number of `BasePath.path` there."""


def with_base_paths(content: bytes, name: str, moved: Callable[[str], str]) -> bytes:
    """Return a version file in which each absolute address is what `moved` makes of it; the same bytes where none changes."""
    try:
        start, end = locate_message(content)
        message = b"".join(_moved_fields(content[start:end], moved))
    except (*MALFORMED, UnicodeDecodeError) as exc:
        raise Corrupt(f"{name!r} is no version of a Lance table: {exc}") from exc
    return content[: start - LENGTH.size] + LENGTH.pack(len(message)) + message + content[end:]


def _moved_fields(message: bytes, moved: Callable[[str], str]) -> Iterator[bytes]:
    for number, kind, raw, value in split_fields(message):
        if number == _BASE_PATHS and kind == BYTES:
            yield _of_bytes(_BASE_PATHS, b"".join(_moved_base(value, moved)))
        else:
            yield raw


def _moved_base(message: bytes, moved: Callable[[str], str]) -> Iterator[bytes]:
    for number, kind, raw, value in split_fields(message):
        if number == _PATH and kind == BYTES:
            yield _of_bytes(_PATH, moved(value.decode()).encode())
        else:
            yield raw


def _of_bytes(number: int, payload: bytes) -> bytes:
    return _encoded(number << 3 | BYTES) + _encoded(len(payload)) + payload


def _encoded(value: int) -> bytes:
    more, low = divmod(value, MORE)
    return bytes([low | MORE]) + _encoded(more) if more else bytes([low])
