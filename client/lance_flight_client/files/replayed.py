"""A pipe whose beginning is read twice: once to guess the types of its columns, and once for its rows."""

from __future__ import annotations

import io
from threading import Lock
from typing import IO, Any


class Recorded(io.RawIOBase):
    """A pipe that remembers what was read of it, until it is stopped."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__()
        self._pipe = pipe
        self._kept = bytearray()
        self._is_stopped = False
        self._reading = Lock()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # Arrow reads ahead on a thread of its own, which may go on when nobody asks for more.
        with self._reading:
            data = b"" if self._is_stopped else self._pipe.read(len(buffer)) or b""
            self._kept += data
        buffer[: len(data)] = data
        return len(data)

    def stop(self) -> bytes:
        """Read no more, and return what was read."""
        with self._reading:
            self._is_stopped = True
            return bytes(self._kept)


class Replayed(io.RawIOBase):
    """The bytes that were read of a pipe, and then the rest of it."""

    def __init__(self, begun: bytes, pipe: IO[bytes]) -> None:
        super().__init__()
        self._begun = io.BytesIO(begun)
        self._pipe = pipe

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._begun.read(len(buffer)) or self._pipe.read(len(buffer)) or b""
        buffer[: len(data)] = data
        return len(data)
