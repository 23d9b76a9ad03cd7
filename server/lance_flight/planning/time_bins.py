"""Functions that cut timestamps off to the start of a month, a day or any other stretch, compared with a literal."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import types

from lance_flight.model.ordering import integers, ordering
from lance_flight.model.zones import TICKS, UTC, zone_of
from lance_flight.planning.comparison import Comparison
from lance_flight.planning.predicates import Op, Predicate, all_of, negate
from lance_flight.planning.scalar_expressions import CAST, ComputedCondition, ScalarCall, ScalarExpression

_DAY = 86_400
_FIRST_MONDAY = -3 * _DAY
_SECONDS = {"week": 7 * _DAY, "day": _DAY, "hour": 3_600, "minute": 60, "second": 1}
_FRACTIONS = {"millisecond": 1_000, "microsecond": 1_000_000}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_NANOSECONDS = 10**9
_FARTHEST = 2**62
"""Seconds that lie beyond every timestamp."""


class _Bin(NamedTuple):
    """Values that a function cuts off to `start`: up to before `end`."""

    start: int
    end: int


def of_truncated(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of `date_trunc(unit, moment)` says of the moment."""
    unit, moment = call.arguments
    kind, value = comparison.kinds.of(moment), comparison.value
    if kind is not None and types.is_date32(kind):
        # Its truncated days are microseconds.
        moment = ScalarCall(CAST, (moment,), "Timestamp(µs)")
        kind = comparison.kinds.of(moment)
    if not isinstance(unit, pa.StringScalar) or not unit.is_valid or kind != value.type or not types.is_timestamp(kind):
        return None
    name, zone, ticks = unit.as_py().lower(), zone_of(kind), TICKS[kind.unit]
    if zone is None:
        return None
    if zone is UTC:
        found = _calendar_bin(value.value, name, ticks)
        return None if found is None else _of_bin(moment, found, comparison)
    local, _ = zone.local_bounds(value.value // ticks, value.value // ticks)
    found = _calendar_bin(local, name, 1)
    return None if found is None else _of_local_bin(call, moment, found, comparison)


def of_date(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of `CAST(moment AS DATE)` says of the moment."""
    (moment, *_), value = call.arguments, comparison.value
    kind = comparison.kinds.of(moment)
    if len(call.arguments) > 1 or kind is None or not types.is_timestamp(kind) or not types.is_date32(value.type):
        return None
    if zone_of(kind) is not UTC:
        return _of_local_bin(call, moment, _Bin(value.value * _DAY, (value.value + 1) * _DAY), comparison)
    ticks = TICKS[kind.unit] * _DAY
    start = _moment(value.value * ticks, kind)
    found = _Bin(value.value * ticks, (value.value + 1) * ticks)
    return None if start is None else _of_bin(moment, found, comparison.by(comparison.op, start))


def of_binned(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of `date_bin(stride, moment [, origin])` says of the moment."""
    stride, moment, *origin = call.arguments
    kind, nanoseconds, begin = comparison.kinds.of(moment), _nanoseconds(stride), Fraction(0)
    if kind is None or kind != comparison.value.type or not types.is_timestamp(kind) or (nanoseconds or 0) <= 0:
        return None
    if origin:
        if not (isinstance(origin[0], pa.TimestampScalar) and origin[0].is_valid):
            return None
        begin = Fraction(origin[0].value * TICKS[kind.unit], TICKS[origin[0].type.unit])
    ticks = Fraction((nanoseconds or 0) * TICKS[kind.unit], _NANOSECONDS)
    if ticks.denominator != 1 or begin.denominator != 1:
        return None
    return _of_bin(moment, _stride_bin(comparison.value.value, int(ticks), int(begin)), comparison)


def of_moved(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of a date or timestamp plus or minus an interval says of it."""
    if len(call.arguments) != 2:  # noqa: PLR2004
        return None
    moment, amount = call.arguments
    nanoseconds, kind = _nanoseconds(amount), comparison.kinds.of(moment)
    order = None if kind is None else ordering(kind)
    if nanoseconds is None or order is None or kind != comparison.value.type:
        return None
    if not (types.is_date32(kind) or (types.is_timestamp(kind) and zone_of(kind) is UTC)):
        return None
    steps = Fraction(nanoseconds, _NANOSECONDS) / order.step
    moved = comparison.value.value - (steps if call.function == "+" else -steps)
    if steps.denominator != 1 or not order.smallest <= moved <= order.largest:
        return None
    return comparison.by(comparison.op, order.array([int(moved)])[0]).on(moment)


def _nanoseconds(interval: ScalarExpression) -> int | None:
    """Return the length of an interval, where it has one."""
    if not isinstance(interval, pa.MonthDayNanoIntervalScalar) or not interval.is_valid:
        return None
    months, days, nanoseconds = interval.as_py()
    return None if months else days * _DAY * _NANOSECONDS + nanoseconds


def _calendar_bin(ticks: int, unit: str, per_second: int) -> _Bin | None:
    """Return the bin of `date_trunc` that a moment lies in, of whose ticks so many are a second."""
    if unit in _MONTHS:
        day = np.datetime64(ticks // (_DAY * per_second), "D")
        first = int(day.astype("datetime64[M]").astype(np.int64)) // _MONTHS[unit] * _MONTHS[unit]
        days = [np.datetime64(month, "M").astype("datetime64[D]") for month in (first, first + _MONTHS[unit])]
        start, end = (int(each.astype(np.int64)) * _DAY * per_second for each in days)
        return _Bin(start, end)
    if unit in _SECONDS:
        return _stride_bin(ticks, _SECONDS[unit] * per_second, _FIRST_MONDAY * per_second if unit == "week" else 0)
    if unit in _FRACTIONS:
        return _stride_bin(ticks, max(1, per_second // _FRACTIONS[unit]), 0)
    return None


def _stride_bin(ticks: int, stride: int, origin: int) -> _Bin:
    start = (ticks - origin) // stride * stride + origin
    return _Bin(start, start + stride)


def _moment(ticks: int, kind: pa.DataType) -> pa.Scalar | None:
    limits = integers(pa.int64())
    return pa.scalar(ticks, pa.int64()).cast(kind) if limits.smallest <= ticks <= limits.largest else None


def _of_bin(moment: ScalarExpression, found: _Bin, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of the start of a moment's bin says of the moment; its literal lies in the bin `found`."""
    kind = comparison.value.type
    start, end = _moment(found.start, kind), _moment(found.end, kind)
    if start is None or end is None:
        return None
    first = start if found.start == comparison.value.value else end
    match comparison.op:
        case Op.LT | Op.GE:
            return comparison.by(comparison.op, first).on(moment)
        case Op.LE:
            return comparison.by(Op.LT, end).on(moment)
        case Op.GT:
            return comparison.by(Op.GE, end).on(moment)
    equal = comparison.all_on(moment, (Op.GE, first), (Op.LT, end))
    return equal if equal is None or comparison.op is Op.EQ else negate(equal)


def _of_local_bin(call: ScalarCall, moment: ScalarExpression, found: _Bin, comparison: Comparison) -> Predicate | None:
    """Return the comparison, and the instants that it leaves, given the bin of its literal in seconds of local time.

    Local time does not rise with the instants everywhere, since clocks are set back: there are further instants among them.
    """
    kind, op = comparison.kinds.of(moment), comparison.op
    zone = None if kind is None else zone_of(kind)
    if kind is None or zone is None or op is Op.NE:
        return None
    low = -_FARTHEST if op in {Op.LT, Op.LE} else found.start
    high = _FARTHEST if op in {Op.GT, Op.GE} else found.end - 1
    first, last = zone.instants(low, high)
    limits = [(Op.GE, _moment(first * TICKS[kind.unit], kind)), (Op.LT, _moment((last + 1) * TICKS[kind.unit], kind))]
    inside = comparison.all_on(moment, *((side, limit) for side, limit in limits if limit is not None))
    itself = ComputedCondition.of(ScalarCall(op.value, (call, comparison.value)))
    return None if inside is None else all_of([inside, itself])
