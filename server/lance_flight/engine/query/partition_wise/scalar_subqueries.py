"""Scalar subqueries that are read before the query around them is planned, so that their values prune its partitions.

Only those in comparisons right above the scan of a partitioned table, and only uncorrelated ones: they have one value, which takes their place.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, Expr
from datafusion.expr import Filter, Projection, TableScan

from lance_flight.engine.plans.nodes import Node, has_subquery, table_key
from lance_flight.engine.query.optimising.plan_rebuilding import rebuilt
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.errors import SqlError, Unsupported

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "=": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)
_CORRELATED = "outer_ref("
_SUBQUERY = "ScalarSubquery"


def find_scalar_subqueries(session: QuerySession, root: Node) -> list[Node]:
    """Return the filters of partitioned tables whose comparisons with subqueries can be pruned by."""
    if not has_subquery(root) or _CORRELATED in root.plan.display_indent():
        return []
    filters = [node for node in root.walk() if _is_of_partitions(session, node) and any(map(_subquery, _parts(node)))]
    try:
        # Where the plan cannot be rebuilt, nothing is read in vain.
        session.optimiser.run_planning(partial(_with_frames, session, root, dict.fromkeys(filters)))
    except (Unsupported, SqlError):
        return []
    return filters


def with_values(session: QuerySession, root: Node, filters: list[Node]) -> DataFrame:
    """Read the subqueries of some filters, and return the query with their values in their place."""
    conditions = {node: [_evaluate(session, part) for part in _parts(node)] for node in filters}
    return session.optimiser.run_planning(partial(_with_frames, session, root, conditions))


def describe(node: Node) -> str:
    """Return the conditions of a filter with subqueries, as EXPLAIN shows them."""
    shown = [str(part).removeprefix("Expr(").removesuffix(")") for part in _parts(node) if _subquery(part)]
    return " AND ".join(shown)


def table_of(session: QuerySession, node: Node) -> str:
    """Return the table (`schema.name`) that the rows of a filter come from."""
    (scan,) = [part for part in node.walk() if isinstance(part.variant, TableScan)]
    return table_key(scan.variant, session.db_schema)


def _is_of_partitions(session: QuerySession, node: Node) -> bool:
    """Return whether a node is a filter right above the scan of a partitioned table."""
    if not isinstance(node.variant, Filter):
        return False
    below = node.inputs[0]
    while isinstance(below.variant, Filter | Projection):
        below = below.inputs[0]
    view = (
        session.views.get(table_key(below.variant, session.db_schema)) if isinstance(below.variant, TableScan) else None
    )
    return view is not None and view.snapshot.is_partitioned


def _parts(node: Node) -> list[Expr]:
    """Return the conditions of a filter that all must hold."""
    waiting, parts = [Expr(node.variant.predicate())], []
    while waiting:
        current = waiting.pop()
        if current.variant_name() == "BinaryExpr" and current.rex_call_operator() == "AND":
            waiting += reversed(current.rex_call_operands())
        else:
            parts.append(current)
    return parts


def _subquery(condition: Expr) -> tuple[Expr, str, Expr] | None:
    """Return a comparison with a side that has a subquery and no column, as its other side, the operator and that side."""
    if condition.variant_name() != "BinaryExpr" or condition.rex_call_operator() not in _COMPARISONS:
        return None
    left, right = condition.rex_call_operands()
    for one, other, is_flipped in ((left, right, False), (right, left, True)):
        kinds = set(_variants(other))
        if _SUBQUERY in kinds and "Column" not in kinds and _SUBQUERY not in set(_variants(one)):
            name = condition.rex_call_operator()
            return one, _FLIPPED.get(name, name) if is_flipped else name, other
    return None


_FLIPPED = MappingProxyType({"<": ">", ">": "<", "<=": ">=", ">=": "<="})


def _variants(expression: Expr) -> Iterator[str]:
    name = expression.variant_name()
    yield name
    if name not in {"Column", "Literal", _SUBQUERY}:
        for operand in expression.rex_call_operands():
            yield from _variants(operand)


def _evaluate(session: QuerySession, condition: Expr) -> Expr:
    """Return a condition with the value of its subquery; one without a subquery as it is."""
    compared = _subquery(condition)
    if compared is None:
        return condition
    kept, name, asked = compared
    frame = session.literal_rows("VALUES (1)").select(asked.alias("value"))
    batches = list(session.stream(frame))
    values = pa.chunked_array([batch.column(0) for batch in batches], frame.schema().field(0).type)
    return _COMPARISONS[name](kept, Expr.literal(values[0]))


def _with_frames(session: QuerySession, root: Node, conditions: Mapping[Node, list[Expr] | None]) -> DataFrame:
    """Rebuild a query with other conditions in some filters; None: with those that they have."""
    context, frames = session.optimiser.datafusion, {}
    for node, parts in conditions.items():
        below = context.create_dataframe_from_logical_plan(node.inputs[0].plan)
        frames[node] = below.filter(reduce(operator.and_, _parts(node) if parts is None else parts))
    return rebuilt(context, root, frames)
