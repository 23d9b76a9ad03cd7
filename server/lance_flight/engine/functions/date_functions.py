"""date_trunc and date_bin for every moment of a column.

DataFusion 55 computes both in nanoseconds, which end in 1677 and 2262: beyond, its date_trunc fails, and its date_bin is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_flight.errors import SqlError
from lance_flight.model.type_names import type_name
from lance_flight.model.zones import TICKS, UTC, Zone, zone_of

Integers = npt.NDArray[np.int64]

_DAY, _NANOSECONDS = 86_400, 10**9
_MONDAY = -3 * _DAY
_SECONDS = {"week": 7 * _DAY, "day": _DAY, "hour": 3_600, "minute": 60, "second": 1}
_FRACTIONS = {"millisecond": 10**3, "microsecond": 10**6}
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_ON_THE_CLOCK = frozenset([*_MONTHS, "week", "day"])
"""Units that begin by the clock of a zone, whose offset may be another one then."""
_MICROSECONDS, _INTERVAL = pa.timestamp("us"), pa.month_day_nano_interval()
_FEW_DAYS = 100_000
"""Days whose nanoseconds fit into 64 bits."""
_PARTS = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
_BIN = "date_bin"
_TAKEN = MappingProxyType(
    {
        **dict.fromkeys(["date_trunc", "datetrunc"], ("a unit and a date, time or timestamp", (2,))),
        _BIN: ("an interval, a date, time or timestamp, and an origin", (2, 3)),
    }
)


NAMES = tuple(_TAKEN)
"""The functions."""


def date_signature(word: str, kinds: Sequence[pa.DataType]) -> list[pa.DataType]:
    """Return the types that the arguments are cast to; dates and texts are cast here, since DataFusion does so by nanoseconds."""
    if any(map(types.is_struct, kinds)):
        return list(kinds)  # refused by DataFusion, so that it says the types
    first = _INTERVAL if word == _BIN else pa.utf8()
    return [first, *(_MICROSECONDS if types.is_null(kind) else kind for kind in kinds[1:])]


def date_type(word: str, kinds: Sequence[pa.DataType]) -> pa.DataType:
    """Return the type of what a function gives: that of its moments, which dates and texts have as microseconds."""
    expected, counts = _TAKEN[word]
    if len(kinds) not in counts or any(moment_type(kind) is None for kind in kinds[1:]):
        raise SqlError(f"{word} takes {expected}, got {', '.join(map(type_name, kinds)) or 'nothing'}")
    return moment_type(kinds[1])


def moment_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that moments of a type are computed in; None for what are no moments."""
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if is_text or types.is_date(kind) or types.is_null(kind):
        return _MICROSECONDS
    return kind if types.is_time(kind) or (types.is_timestamp(kind) and zone_of(kind) is not None) else None


def moments_as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast dates, texts and origins."""
    try:
        if (
            types.is_timestamp(kind)
            and kind.tz is not None
            and types.is_timestamp(column.type)
            and column.type.tz is None
        ):
            column = column.view(pa.timestamp(column.type.unit, "UTC"))
        return column.cast(kind)
    except pa.ArrowException as exc:
        raise SqlError(f"{exc}; expected a value that can be cast to {kind}") from exc


def null_rows(columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Return which rows are NULL in one of some columns."""
    missing = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        if column.null_count:
            missing |= column.is_null().to_numpy(zero_copy_only=False)
    return missing


def dates(word: str, columns: Sequence[pa.Array]) -> pa.Array:
    """Compute a function of a batch; `SqlError` for an unknown unit, a stride that is no length, and a start before all moments."""
    moments = moments_as(columns[1], moment_type(columns[1].type))
    is_null = null_rows(columns)
    ticks = _ticks(moments)
    starts = np.zeros_like(ticks)
    if word != _BIN:
        units = pc.utf8_lower(columns[0]).dictionary_encode()
        for number, unit in enumerate(units.dictionary.to_pylist()):
            among = ~is_null & (units.indices.fill_null(-1).to_numpy(zero_copy_only=False) == number)
            starts[among] = _truncate(ticks[among], unit, moments.type)
    else:
        strides = np.frombuffer(columns[0].buffers()[1], _PARTS)[columns[0].offset :][: len(ticks)]
        origins = (
            _ticks(moments_as(columns[2], moments.type))
            if len(columns) == len(("stride", "moment", "origin"))
            else np.zeros_like(ticks)
        )
        if _are_one(strides) and _are_one(origins) and not columns[0].null_count:
            starts = _bin(ticks, strides[:1], origins[:1], moments.type)
        else:
            among = ~is_null
            starts[among] = _bin(ticks[among], strides[among], origins[among], moments.type)
    if (starts > ticks)[~is_null].any():
        raise SqlError(f"{word} gives a moment before the first one of {moments.type}")
    return pa.array(starts, mask=is_null).cast(_integers(moments.type)).view(moments.type)


def _are_one(values: npt.NDArray[Any]) -> bool:
    return len(values) > 0 and bool((values == values[0]).all())


