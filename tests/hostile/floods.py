"""What a client without a credential may send over one connection, as much of it as it likes."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable

from tests.hostile.http2 import Raw
from tests.selection import IS_FULL

MIB = 1 << 20
SECONDS = 60.0 if IS_FULL else 2.0
STREAMS = 2000
ENCODED = [(b"grpc-encoding", b"gzip")]


def open_many(rpc: str) -> Callable[[Raw], None]:
    """Many streams at once, whatever the other side says of how many it takes."""

    def attack(raw: Raw) -> None:
        raw.send(b"".join(raw.open(rpc) for _ in range(STREAMS)))
        time.sleep(SECONDS)

    return attack


def open_and_reset(raw: Raw) -> None:
    """Streams that are taken back as fast as they are opened."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and raw.send(b"".join(raw.open("DoPut", reset=True) for _ in range(100))):
        raw.socket.settimeout(0.0001)
        raw.drain()


def send_zeros(raw: Raw) -> None:
    """A gigabyte of zeros in a megabyte."""
    zeros = gzip.compress(bytes(64 * MIB)) * 16
    for _ in range(4):
        raw.send(raw.open("GetFlightInfo", more=ENCODED))
        raw.message(zeros, is_compressed=True)


ATTACKS: dict[str, Callable[[Raw], None]] = {
    **{f"many streams of {rpc}": open_many(rpc) for rpc in ("DoPut", "GetFlightInfo", "Handshake")},
    "streams that are reset": open_and_reset,
    "a message of zeros": send_zeros,
}
