"""The year, month, day and hour fields of one column, taken together, against a range and date parts.

The days of a range fall into at most six stretches (the first day, the rest of the first year, the common and the
leap years between, the last year up to its last day, the last day), and a stretch is at most a year of days. So
any range costs the same, and what is left is exact: a partition stays when some instant of it is in the range.

A range of a zone is that from its earliest to its latest local time: hours that clocks leave out in between lie in it, too, but no
partition has them for its values alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_flight.model.domains import PART_ORDER, Domain, Mask
from lance_flight.model.zones import UTC, zone_of
from lance_flight.planning.partitions import DictionaryColumn

UNITS = MappingProxyType({"year": 86_400, "month": 86_400, "day": 86_400, "hour": 3_600})
"""The `date_part` of each transform that prunes here, from coarse to fine, and of how many seconds of local time it is made."""

FIRST_YEAR, LAST_YEAR = -32_767, 32_767
"""The years that Arrow's calendar kernels tell apart."""

_SECONDS_PER_DAY = 86_400
_DAYS = 32
_MONTHS = 13
_ALL_HOURS = (0, 23)
_LEAP_CYCLE = 400
_SAMPLE_YEARS = MappingProxyType({False: 2001, True: 2000})

_Days: TypeAlias = npt.NDArray[np.int64]
"""Days since 1970-01-01."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """Days of the years `first` to `last` (of one leapness, unless None), each with the same range of hours."""

    first: int
    last: int
    leap: bool | None = None
    days: _Days
    hours: tuple[int, int] = _ALL_HOURS


class _Span(NamedTuple):
    """Local times from `low` to `high`, `per_day` of them in a day."""

    low: int
    high: int
    per_day: int


def calendar_problem(domain: Domain) -> str | None:
    """Return why the range cannot be expressed by year, month, day and hour, if it cannot."""
    if zone_of(domain.order.kind) is None:
        return f"the zone of {domain.order.kind} is not known here"
    span = _span(domain)
    first, last = (_first_day(year) * span.per_day for year in (FIRST_YEAR, LAST_YEAR + 1))
    return None if span.low < last and span.high >= first else "the range lies beyond the calendar"


def calendar_rows(fields: Mapping[str, DictionaryColumn], domain: Domain) -> Mask:
    """Return the rows whose year, month, day and hour (those that are `fields`) some value of `domain` has.

    Seen are the interval of `domain` and its parts of these four names; nulls are kept as `domain.nulls` says.
    """
    null = np.logical_or.reduce([coded.is_null for coded in fields.values()])
    rows = np.zeros(len(null), np.bool_)
    if not domain.valueless:
        for stretch in _stretches(domain):
            _add(rows, stretch, fields, domain)
        for name in fields.keys() & domain.parts.keys():
            coded = fields[name]
            rows &= coded.rows(domain.parts[name].accepts(coded.values), null=False)
    rows[null] = domain.nulls
    return rows


def _span(domain: Domain) -> _Span:
    """Return the local times of the interval of a domain."""
    step, zone = domain.order.step, zone_of(domain.order.kind)
    per_day = int(_SECONDS_PER_DAY / step) if step < _SECONDS_PER_DAY else 1
    if zone is None or zone is UTC:
        return _Span(domain.low, domain.high, per_day)
    ticks = per_day // _SECONDS_PER_DAY
    return _Span(*zone.local_bounds(domain.low // ticks, domain.high // ticks), _SECONDS_PER_DAY)


def _stretches(domain: Domain) -> Iterator[_Stretch]:
    span = _span(domain)
    per_day = span.per_day
    low = max(span.low, _first_day(FIRST_YEAR) * per_day)
    high = min(span.high, _first_day(LAST_YEAR + 1) * per_day - 1)
    first, last = low // per_day, high // per_day
    from_hour, to_hour = (key % per_day * 24 // per_day for key in (low, high))
    if first == last:
        yield _one_day(first, (from_hour, to_hour))
        return
    yield _one_day(first, (from_hour, 23))
    yield _one_day(last, (0, to_hour))
    if _year(first) == _year(last):
        yield _within_year(first + 1, last)
        return
    yield _within_year(first + 1, _first_day(_year(first) + 1))
    yield _within_year(_first_day(_year(last)), last)
    yield from _whole_years(_year(first) + 1, _year(last) - 1)


def _one_day(day: int, hours: tuple[int, int]) -> _Stretch:
    return _Stretch(first=_year(day), last=_year(day), days=np.array([day]), hours=hours)


def _within_year(start: int, stop: int) -> _Stretch:
    return _Stretch(first=_year(stop - 1), last=_year(stop - 1), days=np.arange(start, stop))


def _whole_years(first: int, last: int) -> Iterator[_Stretch]:
    if first <= last:
        for leap, sample in _SAMPLE_YEARS.items():
            days = np.arange(_first_day(sample), _first_day(sample + 1))
            yield _Stretch(first=first, last=last, leap=leap, days=days)


def _first_day(year: int) -> int:
    return int(np.datetime64(year - 1970, "Y").astype("datetime64[D]").astype(np.int64))


def _year(day: int) -> int:
    return int(np.datetime64(day, "D").astype("datetime64[Y]").astype(np.int64)) + 1970


def _add(rows: Mask, stretch: _Stretch, fields: Mapping[str, DictionaryColumn], domain: Domain) -> None:
    """Add the rows that some instant of `stretch` falls into."""
    hours = np.zeros(24, np.bool_)
    hours[stretch.hours[0] : stretch.hours[1] + 1] = True
    hours &= _allowed_values(domain, "hour", np.arange(24))
    days = _allowed_days(stretch.days, domain)
    if not len(days) or not hours.any():
        return
    years = _of_years(stretch, fields, domain)
    if years is None:
        return
    if "month" in fields or "day" in fields:
        years &= _of_days(days, fields)
    if "hour" in fields and not hours.all():
        years &= hours.take(fields["hour"].numbers, mode="clip")
    rows |= years


def _allowed_values(domain: Domain, name: str, numbers: npt.NDArray[np.int64]) -> Mask:
    part = domain.parts.get(name)
    return np.ones(len(numbers), np.bool_) if part is None else part.accepts(pa.array(numbers, PART_ORDER.kind))


def _allowed_days(days: _Days, domain: Domain) -> _Days:
    for name in ("month", "day"):
        if name in domain.parts:
            days = days[_allowed_values(domain, name, _month(days) if name == "month" else _day(days))]
    return days


def _month(days: _Days) -> _Days:
    months: _Days = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months % 12 + 1


def _day(days: _Days) -> _Days:
    first: _Days = days.astype("datetime64[D]").astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days - first + 1


def _of_years(stretch: _Stretch, fields: Mapping[str, DictionaryColumn], domain: Domain) -> Mask | None:
    """Return the rows of the years of `stretch`; None where it has no year at all."""
    if "year" in fields:
        rows = fields["year"].numbers
        inside: Mask = (rows >= stretch.first) & (rows <= stretch.last)
        return inside if stretch.leap is None else inside & (_is_leap(rows) == stretch.leap)
    excluded = len(domain.parts["year"].excluded) if "year" in domain.parts else 0
    years = _candidates(stretch, domain, excluded)
    if stretch.leap is not None:
        years = years[_is_leap(years) == stretch.leap]
    if not len(years):
        return None
    return np.ones(len(next(iter(fields.values())).codes), np.bool_)


def _candidates(stretch: _Stretch, domain: Domain, excluded: int) -> npt.NDArray[np.int64]:
    """Return years of `stretch` that `date_part('year')` allows: all, or enough to have both sorts if there are."""
    first, last = stretch.first, stretch.last
    part = domain.parts.get("year")
    if part is not None and part.points is not None:
        years = np.array(sorted(part.points), np.int64)
        return years[(years >= first) & (years <= last)]
    if part is not None:
        first, last = max(first, part.low), min(last, part.high)
    years = np.arange(first, min(last, first + _LEAP_CYCLE + excluded * _LEAP_CYCLE) + 1)
    return years[_allowed_values(domain, "year", years)] if len(years) else years


def _is_leap(years: npt.NDArray[Any]) -> Mask:
    leap: Mask = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    return leap


def _of_days(days: _Days, fields: Mapping[str, DictionaryColumn]) -> Mask:
    """Return the rows with the month and day (those that are fields) of one of `days`."""
    months = _month(days) if "month" in fields else np.zeros(len(days), np.int64)
    numbers = _day(days) if "day" in fields else np.zeros(len(days), np.int64)
    table = np.zeros(_MONTHS * _DAYS, np.bool_)
    table[months * _DAYS + numbers] = True
    places = sum(fields[name].numbers * weight for name, weight in (("month", _DAYS), ("day", 1)) if name in fields)
    return table.take(np.asarray(places), mode="clip")
