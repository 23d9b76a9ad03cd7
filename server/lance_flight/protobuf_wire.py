"""Parts of protobuf messages in the wire format, for messages whose classes are not here."""

from __future__ import annotations

MORE = 0x80
"""Bit of a byte that others follow."""
_DELIMITED = 2
"""Wire type of a field that begins with its length."""


def encode_varint(value: int) -> bytes:
    """Encode a number: seven bits in each byte, the lowest first.

    >>> encode_varint(127).hex(), encode_varint(300).hex()
    ('7f', 'ac02')
    """
    encoded = bytearray()
    while value >= MORE:
        encoded.append(value % MORE | MORE)
        value //= MORE
    encoded.append(value)
    return bytes(encoded)


def encode_field(number: int, content: bytes) -> bytes:
    """Encode a field with a length: its number and wire type, the length, the content.

    >>> encode_field(2, b"main").hex()
    '12046d61696e'
    """
    return encode_varint(number << 3 | _DELIMITED) + encode_varint(len(content)) + content
