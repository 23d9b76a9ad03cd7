"""Constants of a plan that DataFusion answers wrongly.

**Conditions of scans** that are TRUE, FALSE or NULL, as of a branch of UNION that selects a literal, where datafusion-python 54 fails.
It joins the conditions that are handed to a scan from left to right, and has no AND of a boolean and a condition of columns. So the plan
is built again without them. Unnecessary with a release in which the literals of `pyarrow_filter_expression.rs` are expressions.

**Constants of the left side of a FULL JOIN**: DataFusion 55 takes them for constants of the join, which has NULL beside rows of the right
side, and sorts no rows by them. A column that may have another value in each row is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from datafusion import DataFrame, Expr, LogicalPlan, SessionContext, literal
from datafusion.expr import Join, Projection, TableScan

from lance_flight.engine.plans.nodes import Node, expressions, is_one_row, join_type, strip_aliases
from lance_flight.engine.query.optimising.plan_rebuilding import rebuilt, select_columns, vary_columns
from lance_flight.engine.sql.references import quote_parts
from lance_flight.errors import Unsupported

_FAILURE = re.compile(
    r"pyarrow\.lib\.BooleanScalar|'bit_wise_(?:and|or)' has no kernel matching input types \(bool, bool\)"
)
_CONSTANT = re.compile(
    r"_filters=\[(?:.*(?:\bBoolean\(\w+\) (?:AND|OR)\b|\b(?:AND|OR) Boolean\()|(?:.*, )?Boolean\(\w+\)(?:, |\]$))",
    re.MULTILINE,
)
"""A constant in a condition of a scan, or for one, also of a scan in a subquery that datafusion-python does not show."""


def fails_at_constants(exc: Exception) -> bool:
    """Return whether DataFusion has failed to join conditions of which one is a constant."""
    return _FAILURE.search(str(exc.__cause__)) is not None


def has_constant_conditions(shown: str) -> bool:
    """Return whether an optimised plan hands a constant to a scan: where it is optimised again, there are two."""
    return _CONSTANT.search(shown) is not None


def without_constants(context: SessionContext, plan: LogicalPlan) -> DataFrame | None:
    """Return an optimised plan without the constants that it hands to scans; None where it cannot be built again."""
    root = Node.of(plan)
    scans = {node: _without(context, node) for node in root.walk() if isinstance(node.variant, TableScan)}
    with suppress(Unsupported):
        return rebuilt(context, root, {scan: frame for scan, frame in scans.items() if frame is not None})
    return None


_FULL = "Full Join:"
_ORDERED = re.compile(r"^\s*Sort: |\b(?:ORDER|PARTITION) BY \[", re.MULTILINE)
_EQUALITY = re.compile(r"(?:Filter: |_filters=\[).* = ")


def has_joined_constants(plan: LogicalPlan, shown: str) -> bool:
    """Return whether an optimised plan orders rows of a FULL JOIN whose left side may have constants."""
    return _FULL in shown and _ORDERED.search(shown) is not None and any(_left_sides(Node.of(plan)))


def without_joined_constants(context: SessionContext, plan: LogicalPlan) -> DataFrame:
    """Return an optimised plan in which the left sides of FULL JOINs have no constants; `Unsupported` where it cannot be built again."""
    root = Node.of(plan)
    frames: dict[Node, DataFrame] = {}
    for side in reversed(list(_left_sides(root))):
        frames[side] = vary_columns(context, rebuilt(context, side, frames), side.outputs or ())
    return rebuilt(context, root, frames)


def _left_sides(root: Node) -> Iterator[Node]:
    """Yield the left sides of FULL JOINs that may have constants, those within others last."""
    for node in root.walk():
        if isinstance(node.variant, Join) and join_type(node.variant) == "Full":
            side = node.inputs[0]
            if any(map(_may_be_constant, side.walk())):
                yield side


def _may_be_constant(node: Node) -> bool:
    """Return whether a node may give a column one value in all rows."""
    if isinstance(node.variant, Projection):
        return any(strip_aliases(each).variant_name() == "Literal" for each in expressions(node.variant.projections()))
    return _EQUALITY.search(node.said) is not None or is_one_row(node)


def _without(context: SessionContext, node: Node) -> DataFrame | None:
    """Return a scan without constants; None for one that has none."""
    conditions = [Expr(condition) for condition in node.variant.filters()]
    constants = [condition for condition in conditions if _is_constant(condition)]
    if not constants or node.variant.fetch() is not None:
        return None
    frame = context.table(quote_parts(*(part for part in node.variant.fqn() if part)))
    is_true = all(constant.python_value().as_py() is True for constant in constants)
    kept = [condition for condition in conditions if not _is_constant(condition)] if is_true else [literal(value=False)]
    for condition in kept:
        frame = frame.filter(condition)
    return select_columns(context, frame, node.outputs or ())


def _is_constant(condition: Any) -> bool:
    return str(Expr(condition).variant_name()) == "Literal"
