"""Conditions of scans that are TRUE, FALSE or NULL, as of a branch of UNION that selects a literal, where datafusion-python 54 fails.

It joins the conditions that are handed to a scan from left to right, and has no AND of a boolean and a condition of columns. So the plan
is built again without them. Unnecessary with a release in which the literals of `pyarrow_filter_expression.rs` are expressions.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from datafusion import DataFrame, Expr, LogicalPlan, SessionContext, literal
from datafusion.expr import TableScan

from lance_flight.engine.plans.nodes import Node
from lance_flight.engine.query.optimising.plan_rebuilding import rebuilt, select_columns
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
