"""Spans between moments, moments of numbers and of texts, and numbers of moments, for every moment of a column.

Of a moment with a zone, days and longer units are those of its local time. PostgreSQL and DuckDB give the same spans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_flight.engine.functions.date_functions import first_days, moments_as, months_of, null_rows
from lance_flight.errors import SqlError
from lance_flight.model.zones import TICKS, UTC, named_zone, zone_of

Integers = npt.NDArray[np.int64]

MICROSECONDS, INTERVAL = pa.timestamp("us"), pa.month_day_nano_interval()
_SECOND, _DAY = 10**6, 86_400 * 10**6
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_SIZES = {"week": 7 * _DAY, "day": _DAY, "hour": 3_600 * _SECOND, "minute": 60 * _SECOND}
_SIZES |= {"second": _SECOND, "millisecond": 1_000, "microsecond": 1}
_ON_THE_CLOCK = frozenset([*_MONTHS, "week", "day"])
_PARTS = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
PRODUCT = "interval_times"
"""Function of a number, and of the months, days and nanoseconds of an interval, which products are written as."""
INTERVAL_LENGTH, INTERVAL_OF = "interval_length", "interval_of"
LOCAL_MOMENT = "local_moment"
"""Functions that give the length of an interval in microseconds, and the interval of a duration."""
_MOST_DAYS = 100_000_000
"""Most days of an interval that is compared, whose microseconds fit into 64 bits."""
_DAYS_OF_MONTH, _SECONDS_OF_MONTH = 30, 31 * 86_400


def _microseconds(column: pa.Array, *, is_local: bool) -> Integers:
    """Return moments as microseconds since 1970, by the clock of their zone or by UTC."""
    kind = column.type if types.is_timestamp(column.type) else MICROSECONDS
    ticks = moments_as(column, kind).view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    per_second = TICKS[kind.unit]
    micros: Integers = ticks // (per_second // _SECOND) if per_second > _SECOND else ticks * (_SECOND // per_second)
    zone = zone_of(kind) or UTC
    if not is_local or zone is UTC:
        return micros
    seconds = micros // _SECOND
    return micros + (zone.local(seconds) - seconds) * _SECOND


def _months_of(micros: Integers) -> tuple[Integers, Integers]:
    """Return the months since 1970 of moments, and the microseconds of each since its month began."""
    months = months_of(micros // _DAY)
    return months, micros - first_days(months) * _DAY


def _last_days(months: Integers) -> Integers:
    """Return the number of days of each month."""
    return first_days(months + 1) - first_days(months)


def _count_starts(unit: str, a: pa.Array, b: pa.Array) -> Integers:
    """Return the starts of a unit between moments."""
    first, last = (_microseconds(each, is_local=unit in _ON_THE_CLOCK) for each in (a, b))
    if unit in _MONTHS:
        (first, _), (last, _) = _months_of(first), _months_of(last)
        return last // _MONTHS[unit] - first // _MONTHS[unit]
    if unit == "week":  # seven days from the first moment, as in DuckDB
        return _towards_zero(last // _DAY - first // _DAY, 7)
    return last // _SIZES[unit] - first // _SIZES[unit]


def _whole(unit: str, a: pa.Array, b: pa.Array) -> Integers:
    """Return the whole units between moments."""
    first, last = (_microseconds(value, is_local=unit in _ON_THE_CLOCK) for value in (a, b))
    if unit not in _MONTHS:
        return _towards_zero(last - first, _SIZES[unit])
    return _towards_zero(_months_between(first, last), _MONTHS[unit])


def _towards_zero(values: Integers, size: int) -> Integers:
    return np.asarray(np.sign(values) * (np.abs(values) // size))


def _months_between(first: Integers, last: Integers) -> Integers:
    """Return the whole months between moments; from the 31st to the last day of a shorter month is one."""
    (begun, since), (ended, until) = _months_of(first), _months_of(last)
    months = ended - begun
    is_end = (
        (until // _DAY + 1 == _last_days(ended)) & (since // _DAY >= until // _DAY) & (until % _DAY >= since % _DAY)
    )
    is_begin = (
        (since // _DAY + 1 == _last_days(begun)) & (until // _DAY >= since // _DAY) & (since % _DAY >= until % _DAY)
    )
    months -= (months > 0) & (until < since) & ~is_end
    months += (months < 0) & (until > since) & ~is_begin
    return months


def _spans(compute: Callable[[str, pa.Array, pa.Array], Integers], columns: Sequence[pa.Array]) -> pa.Array:
    missing = null_rows(columns)
    unit = columns[0][0].as_py() if len(columns[0]) else None
    # Values are one value where each equals the next, which takes a fifth of comparing them with it.
    if unit is not None and columns[0][1:].equals(columns[0][:-1]):
        return pa.array(_known_value(compute, unit, columns[1:]), mask=missing)
    units, counts = columns[0].dictionary_encode(), np.zeros(len(columns[0]), np.int64)
    codes = units.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for number, unit in enumerate(units.dictionary.to_pylist()):
        among = codes == number
        counts[among] = _known_value(compute, unit, [column.filter(pa.array(among)) for column in columns[1:]])
    return pa.array(counts, mask=missing)


def _known_value(
    compute: Callable[[str, pa.Array, pa.Array], Integers], unit: str, columns: Sequence[pa.Array]
) -> Integers:
    if unit not in _MONTHS and unit not in _SIZES:
        raise SqlError(f"date_diff knows no unit {unit!r}; expected {', '.join([*_MONTHS, *_SIZES])}")
    return compute(unit, *columns)


def compute_date_diff(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute date_diff.

    >>> days = [pa.array([datetime(2024, 1, 31)]), pa.array([datetime(2024, 2, 1)])]
    >>> compute_date_diff([pa.array(["month"]), *days]).to_pylist(), spans([pa.array(["month"]), *days]).to_pylist()
    ([1], [0])
    """
    return _spans(_count_starts, columns)


