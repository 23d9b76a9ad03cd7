"""Sums of a column and an integer, compared with a literal: DataFusion's integers wrap around."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pyarrow as pa
from pyarrow import types

from lance_flight.model.ordering import Ordering, integers
from lance_flight.planning.comparison import Comparison
from lance_flight.planning.predicates import Op, Predicate, any_of, negate
from lance_flight.planning.scalar_expressions import ScalarCall, ScalarExpression

_Inverse: TypeAlias = Callable[[int, int], tuple[int, int]]
"""Function from a range of sums to that of their variable, both without wrapping around."""


def of_sum(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of `x + n`, `n + x`, `x - n` or `n - x` says of `x`."""
    if not types.is_integer(comparison.value.type):
        return None
    match call:
        case ScalarCall("+", (inner, pa.Scalar() as amount)) | ScalarCall("+", (pa.Scalar() as amount, inner)):
            return _wrapped(inner, amount, comparison, lambda low, high: (low - amount.as_py(), high - amount.as_py()))
        case ScalarCall("-", (inner, pa.Scalar() as amount)):
            return _wrapped(inner, amount, comparison, lambda low, high: (low + amount.as_py(), high + amount.as_py()))
        case ScalarCall("-", (pa.Scalar() as amount, inner)):
            return _wrapped(inner, amount, comparison, lambda low, high: (amount.as_py() - high, amount.as_py() - low))
    return None


def of_negative(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what a comparison of `-x` says of `x`."""
    (inner,) = call.arguments
    if not types.is_signed_integer(comparison.value.type):
        return None
    return _wrapped(inner, comparison.value, comparison, lambda low, high: (-high, -low))


def _wrapped(inner: ScalarExpression, amount: pa.Scalar, comparison: Comparison, inverse: _Inverse) -> Predicate | None:
    kind = comparison.value.type
    if not (amount.is_valid and types.is_integer(kind) and amount.type == kind == comparison.kinds.of(inner)):
        return None
    if comparison.op is Op.NE:
        equal = _wrapped(inner, amount, comparison.by(Op.EQ), inverse)
        return None if equal is None else negate(equal)
    order = integers(kind)
    low, high = _sums(comparison, order)
    if low > high:
        return comparison.by(Op.LT, pa.scalar(order.smallest, kind)).on(inner)
    ranges = _wrapped_around(*inverse(low, high), order)
    found = [
        comparison.all_on(inner, (Op.GE, pa.scalar(first, kind)), (Op.LE, pa.scalar(last, kind)))
        if first < last
        else comparison.by(Op.EQ, pa.scalar(first, kind)).on(inner)
        for first, last in ranges
    ]
    known = [each for each in found if each is not None]
    return any_of(known) if len(known) == len(found) else None


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
