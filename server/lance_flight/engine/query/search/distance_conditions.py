"""Conditions on a distance in a filter of a plan, read as ranges of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import Expr

from lance_flight.engine.query.search.distance_ranges import UNKNOWN, DistanceRange

ValueOf = Callable[[Expr], tuple[float, float] | None]
"""Function that returns the factor and the offset by which an expression is made of the distance; None for any other expression."""

_OPERANDS = 2
_FLIPPED: Mapping[str, str] = MappingProxyType({"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="})


def conjuncts(predicate: Expr) -> Iterator[Expr]:
    """Yield the conditions that a predicate joins by AND."""
    if _operator(predicate) == "AND":
        for each in predicate.rex_call_operands():
            yield from conjuncts(each)
    else:
        yield predicate


def range_of(condition: Expr, value_of: ValueOf) -> DistanceRange | None:
    """Return the range of the distance that a condition is about; None for one that nothing is known by."""
    found = _range_of(condition, value_of)
    return found if found.is_telling else None


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
        return _compared(value_of(left), operator, number)
    number = number_of(left)
    return UNKNOWN if number is None else _compared(value_of(right), _FLIPPED[operator], number)


def _compared(value: tuple[float, float] | None, operator: str, number: float) -> DistanceRange:
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
    ends = [number_of(Expr(each)) for each in (between.low(), between.high())]
    if between.negated() or None in ends:
        return UNKNOWN
    value = value_of(Expr(between.expr()))
    low, high = (end for end in ends if end is not None)
    return _compared(value, ">=", low).both(_compared(value, "<=", high))
