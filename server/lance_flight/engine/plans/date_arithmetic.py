"""DATE with an interval of hours or less: DataFusion 55 drops the time, where PostgreSQL and DuckDB answer a timestamp."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
from datafusion import DataFrame, Expr, LogicalPlan, SessionContext

from lance_flight.engine.compat.interval_products import TIMES
from lance_flight.engine.plans.nodes import expressions_of, operands_of
from lance_flight.errors import Unsupported

_TIME = re.compile(
    r"\binterval\b.*?(?:\d:\d|\b\d*(?:h|m|s|ms|us|ns|hr|hrs|min|mins|sec|secs|hours?|minutes?|seconds?|\w+seconds?)\b)",
    re.IGNORECASE | re.DOTALL,
)
_PRODUCT = re.compile(rf"""['"] (?:{"|".join(TIMES)})['"]""")
"""Matches the unit of a product of an interval of hours or less (`engine.compat.interval_products`)."""
_NANOSECONDS = re.compile(r"nanoseconds: (-?\d+)|milliseconds: (-?\d+)")


def may_add_times(sql: str) -> bool:
    """Return whether a query may have an interval of hours or less.

    >>> may_add_times("SELECT d + INTERVAL '12 hours'"), may_add_times("SELECT d + INTERVAL '3 months'")
    (True, False)
    """
    return _TIME.search(sql) is not None or _PRODUCT.search(sql) is not None


def check_date_arithmetic(context: SessionContext, plan: LogicalPlan) -> None:
    """Refuse a plan, not yet optimised, that adds an interval of hours or less to a date (`Unsupported`)."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs()
        for date, interval in _sums(node):
            match = _NANOSECONDS.search(interval.schema_name())
            is_time = match is not None and any(map(int, filter(None, match.groups())))
            is_time = is_time or _PRODUCT.search(interval.schema_name()) is not None
            if is_time and _is_date(context, node, date):
                shown = date.schema_name().rpartition(".")[2] if date.variant_name() == "Column" else "d"
                raise Unsupported(
                    "the sum of a DATE and an INTERVAL with hours, minutes or seconds has a time, which a DATE has not;"
                    f" write CAST({shown} AS TIMESTAMP) in place of {shown}"
                )


def _sums(node: LogicalPlan) -> Iterator[tuple[Expr, Expr]]:
    """Yield what intervals are added to or taken from, with each interval."""
    waiting = expressions_of(node)
    while waiting:
        expression = waiting.pop()
        if expression.variant_name() == "BinaryExpr":
            sum_of = expression.to_variant()
            left, right = Expr(sum_of.left()), Expr(sum_of.right())
            if sum_of.op() in {"+", "-"}:
                yield from ((a, b) for a, b in ((left, right), (right, left)) if _is_interval(b))
        waiting += operands_of(expression)


def _is_interval(value: Expr) -> bool:
    name = value.schema_name()
    return "Interval" in name or _PRODUCT.search(name) is not None


def _is_date(context: SessionContext, node: LogicalPlan, value: Expr) -> bool:
    return any(_is_date_of(context.create_dataframe_from_logical_plan(below), value) for below in node.inputs())


def _is_date_of(relation: DataFrame, value: Expr) -> bool:
    try:
        return bool(pa.types.is_date(relation.select(value).schema().types[0]))
    except Exception:  # noqa: BLE001 - its columns are those of the other side of a join
        return False
