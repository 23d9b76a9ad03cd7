"""Conditions on the result of a join, which DataFusion 55 moves below the join by the names of columns as it makes a physical plan.

Those of inner joins are below them already, unless the rule `push_down_filter` was taken away. Where both sides have a column of that name, the condition may come to the wrong one, and rows are lost. A merge join takes no
conditions from above; one that has a condition itself reads wrong columns (https://github.com/apache/datafusion/issues/24414).
Unnecessary with a release of https://github.com/apache/datafusion/pull/25259.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from datafusion import Expr, LogicalPlan, SessionContext
from datafusion import expr as nodes

from lance_flight.engine.query.plan_expressions import operands_of
from lance_flight.errors import SqlError, Unsupported

_ABOVE_JOIN = re.compile(
    r"FilterExec: (.*)\n(?:\s*(?:ProjectionExec|RepartitionExec|CoalescePartitionsExec|CoalesceBatchesExec)\b.*\n)*"
    r"\s*\w*JoinExec: .*join_type=(\w+)"
)
"""Conditions above a join, in the text of a physical plan."""
_ALIKE = (
    "WHERE over such a join, whose tables have columns of one name, is not supported;"
    " give the columns of one table other names: FROM (SELECT a AS b FROM t) AS t"
)
_INNER = "Inner Join"


def has_misplaced_condition(
    context: SessionContext, plan: LogicalPlan, physical: Callable[[], str], *, has_pushing: bool
) -> bool:
    """Return whether DataFusion moves a condition of an optimised plan to the wrong side of a join.

    `physical` shows its physical plan, which is made only for a plan with such joins; `has_pushing` says whether the conditions of
    inner joins are below them. `Unsupported` if a join has conditions beside equalities, so that it cannot be a merge join.
    """
    waiting, is_shared, has_conditions = [plan], False, False
    above: list[int] = []
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.inputs())
        condition = node.to_variant()
        has_conditions |= isinstance(condition, nodes.Join) and condition.filter() is not None
        if isinstance(condition, nodes.Filter):
            join, is_direct = _join_below(node, has_pushing=has_pushing)
            if join is not None:
                above.append(_conditions(node.display()))
                shared = _shared_names(context, join)
                is_shared |= bool(shared & _names(condition.predicate()) if is_direct else shared)
    if not is_shared:
        return False
    found = _ABOVE_JOIN.findall(physical())
    stayed = [_conditions(text) for text, kind in found if not (has_pushing and kind == "Inner")]
    # A condition may have moved to those of the next join below.
    if len(stayed) >= len(above) and all(there >= here for there, here in zip(stayed, above, strict=False)):
        return False
    if has_conditions:
        raise Unsupported(_ALIKE)
    return True


def _conditions(text: str) -> int:
    """Return how many conditions AND joins in a text: a part of them may have moved."""
    return text.count(" AND ") + 1


def check_merge_joins(planned: Callable[[], object]) -> None:
    """Refuse a query whose merge joins DataFusion fails to plan (`Unsupported`)."""
    try:
        planned()
    except SqlError as exc:
        raise Unsupported(_ALIKE) from exc


def check_stacked_conditions(context: SessionContext, plan: LogicalPlan) -> None:
    """Refuse a plan whose conditions stand above each other, if they are about columns of which there are two of one name."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs()
        condition = node.to_variant()
        if isinstance(condition, nodes.Filter) and isinstance(_below(node).to_variant(), nodes.Filter):
            names = context.create_dataframe_from_logical_plan(node).schema().names
            twice = {name for name in names if names.count(name) > 1}
            if twice & _names(condition.predicate()):
                raise Unsupported(
                    f"a condition that is NULL whatever the row, beside a join whose tables both have a column {min(twice)!r},"
                    " is not supported; leave out what is compared with NULL, or write IS NULL"
                )


def _below(node: LogicalPlan) -> LogicalPlan:
    """Return what a condition is about, below the projections of it."""
    (below,) = node.inputs()
    while isinstance(below.to_variant(), nodes.Projection | nodes.SubqueryAlias):
        (below,) = below.inputs()
    return below


def _join_below(node: LogicalPlan, *, has_pushing: bool) -> tuple[LogicalPlan | None, bool]:
    """Return the join, an outer one if the others `has_pushing`, that a condition is about, if only projections are between them, and whether none is."""
    below, (first,) = _below(node), node.inputs()
    is_join = isinstance(below.to_variant(), nodes.Join) and not (has_pushing and below.display().startswith(_INNER))
    return (below if is_join else None), not isinstance(first.to_variant(), nodes.Projection)


def _shared_names(context: SessionContext, join: LogicalPlan) -> set[str]:
    left, right = (set(context.create_dataframe_from_logical_plan(side).schema().names) for side in join.inputs())
    return left & right


def _names(condition: Expr) -> set[str]:
    """Return the names of the columns in a condition, without the relations that they are of."""
    found: set[str] = set()
    waiting = [condition]
    while waiting:
        part = waiting.pop()
        if part.variant_name() == "Column":
            found.add(part.to_variant().name())
        waiting += operands_of(part)
    return found
