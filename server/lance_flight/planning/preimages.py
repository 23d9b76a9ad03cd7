"""Comparisons of a computed value with a literal, as conditions on the columns that it is computed from.

A function whose values never fall while its column rises has for each range of values a range of the column: that of
`date_trunc('month', ts) = '2024-01-01'` is January. What is returned is equivalent to the comparison, NULL included, or is joined with it by AND.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_flight.model.domains import Ordering, integers, ordering
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.zones import TICKS, UTC, zone_of
from lance_flight.planning.predicates import (
    CAST,
    COMPARISONS,
    MAX_BRANCHES,
    And,
    Column,
    Compare,
    ComputedCondition,
    Constant,
    IsNull,
    Op,
    Or,
    Predicate,
    ScalarCall,
    ScalarExpression,
    StartsWith,
    all_of,
    any_of,
    negate,
)


@dataclass(frozen=True, slots=True)
class ExpressionTypes:
    """The types of expressions over the columns of a schema."""

    schema: NamespaceSchema

    def of(self, expression: ScalarExpression) -> pa.DataType | None:
        """Return the type of a column, of a cast, or of what keeps the type of its argument; None for any other."""
        match expression:
            case Column():
                number = self.schema.source_ids.get(expression.path)
                return None if number is None else self.schema.sources[number].field.type
            case ScalarCall("date_trunc" | "date_bin", (_, moment, *_)):
                return self.of(moment)
            case ScalarCall("cast", _, kind):
                return _CAST_TYPES.get(kind)
            case ScalarCall("+" | "-", (one, other)):
                kinds = [column.type if isinstance(column, pa.Scalar) else self.of(column) for column in (one, other)]
                is_moved = kinds[1] is not None and types.is_interval(kinds[1])
                return kinds[0] if is_moved or kinds[0] == kinds[1] else None
            case ScalarCall("negative", (inner,)):
                return self.of(inner)
        return None

    def is_lossless(self, cast: ScalarCall) -> bool:
        """Return whether comparing a cast value is comparing the value, as far as `model.domains.locate` compares exactly."""
        inner, outer = self.of(cast.arguments[0]), self.of(cast)
        if inner is None or outer is None:
            return False
        if types.is_integer(inner):
            # A cast that does not fit is an error of the query.
            return bool(types.is_integer(outer) or types.is_floating(outer))
        if not types.is_timestamp(outer):
            return False
        if types.is_date32(inner):
            return outer.tz is None
        return bool(types.is_timestamp(inner)) and inner.tz == outer.tz and TICKS[inner.unit] <= TICKS[outer.unit]


_CAST_TYPES = {
    "Date32": pa.date32(),
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    **{f"Timestamp({unit.replace('u', 'µ')})": pa.timestamp(unit) for unit in TICKS},
}
"""Types of casts that are looked through, as DataFusion shows them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`… op value`; `invert` returns what it says of the columns of an expression in the place of the dots."""

    op: Op
    value: pa.Scalar
    kinds: ExpressionTypes
    invert: Callable[[ScalarExpression, Comparison], Predicate | None]

    def on(self, expression: ScalarExpression) -> Predicate | None:
        """Return what it says of the columns of an expression; None where that is not known."""
        return self.invert(expression, self)

    def by(self, op: Op, value: pa.Scalar | None = None) -> Comparison:
        """Return another comparison."""
        return replace(self, op=op, value=self.value if value is None else value)

    def all_on(self, expression: ScalarExpression, *sides: tuple[Op, pa.Scalar]) -> Predicate | None:
        """Return what several comparisons say together; None where one is not known."""
        predicates = [self.by(op, value).on(expression) for op, value in sides]
        known = [predicate for predicate in predicates if predicate is not None]
        return all_of(known) if len(known) == len(predicates) else None


_Inverse: TypeAlias = Callable[[int, int], tuple[int, int]]
"""Function from a range of sums to that of their variable, both without wrapping around."""


def of_sum(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of `x + n`, `n + x`, `x - n` or `n - x` says of `x`."""
    if not types.is_integer(comparison.value.type):
        return None
    match call:
        case ScalarCall("+", (inner, pa.Scalar() as amount)) | ScalarCall("+", (pa.Scalar() as amount, inner)):
            return _wrap(inner, amount, comparison, lambda low, high: (low - amount.as_py(), high - amount.as_py()))
        case ScalarCall("-", (inner, pa.Scalar() as amount)):
            return _wrap(inner, amount, comparison, lambda low, high: (low + amount.as_py(), high + amount.as_py()))
        case ScalarCall("-", (pa.Scalar() as amount, inner)):
            return _wrap(inner, amount, comparison, lambda low, high: (amount.as_py() - high, amount.as_py() - low))
    return None


