"""Joins that look at every pair of rows, since they have no equality."""

from __future__ import annotations

from datafusion.expr import Aggregate, Join, Projection, SubqueryAlias

from lance_flight.engine.query.partition_wise.plans import Node


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
