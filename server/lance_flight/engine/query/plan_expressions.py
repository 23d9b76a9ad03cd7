"""Expressions of a logical plan, as far as datafusion-python shows them."""

from __future__ import annotations

from collections.abc import Iterator

from datafusion import Expr, LogicalPlan
from datafusion import expr as nodes

_WITHOUT_OPERANDS = frozenset(
    [
        "Column",
        "Literal",
        "Placeholder",
        "ScalarVariable",
        "Exists",
        "ScalarSubquery",
        "Wildcard",
        "OuterReferenceColumn",
        "LambdaVariable",
    ]
)


def expressions_of(node: LogicalPlan) -> list[Expr]:
    """Return the expressions of one operator, without those of what it reads."""
    match node.to_variant():
        case nodes.Filter() as found:
            return [found.predicate()]
        case nodes.Projection() as found:
            return list(found.projections())
        case nodes.Aggregate() as found:
            return [*found.group_by_exprs(), *found.aggregate_exprs()]
        case nodes.WindowExpr() as found:
            return list(found.get_window_expr())
        case nodes.Sort() as found:
            return [key.expr() for key in found.sort_exprs()]
        case nodes.Join() as found:
            condition = found.filter()
            return [side for sides in found.on() for side in sides] + ([] if condition is None else [condition])
    return []


def operands_of(expression: Expr) -> list[Expr]:
    """Return the operands of an expression; none of one that datafusion-python does not show, such as a subquery."""
    if expression.variant_name() in _WITHOUT_OPERANDS:
        return []
    try:
        return list(expression.rex_call_operands())
    except RuntimeError:
        return []


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """Yield the conditions that an expression joins by AND."""
    if condition.variant_name() == "BinaryExpr" and condition.rex_call_operator() == "AND":
        for part in operands_of(condition):
            yield from conjuncts(part)
    else:
        yield condition
