"""DataFusion's expressions as the trees that pruning reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import Expr
from datafusion.expr import Projection

from lance_flight.engine.query.partition_wise.plans import unaliased
from lance_flight.engine.sql.checked_arithmetic import operator_of
from lance_flight.engine.sql.typed_calls import shown_name
from lance_flight.model.arrow_types import is_string
from lance_flight.planning.predicates import Column
from lance_flight.planning.scalar_expressions import (
    CASE,
    CAST,
    INFIX,
    PATTERNS,
    ScalarCall,
    ScalarExpression,
    columns_of_expression,
    replaced,
)

MOST_DEPTH = 32
"""Levels of an expression that are read; of a deeper one nothing is known."""


def scalar_expression(expression: Any, depth: int = MOST_DEPTH) -> ScalarExpression | None:
    """Translate an expression; None for one with parts that have no counterpart."""
    path = column_path(expression)
    if path is not None:
        return Column(path[0], path[1:])
    value = literal(expression)
    if value is not None or not depth:
        return value
    translate = _VARIANTS.get(expression.variant_name())
    return None if translate is None else translate(expression, depth - 1)


def projected_expressions(node: Projection) -> dict[str, ScalarExpression]:
    """Map the output names of a projection to its input columns, the fields inside these, and what it computes of them."""
    found: dict[str, list[ScalarExpression | None]] = defaultdict(list)
    for raw in node.projections():
        expression = Expr(raw)
        inner = unaliased(expression)
        name = expression.to_variant().alias() if inner is not expression else expression.schema_name()
        computed = scalar_expression(inner)
        is_column = isinstance(computed, Column) and not computed.inside and inner is expression
        found[computed.name if is_column and isinstance(computed, Column) else name].append(computed)
    return {name: same[0] for name, same in found.items() if len(same) == 1 and same[0] is not None}


def expression_below(expression: ScalarExpression, columns: Mapping[str, ScalarExpression]) -> ScalarExpression | None:
    """Rewrite an expression over a projection's output to its input columns; None where one is not known."""
    names = {column: columns.get(column.name) for column in columns_of_expression(expression)}
    if any(known is None or (column.inside and not isinstance(known, Column)) for column, known in names.items()):
        return None

    def below(part: ScalarExpression) -> ScalarExpression | None:
        known = names.get(part) if isinstance(part, Column) else None
        if isinstance(part, Column) and isinstance(known, Column):
            return Column(known.name, (*known.inside, *part.inside))
        return known

    return replaced(expression, below)


def _call(function: str, operands: list[Any], depth: int, kind: str = "") -> ScalarCall | None:
    arguments = [scalar_expression(each, depth) for each in operands]
    known = tuple(each for each in arguments if each is not None)
    return ScalarCall(function, known, kind) if len(known) == len(arguments) else None


def _function(expression: Any, depth: int) -> ScalarCall | None:
    operator = expression.rex_call_operator()
    call = _call(operator_of(operator) or shown_name(operator), expression.rex_call_operands(), depth)
    match call:
        case ScalarCall("date_part", (pa.Scalar() as part, moment)) if is_string(part.type) and part.is_valid:
            return ScalarCall("date_part", (pa.scalar(part.as_py().lower()), moment))
        case ScalarCall("substr", (text, pa.Scalar() as start, pa.Scalar() as width)) if (
            start.as_py() == 1 and _is_whole(width)
        ):
            return ScalarCall("left", (text, width))
    return call


def _is_whole(width: pa.Scalar) -> bool:
    return isinstance(width.as_py(), int) and width.as_py() >= 0


def _operator(expression: Any, depth: int) -> ScalarCall | None:
    operator = expression.rex_call_operator()
    return _call(operator, expression.rex_call_operands(), depth) if operator in INFIX else None


def _unary(expression: Any, depth: int) -> ScalarCall | None:
    return _call(expression.rex_call_operator(), expression.rex_call_operands(), depth)


def _pattern(expression: Any, depth: int) -> ScalarCall | None:
    operator = expression.rex_call_operator()
    if operator not in PATTERNS or expression.to_variant().escape_char() is not None:
        return None
    return _call(operator, expression.rex_call_operands(), depth)


def _in_list(expression: Any, depth: int) -> ScalarCall | None:
    call = _call("in", expression.rex_call_operands(), depth)
    return ScalarCall("not", (call,)) if call is not None and expression.to_variant().negated() else call


def _cast(expression: Any, depth: int) -> ScalarCall | None:
    (inner,) = expression.rex_call_operands()
    # The type itself has no attributes in Python: it is read from the text, CAST(… AS type).
    before, after = f"CAST({_shown(inner)} AS ", ")"
    shown = _shown(expression)
    if not (shown.startswith(before) and shown.endswith(after)):
        return None
    return _call(CAST, [inner], depth, shown[len(before) : -len(after)])


def _case(expression: Any, depth: int) -> ScalarCall | None:
    variant = expression.to_variant()
    if variant.expr() is not None or variant.else_expr() is None:
        return None
    branches = [each for branch in variant.when_then_expr() for each in branch]
    return _call(CASE, [*branches, variant.else_expr()], depth)


def _alias(expression: Any, depth: int) -> ScalarExpression | None:
    return scalar_expression(unaliased(expression), depth)


_VARIANTS: Mapping[str, Callable[[Any, int], ScalarExpression | None]] = MappingProxyType(
    {
        "ScalarFunction": _function,
        "BinaryExpr": _operator,
        "Like": _pattern,
        "InList": _in_list,
        "Cast": _cast,
        "Case": _case,
        "Alias": _alias,
        **dict.fromkeys(("Not", "Negative", "IsNull", "IsNotNull", "IsTrue", "IsFalse", "IsUnknown"), _unary),
        **dict.fromkeys(("IsNotTrue", "IsNotFalse", "IsNotUnknown"), _unary),
    }
)


def _shown(expression: Any) -> str:
    return str(expression).removeprefix("Expr(").removesuffix(")")


def column_path(expression: Any) -> tuple[str, ...] | None:
    """Return the name of a column, followed by those of the nested fields that the expression takes from it; None for any other."""
    if expression.variant_name() == "Column":
        return (expression.to_variant().name(),)
    if expression.variant_name() != "ScalarFunction" or expression.rex_call_operator() != "get_field":
        return None
    of, *names = expression.rex_call_operands()
    path, inside = column_path(of), [literal(name) for name in names]
    if path is None or not all(name is not None and is_string(name.type) for name in inside):
        return None
    return (*path, *(name.as_py() for name in inside if name is not None))


def literal(expression: Any) -> pa.Scalar | None:
    """Return the value of a literal; None for any other expression."""
    if expression.variant_name() != "Literal":
        return None
    value = expression.python_value()
    return value if isinstance(value, pa.Scalar) else pa.scalar(value)