def of_negative(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of `-x` says of `x`."""
    (inner,) = call.arguments
    if not types.is_signed_integer(comparison.value.type):
        return None
    return _wrap(inner, comparison.value, comparison, lambda low, high: (-high, -low))


def _wrap(inner: ScalarExpression, amount: pa.Scalar, comparison: Comparison, inverse: _Inverse) -> Predicate | None:
    kind = comparison.value.type
    if not (amount.is_valid and types.is_integer(kind) and amount.type == kind == comparison.kinds.of(inner)):
        return None
    if comparison.op is Op.NE:
        equal = _wrap(inner, amount, comparison.by(Op.EQ), inverse)
        return None if equal is None else negate(equal)
    order = integers(kind)
    low, high = _sums(comparison, order)
    if low > high:
        return comparison.by(Op.LT, pa.scalar(order.smallest, kind)).on(inner)
    ranges = _wrapped_around(*inverse(low, high), order)
    predicates = [
        comparison.all_on(inner, (Op.GE, pa.scalar(first, kind)), (Op.LE, pa.scalar(last, kind)))
        if first < last
        else comparison.by(Op.EQ, pa.scalar(first, kind)).on(inner)
        for first, last in ranges
    ]
    known = [predicate for predicate in predicates if predicate is not None]
    return any_of(known) if len(known) == len(predicates) else None


def _sums(comparison: Comparison, order: Ordering) -> tuple[int, int]:
    """Return the ends of the range that a comparison leaves to the sum."""
    number: int = comparison.value.as_py()
    low = {Op.EQ: number, Op.GE: number, Op.GT: number + 1}.get(comparison.op)
    high = {Op.EQ: number, Op.LE: number, Op.LT: number - 1}.get(comparison.op)
    return order.smallest if low is None else low, order.largest if high is None else high


def _wrapped_around(low: int, high: int, order: Ordering) -> Iterator[tuple[int, int]]:
    """Return a range modulo the size of the type, as one range or two."""
    size = order.largest - order.smallest + 1
    turns = (low - order.smallest) // size * size
    yield low - turns, min(high - turns, order.largest)
    if high - turns > order.largest:
        yield order.smallest, high - turns - size


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
        bin_of = _calendar_bin(value.value, name, ticks)
        return None if bin_of is None else _of_bin(moment, bin_of, comparison)
    local, _ = zone.local_bounds(value.value // ticks, value.value // ticks)
    bin_of = _calendar_bin(local, name, 1)
    return None if bin_of is None else _of_local_bin(call, moment, bin_of, comparison)


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
    bin_of = _Bin(value.value * ticks, (value.value + 1) * ticks)
    return None if start is None else _of_bin(moment, bin_of, comparison.by(comparison.op, start))


def of_binned(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of `date_bin(stride, moment [, origin])` says of the moment."""
    stride, moment, *origin = call.arguments
    kind, nanoseconds, begin = comparison.kinds.of(moment), _nanoseconds(stride), Fraction(0)
    months = _months(stride)
    if months is not None and kind == comparison.value.type and zone_of(kind) is UTC:
        return _of_month_bin(moment, months, 0 if not origin else _month_of(origin[0]), comparison)
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


def _of_month_bin(
    moment: ScalarExpression, months: int, origin: int | None, comparison: Comparison
) -> Predicate | None:
    if months < 1 or origin is None or not types.is_timestamp(comparison.value.type):
        return None
    ticks = TICKS[comparison.value.type.unit]
    first = (_month_at(comparison.value.value, ticks) - origin) // months * months + origin
    return _of_bin(moment, _Bin(_month_start(first, ticks), _month_start(first + months, ticks)), comparison)


def of_moved(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of a date or timestamp plus or minus an interval says of it."""
    if len(call.arguments) != 2:  # noqa: PLR2004
        return None
    moment, amount = call.arguments
    nanoseconds, kind = _nanoseconds(amount), comparison.kinds.of(moment)
    months = _months(amount)
    if months is not None and kind is not None and kind == comparison.value.type:
        return _of_moved_months(call, moment, months if call.function == "+" else -months, comparison)
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


def _of_moved_months(
    call: ScalarCall, moment: ScalarExpression, months: int, comparison: Comparison
) -> Predicate | None:
    """Return the comparison, and the days that it leaves: a day that a month lacks becomes its last, so that times of day do not rise."""
    kind, op, value = comparison.kinds.of(moment), comparison.op, comparison.value.value
    order, is_date = None if kind is None else ordering(kind), kind is not None and types.is_date32(kind)
    if (
        kind is None
        or order is None
        or op is Op.NE
        or not (is_date or (types.is_timestamp(kind) and zone_of(kind) is UTC))
    ):
        return None
    day = 1 if is_date else _DAY * TICKS[kind.unit]
    month, ticks = (
        _month_at(value * _DAY if is_date else value, 1 if is_date else TICKS[kind.unit]),
        Fraction(day, _DAY),
    )
    passed = value // day - _month_start(month, 1) // _DAY
    first, last, end = (int(_month_start(each, 1) * ticks) for each in (month - months, month - months + 1, month + 1))
    is_last = value // day == end // day - 1
    low, high = min(first + passed * day, last - day), last if is_last else min(first + (passed + 1) * day, last)
    sides = [(Op.GE, low)] * (op not in {Op.LT, Op.LE}) + [(Op.LT, high)] * (op not in {Op.GT, Op.GE})
    limits = [(side, order.array([at])[0]) for side, at in sides if order.smallest <= at <= order.largest]
    inside = comparison.all_on(moment, *limits)
    itself = ComputedCondition.of(ScalarCall(op.value, (call, comparison.value)))
    return None if inside is None else all_of([inside, itself])


def _months(interval: ScalarExpression) -> int | None:
    """Return the months of an interval of nothing else."""
    if not isinstance(interval, pa.MonthDayNanoIntervalScalar) or not interval.is_valid:
        return None
    months, days, nanoseconds = interval.as_py()
    return months if months and not days and not nanoseconds else None


def _month_at(ticks: int, per_second: int) -> int:
    """Return the months since 1970 of a moment."""
    return int(np.datetime64(ticks // (_DAY * per_second), "D").astype("datetime64[M]").astype(np.int64))


def _month_start(month: int, per_second: int) -> int:
    return int(np.datetime64(month, "M").astype("datetime64[D]").astype(np.int64)) * _DAY * per_second


def _month_of(origin: ScalarExpression) -> int | None:
    """Return the month that an origin begins; None for one within a month."""
    if not isinstance(origin, pa.TimestampScalar) or not origin.is_valid:
        return None
    ticks = TICKS[origin.type.unit]
    month = _month_at(origin.value, ticks)
    return month if _month_start(month, ticks) == origin.value else None


def _nanoseconds(interval: ScalarExpression) -> int | None:
    """Return the length of an interval, where it has one."""
    if not isinstance(interval, pa.MonthDayNanoIntervalScalar) or not interval.is_valid:
        return None
    months, days, nanoseconds = interval.as_py()
    return None if months else days * _DAY * _NANOSECONDS + nanoseconds


def _calendar_bin(ticks: int, unit: str, per_second: int) -> _Bin | None:
    """Return the bin of `date_trunc` that a moment lies in, of whose ticks so many are a second."""
    if unit in _MONTHS:
        first = _month_at(ticks, per_second) // _MONTHS[unit] * _MONTHS[unit]
        return _Bin(_month_start(first, per_second), _month_start(first + _MONTHS[unit], per_second))
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


def _of_bin(moment: ScalarExpression, bin_of: _Bin, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of the start of a moment's bin says of the moment; its literal lies in the bin `found`."""
    kind = comparison.value.type
    start, end = _moment(bin_of.start, kind), _moment(bin_of.end, kind)
    if start is None or end is None:
        return None
    first = start if bin_of.start == comparison.value.value else end
    match comparison.op:
        case Op.LT | Op.GE:
            return comparison.by(comparison.op, first).on(moment)
        case Op.LE:
            return comparison.by(Op.LT, end).on(moment)
        case Op.GT:
            return comparison.by(Op.GE, end).on(moment)
    equal = comparison.all_on(moment, (Op.GE, first), (Op.LT, end))
    return equal if equal is None or comparison.op is Op.EQ else negate(equal)


def _of_local_bin(call: ScalarCall, moment: ScalarExpression, bin_of: _Bin, comparison: Comparison) -> Predicate | None:
    """Return the comparison, and the instants that it leaves, given the bin of its literal in seconds of local time.

    Local time does not rise with the instants everywhere, since clocks are set back: there are further instants among them.
    """
    kind, op = comparison.kinds.of(moment), comparison.op
    zone = None if kind is None else zone_of(kind)
    if kind is None or zone is None or op is Op.NE:
        return None
    low = -_FARTHEST if op in {Op.LT, Op.LE} else bin_of.start
    high = _FARTHEST if op in {Op.GT, Op.GE} else bin_of.end - 1
    first, last = zone.instants(low, high)
    limits = [(Op.GE, _moment(first * TICKS[kind.unit], kind)), (Op.LT, _moment((last + 1) * TICKS[kind.unit], kind))]
    inside = comparison.all_on(moment, *((side, limit) for side, limit in limits if limit is not None))
    itself = ComputedCondition.of(ScalarCall(op.value, (call, comparison.value)))
    return None if inside is None else all_of([inside, itself])


# --- functions that number or write moments


_Measure: TypeAlias = Callable[[int], float | str]
"""What a function gives for a moment, in microseconds since 1970 of UTC: the later the moment, the more, or never less."""
_MICROSECONDS = 10**6
_WRITTEN_IN_ORDER = ("%Y", "%m", "%d", "%H", "%M", "%S")
_LETTER = re.compile(r"%.?", re.DOTALL)
_FIRST_WRITTEN, _LAST_WRITTEN = 1_000, 10_000
"""Years with four digits, the texts of which are in the order of the moments."""


def of_monotone(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of a number or text that never falls while a moment rises says of the moment.

    The first moments of and after the literal's own are found by bisection, whatever the function is.
    """
    places = [place for place, each in enumerate(call.arguments) if not isinstance(each, pa.Scalar)]
    if len(places) != 1:
        return None
    moment = call.arguments[places[0]]
    kind = comparison.kinds.of(moment)
    order = None if kind is None else ordering(kind)
    is_moment = kind is not None and (types.is_date32(kind) or (types.is_timestamp(kind) and zone_of(kind) is UTC))
    measure = _MEASURES[call.function](call, places[0]) if is_moment else None
    value = comparison.value
    wanted = value.value if types.is_date32(value.type) else value.as_py()
    if measure is None or order is None or kind is None or isinstance(wanted, str) != (call.function == _TO_CHAR):
        return None
    ticks = _MICROSECONDS * _DAY if types.is_date32(kind) else Fraction(_MICROSECONDS, TICKS[kind.unit])
    is_falling = places[0] == 1 and call.function == _DATE_DIFF
    smallest, end = order.smallest, order.largest + 1
    if call.function == _TO_CHAR:
        smallest, end = (
            _clamp(int(_month_start((year - 1970) * 12, _MICROSECONDS) / ticks), order)
            for year in (_FIRST_WRITTEN, _LAST_WRITTEN)
        )
    first = _first(smallest, end, lambda at: measure(int(at * ticks // 1)) >= wanted, is_falling=is_falling)
    after = _first(smallest, end, lambda at: measure(int(at * ticks // 1)) > wanted, is_falling=is_falling)
    if is_falling:
        first, after = after, first
    inside = _between(moment, first, after, order, comparison, is_falling=is_falling)
    if call.function != _TO_CHAR or inside is None:
        return inside
    outside = [
        comparison.by(op, order.array([at])[0]).on(moment)
        for op, at in ((Op.LT, smallest), (Op.GE, end))
        if order.smallest < at <= order.largest
    ]
    known = [predicate for predicate in outside if predicate is not None]
    if len(known) < len(outside):
        return None
    return all_of(
        [any_of([inside, *known]), ComputedCondition.of(ScalarCall(comparison.op.value, (call, comparison.value)))]
    )


def _clamp(at: int, order: Ordering) -> int:
    return int(min(max(at, order.smallest), order.largest + 1))


def _first(low: int, high: int, holds: Callable[[int], bool], *, is_falling: bool) -> int:
    """Return the first place where a condition holds that goes on to hold; of one that is `is_falling`, where it holds no more."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle) != is_falling:
            high = middle
        else:
            low = middle + 1
    return low


def _between(
    moment: ScalarExpression, first: int, after: int, order: Ordering, comparison: Comparison, *, is_falling: bool
) -> Predicate | None:
    """Return the comparison as one of the moments from `first` to before `after`, whose values equal the literal."""
    op = comparison.op.flipped if is_falling else comparison.op
    if op is Op.NE:
        equal = _between(moment, first, after, order, comparison.by(Op.EQ), is_falling=is_falling)
        return None if equal is None else negate(equal)
    low = {Op.EQ: first, Op.GE: first, Op.GT: after}.get(op, order.smallest)
    high = {Op.EQ: after, Op.LT: first, Op.LE: after}.get(op, order.largest + 1)
    if low >= high:  # of no moment, and NULL of NULL
        return comparison.by(Op.LT, order.array([order.smallest])[0]).on(moment)
    sides = [(Op.GE, order.array([low])[0]), (Op.LE, order.array([high - 1])[0])]
    return comparison.all_on(moment, *sides)


def _counts(size: int, call: ScalarCall, place: int) -> _Measure | None:
    return lambda micros: micros // size


def _of_nanoseconds(call: ScalarCall, place: int) -> _Measure | None:
    return lambda micros: micros * 1_000


def _seconds(call: ScalarCall, place: int) -> _Measure | None:
    return lambda micros: float(micros) / _MICROSECONDS


def _last_days(call: ScalarCall, place: int) -> _Measure | None:
    return lambda micros: _month_start(_month_at(micros, _MICROSECONDS) + 1, 1) // _DAY - 1


def _starts(call: ScalarCall, place: int) -> _Measure | None:
    """Return what date_diff gives for a moment and a literal, by the starts of units between them."""
    match call.arguments[0], call.arguments[3 - place] if place in {1, 2} else None:
        case pa.Scalar() as unit, pa.TimestampScalar() | pa.Date32Scalar() as other if other.is_valid:
            index = _INDICES.get(unit.as_py())
        case _:
            return None
    if index is None or (types.is_timestamp(other.type) and zone_of(other.type) is not UTC):
        return None
    origin = index(other.cast(pa.timestamp("us")).value)
    return (lambda micros: index(micros) - origin) if place == 2 else (lambda micros: origin - index(micros))  # noqa: PLR2004


def _index(size: int) -> Callable[[int], int]:
    return lambda micros: micros // size


def _month_index(months: int) -> Callable[[int], int]:
    return lambda micros: _month_at(micros, _MICROSECONDS) // months


_INDICES: Mapping[str, Callable[[int], int]] = MappingProxyType(
    {
        **{unit: _month_index(months) for unit, months in _MONTHS.items()},
        **{unit: _index(seconds * _MICROSECONDS) for unit, seconds in _SECONDS.items() if unit != "week"},
        **{unit: _index(_MICROSECONDS // parts) for unit, parts in _FRACTIONS.items()},
    }
)


def _texts(call: ScalarCall, place: int) -> _Measure | None:
    """Return what to_char gives by a pattern of the year, then the month and so on."""
    pattern = call.arguments[-1]
    text = pattern.as_py() if isinstance(pattern, pa.Scalar) and place == 0 else None
    if not isinstance(text, str):
        return None
    text = text.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S")
    letters = tuple(_LETTER.findall(text))
    if not letters or letters != _WRITTEN_IN_ORDER[: len(letters)]:
        return None
    return lambda micros: (_EPOCH + timedelta(microseconds=micros)).strftime(text)


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_TO_CHAR, _DATE_DIFF = "to_char", "date_diff"
_MEASURES: Mapping[str, Callable[[ScalarCall, int], _Measure | None]] = MappingProxyType(
    {
        "epoch": _seconds,
        "epoch_ms": partial(_counts, 1_000),
        "epoch_us": partial(_counts, 1),
        "epoch_ns": _of_nanoseconds,
        "last_day": _last_days,
        _DATE_DIFF: _starts,
        _TO_CHAR: _texts,
    }
)
"""Functions of moments that never fall, or never rise, while the moment rises."""


_BEFORE_WILDCARD = re.compile(r"[^%_\\]*")


def with_preimages(predicate: Predicate, schema: NamespaceSchema) -> Predicate:
    """Return a predicate whose conditions on computed values are conditions on columns where they can be."""
    match predicate:
        case And(parts):
            return all_of(with_preimages(part, schema) for part in parts)
        case Or(parts):
            return any_of(with_preimages(part, schema) for part in parts)
        case ComputedCondition(expression=ScalarCall() as call, negated=negated):
            condition = _condition(call, ExpressionTypes(schema))
            if condition is None:
                return predicate
            inverted = negate(condition) if negated else condition
            return all_of([inverted, predicate]) if predicate.uses_stored else inverted
    return predicate


def _condition(call: ScalarCall, kinds: ExpressionTypes) -> Predicate | None:
    match call:
        case ScalarCall(function, (expression, pa.Scalar() as value)) if function in COMPARISONS:
            return _compare(expression, Comparison(Op(function), value, kinds, _compare))
        case ScalarCall(function, (pa.Scalar() as value, expression)) if function in COMPARISONS:
            return _compare(expression, Comparison(Op(function).flipped, value, kinds, _compare))
        case ScalarCall("in", (expression, *values)) if len(values) <= MAX_BRANCHES:
            predicates = [
                _compare(expression, Comparison(Op.EQ, column, kinds, _compare))
                for column in values
                if isinstance(column, pa.Scalar) and column.is_valid
            ]
            known = [predicate for predicate in predicates if predicate is not None]
            return any_of(known) if len(known) == len(values) else None
        case ScalarCall("like", (Column() as text, pa.Scalar() as pattern)) if prefix := _prefix_of(pattern.as_py()):
            return all_of([StartsWith(text, prefix), ComputedCondition.of(call)])
    return None


def _prefix_of(pattern: str | None) -> str:
    """Return the text that all that are LIKE a pattern begin with."""
    return _BEFORE_WILDCARD.match(pattern or "")[0]  # type: ignore[index] # it matches the empty text


def _compare(expression: ScalarExpression, comparison: Comparison) -> Predicate | None:
    """Return the condition on columns that a comparison of an expression is; None where it is not known."""
    if isinstance(expression, Column):
        return Compare(expression, comparison.op, comparison.value)
    if not isinstance(expression, ScalarCall):
        return _constant(expression, comparison)
    if not comparison.value.is_valid:
        return Constant(None)
    invert = _INVERSES.get(expression.function)
    return None if invert is None else invert(expression, comparison)


def _constant(left: pa.Scalar, comparison: Comparison) -> Predicate | None:
    if left.type != comparison.value.type or types.is_floating(left.type):
        return None
    try:
        return Constant(_COMPUTED[comparison.op](left, comparison.value).as_py())
    except pa.ArrowException:
        return None


_COMPUTED = MappingProxyType(
    {
        Op.EQ: pc.equal,
        Op.NE: pc.not_equal,
        Op.LT: pc.less,
        Op.LE: pc.less_equal,
        Op.GT: pc.greater,
        Op.GE: pc.greater_equal,
    }
)


def _of_cast(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    if call.kind == "Date32":
        return of_date(call, comparison)
    (inner,) = call.arguments
    return comparison.on(inner) if comparison.kinds.is_lossless(call) else None


def _of_case(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what is said by the results of a CASE whose conditions are of NULL or not, as COALESCE is one."""
    *branches, otherwise = call.arguments
    branches_of: list[Predicate | None] = []
    before: list[Predicate] = []
    for when, then in zip(branches[::2], branches[1::2], strict=True):
        match when:
            case ScalarCall("is null" | "is not null" as function, (Column() as column,)):
                condition = IsNull(column, negated=function == "is not null")
            case _:
                return None
        branches_of.append(comparison.on(then))
        branches_of[-1] = None if branches_of[-1] is None else all_of([*before, condition, branches_of[-1]])
        before.append(negate(condition))
    last = comparison.on(otherwise)
    branches_of.append(None if last is None else all_of([*before, last]))
    known = [predicate for predicate in branches_of if predicate is not None]
    return any_of(known) if len(known) == len(branches_of) else None


def _of_prefix(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what the first characters of a text say of it."""
    match call, comparison.op, comparison.value.as_py():
        case ScalarCall(arguments=(_, pa.Scalar())), Op.NE, _:
            equal = _of_prefix(call, comparison.by(Op.EQ))
            return None if equal is None else negate(equal)
        case ScalarCall(arguments=(Column() as text, pa.Scalar() as width)), Op.EQ, str(wanted) if _is_positive(width):
            if len(wanted) > width.as_py():
                return And((Compare(text, Op.GE, comparison.value), Compare(text, Op.LT, comparison.value)))
            is_prefix = len(wanted) == width.as_py()
            return StartsWith(text, wanted) if is_prefix else Compare(text, Op.EQ, comparison.value)
    return None


def _is_positive(width: pa.Scalar) -> bool:
    return isinstance(width.as_py(), int) and width.as_py() > 0


def _of_sum(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    return of_sum(call, comparison) or of_moved(call, comparison)


_INVERSES: Mapping[str, Callable[[ScalarCall, Comparison], Predicate | None]] = MappingProxyType(
    {
        "date_trunc": of_truncated,
        "date_bin": of_binned,
        "to_date": of_date,
        "cast": _of_cast,
        "+": _of_sum,
        "-": _of_sum,
        "negative": of_negative,
        "case": _of_case,
        "left": _of_prefix,
        **dict.fromkeys(_MEASURES, of_monotone),
    }
)
"""Functions whose comparisons with a literal say something of what they take."""
