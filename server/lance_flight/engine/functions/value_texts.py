"""Texts of values that DataFusion writes otherwise than DuckDB: doubles, moments, times, intervals, lists, structs and maps.

A timestamp is `2024-01-05 10:15:30.5`, one with a zone `2024-01-05 10:15:30.5+01`, as in PostgreSQL too. An interval is
`1 month 2 days 03:00:00`, a list `[1, NULL]`, a struct `{'a': 1}`, a map `{a=1}`, a double `1e+16`. DataFusion 55 writes a T within
timestamps, `1e16`, and nothing for an element that is NULL, and knows no text of a struct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_flight.model.arrow_types import is_binary
from lance_flight.model.zones import TICKS

VALUE_TEXT = "value_text"
"""Function that gives the text of a value."""
ELEMENT_TEXTS = "element_texts"
"""Function that gives the texts of the elements of a list."""
_NULL = "NULL"
_QUOTED = r"(?i)[,\[\]{}()'\":=\\]|^\s|\s$|^$|^null$"
"""Matches a text that stands in quotes within a list, struct or map, as in DuckDB."""
_AT_ONCE = 1 << 16
_MONTHS_OF_YEAR, _NANOSECONDS, _MICROSECONDS_OF_DAY = 12, 10**9, 86_400 * 10**6
_LEAST_WITHOUT_EXPONENT, _LEAST_EXPONENT, _MOST_OF_ARROW = 1e-4, 1e16, 1e10
_SHOWN_BYTES = range(ord(" "), 0x7F)


def has_own_text(kind: pa.DataType) -> bool:
    """Return whether the text of values of a type is made here, and not by a CAST of DataFusion."""
    kinds = (
        types.is_floating,
        types.is_date64,
        types.is_timestamp,
        types.is_time,
        types.is_interval,
        types.is_duration,
        types.is_nested,
    )
    return any(fits(kind) for fits in kinds)


def value_texts(columns: Sequence[pa.Array]) -> pa.Array:
    r"""Compute the texts of values.

    >>> value_texts([pa.array([[1, None], [], None])]).to_pylist()
    ['[1, NULL]', '[]', None]
    >>> value_texts([pa.array([{"a": "x", "b": [2.0]}, {"a": "it's", "b": None}])]).to_pylist()
    ["{'a': x, 'b': [2.0]}", "{'a': 'it\\'s', 'b': NULL}"]
    """
    (column,) = columns
    kind = column.type
    make = next((make for fits, make in _MAKERS if fits(kind)), None)
    return column.cast(pa.utf8()) if make is None else make(column)


def element_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute lists of the texts of the elements of lists.

    >>> element_texts([pa.array([[[1], None], None])]).to_pylist()
    [['[1]', None], None]
    """
    (column,) = columns
    return _lists(column, value_texts([pc.list_flatten(column)]))


def _moments(column: pa.Array) -> pa.Array:
    local = column if column.type.tz is None else pc.local_timestamp(column)
    texts = _without_zeros(local.cast(pa.utf8()))
    if column.type.tz is None:
        return texts
    ticks = TICKS[column.type.unit]
    offsets = pc.subtract(local.view(pa.int64()), column.view(pa.int64())).fill_null(0).to_numpy() // ticks
    sizes, places = np.unique(offsets, return_inverse=True)
    shown = pa.array([_offset(int(size)) for size in sizes], pa.utf8())
    return pc.binary_join_element_wise(texts, shown.take(pa.array(places)), "")


def _without_zeros(texts: pa.Array) -> pa.Array:
    """Return texts without zeros at the end of a fraction of seconds."""
    texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1")
    return pc.replace_substring_regex(texts, r"\.$", "")


def _offset(seconds: int) -> str:
    hours, rest = divmod(abs(seconds), 3_600)
    return f"{'-' if seconds < 0 else '+'}{hours:02}" + (f":{rest // 60:02}" if rest else "")


def _each(write: Callable[[Any], str]) -> Callable[[pa.Array], pa.Array]:
    """Return the function that writes each value of a column, some at a time, so that few are objects of Python at once."""

    def write_all(column: pa.Array) -> pa.Array:
        parts = (column.slice(start, _AT_ONCE).to_pylist() for start in range(0, len(column), _AT_ONCE))
        made = [pa.array([None if value is None else write(value) for value in part], pa.utf8()) for part in parts]
        return pa.concat_arrays([*made, pa.array([], pa.utf8())])

    return write_all


def _duration(column: pa.Array) -> pa.Array:
    return _each(lambda span: _interval(0, *_days_and_rest(span)))(column.cast(pa.duration("us")).view(pa.int64()))


def _days_and_rest(microseconds: int) -> tuple[int, int]:
    days, rest = divmod(abs(microseconds), _MICROSECONDS_OF_DAY)
    sign = -1 if microseconds < 0 else 1
    return sign * days, sign * rest * 1_000


