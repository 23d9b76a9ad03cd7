"""Frames of HTTP/2 of our own making, over a connection that no library keeps from what it may not do."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

from tests.hostile.frames import SERVICE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, GOAWAY, WINDOW = 0, 1, 3, 4, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
MOST_FRAME = 16_384


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def text(value: bytes) -> bytes:
    """A literal of HPACK, of at most 126 bytes."""
    return bytes([len(value)]) + value


def headers(rpc: str, more: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    """The header block of a call, without a credential."""
    said = ((b"content-type", b"application/grpc"), (b"te", b"trailers"), *more)
    return (
        b"\x83\x86"  # POST, http
        b"\x04"
        + text((SERVICE + rpc).encode())
        + b"\x01"
        + text(b"localhost")
        + b"".join(b"\x00" + text(name) + text(value) for name, value in said)
    )


@dataclass
class Raw:
    """A connection of HTTP/2, whose streams have odd numbers that only grow."""

    socket: socket.socket
    numbers: Iterator[int] = field(default_factory=lambda: count(1, 2))
    last: int = -1
    said: bytes = b""
    answer: bytes = b""
    first_window: int = 65_535
    windows: Counter[int] = field(default_factory=lambda: Counter({0: 65_535}))

    def send(self, frames: bytes) -> bool:
        """Send frames; false once the other side has hung up."""
        try:
            self.socket.sendall(frames)
        except OSError:
            return False
        return True

    def open(
        self, rpc: str, *, reset: bool = False, ends: bool = False, more: Sequence[tuple[bytes, bytes]] = ()
    ) -> bytes:
        """The frames that open a stream, and take it back at once if it is `reset`."""
        stream = self.last = next(self.numbers)
        self.windows[stream] = self.first_window
        opened = frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, headers(rpc, more))
        return opened + (frame(RESET, 0, stream, struct.pack(">I", 8)) if reset else b"")

    def message(self, content: bytes, *, is_compressed: bool = False) -> None:
        """Send a message of gRPC over the stream that was opened last, as fast as the other side takes it."""
        stream, left = self.last, bytes([is_compressed]) + len(content).to_bytes(4, "big") + content
        for start in range(0, len(left), MOST_FRAME):
            while self.windows[0] < MOST_FRAME or self.windows[stream] < MOST_FRAME:
                if not self.read():
                    return
            part = left[start : start + MOST_FRAME]
            self.windows[0] -= len(part)
            self.windows[stream] -= len(part)
            if not self.send(frame(DATA, 0, stream, part)):
                return

    def drain(self) -> None:
        """Take what has come, whatever it is."""
        with suppress(OSError):
            while self.socket.recv(1 << 20):
                pass

    def read(self) -> bool:
        """Take what has come into account; false once the connection, or the stream that was opened last, is over."""
        with suppress(TimeoutError):
            some = self.socket.recv(1 << 16)
            if not some:
                return False
            self.said += some
        while len(self.said) >= 9 and len(self.said) >= (whole := 9 + int.from_bytes(self.said[:3], "big")):
            taken, self.said = self.said[:whole], self.said[whole:]
            kind, flags, stream, content = taken[3], taken[4], int.from_bytes(taken[5:9], "big"), taken[9:]
            if kind == WINDOW:
                self.windows[stream] += int.from_bytes(content, "big")
            elif kind == SETTINGS:
                for at in range(0, len(content), 6):
                    if content[at : at + 2] == b"\0\4":
                        self.first_window = int.from_bytes(content[at + 2 : at + 6], "big")
                        self.windows[self.last] += self.first_window - 65_535
            elif stream == self.last and (kind == RESET or flags & END_STREAM):
                self.answer += content
                return False
        return True


@contextmanager
def connected(uri: str, source: str = "") -> Iterator[Raw]:
    """A connection from an address that has sent its preface and its settings."""
    host, _, port = uri.rpartition("//")[2].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20, source_address=(source, 0)) as opened:
        opened.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        opened.settimeout(5.0)
        yield Raw(opened)
