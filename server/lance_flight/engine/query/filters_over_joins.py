"""Conditions on the result of an outer join, which DataFusion 55 moves below the join by the names of columns.

Where both sides have a column of that name, the condition may come to the wrong one, and rows are lost. A merge join takes no
conditions from above. Unnecessary with a release of https://github.com/apache/datafusion/pull/25259.
"""

from __future__ import annotations

from datafusion import Expr, LogicalPlan, SessionContext
from datafusion import expr as nodes

_INNER = "Inner Join"
_WITHOUT_OPERANDS = frozenset(["Literal", "Placeholder", "ScalarVariable", "Exists", "ScalarSubquery"])


def has_misplaced_condition(context: SessionContext, plan: LogicalPlan) -> bool:
    """Return whether an optimised plan has a condition that DataFusion may move to the wrong side of an outer join."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs()
        condition = node.to_variant()
        if isinstance(condition, nodes.Filter):
            join, is_direct = _join_below(node)
            shared = set() if join is None else _shared_names(context, join)
            if shared & _names(condition.predicate()) if is_direct else shared:
                return True
    return False


def _join_below(node: LogicalPlan) -> tuple[LogicalPlan | None, bool]:
    """Return the outer join that a condition is about, if only projections are between them, and whether none is."""
    (below,) = node.inputs()
    is_direct = not isinstance(below.to_variant(), nodes.Projection)
    while isinstance(below.to_variant(), nodes.Projection | nodes.SubqueryAlias):
        (below,) = below.inputs()
    is_outer = isinstance(below.to_variant(), nodes.Join) and not below.display().startswith(_INNER)
    return (below if is_outer else None), is_direct


def _shared_names(context: SessionContext, join: LogicalPlan) -> set[str]:
    left, right = (set(context.create_dataframe_from_logical_plan(side).schema().names) for side in join.inputs())
    return left & right


def _names(condition: Expr) -> set[str]:
    """Return the names of the columns in a condition, without the relations that they are of."""
    found: set[str] = set()
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        kind = part.variant_name()
        if kind == "Column":
            found.add(part.to_variant().name())
        elif kind not in _WITHOUT_OPERANDS:
            waiting += part.rex_call_operands()
    return found
