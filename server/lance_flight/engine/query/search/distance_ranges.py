"""Ranges of a distance in WHERE, and what they ask of a search whose rows are sorted by that distance.

A condition is bounded from both sides: it is TRUE of no distance outside of what is `possible`, and of all that are `certain`. So
`d > 1 OR (d = 1 AND id > 7)` is possible from 1 on, and certain beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from datafusion import Expr

from lance_flight.engine.functions.vector_functions import Distance

_RELATIVE, _OF_VECTOR = 1e-4, 1e-6
"""By how much a search's distances, of float32, may differ from those that SQL computes: of the distance, and of the vector's length."""

Distances = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers from `low` to `high`; none if `low` is the greater one."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def is_empty(self) -> bool:
        """True if no number is in it."""
        return self.low > self.high

    @property
    def is_everything(self) -> bool:
        """True if all numbers are in it."""
        return self.low == -math.inf and self.high == math.inf

    def both(self, other: Self) -> Interval:
        """Return the numbers that are in both."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def hull(self, other: Self) -> Interval:
        """Return the least interval with the numbers of either."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def of(self, scale: float, offset: float) -> Interval:
        """Return the numbers x for which `scale * x + offset` is in it."""
        ends = sorted(((self.low - offset) / scale, (self.high - offset) / scale))
        return self if self.is_empty else Interval(*ends)


EVERYTHING, NOTHING = Interval(), Interval(math.inf, -math.inf)


@dataclass(frozen=True, slots=True)
class DistanceRange:
    """Range of a distance by a condition: the values of which it may be TRUE, and those of which it is, whatever else a row has."""

    possible: Interval = EVERYTHING
    certain: Interval = EVERYTHING

    @classmethod
    def between(cls, low: float = -math.inf, high: float = math.inf) -> DistanceRange:
        """Return the range of a comparison; whether its ends belong to it is less than what distances are known by."""
        return cls(Interval(low, high), Interval(low, high))

    @property
    def is_everything(self) -> bool:
        """True if nothing is said of the distance."""
        return self.possible.is_everything and self.certain.is_everything

    @property
    def is_telling(self) -> bool:
        """True if it is known of some distance that the condition is TRUE."""
        return not self.certain.is_empty

    def both(self, other: Self) -> DistanceRange:
        """Return the range of `a AND b`."""
        return DistanceRange(self.possible.both(other.possible), self.certain.both(other.certain))

    def either(self, other: Self) -> DistanceRange:
        """Return the range of `a OR b`; of two certain ranges apart from each other the one without an end counts."""
        apart = self.certain.both(other.certain).is_empty and not (self.certain.is_empty or other.certain.is_empty)
        certain = (
            max(self.certain, other.certain, key=lambda item: item.high) if apart else self.certain.hull(other.certain)
        )
        return DistanceRange(self.possible.hull(other.possible), certain)


UNKNOWN = DistanceRange(EVERYTHING, NOTHING)
"""Range of a condition that says nothing of the distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Rows that a sort by a distance with a limit wants of a search: the first `count` rows in a range of the distance.

    With `is_tied` rows that are as near as the last one belong to them. Distances are those of the search, for a vector of a `length`.
    """

    count: int
    metric: str
    length: float
    within: DistanceRange = DistanceRange()
    is_tied: bool = False

    @classmethod
    def of(cls, distance: Distance, count: int, length: float, within: DistanceRange, *, is_tied: bool) -> Wanted:
        """Return what is wanted where the range is one of the values of a distance in SQL."""
        to = _SEARCHED[distance.metric, distance.is_ascending]
        possible, certain = (to(interval) for interval in (within.possible, within.certain))
        return cls(
            count=count,
            metric=distance.metric,
            length=length,
            within=DistanceRange(possible, certain),
            is_tied=is_tied,
        )

    @property
    def least(self) -> float | None:
        """Return the distance from which on rows may count, as a float32; None for all."""
        low = self.within.possible.low
        return None if low == -math.inf else float(np.float32(low - self._slack(low)))

    @property
    def is_bounded(self) -> bool:
        """True if rows without a distance, and those beyond some distance, do not count."""
        return self.within.possible.high < math.inf

    @property
    def first_count(self) -> int:
        """Return how many rows are asked for at first."""
        return 2 * self.count + 8 if self.is_tied or self.least is not None else self.count

    def is_met(self, distances: Distances) -> bool:
        """Return whether all that is wanted is among the nearest rows, whose distances are given in order."""
        if self.within.is_everything and not self.is_tied:
            return len(distances) >= self.count
        if not len(distances):
            return False
        last = float(distances[-1])
        if self.is_bounded and last > self.within.possible.high + self._slack(self.within.possible.high):
            return True
        counted = distances[self._are_certain(distances)]
        if len(counted) < self.count:
            return False
        return not self.is_tied or last > float(counted[self.count - 1]) + 2 * self._slack(last)

    def _are_certain(self, distances: Distances) -> npt.NDArray[np.bool_]:
        low, high = self.within.certain.low, self.within.certain.high
        above = distances > low + self._slack(low) if low > -math.inf else distances == distances  # noqa: PLR0124 - not NaN
        below = distances < high - self._slack(high) if high < math.inf else above
        certain: npt.NDArray[np.bool_] = above & below
        return certain

    def _slack(self, distance: float) -> float:
        """Return by how much a distance of the search may differ from the exact one."""
        if not math.isfinite(distance):
            return 0.0
        off, size = _OF_VECTOR * self.length, abs(distance)
        match self.metric:
            case "l2":
                return _RELATIVE * size + 2 * math.sqrt(size) * off + off**2
            case "cosine":
                return _RELATIVE * size + _OF_VECTOR
            case _:
                return _RELATIVE * size + _OF_VECTOR * (1 + self.length) ** 2


def _square(interval: Interval) -> Interval:
    """Return the squares of lengths; there are none below 0."""
    if interval.high < 0:
        return NOTHING
    low = -math.inf if interval.low < 0 else interval.low**2
    return Interval(low, interval.high**2)


_SEARCHED: Mapping[tuple[str, bool], Callable[[Interval], Interval]] = MappingProxyType(
    {
        ("l2", True): _square,
        ("cosine", True): lambda interval: interval,
        ("dot", True): lambda interval: interval.of(1.0, -1.0),
        ("dot", False): lambda interval: interval.of(-1.0, 1.0),
    }
)
"""The distances of a search for the values of a distance in SQL, by its metric and whether the least value is the nearest."""


ValueOf = Callable[[Expr], tuple[float, float] | None]
"""Function that returns the factor and the offset by which an expression is made of the distance; None for any other expression."""

_FLIPPED: Mapping[str, str] = MappingProxyType({"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="})


def conjuncts(predicate: Expr) -> Iterator[Expr]:
    """Yield the conditions that a predicate joins by AND."""
    if _operator(predicate) == "AND":
        for expression in predicate.rex_call_operands():
            yield from conjuncts(expression)
    else:
        yield predicate


def range_of(condition: Expr, value_of: ValueOf) -> DistanceRange | None:
    """Return the range of the distance that a condition is about; None for one that nothing is known by."""
    distance_range = _range_of(condition, value_of)
    return distance_range if distance_range.is_telling else None


def number_of(expression: Expr) -> float | None:
    """Return the finite number that an expression is written as; None for any other expression."""
    if expression.variant_name() != "Literal":
        return None
    value: Any = expression.python_value()
    value = value.as_py() if isinstance(value, pa.Scalar) else value
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else None


def _operator(expression: Expr) -> str | None:
    return expression.rex_call_operator() if expression.variant_name() == "BinaryExpr" else None


def _range_of(condition: Expr, value_of: ValueOf) -> DistanceRange:
    if condition.variant_name() == "Between":
        return _between(condition, value_of)
    operator = _operator(condition)
    if operator is None:
        return UNKNOWN
    left, right = condition.rex_call_operands()
    if operator == "AND":
        return _range_of(left, value_of).both(_range_of(right, value_of))
    if operator == "OR":
        return _range_of(left, value_of).either(_range_of(right, value_of))
    if operator not in _FLIPPED:
        return UNKNOWN
    number = number_of(right)
    if number is not None:
        return _compare(value_of(left), operator, number)
    number = number_of(left)
    return UNKNOWN if number is None else _compare(value_of(right), _FLIPPED[operator], number)


def _compare(value: tuple[float, float] | None, operator: str, number: float) -> DistanceRange:
    if value is None:
        return UNKNOWN
    scale, offset = value
    bound = (number - offset) / scale
    operator = operator if scale > 0 else _FLIPPED[operator]
    low = bound if ">" in operator or operator == "=" else -math.inf
    high = bound if "<" in operator or operator == "=" else math.inf
    return DistanceRange.between(low, high)


def _between(condition: Expr, value_of: ValueOf) -> DistanceRange:
    between = condition.to_variant()
    ends = [number_of(Expr(bound)) for bound in (between.low(), between.high())]
    if between.negated() or None in ends:
        return UNKNOWN
    value = value_of(Expr(between.expr()))
    low, high = (end for end in ends if end is not None)
    return _compare(value, ">=", low).both(_compare(value, "<=", high))
