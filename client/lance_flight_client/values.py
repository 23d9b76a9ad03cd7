"""Text of values: one formatter of every Arrow type for terminals, the console and exported files."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum, auto
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

_TEXT = pa.large_utf8()
_SECOND = MappingProxyType({"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000})
_DIGITS = MappingProxyType({"s": 0, "ms": 3, "us": 6, "ns": 9})
_DAY = 86_400
_EPOCH = date(1970, 1, 1).toordinal() - 1
"""Days before 1970 since the first of January of the year 1."""
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""The calendar repeats itself after so many years, or days."""
_UTC_ZONES = frozenset({"UTC", "Z", "Etc/UTC", "+00:00"})
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")


class Form(Enum):
    """Forms of texts, which styles enclose in their own way."""

    NUMBER = auto()
    EXACT = auto()
    WORD = auto()
    MOMENT = auto()
    TEXT = auto()
    BYTES = auto()
    NESTED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Way in which values are written: what encloses the text of each form within others, and the signs of maps."""

    null: str
    clock: str
    enclosed: Mapping[Form, Callable[[str], str]]
    binary: Callable[[bytes], str]
    map_form: str
    pair_form: str
    has_unique_names: bool = False


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_string = partial(json.dumps, ensure_ascii=False)


def _json_number(text: str) -> str:
    return _NOT_FINITE.get(text, text)


_NOT_FINITE = MappingProxyType({"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'})
"""JSON has no such numbers; these are PostgreSQL's texts of them."""

SQL = Style(
    null="NULL",
    clock=" ",
    enclosed=MappingProxyType({Form.TEXT: _literal}),
    binary=lambda value: f"X'{value.hex().upper()}'",
    map_form="{{{}}}",
    pair_form="{}={}",
)
"""Style of a terminal and of the console: texts have quotes within lists, structs and maps."""
JSON = Style(
    null="null",
    clock="T",
    enclosed=MappingProxyType(
        {Form.NUMBER: _json_number, **dict.fromkeys((Form.EXACT, Form.MOMENT, Form.TEXT, Form.BYTES), _string)}
    ),
    binary=lambda value: f"\\x{value.hex()}",
    map_form="[{}]",
    pair_form="[{}, {}]",
    has_unique_names=True,
)
"""Style of JSON: exact numbers, moments and bytes (as PostgreSQL writes them) are strings, a map is a list of pairs."""


def texts(column: pa.Array | pa.ChunkedArray, style: Style = SQL, most: int | None = None) -> list[str | None]:
    """Return the text of each value, None for NULL; of lists and bytes no more than `most` elements are written.

    >>> texts(pa.array([1.0, None, float("nan")])), texts(pa.array([1, -(2**62)], pa.timestamp("ns", "UTC")))
    (['1.0', None, 'nan'], ['1970-01-01 00:00:00.000000001+00:00', '1823-11-12 00:06:21.572612096+00:00'])
    >>> texts(pa.array([[None, "a'b"]])), texts(pa.array([{"t": True, "d": b"a"}])), texts(pa.array([2**62], pa.timestamp("s")))
    (["[NULL, 'a''b']"], ["{'t': true, 'd': X'61'}"], ['146138514283-06-19 07:45:04'])
    """
    if isinstance(column, pa.ChunkedArray):
        return [text for chunk in column.chunks for text in texts(chunk, style, most)]
    return list(write_values(column, style, most).to_pylist())


def write_values(column: pa.Array, style: Style, most: int | None = None) -> pa.Array:
    """Return the text of each value as an array of large UTF-8."""
    return _writer_of(column.type)[1](column, style, most)


def form_of(kind: pa.DataType) -> Form:
    """Return the form that texts of a type have."""
    return _writer_of(kind)[0]


def write_enclosed(column: pa.Array, style: Style, most: int | None = None) -> list[str]:
    """Return the text of each value as it stands within another, or in a document of JSON.

    >>> write_enclosed(pa.array([{"n": 1.5, "t": None}, {"n": float("inf"), "t": "a"}]), JSON)
    ['{"n": 1.5, "t": null}', '{"n": "Infinity", "t": "a"}']
    """
    form, write = _writer_of(column.type)
    enclose = style.enclosed.get(form)
    shown = write(column, style, most).to_pylist()
    return [style.null if text is None else text if enclose is None else enclose(text) for text in shown]


