"""Bytes that were right once."""

from __future__ import annotations

from hypothesis import strategies as st

MOST = 4
"""How many changes are made at most."""


@st.composite
def mutations(draw: st.DrawFn, real: bytes) -> bytes:
    """`real` with a few changes: a byte, a bit, a piece that is missing, doubled, moved or made up."""
    data = bytearray(real)
    for _ in range(draw(st.integers(1, MOST))):
        at = draw(st.integers(0, len(data)))
        size = draw(st.integers(0, 12))
        match draw(st.sampled_from(["bit", "byte", "cut", "missing", "double", "move", "insert", "length"])):
            case "bit" if at < len(data):
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "byte" if at < len(data):
                data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            case "cut":
                del data[at:]
            case "missing":
                del data[at : at + size]
            case "double":
                data[at:at] = data[at : at + size]
            case "move":
                piece = data[at : at + size]
                del data[at : at + size]
                there = draw(st.integers(0, len(data)))
                data[there:there] = piece
            case "insert":
                data[at:at] = draw(st.binary(max_size=size))
            case "length" if at + 4 <= len(data):
                data[at : at + 4] = draw(st.sampled_from([b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 4]))
    return bytes(data)
