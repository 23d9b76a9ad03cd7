"""Joins as DataFusion runs them: which side its hash table is built of, and which look at every pair of rows."""

from __future__ import annotations

from functools import partial

from datafusion import DataFrame
from datafusion.expr import Aggregate, Join, Projection, SubqueryAlias

from lance_flight.engine.query.partition_wise.plan_rebuilding import rebuilt
from lance_flight.engine.query.partition_wise.plans import BOTH_SIDES, Node, join_type
from lance_flight.engine.query.partition_wise.statistics import RowCounts
from lance_flight.engine.query.session import QuerySession
from lance_flight.errors import SqlError, Unsupported

TOO_LARGE = 2
"""Ratio of the left to the right side's rows from which on they are swapped."""


def small_first(session: QuerySession, root: Node, counts: RowCounts) -> DataFrame | None:
    """Return the query with the smaller sides of its joins on the left; None if nothing changes, or the plan cannot be rebuilt."""
    exchanged = frozenset(node for node in root.walk() if _is_wrong(node, counts))
    if not exchanged:
        return None
    try:
        swapped = session.planned(partial(rebuilt, session.datafusion, root, {}, exchanged))
        return None if session.misplaces_conditions(swapped) else swapped
    except (Unsupported, SqlError):
        return None


def _is_wrong(node: Node, counts: RowCounts) -> bool:
    if not isinstance(node.variant, Join) or join_type(node.variant) not in BOTH_SIDES or not node.variant.on():
        return False
    left, right = (counts.of(side) for side in node.inputs)
    return right > 0 and left > TOO_LARGE * right and not node.variant.null_equals_null() and node.outputs is not None


def has_product(root: Node) -> bool:
    """Return whether a plan has a join without any equality, and with more than one row on both of its sides."""
    return any(
        isinstance(node.variant, Join) and not node.variant.on() and not any(map(_is_one_row, node.inputs))
        for node in root.walk()
    )


def _is_one_row(node: Node) -> bool:
    if isinstance(node.variant, Aggregate):
        return not node.variant.group_by_exprs()
    return isinstance(node.variant, Projection | SubqueryAlias) and _is_one_row(node.inputs[0])
