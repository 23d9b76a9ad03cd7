"""Comparisons of a computed value with a literal, as conditions on the columns that it is computed from.

A function whose values never fall while its column rises has for each range of values a range of the column: that of
`date_trunc('month', ts) = '2024-01-01'` is January. What is returned is equivalent to the comparison, NULL included, or is joined with it by AND.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_flight.model.schema import NamespaceSchema
from lance_flight.planning import integer_sums, time_bins
from lance_flight.planning.branches import MAX_BRANCHES
from lance_flight.planning.comparison import Comparison, ExpressionTypes
from lance_flight.planning.predicates import (
    And,
    Column,
    Compare,
    Constant,
    IsNull,
    Op,
    Or,
    Predicate,
    StartsWith,
    all_of,
    any_of,
    negate,
)
from lance_flight.planning.scalar_expressions import COMPARISONS, ComputedCondition, ScalarCall, ScalarExpression

_BEFORE_WILDCARD = re.compile(r"[^%_\\]*")


def with_preimages(predicate: Predicate, schema: NamespaceSchema) -> Predicate:
    """Return a predicate whose conditions on computed values are conditions on columns where they can be."""
    match predicate:
        case And(parts):
            return all_of(with_preimages(part, schema) for part in parts)
        case Or(parts):
            return any_of(with_preimages(part, schema) for part in parts)
        case ComputedCondition(expression=ScalarCall() as call, negated=negated):
            found = _condition(call, ExpressionTypes(schema))
            if found is None:
                return predicate
            inverted = negate(found) if negated else found
            return all_of([inverted, predicate]) if predicate.uses_stored else inverted
    return predicate


def _condition(call: ScalarCall, kinds: ExpressionTypes) -> Predicate | None:
    match call:
        case ScalarCall(function, (expression, pa.Scalar() as value)) if function in COMPARISONS:
            return _compared(expression, Comparison(Op(function), value, kinds, _compared))
        case ScalarCall(function, (pa.Scalar() as value, expression)) if function in COMPARISONS:
            return _compared(expression, Comparison(Op(function).flipped, value, kinds, _compared))
        case ScalarCall("in", (expression, *values)) if len(values) <= MAX_BRANCHES:
            found = [
                _compared(expression, Comparison(Op.EQ, each, kinds, _compared))
                for each in values
                if isinstance(each, pa.Scalar) and each.is_valid
            ]
            known = [each for each in found if each is not None]
            return any_of(known) if len(known) == len(values) else None
        case ScalarCall("like", (Column() as text, pa.Scalar() as pattern)) if prefix := _prefix_of(pattern.as_py()):
            return all_of([StartsWith(text, prefix), ComputedCondition.of(call)])
    return None


def _prefix_of(pattern: str | None) -> str:
    """Return the text that all that are LIKE a pattern begin with."""
    return _BEFORE_WILDCARD.match(pattern or "")[0]  # type: ignore[index] # it matches the empty text


def _compared(expression: ScalarExpression, comparison: Comparison) -> Predicate | None:
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
        return time_bins.of_date(call, comparison)
    (inner,) = call.arguments
    return comparison.on(inner) if comparison.kinds.is_lossless(call) else None


def _of_case(call: ScalarCall, comparison: Comparison) -> Predicate | None:
    """Return what is said by the results of a CASE whose conditions are of NULL or not, as COALESCE is one."""
    *branches, otherwise = call.arguments
    found: list[Predicate | None] = []
    before: list[Predicate] = []
    for when, then in zip(branches[::2], branches[1::2], strict=True):
        match when:
            case ScalarCall("is null" | "is not null" as function, (Column() as column,)):
                condition = IsNull(column, negated=function == "is not null")
            case _:
                return None
        found.append(comparison.on(then))
        found[-1] = None if found[-1] is None else all_of([*before, condition, found[-1]])
        before.append(negate(condition))
    last = comparison.on(otherwise)
    found.append(None if last is None else all_of([*before, last]))
    known = [each for each in found if each is not None]
    return any_of(known) if len(known) == len(found) else None


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
    return integer_sums.of_sum(call, comparison) or time_bins.of_moved(call, comparison)


_INVERSES: Mapping[str, Callable[[ScalarCall, Comparison], Predicate | None]] = MappingProxyType(
    {
        "date_trunc": time_bins.of_truncated,
        "date_bin": time_bins.of_binned,
        "to_date": time_bins.of_date,
        "cast": _of_cast,
        "+": _of_sum,
        "-": _of_sum,
        "negative": integer_sums.of_negative,
        "case": _of_case,
        "left": _of_prefix,
    }
)
"""Functions whose comparisons with a literal say something of what they take."""
