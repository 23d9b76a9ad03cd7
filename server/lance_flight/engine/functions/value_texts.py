"""Texts of values that DataFusion writes otherwise than DuckDB: moments, times, intervals, lists, structs and maps.

A timestamp is `2024-01-05 10:15:30.5`, one with a zone `2024-01-05 10:15:30.5+01`, as in PostgreSQL too. An interval is
`1 month 2 days 03:00:00`, a list `[1, NULL]`, a struct `{'a': 1}`, a map `{a=1}`. DataFusion 55 writes a T within timestamps, and
nothing for an element that is NULL, and knows no text of a struct.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
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
_QUOTED = re.compile(r"[,\[\]{}()'\":=\\]|^\s|\s$|^$|^null$", re.IGNORECASE)
"""Matches a text that stands in quotes within a list, struct or map, as in DuckDB."""
_MONTHS_OF_YEAR, _NANOSECONDS, _MICROSECONDS_OF_DAY = 12, 10**9, 86_400 * 10**6
_SHOWN_BYTES = range(ord(" "), 0x7F)


def has_own_text(kind: pa.DataType) -> bool:
    """Return whether the text of values of a type is made here, and not by a CAST of DataFusion."""
    kinds = (types.is_timestamp, types.is_time, types.is_interval, types.is_duration, types.is_nested)
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
    sizes = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes.to_numpy())]), pa.int32())
    return pa.ListArray.from_arrays(offsets, value_texts([pc.list_flatten(column)]), mask=column.is_null())


def _array(column: pa.Array, texts: Sequence[str | None]) -> pa.Array:
    return pa.array(texts, pa.utf8(), size=len(column))


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


def _each(write: Callable[..., str]) -> Callable[[pa.Array], pa.Array]:
    """Return the function that writes each value of a column that is not NULL."""
    return lambda column: _array(column, [None if value is None else write(value) for value in column.to_pylist()])


def _duration(column: pa.Array) -> pa.Array:
    spans = column.cast(pa.duration("us")).view(pa.int64()).to_pylist()
    return _array(column, [None if span is None else _interval(0, *_days_and_rest(span)) for span in spans])


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


def _number(value: float, kind: type[np.floating[Any]], shown: range) -> str:
    """Return the text of a double, as DataFusion's CAST writes it: `1e20`, `inf`, `NaN`; without an exponent that is `shown` in zeros."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else str(value)
    number = kind(value)
    scientific = np.format_float_scientific(number, trim="-", exp_digits=1).replace("e+", "e")
    is_short = int(scientific.partition("e")[2]) in shown
    return np.format_float_positional(number, trim="0") if is_short else scientific


def _bytes(value: bytes) -> str:
    return "".join(chr(byte) if byte in _SHOWN_BYTES and byte != ord("\\") else f"\\x{byte:02X}" for byte in value)


def _within(values: pa.Array) -> list[str]:
    """Return the texts of values within a list, struct or map: NULL by its name, texts in quotes where these are needed."""
    texts = value_texts([values]).to_pylist()
    if types.is_nested(values.type):
        return [_NULL if text is None else text for text in texts]
    return [_NULL if text is None else _quoted(text) if _QUOTED.search(text) else text for text in texts]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _list(column: pa.Array) -> pa.Array:
    return _lists(column, "[{}]", _within(pc.list_flatten(column)))


def _map(column: pa.MapArray) -> pa.Array:
    kind = column.type
    entries = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    keys, values = (_within(part) for part in pc.list_flatten(entries).flatten())
    return _lists(entries, "{{{}}}", [f"{key}={value}" for key, value in zip(keys, values, strict=True)])


def _lists(column: pa.Array, form: str, items: Sequence[str]) -> pa.Array:
    """Return the texts of lists or maps, of those of all their items in order."""
    sizes, made, place = pc.list_value_length(column).to_pylist(), [], 0
    for size in sizes:
        made.append(None if size is None else form.format(", ".join(items[place : place + size])))
        place += size or 0
    return _array(column, made)


def _struct(column: pa.StructArray) -> pa.Array:
    names = [_quoted(field.name) for field in column.type]
    fields = [_within(field) for field in column.flatten()]
    rows = zip(*fields, strict=True) if fields else iter([()] * len(column))
    valid = column.is_valid().to_pylist()
    return _array(
        column,
        [
            f"{{{', '.join(f'{name}: {value}' for name, value in zip(names, row, strict=True))}}}" if is_valid else None
            for row, is_valid in zip(rows, valid, strict=True)
        ],
    )


_MAKERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (types.is_dictionary, lambda column: value_texts([column.dictionary_decode()])),
    (types.is_timestamp, _moments),
    (types.is_time, lambda column: _without_zeros(column.cast(pa.utf8()))),
    (types.is_duration, _duration),
    (types.is_interval, _each(lambda value: _interval(*value))),
    (types.is_map, _map),
    (types.is_struct, _struct),
    (types.is_nested, _list),
    (types.is_float64, _each(partial(_number, kind=np.float64, shown=range(-5, 16)))),
    (types.is_floating, _each(partial(_number, kind=np.float32, shown=range(-6, 13)))),
    (is_binary, _each(_bytes)),
)
"""What writes the texts of the types that Arrow writes otherwise."""