def _array(shown: Iterable[str | None]) -> pa.Array:
    return pa.array(shown, _TEXT)


def _cast(column: pa.Array, *_: object) -> pa.Array:
    return column.cast(_TEXT)


def _float(column: pa.Array, *_: object) -> pa.Array:
    # Arrow writes the number 2.0 as 2, which is read as a whole number again.
    shown = column.cast(_TEXT)
    return pc.replace_substring_regex(shown, r"^(-?\d+)$", r"\1.0")


def _decimal(column: pa.Array, *_: object) -> pa.Array:
    return _array(None if value is None else f"{value:f}" for value in column.to_pylist())


def _string_column(column: pa.Array, *_: object) -> pa.Array:
    found = column.cast(_TEXT) if column.type != _TEXT else column
    try:
        found.validate(full=True)
    except pa.ArrowInvalid:
        # A file may hold bytes that are no UTF-8.
        found = _array(None if value is None else value.decode(errors="replace") for value in _bytes_of(column))
    return found


def _bytes_of(column: pa.Array) -> Sequence[bytes | None]:
    as_bytes = column.view(pa.binary_view()) if pa.types.is_string_view(column.type) else column.cast(pa.large_binary())
    return list(as_bytes.to_pylist())


def _binary(column: pa.Array, style: Style, most: int | None) -> pa.Array:
    return _array(None if value is None else style.binary(value[:most]) for value in column.to_pylist())


def _whole(column: pa.Array) -> Sequence[int | None]:
    return list(column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()).to_pylist())  # noqa: PLR2004 - bits


