"""Texts of dates, times and numbers that are cast, as DataFusion 55 reads them; a text that is none stays, and is refused by the cast.

DataFusion wants two digits of each part of a moment, its seconds, and hyphens in its date. A time is '10' to it, ten nanoseconds past
midnight. To an integer it casts whole numbers alone, to a decimal none with an exponent: DuckDB rounds the one, and reads the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import SqlError
from lance_flight.model.arrow_types import is_bytes

_SHORT_MOMENT = r"^\s*\d{4}(?:-\d{1,2}-\d{1,2}|/\d{1,2}/\d{1,2})(?:[T ]\s*\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d+)?)?)?(?:Z|\s*[+-]\d{1,2}(?::?\d{2})?)?\s*$"
"""Matches a date or a moment, with or without seconds and a zone, of which each part may have one digit."""
_LENGTHENED = (
    (r"^\s*(\d{4})/(\d+)/", r"\1-\2-"),
    (r"^\s*(\d{4})-(\d)-", r"\1-0\2-"),
    (r"^(\s*\d{4}-\d{2})-(\d)(\D|$)", r"\1-0\2\3"),
    (r"^(\s*\d{4}-\d{2}-\d{2})[T ]\s*(\d):", r"\1 0\2:"),
    (r"^(\s*\d{4}-\d{2}-\d{2})[T ]\s*(\d{2}):(\d)(\D|$)", r"\1 \2:0\3\4"),
    (r"^\s*(\d{4}-\d{2}-\d{2})[T ]\s*(\d{2}:\d{2})\s*(Z|[+-].*)?$", r"\1 \2:00\3"),
    (r"^\s*(.*?)\s*$", r"\1"),
)
"""Patterns of such texts with what DataFusion reads in their place, one after another."""
_ZONED = r"^(.*:\d{1,2}(?:\.\d+)?)(?:Z|\s*[+-]\d{1,2}(?::?\d{2})?)\s*$"
"""Matches a moment with a zone, and in a group what is before that."""
_TIME = r"^\s*(?:\d{4}[-/]\d{1,2}[-/]\d{1,2}[T ]\s*)?([01]?\d|2[0-3]):([0-5]?\d)((?::[0-5]?\d(?:\.\d+)?)?)\s*((?:[AaPp][Mm])?)\s*$"
NO_TIME = " (no time)"
_ODD_NUMBER = r"^\s*[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?\s*$"
_WHOLE, _PLAIN = r"^\s*[+-]?\d+\s*$", r"^[^eE_]*$"


def _moments(columns: Sequence[pa.Array], *, has_zone: bool) -> pa.Array:
    """Return texts of dates and moments with seconds and two digits of each part; a local time drops a zone behind it.

    >>> texts = [pa.array(["2024-1-5 9:30", "2024/01/05 10:00+02", "soon"])]
    >>> _moments(texts, has_zone=True).to_pylist()
    ['2024-01-05 09:30:00', '2024-01-05 10:00:00+02', 'soon']
    >>> _moments(texts, has_zone=False).to_pylist()
    ['2024-01-05 09:30:00', '2024-01-05 10:00:00', 'soon']
    """
    (texts,) = columns
    short = pc.match_substring_regex(texts, _SHORT_MOMENT)
    if not pc.any(short).as_py():
        return texts
    longer = texts
    for pattern, replacement in [*([] if has_zone else [(_ZONED, r"\1")]), *_LENGTHENED]:
        longer = pc.replace_substring_regex(longer, pattern, replacement)
    return pc.if_else(short, longer, texts)


def _times(columns: Sequence[pa.Array]) -> pa.Array:
    """Return texts of times with two digits of each part, without the date before one; other texts are made unreadable.

    >>> _times([pa.array(["9:5", "2024-01-05 10:30:15", "10:00 pm", "10", "10:00:60"])]).to_pylist()
    ['09:05', '10:30:15', '10:00 PM', '10 (no time)', '10:00:60 (no time)']
    """
    (texts,) = columns
    is_time = pc.match_substring_regex(texts, _TIME)
    longer = pc.utf8_upper(pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, _TIME, r"0\1:0\2\3 \4")))
    for part in (r"^()0?(\d\d:)", r"(:)0(\d\d)"):
        longer = pc.replace_substring_regex(longer, part, r"\1\2", max_replacements=1)
    return pc.if_else(is_time, longer, pc.binary_join_element_wise(texts, NO_TIME, ""))


def _numbers(columns: Sequence[pa.Array], *, is_whole: bool, is_rounded: bool = True) -> pa.Array:
    """Return texts of numbers without exponents; those that become whole are rounded, or stay where they are none.

    >>> texts = [pa.array(["2.5", "1e2", "-7", "1_000", "x", "1e-2"])]
    >>> _numbers(texts, is_whole=True).to_pylist(), _numbers(texts, is_whole=False).to_pylist()
    (['3', '100', '-7', '1000', 'x', '0'], ['2.5', '100', '-7', '1000', 'x', '0.01'])
    """
    (texts,) = columns
    odd = pc.and_not(
        pc.match_substring_regex(texts, _ODD_NUMBER), pc.match_substring_regex(texts, _WHOLE if is_whole else _PLAIN)
    )
    if not pc.any(odd).as_py():
        return texts
    found = texts.filter(odd).dictionary_encode()
    read = pa.array([_number(text, is_whole, is_rounded) for text in found.dictionary.to_pylist()], texts.type)
    return pc.replace_with_mask(texts, odd.fill_null(fill_value=False), read.take(found.indices))


def _number(text: str, is_whole: bool, is_rounded: bool) -> str:  # noqa: FBT001 - of one caller
    number = Decimal(text.strip().replace("_", ""))
    if not is_whole or number.adjusted() >= _MOST_DIGITS:
        return f"{number:f}"
    whole = number.quantize(Decimal(1), ROUND_HALF_UP)
    return f"{whole:f}" if is_rounded or whole == number else text


def _plain(columns: Sequence[pa.Array]) -> pa.Array:
    """Return texts that become bytes as they are; `SqlError` for one with a backslash, which begins bytes to PostgreSQL and DuckDB."""
    (texts,) = columns
    escaped = pc.match_substring(texts, "\\")
    if pc.any(escaped).as_py():
        text = texts.filter(escaped)[0].as_py()
        raise SqlError(
            f"{text[:60]!r} becomes binary, and systems read its backslash in different ways; write X'00ff' for bytes, or encode(s) for"
            " those of the text"
        )
    return texts


_ISO_INTERVAL = re.compile(
    r"\s*P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?\s*"
)
_ISO_UNITS = ("years", "months", "weeks", "days", "hours", "minutes", "seconds")
_CLOCK = re.compile(
    r"(?P<days>(?:^|(?<=\s))[+-]?\d+\s+)?(?<!\S)(?P<sign>[+-]?)(?P<hours>\d+):(?P<rest>[0-5]\d(?::[0-5]\d(?:\.\d+)?)?)(?!\S)"
)
_SECONDS = re.compile(r"\s*[+-]?\d+(?:\.\d+)?\s*")
_YEARS_AND_MONTHS = re.compile(r"(?<!\S)([+-]?)(\d+)-(\d{1,2})(?!\S)")
_QUARTERS = re.compile(r"(?<![\w.])([+-]?\d+)\s*quarters?\b", re.IGNORECASE)
_AGO, _COUNTED = re.compile(r"(?<=\S)\s+ago\s*$", re.IGNORECASE), re.compile(r"(?<![\w.])([+-]?)(?=[\d.])")


def _intervals(columns: Sequence[pa.Array]) -> pa.Array:
    """Return texts of intervals with a unit behind each number.

    >>> _intervals([pa.array(["1 day 02:00:00.5", "-1:30", "3 4:05", "1-2", "P1Y2DT3H", "2 days ago", "1 week", "5"])]).to_pylist()
    ['1 day 02 hours 00 minutes 00.5 seconds', '-1 hours -30 minutes', '3 days 4 hours 05 minutes', '1 years 2 months', '1 years 2 days 3 hours', '-2 days', '1 week', '5 seconds']
    """
    found = columns[0].dictionary_encode()
    read = pa.array(
        [None if text is None else _interval(text) for text in found.dictionary.to_pylist()], columns[0].type
    )
    return read.take(found.indices)


def _interval(text: str) -> str:
    iso = _ISO_INTERVAL.fullmatch(text)
    if iso is not None:
        return " ".join(f"{count} {unit}" for count, unit in zip(iso.groups(), _ISO_UNITS, strict=True) if count)
    if _SECONDS.fullmatch(text) is not None:
        return f"{text} seconds"
    text = _YEARS_AND_MONTHS.sub(r"\1\2 years \1\3 months", text)
    text = _QUARTERS.sub(lambda quarters: f"{3 * int(quarters[1])} months", _CLOCK.sub(_counted_clock, text))
    if _AGO.search(text) is not None:
        text = _COUNTED.sub(lambda sign: "" if sign[1] == "-" else "-", _AGO.sub("", text))
    return text


def _counted_clock(clock: re.Match[str]) -> str:
    sign, parts = clock["sign"], [clock["hours"], *clock["rest"].split(":")]
    counted = [f"{sign}{count} {unit}" for count, unit in zip(parts, _ISO_UNITS[-3:], strict=False)]
    return " ".join([f"{clock['days'].strip()} days", *counted] if clock["days"] else counted)


_FIELDS = ("year", "month"), ("day", "hour", "minute", "second")


def read_fields(text: str, first: str, last: str) -> str:
    """Return an interval of the fields from one unit to another, as `'3 1:30' DAY TO MINUTE`, in numbers with units.

    >>> read_fields("-1-2", "YEAR", "MONTH"), read_fields("3 1:30", "DAY", "MINUTE")
    ('-1 year -2 month', '3 day 1 hour 30 minute')
    """
    sign, numbers = "-" * text.strip().startswith("-"), re.split(r"[\s:-]+", text.strip().lstrip("+-"))
    for fields in _FIELDS:
        if {first.lower(), last.lower()} <= set(fields):
            units = fields[fields.index(first.lower()) : fields.index(last.lower()) + 1]
            if len(units) == len(numbers) and all(re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", number) for number in numbers):
                return " ".join(f"{sign}{number} {unit}" for number, unit in zip(numbers, units, strict=True))
    raise SqlError(
        f"INTERVAL {text[:60]!r} {first} TO {last} is none; expected '1-2' YEAR TO MONTH, '3 10:30:15' DAY TO SECOND, or '3 days 10 hours'"
    )


_MOST_DIGITS = 27
"""Most digits of a number that is rounded; one with more is beyond 64 bits."""
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "INT2", "INT4", "INT8", "INT64")
READABLE: Mapping[str, Callable[[Sequence[pa.Array]], pa.Array]] = MappingProxyType(
    {
        "readable_moment": partial(_moments, has_zone=True),
        "readable_local_time": partial(_moments, has_zone=False),
        "readable_time": _times,
        "readable_integer": partial(_numbers, is_whole=True),
        "readable_decimal": partial(_numbers, is_whole=False),
        "readable_interval": _intervals,
        "readable_binary": _plain,
    }
)
"""Functions of a text that is cast, by name."""
CAST_TO: Mapping[str, str] = MappingProxyType(
    {
        "TIMESTAMPTZ": "readable_moment",
        **dict.fromkeys(["TIMESTAMP", "DATETIME", "DATE"], "readable_local_time"),
        "TIME": "readable_time",
        **dict.fromkeys(_INTEGERS, "readable_integer"),
        **dict.fromkeys(["DECIMAL", "NUMERIC"], "readable_decimal"),
        "INTERVAL": "readable_interval",
        **dict.fromkeys(["BYTEA", "BLOB", "VARBINARY", "BINARY", "BYTES"], "readable_binary"),
    }
)
"""Types that a text is cast to, with the function that makes it readable."""
EXPECTED = MappingProxyType(
    {
        "TIME": "a time, as '10:30' or '10:30:15.25'",
        "DATE": "a date, as '2024-01-31'",
        "INTERVAL": "an interval, as '1 day 02:00:00'",
    }
)
_DATE = r"^\s*(?:\d{4}-\d\d-\d\d.*|\d{8})\s*$"


def readable_literal(kind: str, text: str) -> str | None:
    """Return a text that is cast to a type as DataFusion reads it; None for no date and no time.

    >>> readable_literal("DATE", "2024/1/5"), readable_literal("TIME", "10"), readable_literal("INT", "1.5")
    ('2024-01-05', None, '2')
    """
    texts = READABLE[CAST_TO[kind]]([pa.array([text])])
    is_unread = kind == "TIME" and pc.any(pc.ends_with(texts, NO_TIME)).as_py()
    is_unread |= kind == "DATE" and not pc.all(pc.match_substring_regex(texts, _DATE)).as_py()
    return None if is_unread else str(texts[0].as_py())


def readable_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return texts that are assigned to a column of a type as DataFusion reads them; a number is not rounded.

    >>> readable_texts(pa.array(["1e2", "1.5"]), pa.int32()).to_pylist()
    ['100', '1.5']
    """
    readers: tuple[tuple[bool, Callable[[Sequence[pa.Array]], pa.Array]], ...] = (
        (pa.types.is_timestamp(kind) and kind.tz is not None, partial(_moments, has_zone=True)),
        (pa.types.is_timestamp(kind) or pa.types.is_date(kind), partial(_moments, has_zone=False)),
        (pa.types.is_time(kind), _times),
        (pa.types.is_integer(kind), partial(_numbers, is_whole=True, is_rounded=False)),
        (pa.types.is_decimal(kind), partial(_numbers, is_whole=False)),
        (is_bytes(kind), _plain),
    )
    return next((read([texts]) for is_kind, read in readers if is_kind), texts)