def _integers(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if types.is_time32(kind) else pa.int64()


def _ticks(moments: pa.Array) -> Integers:
    return np.asarray(
        moments.view(_integers(moments.type)).fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    )


def _truncate(ticks: Integers, unit: str, kind: pa.DataType) -> Integers:
    per_second, zone = TICKS[kind.unit], UTC if types.is_time(kind) else zone_of(kind) or UTC
    if unit not in {*_SECONDS, *_FRACTIONS, *_MONTHS} or (unit in _ON_THE_CLOCK and types.is_time(kind)):
        expected = ", ".join([*reversed(_FRACTIONS), *reversed(_SECONDS), *reversed(_MONTHS)])
        raise SqlError(f"date_trunc knows no unit {unit!r} of {kind}; expected {expected}")
    if zone is UTC:
        return _starts(ticks, unit, per_second)
    seconds = ticks // per_second
    local = zone.local(seconds)
    if unit in _ON_THE_CLOCK:
        return _instants(_starts(local, unit, 1), zone) * per_second
    shift = (local - seconds) * per_second
    return _starts(ticks + shift, unit, per_second) - shift


def _starts(ticks: Integers, unit: str, per_second: int) -> Integers:
    """Return the starts of units of UTC, in ticks."""
    if unit in _MONTHS:
        months = months_of(ticks // (_DAY * per_second))
        return first_days(months // _MONTHS[unit] * _MONTHS[unit]) * (_DAY * per_second)
    stride = per_second // _FRACTIONS[unit] if unit in _FRACTIONS else _SECONDS[unit] * per_second
    origin = _MONDAY * per_second if unit == "week" else 0
    # No difference of two moments, which may be beyond 64 bits.
    return ticks - (ticks % max(stride, 1) - origin % max(stride, 1)) % max(stride, 1)


def months_of(days: Integers) -> Integers:
    """Return the month of each day, both counted from 1970."""
    found = _look_up(days, _DAYS_OF_TABLE, _months_of_days)
    return found if found is not None else days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_days(months: Integers) -> Integers:
    """Return the first day of each month, both counted from 1970."""
    found = _look_up(months, _MONTHS_OF_TABLE, _first_days)
    return found if found is not None else months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


_DAYS_OF_TABLE, _MONTHS_OF_TABLE = range(-54_786, 84_006), range(-1_800, 2_760)
"""Days and months from 1820 to 2200, which most moments are of: looking up one is ten times as quick as counting it."""


@cache
def _months_of_days() -> Integers:
    days = np.arange(_DAYS_OF_TABLE.start, _DAYS_OF_TABLE.stop)
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


@cache
def _first_days() -> Integers:
    months = np.arange(_MONTHS_OF_TABLE.start, _MONTHS_OF_TABLE.stop)
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _look_up(places: Integers, known: range, table: Callable[[], Integers]) -> Any:
    """Return what a table has for some places; None if one is beyond it."""
    if len(places) and not (known.start <= places.min() and places.max() < known.stop):
        return None
    return table()[places - known.start]


def _instants(local: Integers, zone: Zone) -> Integers:
    """Return the first instant of each local time, in seconds; of one that the clock leaves out, the one by the clock before."""
    before = local - (zone.local(local - _DAY) - (local - _DAY))
    after = local - (zone.local(local + _DAY) - (local + _DAY))
    is_first = (zone.local(before) == local) | (zone.local(after) != local)
    return np.asarray(np.where(is_first, before, after))


def _bin(ticks: Integers, strides: npt.NDArray[Any], origins: Integers, kind: pa.DataType) -> Integers:
    months, days, nanoseconds = (strides[part] for part in ("months", "days", "nanoseconds"))
    is_mixed = (months != 0) & ((days != 0) | (nanoseconds != 0))
    is_small = (np.abs(days) < _FEW_DAYS).all() and (np.abs(nanoseconds) < _NANOSECONDS * _DAY).all()
    length = nanoseconds + days.astype(np.int64 if is_small else object) * (_DAY * _NANOSECONDS)
    if is_mixed.any() or ((months <= 0) & (length <= 0)).any() or (types.is_time(kind) and months.any()):
        raise SqlError("the stride of date_bin is a number of months, or days and times, greater than zero")
    per_second = TICKS[kind.unit]
    if months.any():
        if not months.all():
            raise SqlError("the stride of date_bin has months in all rows or in none")
        return _months_binned(ticks, months, origins, _DAY * per_second)
    size = _NANOSECONDS // per_second
    if (length % size == 0).all() and (length // size < 2**62).all():
        steps: Integers = (length // size).astype(np.int64)
        within: Integers = ticks % steps - origins % steps
        return np.asarray(ticks - np.where(within < 0, within + steps, within))
    since = (ticks.astype(object) - origins) * size
    return np.asarray(origins + since // length * length // size, np.int64)


def _months_binned(ticks: Integers, months: Integers, origins: Integers, per_day: int) -> Integers:
    first = months_of(origins // per_day)
    day, rest = origins // per_day - first_days(first), origins % per_day
    now = months_of(ticks // per_day)

    def begin(count: Integers) -> Integers:
        month: Integers = first + count * months
        start: Integers = (
            first_days(month) + np.minimum(day, first_days(month + 1) - first_days(month) - 1)
        ) * per_day + rest
        return start

    count = (now - first) // months
    return np.asarray(np.where(begin(count) <= ticks, begin(count), begin(count - 1)))