def _days(column: pa.Array, style: Style, _: int | None) -> pa.Array:
    per_day = _DAY * 1_000 if column.type == pa.date64() else 1
    return _array(None if value is None else _day(value // per_day) for value in _whole(column))


def _day(days: int) -> str:
    """Return a day since 1970 as PostgreSQL writes it, also beyond the years that Python has."""
    year, rest = _date(days)
    return f"{year:04}-{rest}" if year > 0 else f"{1 - year:04}-{rest} BC"


def _date(days: int) -> tuple[int, str]:
    """Return the year, 0 for 1 BC, and the month and day."""
    cycles, day = divmod(days + _EPOCH, _CYCLE_DAYS)
    day_of_cycle = date.fromordinal(day + 1)
    return day_of_cycle.year + _CYCLE_YEARS * cycles, f"{day_of_cycle.month:02}-{day_of_cycle.day:02}"


def _times(column: pa.Array, *_: object) -> pa.Array:
    unit = column.type.unit
    return _array(None if value is None else _time(value, unit) for value in _whole(column))


def _time(value: int, unit: str) -> str:
    seconds, fraction = divmod(value, _SECOND[unit])
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_fraction(fraction, unit)}"


def _fraction(value: int, unit: str) -> str:
    return f".{value:0{_DIGITS[unit]}}".rstrip("0") if value else ""


_FIRST, _LAST = -_EPOCH * _DAY, (date(9999, 12, 31).toordinal() - _EPOCH) * _DAY - 1
"""Seconds since 1970 in which years have four digits."""


def _moments(column: pa.Array, style: Style, _: int | None) -> pa.Array:
    unit, zone = column.type.unit, column.type.tz
    numbers = column.view(pa.int64())
    bounds = pc.min_max(numbers)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    is_usual = low is None or (low // _SECOND[unit] >= _FIRST and high // _SECOND[unit] <= _LAST)
    if is_usual and (zone is None or zone in _UTC_ZONES):
        shown = pc.replace_substring(numbers.view(pa.timestamp(unit)).cast(_TEXT), " ", style.clock)
        shown = pc.replace_substring_regex(shown, r"\.0+$", "")
        shown = pc.replace_substring_regex(shown, r"(\.\d*[1-9])0+$", r"\1")
        return (
            shown
            if zone is None
            else pc.binary_join_element_wise(shown, pa.scalar("+00:00", _TEXT), pa.scalar("", _TEXT))
        )
    return _array(None if value is None else _moment(value, unit, zone, style.clock) for value in numbers.to_pylist())


def _moment(value: int, unit: str, zone: str | None, clock: str) -> str:
    seconds, fraction = divmod(value, _SECOND[unit])
    offset = 0 if zone is None else _offset(zone, seconds)
    days, second = divmod(seconds + offset, _DAY)
    year, rest = _date(days)
    era, year = ("", year) if year > 0 else (" BC", 1 - year)
    shift = "" if zone is None else _shift(offset)
    return f"{year:04}-{rest}{clock}{_time(second, 's')}{_fraction(fraction, unit)}{shift}{era}"


def _shift(offset: int) -> str:
    sign, size = "-" if offset < 0 else "+", abs(offset)
    return f"{sign}{size // 3600:02}:{size // 60 % 60:02}" + (f":{size % 60:02}" if size % 60 else "")


def _offset(zone: str, seconds: int) -> int:
    """Return the seconds that a zone is ahead of UTC; 0 of a zone that is not known, and beyond the years of Python."""
    fixed = _OFFSET.fullmatch(zone)
    if fixed is not None:
        return (-1 if fixed[1] == "-" else 1) * (int(fixed[2]) * 3600 + int(fixed[3]) * 60)
    known = _zone(zone)
    if known is None or not _FIRST + _DAY <= seconds <= _LAST - _DAY:
        return 0
    shift = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(known).utcoffset()
    return 0 if shift is None else int(shift.total_seconds())


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _durations(column: pa.Array, *_: object) -> pa.Array:
    unit = column.type.unit
    return _array(None if value is None else _duration(value, unit) for value in _whole(column))


def _duration(value: int, unit: str) -> str:
    seconds, fraction = divmod(abs(value), _SECOND[unit])
    days, seconds = divmod(seconds, _DAY)
    sign = "-" if value < 0 else ""
    parts = [f"{sign}{days} days"] if days else []
    parts += [f"{sign}{seconds}{_fraction(fraction, unit)} seconds"] if seconds or fraction or not days else []
    return " ".join(parts)


def _intervals(column: pa.Array, *_: object) -> pa.Array:
    return _array(None if value is None else _interval(*value) for value in column.to_pylist())


def _interval(months: int, days: int, nanoseconds: int) -> str:
    seconds, fraction = divmod(abs(nanoseconds), _SECOND["ns"])
    sign = "-" if nanoseconds < 0 else ""
    parts = [f"{months} months"] if months else []
    parts += [f"{days} days"] if days else []
    parts += [f"{sign}{seconds}{_fraction(fraction, 'ns')} seconds"] if nanoseconds or not parts else []
    return " ".join(parts)


def _lists(column: pa.Array, style: Style, most: int | None) -> pa.Array:
    return _array(
        f"[{', '.join(write_enclosed(scalar.values.slice(0, most), style, most))}]" if scalar.is_valid else None
        for scalar in column
    )


def _maps(column: pa.Array, style: Style, most: int | None) -> pa.Array:
    def text(entries: pa.StructArray) -> str:
        keys, items = (write_enclosed(entries.field(place), style, most) for place in (0, 1))
        return style.map_form.format(", ".join(map(style.pair_form.format, keys, items)))

    return _array(text(scalar.values.slice(0, most)) if scalar.is_valid else None for scalar in column)


def _structs(column: pa.StructArray, style: Style, most: int | None) -> pa.Array:
    given = [field.name for field in column.type]
    named = style.enclosed[Form.TEXT]
    names = [named(name) for name in (unique(given) if style.has_unique_names else given)]
    columns = [write_enclosed(column.field(place), style, most) for place in range(len(names))]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(column))
    valid = column.is_valid().to_pylist()
    return _array(
        "{" + ", ".join(f"{name}: {text}" for name, text in zip(names, row, strict=True)) + "}" if is_valid else None
        for row, is_valid in zip(rows, valid, strict=True)
    )


def unique(names: Sequence[str]) -> list[str]:
    """Return names of which no two are equal: a second one gets a number, as in DuckDB.

    >>> unique(["a", "b", "a", "a"])
    ['a', 'b', 'a_1', 'a_2']
    """
    taken, names_so_far = set(names), list[str]()
    for name in names:
        number, free = 0, name
        while free in names_so_far or (number and free in taken):
            number += 1
            free = f"{name}_{number}"
        names_so_far.append(free)
    return names_so_far


def _dictionaries(column: pa.DictionaryArray, style: Style, most: int | None) -> pa.Array:
    known: dict[int, str | None] = {}

    def text(index: int | None) -> str | None:
        if index is not None and index not in known:
            known[index] = texts(column.dictionary.slice(index, 1), style, most)[0]
        return None if index is None else known[index]

    return _array(map(text, column.indices.to_pylist()))


def _runs(column: pa.RunEndEncodedArray, style: Style, most: int | None) -> pa.Array:
    ends, shown = column.run_ends.to_pylist(), texts(column.values, style, most)
    return _array(shown[bisect_right(ends, column.offset + place)] for place in range(len(column)))


def _unions(column: pa.UnionArray, style: Style, most: int | None) -> pa.Array:
    return _array(
        write_enclosed(pa.repeat(scalar.value, 1), style, most)[0] if scalar.is_valid else None for scalar in column
    )


def _extensions(column: pa.ExtensionArray, style: Style, most: int | None) -> pa.Array:
    if isinstance(column.type, pa.UuidType):
        return _array(None if value is None else str(value) for value in column.to_pylist())
    if isinstance(column.type, pa.Bool8Type):
        return _cast(column.storage.cast(pa.bool_()))
    return write_values(column.storage, style, most)


Write: TypeAlias = Callable[[pa.Array, Style, int | None], pa.Array]
_kinds = pa.types

_WRITERS: Sequence[tuple[Callable[[pa.DataType], bool], Form, Write]] = (
    (_kinds.is_null, Form.WORD, _cast),
    (_kinds.is_boolean, Form.WORD, _cast),
    (_kinds.is_integer, Form.NUMBER, _cast),
    (_kinds.is_floating, Form.NUMBER, _float),
    (_kinds.is_decimal, Form.EXACT, _decimal),
    (_kinds.is_string, Form.TEXT, _string_column),
    (_kinds.is_large_string, Form.TEXT, _string_column),
    (_kinds.is_string_view, Form.TEXT, _string_column),
    (_kinds.is_binary, Form.BYTES, _binary),
    (_kinds.is_large_binary, Form.BYTES, _binary),
    (_kinds.is_binary_view, Form.BYTES, _binary),
    (_kinds.is_fixed_size_binary, Form.BYTES, _binary),
    (_kinds.is_date, Form.MOMENT, _days),
    (_kinds.is_time, Form.MOMENT, _times),
    (_kinds.is_timestamp, Form.MOMENT, _moments),
    (_kinds.is_duration, Form.MOMENT, _durations),
    (_kinds.is_interval, Form.MOMENT, _intervals),
    (_kinds.is_map, Form.NESTED, _maps),
    (_kinds.is_struct, Form.NESTED, _structs),
    (_kinds.is_union, Form.NESTED, _unions),
    (_kinds.is_list, Form.NESTED, _lists),
    (_kinds.is_large_list, Form.NESTED, _lists),
    (_kinds.is_fixed_size_list, Form.NESTED, _lists),
    (_kinds.is_list_view, Form.NESTED, _lists),
    (_kinds.is_large_list_view, Form.NESTED, _lists),
)
"""Types, the forms of their texts, and what writes a column of each."""

_EXTENSION_FORMS = MappingProxyType({pa.UuidType: Form.TEXT, pa.Bool8Type: Form.WORD})


def _writer_of(kind: pa.DataType) -> tuple[Form, Write]:
    """Return the form of a type, that of its values where it encodes them, and its writer."""
    if isinstance(kind, pa.BaseExtensionType):
        return _EXTENSION_FORMS.get(type(kind)) or form_of(kind.storage_type), _extensions
    if _kinds.is_dictionary(kind) or _kinds.is_run_end_encoded(kind):
        return form_of(kind.value_type), _dictionaries if _kinds.is_dictionary(kind) else _runs
    return next((form, write) for is_kind, form, write in _WRITERS if is_kind(kind))
