"""Rows between processes: their encoding as Arrow IPC streams, and the bytes that they take once they are decoded.

Bytes of arrays whose values take no room, or share it, once each value has a place of its own.

`nbytes` is 0 for a billion NULLs, and counts a text once that a million views, codes or runs refer to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def encode_rows(rows: pa.RecordBatch | pa.Table, compression: str | None = None) -> bytes:
    """Encode a batch or a table as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write(rows)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def decode_table(data: bytes) -> pa.Table:
    """Decode all rows of an IPC stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def decode_batch(data: bytes) -> pa.RecordBatch:
    """Decode the one batch of an IPC stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


_PLACE = 8
"""Bytes of the place of a value that is stored elsewhere."""
_COUNTED_AT_ONCE = 1 << 20

_Sizes = np.ndarray[tuple[int], np.dtype[np.int64]]
_Test = Callable[[pa.DataType], bool]
_VIEW_WORDS = 4
_TEXT_VIEWS: Sequence[_Test] = (pa.types.is_string_view, pa.types.is_binary_view)
_LIST_VIEWS: Sequence[_Test] = (pa.types.is_list_view, pa.types.is_large_list_view)
_TEXTS: Sequence[_Test] = (
    pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary,
)  # fmt: skip
_SHARING: Sequence[_Test] = (
    pa.types.is_dictionary, pa.types.is_run_end_encoded, pa.types.is_union, *_TEXT_VIEWS, *_LIST_VIEWS,
)  # fmt: skip
"""Types whose values may be stored once and stand several times."""


def decoded_bytes(batch: pa.RecordBatch, most: int, *, least: int = 1) -> int:
    """Return the bytes of all values of a valid batch, each by itself and `least` at least; some number above `most` where there are more.

    >>> decoded_bytes(pa.record_batch({"a": pa.nulls(10_000)}), 1 << 30)
    10000
    """
    size = 0
    try:
        for column in batch.columns:
            size += _total(column, most - size, least)
    except _Beyond:
        return most + 1
    return size


def fixed_bytes(kind: pa.DataType) -> int:
    """Return the bytes that every value of a type takes, whatever it is."""
    if isinstance(kind, pa.BaseExtensionType):
        return fixed_bytes(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size * fixed_bytes(kind.value_type))
    if pa.types.is_struct(kind):
        return sum(fixed_bytes(kind.field(place).type) for place in range(kind.num_fields))
    return (fixed_bits(kind) or 0) // 8


def has_dictionary(kind: pa.DataType) -> bool:
    """Return whether a type is a dictionary, or contains one at any depth.

    >>> has_dictionary(pa.list_(pa.struct({"x": pa.dictionary(pa.int8(), pa.utf8())})))
    True
    """
    if isinstance(kind, pa.BaseExtensionType):
        return has_dictionary(kind.storage_type)
    return pa.types.is_dictionary(kind) or any(has_dictionary(kind.field(n).type) for n in range(kind.num_fields))


def has_open_width(kind: pa.DataType) -> bool:
    """Return whether the values of a type, or of one inside it, vary in width."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_open_width(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return has_open_width(kind.value_type)
    if pa.types.is_struct(kind):
        return any(has_open_width(kind.field(place).type) for place in range(kind.num_fields))
    return fixed_bits(kind) is None


def fixed_bits(kind: pa.DataType) -> int | None:
    """Return the bits of every value of a plain type; None where they vary."""
    try:
        return int(kind.bit_width)
    except ValueError:
        return None


class _Beyond(Exception):
    """There are more bytes than are counted."""


def _total(array: pa.Array, most: int, least: int = 1) -> int:
    """Return the bytes of the values of an array; raise `_Beyond` rather than allocate as much to count them."""
    size = least * len(array)
    if size > most:
        raise _Beyond
    if isinstance(array, pa.ExtensionArray):
        return _total(array.storage, most, least)
    if _is_one_of(array.type, _SHARING):
        return _total_by_parts(array, most)
    return max(int(array.nbytes), size + sum(_total(part, most, least) for part in _inside(array)))


def _total_by_parts(array: pa.Array, most: int) -> int:
    """Return the bytes of values that are stored elsewhere, some at a time, so that the numbers that are added up take little room."""
    stored = array.dictionary if pa.types.is_dictionary(array.type) else getattr(array, "values", ())
    step, size = max(_COUNTED_AT_ONCE, len(stored)), 0
    for start in range(0, len(array), step):
        size += int(_each(array.slice(start, step), most).sum())
        if size > most:
            raise _Beyond
    return size


def _each(array: pa.Array, most: int) -> _Sizes:
    """Return the bytes of each value of an array; those of nested values are bounds."""
    kind = array.type
    if _PLACE * len(array) > most:
        raise _Beyond
    if isinstance(array, pa.ExtensionArray):
        return _each(array.storage, most)
    if pa.types.is_dictionary(kind):
        values = _each(array.dictionary, most)
        return values[_numbers(array.indices)] if len(values) else np.full(len(array), _PLACE)
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(array.offset, array.offset + len(array))
        return _each(array.values, most)[np.searchsorted(array.run_ends, rows, side="right")]
    if _is_one_of(kind, _TEXT_VIEWS):
        lengths = np.frombuffer(array.buffers()[1] or b"", np.int32)[::_VIEW_WORDS][array.offset :][: len(array)]
        return 2 * _PLACE + np.maximum(lengths, 0).astype(np.int64)
    if _is_one_of(kind, _LIST_VIEWS):
        ends = np.concatenate([[0], np.cumsum(_each(array.values, most))])
        starts = _numbers(array.offsets)
        return np.asarray(_PLACE + ends[starts + _numbers(array.sizes)] - ends[starts])
    if _is_one_of(kind, _TEXTS):
        return _PLACE + _numbers(pc.binary_length(array))
    return np.full(len(array), _largest(array, most))


def _largest(array: pa.Array, most: int) -> int:
    """Return a bound of the bytes of every value of an array."""
    kind = array.type
    if pa.types.is_union(kind):
        return sum(int(_each(array.field(place), most).max(initial=0)) for place in range(kind.num_fields))
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size * _each(array.values, most).max(initial=0))
    inside = _inside(array)
    if inside:
        return _PLACE + sum(_total(part, most) for part in inside)
    return max(_PLACE, -(-int(array.nbytes) // max(len(array), 1)))


def _inside(array: pa.Array) -> Sequence[pa.Array]:
    """Return the values inside those of an array, without others that its children hold; none of a plain one."""
    kind = array.type
    if pa.types.is_struct(kind):
        return [array.field(place) for place in range(kind.num_fields)]
    if not kind.num_fields:
        return []
    if pa.types.is_fixed_size_list(kind):
        start, stop = array.offset * kind.list_size, (array.offset + len(array)) * kind.list_size
    else:
        start, stop = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    parts = [array.keys, array.items] if pa.types.is_map(kind) else [array.values]
    return [part.slice(start, stop - start) for part in parts]


def _is_one_of(kind: pa.DataType, tests: Sequence[_Test]) -> bool:
    return any(test(kind) for test in tests)


def _numbers(numbers: pa.Array) -> _Sizes:
    """Return numbers of any width, 0 for NULL."""
    return np.asarray(numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