def spans(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute date_sub of two moments: whole units."""
    return _spans(_whole, columns)


def ages(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute age: from the second moment to the first one in months, then days, then times, each of one sign."""
    missing = null_rows(columns)
    last, first = (_microseconds(column, is_local=True) for column in columns)
    is_back = last < first
    early, late = np.minimum(first, last), np.maximum(first, last)
    (begun, since), (ended, until) = _months_of(early), _months_of(late)
    months, days, rest = ended - begun, until // _DAY - since // _DAY, until % _DAY - since % _DAY
    days, rest = days - (rest < 0), rest + (rest < 0) * _DAY
    # The days that are borrowed are those of the earlier moment's month.
    months, days = months - (days < 0), days + (days < 0) * _last_days(begun)
    sign = np.where(is_back, -1, 1)
    found = np.zeros(len(missing), _PARTS)
    found["months"], found["days"], found["nanoseconds"] = months * sign, days * sign, rest * sign * 1_000
    return _intervals(found, missing)


def _intervals(found: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> pa.Array:
    valid = pa.array(~missing).buffers()[1] if missing.any() else None
    return pa.Array.from_buffers(INTERVAL, len(found), [valid, pa.py_buffer(found)])


def last_days(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute last_day."""
    days = months_of(_microseconds(columns[0], is_local=True) // _DAY)
    return pa.array(first_days(days + 1) - 1, mask=null_rows(columns)).cast(pa.int32()).view(pa.date32())


def months_between(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute Spark's months_between: whole months between last days and equal days, else parts of 31 days, to eight digits."""
    last, first = (_microseconds(column, is_local=True) for column in columns)
    (begun, since), (ended, until) = _months_of(first), _months_of(last)
    is_whole = since // _DAY == until // _DAY
    is_whole |= (since // _DAY + 1 == _last_days(begun)) & (until // _DAY + 1 == _last_days(ended))
    parts = np.where(is_whole, 0, (until - since) / _SECOND / _SECONDS_OF_MONTH)
    return pa.array(np.round(ended - begun + parts, 8), mask=null_rows(columns))


def seconds_since_1970(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute epoch: seconds since 1970, since midnight of a time, and those of an interval."""
    if types.is_interval(columns[0].type):
        return pa.array(
            [
                None
                if span is None
                else _seconds_of_months(span.months) + span.days * 86_400 + span.nanoseconds / 10**9
                for span in columns[0].to_pylist()
            ],
            pa.float64(),
        )
    if types.is_duration(columns[0].type):
        return pc.divide(interval_lengths(columns).cast(pa.float64(), safe=False), float(_SECOND))
    if types.is_time(columns[0].type):
        return pc.divide(columns[0].cast(pa.time64("us")).view(pa.int64()).cast(pa.float64()), float(_SECOND))
    return pa.array(_microseconds(columns[0], is_local=False) / _SECOND, mask=null_rows(columns))


def within_minute(per_second: int, columns: Sequence[pa.Array]) -> pa.Array:
    """Compute millisecond, microsecond and nanosecond: the seconds of a minute with their fraction, below zero in negative spans."""
    (column,) = columns
    if types.is_interval(column.type):
        parts = np.frombuffer(column.buffers()[1], _PARTS)[column.offset : column.offset + len(column)]
        rest, ticks = np.fmod(parts["nanoseconds"], 60 * _NANOSECONDS), _NANOSECONDS
    elif types.is_duration(column.type):
        ticks = TICKS[column.type.unit]
        rest = np.fmod(column.view(pa.int64()).fill_null(0).to_numpy(), 60 * ticks)
    elif types.is_time(column.type):
        rest, ticks = column.cast(pa.time64("ns")).view(pa.int64()).fill_null(0).to_numpy(), _NANOSECONDS
        rest = rest % (60 * ticks)
    elif types.is_timestamp(column.type) and column.type.unit == "ns":
        shift = _microseconds(column, is_local=True) - _microseconds(column, is_local=False)
        ticks = _NANOSECONDS
        rest = (column.view(pa.int64()).fill_null(0).to_numpy() % (60 * ticks) + shift * 1_000) % (60 * ticks)
    else:
        rest, ticks = _microseconds(column, is_local=True) % (60 * _SECOND), _SECOND
    if ticks <= per_second:
        return pa.array(rest * (per_second // ticks), mask=null_rows(columns))
    return pa.array(np.sign(rest) * (np.abs(rest) // (ticks // per_second)), mask=null_rows(columns))


def _seconds_of_months(months: int) -> float:
    """Return the seconds of years of 365.25 days and months of 30, as PostgreSQL has them."""
    years, rest = divmod(abs(months), 12)
    seconds = (years * 365.25 + rest * _DAYS_OF_MONTH) * 86_400
    return -seconds if months < 0 else seconds


def since_1970(per_second: int, columns: Sequence[pa.Array]) -> pa.Array:
    """Compute epoch_ms, epoch_us and epoch_ns; epoch_ms of numbers is their timestamp."""
    (column,) = columns
    if types.is_integer(column.type):
        return pc.multiply_checked(column.cast(pa.int64()), _SECOND // per_second).view(MICROSECONDS)
    if types.is_timestamp(column.type) and TICKS[column.type.unit] >= per_second:
        return _divide(column.view(pa.int64()), TICKS[column.type.unit] // per_second)
    micros = pa.array(_microseconds(column, is_local=False), mask=null_rows(columns))
    return (
        _divide(micros, _SECOND // per_second)
        if per_second <= _SECOND
        else pc.multiply_checked(micros, per_second // _SECOND)
    )


def _divide(column: pa.Array, size: int) -> pa.Array:
    return pa.array(column.fill_null(0).to_numpy() // size, mask=column.is_null().to_numpy(zero_copy_only=False))


def interval_lengths(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute the lengths of intervals and durations in microseconds, of months with thirty days, as PostgreSQL compares them."""
    (column,) = columns
    if types.is_duration(column.type):
        return column.cast(pa.duration("us"), safe=False).view(pa.int64())
    parts = np.frombuffer(column.buffers()[1], _PARTS)[column.offset : column.offset + len(column)]
    days = parts["months"].astype(np.int64) * _DAYS_OF_MONTH + parts["days"]
    if (np.abs(days) > _MOST_DAYS).any():
        raise SqlError(f"an INTERVAL of more than {_MOST_DAYS:,} days is not compared")
    return pa.array(days * _DAY + parts["nanoseconds"] // 1_000, mask=null_rows(columns))


def count_years(size: int, columns: Sequence[pa.Array]) -> pa.Array:
    """Compute the number of the hundred or thousand years that a date lies in, from 1, or the whole ones of an interval."""
    (column,) = columns
    if types.is_null(column.type):
        return column.cast(pa.int64())
    if types.is_duration(column.type):
        return pc.if_else(column.is_valid(), pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
    if types.is_interval(column.type):
        parts = np.frombuffer(column.buffers()[1], _PARTS)[column.offset : column.offset + len(column)]
        return pa.array(np.fix(parts["months"] / (12 * size)).astype(np.int64), mask=null_rows(columns))
    years = pc.year(column).fill_null(1).to_numpy(zero_copy_only=False)
    return pa.array(np.where(years > 0, (years - 1) // size + 1, -(-years // size) - 1), mask=null_rows(columns))


def durations_of(intervals: pa.Array) -> pa.Array:
    """Make durations of intervals without months, which have no length of their own."""
    parts = np.frombuffer(intervals.buffers()[1], _PARTS)[intervals.offset : intervals.offset + len(intervals)]
    if (parts["months"] != 0)[intervals.is_valid().to_numpy(zero_copy_only=False)].any():
        raise SqlError("an INTERVAL with months or years has no length; expected days and times alone")
    return interval_lengths([intervals]).view(pa.duration("us"))


def intervals_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Make intervals of durations: whole days, and the rest of a day."""
    ticks = columns[0].cast(pa.duration("us"), safe=False).view(pa.int64()).fill_null(0).to_numpy()
    days = np.sign(ticks) * (np.abs(ticks) // _DAY)
    if (np.abs(days) > np.iinfo(np.int32).max).any():
        raise SqlError("a difference of more than 2,147,483,647 days has no parts")
    parts = np.zeros(len(ticks), _PARTS)
    parts["days"], parts["nanoseconds"] = days, (ticks - days * _DAY) * 1_000
    intervals = pa.Array.from_buffers(INTERVAL, len(ticks), [None, pa.py_buffer(parts)])
    return pc.if_else(columns[0].is_valid(), intervals, pa.scalar(None, INTERVAL))


def days_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Return whole numbers as intervals of days, and intervals as they are."""
    (column,) = columns
    if types.is_interval(column.type):
        return column
    days = column.cast(pa.int64()).fill_null(0).to_numpy()
    if (np.abs(days) >= 2**31).any():
        raise SqlError("a number of days is beyond 2147483647")
    found = np.zeros(len(days), _PARTS)
    found["days"] = days
    return _intervals(found, null_rows(columns))


def multiply_intervals(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute interval_times: numbers of one interval, parts of whose months are days, thirty to a month, and parts of days times."""
    missing = null_rows(columns)
    counts = columns[0].fill_null(0).to_numpy(zero_copy_only=False)
    months, days, times = (column[0].as_py() or 0 for column in columns[1:]) if len(columns[0]) else (0, 0, 0)
    found = np.zeros(len(counts), _PARTS)
    if counts.dtype.kind in "iu":
        largest = max(abs(int(counts.max(initial=0))), abs(int(counts.min(initial=0))))
        parts = [("months", months, 2**31), ("days", days, 2**31), ("nanoseconds", times, 2**63)]
        is_beyond = any(abs(size) * largest >= most for _, size, most in parts)
        for name, size, _ in parts if not is_beyond else ():
            if size:
                np.multiply(counts, size, out=found[name], dtype=np.int64, casting="unsafe")
    else:
        of_months = np.trunc(counts * months)
        of_days = counts * days + (counts * months - of_months) * _DAYS_OF_MONTH
        of_times = np.round(counts * times + (of_days - np.trunc(of_days)) * (_DAY * 1_000))
        parts_of = (of_months, np.trunc(of_days), of_times)
        is_beyond = not all(
            (np.abs(part) < most).all() for part, most in zip(parts_of, (2**31, 2**31, 2**63), strict=True)
        )
        if not is_beyond:
            found["months"], found["days"], found["nanoseconds"] = parts_of
    if is_beyond:
        raise SqlError("a product of an interval is beyond 2147483647 months or days, or 292 years of times")
    return _intervals(found, missing)


def moments_of_local_times(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute the moments, in UTC, of local times of a zone, which the second column names."""
    times, zones = columns
    local = times.cast(pa.timestamp("us")) if types.is_date(times.type) else times
    zone = named_zone(zones[0].as_py()) if len(zones) else UTC
    if zone is None:
        raise SqlError(f"time zone {zones[0].as_py()!r} is not known; expected one as 'Europe/Berlin' or '+02:00'")
    ticks = TICKS[local.type.unit]
    seconds, rest = np.divmod(local.view(pa.int64()).fill_null(0).to_numpy(), ticks)
    mask = local.is_null().to_numpy(zero_copy_only=False)
    return pa.array(zone.moments(seconds) * ticks + rest, pa.int64(), mask=mask).view(moments_in_utc([local.type]))


def moments_in_utc(given: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of moments in UTC of the unit of local times; microseconds for dates."""
    return pa.timestamp(given[0].unit if types.is_timestamp(given[0]) else "us", "UTC")


SECONDS_TYPE = pa.timestamp("us", "UTC")
"""Type of what to_timestamp gives."""
_MOST_SECONDS = 9.2e12


def timestamps_of_seconds(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute to_timestamp of a number of seconds since 1970; `SqlError` for what no timestamp of microseconds has."""
    (column,) = columns
    seconds = column.cast(pa.float64()).fill_null(0).to_numpy()
    is_beyond = ~(np.abs(seconds) < _MOST_SECONDS)
    if is_beyond.any():
        value = column.filter(pa.array(is_beyond))[0].as_py()
        raise SqlError(f"to_timestamp({value}) is no moment; expected seconds since 1970 from -9.2e12 to 9.2e12")
    whole = np.floor(seconds)
    micros = whole.astype(np.int64) * _SECOND + np.round((seconds - whole) * _SECOND).astype(np.int64)
    return pa.array(micros, mask=null_rows(columns)).view(SECONDS_TYPE)


def made_timestamps(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute make_timestamp; `SqlError` for parts that are no moment."""
    missing = null_rows(columns)
    year, month, day, hour, minute = (column.fill_null(1).to_numpy() for column in columns[:5])
    second = np.round(columns[5].fill_null(0).to_numpy() * _SECOND).astype(np.int64)
    months = (year - 1970) * 12 + month - 1
    is_right = (np.abs(year) < 290_000) & (month >= 1) & (month <= 12) & (day >= 1)  # noqa: PLR2004 - the calendar
    is_right &= (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60) & (second >= 0) & (second < 60 * _SECOND)  # noqa: PLR2004
    is_right &= day <= _last_days(np.where(is_right, months, 0))
    if not (is_right | missing).all():
        place = int(np.argmin(is_right | missing))
        parts = ", ".join(str(column[place].as_py()) for column in columns)
        raise SqlError(f"make_timestamp({parts}) is no moment")
    days = first_days(np.where(missing, 0, months)) + day - 1
    micros = days * _DAY + (hour * 60 + minute) * 60 * _SECOND + second
    return pa.array(micros, mask=missing).view(MICROSECONDS)


# --- moments as texts


def moment_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Compute moment_text: moments by one pattern of strftime's letters; `SqlError` for the day of a time.

    Few days, hours, minutes and seconds are different: each is written once.
    """
    moments, patterns = columns
    shown = pc.if_else(moments.is_valid(), "", pa.scalar(None, pa.utf8()))
    if len(moments) == moments.null_count or patterns.null_count:
        return pa.nulls(len(moments), pa.utf8())
    if not pc.all(pc.equal(patterns, patterns[0])).as_py():
        raise SqlError("the pattern of a moment's text is one for all rows")
    pattern = _CLOCK_TIME.sub(lambda letter: "%H:%M:%S" if letter[1] else letter[0], patterns[0].as_py())
    found = list(_PARTS_OF_TEXT.finditer(pattern))
    if sum(len(part[0]) for part in found) < len(pattern):
        raise SqlError(f"the pattern {pattern!r} has letters that are not known")
    if types.is_time(moments.type):
        nanos = moments.cast(pa.time64("ns")).view(pa.int64()).fill_null(0).to_numpy()
        days, seconds = None, nanos // _NANOSECONDS
    else:
        micros = _microseconds(moments, is_local=True)
        days = micros // _DAY
        seconds = (micros - days * _DAY) // _SECOND
        is_finer = types.is_timestamp(moments.type) and moments.type.unit == "ns"
        nanos = moments.view(pa.int64()).fill_null(0).to_numpy() if is_finer else micros % _SECOND * 1_000
    parts = []
    for part in found:
        if part["clock"]:
            size, texts = _CLOCK[part["clock"]]
            parts.append(texts.take(pa.array(seconds // size % len(texts))))
        elif part["digits"]:
            parts.append(_fractions(nanos % _NANOSECONDS, int(part["digits"])))
        elif "%" not in part[0].replace("%%", ""):
            parts.append(part[0].replace("%%", "%"))
        elif days is None:
            raise SqlError(
                f"a TIME has no day, which the pattern {pattern!r} asks for; expected %H, %M, %S and the like"
            )
        else:
            different = pa.array(days).dictionary_encode()
            written = [_write_day(day, part[0]) for day in different.dictionary.to_pylist()]
            parts.append(pa.array(written, pa.utf8()).take(different.indices))
    return pc.binary_join_element_wise(shown, *parts, "")


_NANOSECONDS, _DAYS_OF_CYCLE, _KEPT_DAYS = 10**9, 146_097, 16_384
_PARTS_OF_TEXT = re.compile(r"(?:%-?[YymdjbBaAFGVuwUW]|%%|[^%])+|%(?P<clock>-?[HIMSp])|%(?P<digits>[369])f", re.DOTALL)
_YEAR, _CLOCK_TIME = re.compile(r"%([YGF])|%.", re.DOTALL), re.compile(r"%(T)|%.", re.DOTALL)
_TWELVE = [(hour - 1) % 12 + 1 for hour in range(24)]
_CLOCK: Mapping[str, tuple[int, pa.Array]] = MappingProxyType(
    {
        f"{sign}{letter}": (size, pa.array([f"{number:{width}}" for number in numbers]))
        for sign, width in (("", "02"), ("-", ""))
        for letter, size, numbers in (
            ("H", 3_600, range(24)),
            ("I", 3_600, _TWELVE),
            ("M", 60, range(60)),
            ("S", 1, range(60)),
        )
    }
    | {"p": (3_600, pa.array(["AM"] * 12 + ["PM"] * 12))}
)
"""Letters of times: the seconds of each step, and its texts."""


@lru_cache(_KEPT_DAYS)
def _write_day(day: int, pattern: str) -> str:
    """Return a day since 1970 by a pattern. The calendar repeats after 400 years, and Python's ends in 9999.

    >>> _write_day(-719_528, "%F"), _write_day(3_000_000, "%Y %a")
    ('0000-01-01', '+10183 Sun')
    """
    cycles, rest = divmod(day, _DAYS_OF_CYCLE)
    found = date.min.replace(1970) + timedelta(days=rest)

    def year(letter: re.Match[str]) -> str:
        if letter[1] is None:
            return letter[0]
        number = cycles * 400 + (found.isocalendar().year if letter[1] == "G" else found.year)
        text = f"{number:04}" if 0 <= number <= 9_999 else f"{number:+05}"  # noqa: PLR2004 - four digits
        return f"{text}-%m-%d" if letter[1] == "F" else text

    return found.strftime(_YEAR.sub(year, pattern))


def _fractions(nanos: Integers, width: int) -> pa.Array:
    """Return the first digits of fractions of seconds."""
    digits = nanos[:, None] // 10 ** np.arange(8, 8 - width, -1) % 10 + ord("0")
    offsets = np.arange(len(nanos) + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(
        pa.utf8(), len(nanos), [None, pa.py_buffer(offsets), pa.py_buffer(digits.astype(np.uint8))]
    )


# --- texts as moments


def compute_strptime(columns: Sequence[pa.Array], *, is_strict: bool) -> pa.Array:
    """Compute strptime of texts and patterns; `SqlError` for another text, or NULL where it is not strict."""
    texts, patterns = columns
    kept = pc.unique(patterns).to_pylist()
    widths = _fixed_widths(kept[0]) if len(kept) == 1 and kept[0] is not None else []
    if not widths:
        return _strptime(texts, patterns, is_strict=is_strict)
    ticks, is_read = _read_fixed(texts, widths)
    left = np.flatnonzero(~is_read & texts.is_valid().to_numpy(zero_copy_only=False))
    if len(left):
        rows = pa.array(left)
        others = _strptime(texts.take(rows), patterns.take(rows), is_strict=is_strict)
        ticks[left] = others.view(pa.int64()).fill_null(0).to_numpy()
        is_read[left] = others.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(ticks, mask=~is_read).view(MICROSECONDS)


_WIDTHS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}
_PARTS_OF_PATTERN = re.compile(r"%(.)|([!-$&-~ ])", re.DOTALL)


def _fixed_widths(pattern: str) -> list[tuple[str, int]]:
    """Return the letters and signs of a pattern with their widths; none for one whose texts have no fixed width.

    >>> _fixed_widths("%Y-%m"), _fixed_widths("%b %Y")
    ([('%Y', 4), ('-', 1), ('%m', 2)], [])
    """
    found = list(_PARTS_OF_PATTERN.finditer(pattern))
    letters = [part[1] for part in found if part[1] is not None]
    is_fixed = sum(len(part[0]) for part in found) == len(pattern) and _WIDTHS.keys() >= set(letters)
    if not is_fixed or len(set(letters)) < len(letters):
        return []
    return [(part[0], _WIDTHS.get(part[1] or "", 1)) for part in found]


def _read_fixed(texts: pa.Array, widths: Sequence[tuple[str, int]]) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Read the texts that have the letters of a pattern in their full widths; return the microseconds, and which were read."""
    width = sum(count for _, count in widths)
    ticks, is_read = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
    rows = np.flatnonzero(
        pc.equal(pc.binary_length(texts), width).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    )
    if not len(rows):
        return ticks, is_read
    # Taken together, the texts stand without gaps.
    chosen = pa.concat_arrays([texts.take(pa.array(rows)).cast(pa.utf8())])
    start = np.frombuffer(chosen.buffers()[1], np.int32)[chosen.offset]
    signs = (
        np.frombuffer(chosen.buffers()[2], np.uint8)[start : start + len(rows) * width]
        .reshape(len(rows), width)
        .T.copy()
    )
    parts = {letter: np.full(len(rows), least, np.int64) for letter, least in _LEAST_PARTS.items()}
    is_right, at = np.ones(len(rows), np.bool_), 0
    for part, count in widths:
        if count == 1:
            is_right &= signs[at] == ord(part)
        else:
            number = np.zeros(len(rows), np.int64)
            for digits in signs[at : at + count] - np.uint8(ord("0")):
                is_right &= digits <= 9  # noqa: PLR2004 - the last digit
                number = number * 10 + digits
            parts[part[1]] = number
        at += count
    months = (parts["Y"] - 1970) * 12 + parts["m"] - 1
    days = first_days(months)
    for letter, most in _MOST_PARTS.items():
        is_right &= (parts[letter] >= _LEAST_PARTS[letter]) & (parts[letter] <= most)
    is_right &= (parts["d"] >= 1) & (parts["d"] <= first_days(months + 1) - days)
    seconds = (parts["H"] * 60 + parts["M"]) * 60 + parts["S"]
    ticks[rows] = np.where(is_right, (days + parts["d"] - 1) * _DAY + seconds * _SECOND, 0)
    is_read[rows] = is_right
    return ticks, is_read


_LEAST_PARTS = {"Y": 1900, "m": 1, "d": 1, "H": 0, "M": 0, "S": 0}
_MOST_PARTS = {"Y": 9999, "m": 12, "H": 23, "M": 59, "S": 59}


def _strptime(texts: pa.Array, patterns: pa.Array, *, is_strict: bool) -> pa.Array:
    """Compute strptime of texts of any widths.

    Arrow reads texts of one pattern without fractions and zones. It makes the first of March of the 30th of February: moments that may
    be such are written again, and what is not as it was is read by Python.
    """
    kept = pc.unique(patterns).to_pylist()
    moments = pa.nulls(len(texts), MICROSECONDS)
    left = np.arange(len(texts))
    if len(kept) == 1 and kept[0] is not None and _PLAIN.issuperset(_letters(kept[0])):
        moments = pc.strptime(texts, kept[0], "us", error_is_null=True)
        is_odd = (moments.is_null().to_numpy(zero_copy_only=False)) | pc.less(pc.day(moments), 4).fill_null(
            fill_value=True
        ).to_numpy(zero_copy_only=False)
        if "%S" in kept[0]:
            is_odd |= pc.equal(pc.second(moments), 0).fill_null(fill_value=True).to_numpy(zero_copy_only=False)
        left = np.flatnonzero(is_odd)
        again = pc.strftime(moments.take(pa.array(left)).cast(pa.timestamp("s"), safe=False), kept[0], locale="C")
        is_same = pc.equal(again, texts.take(pa.array(left))).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
        left = left[~is_same & texts.is_valid().to_numpy(zero_copy_only=False)[left]]
    if not len(left):
        return moments
    if not is_strict and len(kept) == 1 and kept[0] is not None:
        # Python takes ten times as long to say that a text has another form.
        is_alike = pc.match_substring_regex(texts.take(pa.array(left)), _form_of(kept[0]))
        left = left[is_alike.fill_null(fill_value=False).to_numpy(zero_copy_only=False)]
    rows = pa.array(left, pa.int64())
    found = [
        None if text is None or pattern is None else _moment(text, pattern, is_strict=is_strict)
        for pattern, text in zip(patterns.take(rows).to_pylist(), texts.take(rows).to_pylist(), strict=True)
    ]
    ticks = moments.view(pa.int64()).fill_null(0).to_numpy().copy()
    missing = moments.is_null().to_numpy(zero_copy_only=False).copy()
    ticks[left] = pa.array(found, MICROSECONDS).view(pa.int64()).fill_null(0).to_numpy()
    missing[left] = [each is None for each in found]
    return pa.array(ticks, mask=missing).view(MICROSECONDS)


def _form_of(pattern: str) -> str:
    r"""Return a pattern of Arrow's that every text of a pattern of strptime matches.

    >>> _form_of("%d. %B")
    '(?is)^[0-9 ]+\\.\\s+.*$'
    """
    parts = re.findall(r"%-?.|\s+|.", pattern, re.DOTALL)
    forms = ("[0-9 ]+" if part[0] == "%" and part[-1] in _NUMBERS_OF_PATTERN else _form_of_part(part) for part in parts)
    return f"(?is)^{''.join(forms)}$"


def _form_of_part(part: str) -> str:
    if part.isspace():
        return r"\s+"
    return ".*" if len(part) > 1 else re.escape(part)


_NUMBERS_OF_PATTERN = frozenset("YmdHIMSyfj")


def _letters(pattern: str) -> list[str]:
    return [part[:1] for part in pattern.replace("%%", "").split("%")[1:]]


_PLAIN = frozenset("YmdHMS")
_PYTHONS = {"%-": "%", "%6f": "%f", "%F": "%Y-%m-%d", "%T": "%H:%M:%S"}
"""Letters that Python has not, in its own."""


def _moment(text: str, pattern: str, *, is_strict: bool) -> datetime | None:
    for ours, pythons in _PYTHONS.items():
        pattern = pattern.replace(ours, pythons)
    try:
        moment = datetime.strptime(text, pattern)  # noqa: DTZ007 - a timestamp without a zone is meant
    except ValueError as exc:
        if not is_strict:
            return None
        raise SqlError(f"{text[:60]!r} is no moment of the pattern {pattern!r}: {exc}") from exc
    return moment if moment.tzinfo is None else (moment - moment.utcoffset()).replace(tzinfo=None)  # type: ignore[operator]


UNITS: Mapping[str, int] = MappingProxyType({"epoch_ms": 10**3, "epoch_us": 10**6, "epoch_ns": 10**9})