def _interval(months: int, days: int, nanoseconds: int) -> str:
    years, months = int(months / _MONTHS_OF_YEAR), int(np.fmod(months, _MONTHS_OF_YEAR))
    counted = [(years, "year"), (months, "month"), (days, "day")]
    parts = [f"{count} {unit}{'' if abs(count) == 1 else 's'}" for count, unit in counted if count]
    return " ".join([*parts, _clock(nanoseconds)] if nanoseconds or not parts else parts)


def _clock(nanoseconds: int) -> str:
    seconds, fraction = divmod(abs(nanoseconds), _NANOSECONDS)
    minutes, seconds = divmod(seconds, 60)
    shown = f".{fraction:09}".rstrip("0") if fraction else ""
    return f"{'-' if nanoseconds < 0 else ''}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{shown}"


def _numbers(column: pa.Array) -> pa.Array:
    """Write doubles and floats, in the fewest digits that tell them from others; those in which zeros would stand have an exponent."""
    column = column.cast(pa.float32()) if types.is_float16(column.type) else column
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    sizes = np.abs(numbers)
    is_short = (sizes == 0) | ((sizes >= _LEAST_WITHOUT_EXPONENT) & (sizes < _MOST_OF_ARROW))
    texts = column.cast(pa.utf8())
    texts = pc.if_else(pc.match_substring(texts, "."), texts, _joined(texts, ".0"))
    if is_short.all():
        return texts
    others = numbers[~is_short]
    written = map(repr, others.tolist()) if others.dtype == np.float64 else map(_short_float, others)
    return pc.replace_with_mask(texts, pa.array(~is_short), pa.array(written, pa.utf8()))


def _short_float(number: np.floating[Any]) -> str:
    """Write a float of 32 bits as Python writes one of 64: with an exponent where more than 16 digits stood before the point.

    >>> [_short_float(np.float32(number)) for number in (1e15, 1e-5, "nan")]
    ['1000000000000000.0', '1e-05', 'nan']
    """
    if np.isfinite(number) and _LEAST_WITHOUT_EXPONENT <= np.abs(number) < _LEAST_EXPONENT:
        return np.format_float_positional(number, trim="0")
    return np.format_float_scientific(number, trim="-", exp_digits=2)


def _bytes(value: bytes) -> str:
    return "".join(chr(byte) if byte in _SHOWN_BYTES and byte != ord("\\") else f"\\x{byte:02X}" for byte in value)


def _within(values: pa.Array) -> pa.Array:
    """Return the texts of values within a list, struct or map: NULL by its name, texts in quotes where these are needed."""
    texts = value_texts([values])
    if not types.is_nested(values.type):
        texts = pc.if_else(pc.match_substring_regex(texts, _QUOTED), _quoted(texts), texts)
    return texts.fill_null(_NULL)


def _quoted(texts: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), "'", "\\'")
    return _joined("'", escaped, "'")


def _joined(*parts: pa.Array | str) -> pa.Array:
    """Return texts side by side; NULL where a part is."""
    return pc.binary_join_element_wise(*(pa.scalar(part) if isinstance(part, str) else part for part in parts), "")


def _list(column: pa.Array) -> pa.Array:
    return _joined("[", pc.binary_join(_lists(column, _within(pc.list_flatten(column))), ", "), "]")


def _map(column: pa.MapArray) -> pa.Array:
    kind = column.type
    entries = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    keys, values = (_within(part) for part in pc.list_flatten(entries).flatten())
    return _joined("{", pc.binary_join(_lists(entries, _joined(keys, "=", values)), ", "), "}")


def _lists(column: pa.Array, elements: pa.Array) -> pa.Array:
    """Return lists of other elements, in the place of those that a column of lists has."""
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, elements, mask=column.is_null())


def _struct(column: pa.StructArray) -> pa.Array:
    parts: list[pa.Array | str] = []
    for field, values in zip(column.type, column.flatten(), strict=True):
        parts += [f"{', ' if parts else ''}{_quoted(pa.array([field.name]))[0].as_py()}: ", _within(values)]
    shown = _joined("{", *parts, "}") if parts else pa.array(["{}"] * len(column), pa.utf8())
    return pc.if_else(column.is_valid(), shown, pa.scalar(None, pa.utf8()))


_MAKERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (types.is_dictionary, lambda column: value_texts([column.dictionary_decode()])),
    (types.is_date64, lambda column: column.cast(pa.date32()).cast(pa.utf8())),
    (types.is_timestamp, _moments),
    (types.is_time, lambda column: _without_zeros(column.cast(pa.utf8()))),
    (types.is_duration, _duration),
    (types.is_interval, _each(lambda value: _interval(*value))),
    (types.is_map, _map),
    (types.is_struct, _struct),
    (types.is_nested, _list),
    (types.is_floating, _numbers),
    (is_binary, _each(_bytes)),
)
"""What writes the texts of the types that Arrow writes otherwise."""
