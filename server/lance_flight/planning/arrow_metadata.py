"""Schema metadata with its repeated keys and its order, which pyarrow's dict loses.

Read through the Arrow C data interface: the `metadata` member of `ArrowSchema` is an int32 count, then for each
entry the int32 length of the key, the key, the int32 length of the value, the value; all in native byte order.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import pyarrow as pa

_INT32 = struct.Struct("=i")


class _ArrowSchema(ctypes.Structure):
    """`struct ArrowSchema` of the C data interface."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def metadata_entries(schema: pa.Schema) -> list[tuple[bytes, bytes]]:
    """Return every key and value of the schema's metadata, in order.

    >>> metadata_entries(pa.schema([], metadata={"k": "v"}))
    [(b'k', b'v')]
    """
    capsule = schema.__arrow_c_schema__()
    address = _ArrowSchema.from_address(_capsule_pointer(capsule, b"arrow_schema")).metadata
    if address is None:
        return []
    (count,) = _INT32.unpack(ctypes.string_at(address, _INT32.size))
    texts = _texts(address + _INT32.size)
    return [(next(texts), next(texts)) for _ in range(count)]


def _texts(address: int) -> Iterator[bytes]:
    while True:
        (length,) = _INT32.unpack(ctypes.string_at(address, _INT32.size))
        yield ctypes.string_at(address + _INT32.size, length)
        address += _INT32.size + length
