"""Column lineage in a plan: the scan whose column a node returns unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from datafusion.expr import Aggregate, Filter, Join, Projection, SubqueryAlias, TableScan, WindowExpr

from lance_flight.engine.query.partition_wise.plans import (
    LEFT_ONLY,
    RIGHT_ONLY,
    ColumnKey,
    Node,
    alias_key,
    column_key,
    expressions,
    join_type,
    unaliased,
    window_columns,
)

LEFT_KEPT = frozenset({"Inner", "Left"}) | LEFT_ONLY
RIGHT_KEPT = frozenset({"Inner", "Right"}) | RIGHT_ONLY
"""Types of joins that return a side's values unchanged; other outer joins may return NULL instead."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Column of a scan: rows that it reads with other values than some have no part in the node's rows with those."""

    scan: Node
    name: str


def origin(node: Node, column: ColumnKey) -> Origin | None:
    """Return the origin of a column of a node; None if its values are computed."""
    find = _ORIGINS.get(type(node.variant))
    return None if find is None else find(node, column)


def _through_scan(node: Node, column: ColumnKey) -> Origin | None:
    return Origin(node, column[1]) if node.variant.fetch() is None else None


def _through_alias(node: Node, column: ColumnKey) -> Origin | None:
    below = node.inputs[0]
    for outer, inner in zip(node.outputs or (), below.outputs or (), strict=True):
        if outer.key == column:
            return origin(below, inner.key)
    return None


def _through_projection(node: Node, column: ColumnKey) -> Origin | None:
    return _origin_among(node, column, expressions(node.variant.projections()))


def _through_aggregate(node: Node, column: ColumnKey) -> Origin | None:
    return _origin_among(node, column, expressions(node.variant.group_by_exprs()))


def _origin_among(node: Node, column: ColumnKey, said: list[Any]) -> Origin | None:
    for expression in said:
        if alias_key(expression) == column:
            inner = column_key(unaliased(expression))
            return None if inner is None else origin(node.inputs[0], inner)
    return None


def _through_window(node: Node, column: ColumnKey) -> Origin | None:
    return origin(node.inputs[0], column) if column in window_columns(node.variant) else None


def _through_join(node: Node, column: ColumnKey) -> Origin | None:
    kind = join_type(node.variant)
    for side, kept in zip(node.inputs, (LEFT_KEPT, RIGHT_KEPT), strict=True):
        if kind in kept and any(each.key == column for each in side.outputs or ()):
            return origin(side, column)
    return None


_ORIGINS: Mapping[type[Any], Callable[[Node, ColumnKey], Origin | None]] = MappingProxyType(
    {
        TableScan: _through_scan,
        SubqueryAlias: _through_alias,
        Filter: lambda node, column: origin(node.inputs[0], column),
        Projection: _through_projection,
        Aggregate: _through_aggregate,
        WindowExpr: _through_window,
        Join: _through_join,
    }
)
