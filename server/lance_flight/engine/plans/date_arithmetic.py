"""Refusals of what DataFusion 55 answers wrongly of moments and intervals.

It drops the time of a DATE with an interval of hours or less, where PostgreSQL and DuckDB answer a timestamp. It orders intervals by
their months first, then by their days: to it 40 days are less than a month. A number that it casts to a TIMESTAMP is one of
microseconds here, but of seconds in other systems; PostgreSQL and DuckDB refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
from datafusion import Expr, LogicalPlan, SessionContext
from datafusion.expr import Sort, WindowExpr

from lance_flight.engine.compat.operand_types import INTERVALS
from lance_flight.engine.functions.date_spans import PRODUCT
from lance_flight.engine.plans.nodes import expressions_of, nodes_of, operands_of, strip_aliases
from lance_flight.errors import Unsupported
from lance_flight.model.arrow_types import is_number
from lance_flight.model.type_names import type_name

_TIME = re.compile(
    r"\binterval\b.*?(?:\d:\d|\b\d*(?:h|m|s|ms|us|ns|hr|hrs|min|mins|sec|secs|hours?|minutes?|seconds?|\w+seconds?)\b)",
    re.IGNORECASE | re.DOTALL,
)
_PRODUCT = re.compile(rf"_*{PRODUCT}\w*\(")
"""Matches the call that an interval times a number of rows is (`engine.compat.interval_products`)."""
_NANOSECONDS = re.compile(r"nanoseconds: (-?\d+)|milliseconds: (-?\d+)")


_ORDER = re.compile(r"\bORDER\b|\b(?:min|max|greatest|least)\s*\(", re.IGNORECASE)


_CAST = re.compile(
    r"(?:\bAS|::)\s*(?:TIMESTAMP|DATE|TIME|\w*INT\w*|REAL|DOUBLE|FLOAT\w*|DECIMAL|NUMERIC)", re.IGNORECASE
)
_MOMENTS = re.compile(r"date|time|now\(", re.IGNORECASE)
_INSTEAD = {
    "TIMESTAMP": ("to_timestamp_seconds(n), or to_timestamp_micros(n)", "epoch(ts), or epoch_us(ts)"),
    "DATE": ("DATE '1970-01-01' + n", "d - DATE '1970-01-01'"),
    "TIME": ("make_time(h, m, s)", "epoch(t)"),
}
"""What to write in place of a cast of a number to a moment, and of a moment to a number."""


def may_misread_moments(sql: str) -> bool:
    """Return whether a query may have what `check_moments` refuses."""
    return _may_add_times(sql) or _may_order_intervals(sql) or _CAST.search(sql) is not None


def check_moments(context: SessionContext, plan: LogicalPlan) -> None:
    """Refuse a plan, not yet optimised, that adds hours to a date, orders intervals, or casts between numbers and moments."""
    shown = plan.display_indent_schema()
    has_casts = "CAST(" in shown and _MOMENTS.search(shown) is not None
    for node in nodes_of(plan):
        _check_sums(context, node)
        _check_order(context, node)
        if has_casts:
            _check_casts(context, node)


def _check_casts(context: SessionContext, node: LogicalPlan) -> None:
    waiting = [strip_aliases(Expr(expression)) for expression in expressions_of(node)]
    while waiting:
        expression = waiting.pop()
        operands = operands_of(expression)
        waiting += operands
        if expression.variant_name() in _CASTS:
            types = (_types(context, node, value) for value in (operands[0], expression))
            for given, wanted in zip(*types, strict=False):
                _check_cast(given, wanted)


def _check_cast(given: pa.DataType, wanted: pa.DataType) -> None:
    is_made = is_number(given)
    moment, other = (wanted, given) if is_made else (given, wanted)
    instead = _INSTEAD.get(type_name(moment).partition("(")[0].removesuffix("TZ"))
    if instead is not None and is_number(other):
        raise Unsupported(f"{type_name(given)} is not cast to {type_name(wanted)}; write {instead[not is_made]}")


_CASTS = frozenset(["Cast", "TryCast"])


def _may_add_times(sql: str) -> bool:
    """Return whether a query may have an interval of hours or less.

    >>> _may_add_times("SELECT d + INTERVAL '12 hours'"), _may_add_times("SELECT d + INTERVAL '3 months'")
    (True, False)
    """
    return _TIME.search(sql) is not None or _PRODUCT.search(sql) is not None


def _may_order_intervals(sql: str) -> bool:
    """Return whether a query may order intervals, or take the least or the greatest one."""
    return INTERVALS.search(sql) is not None and _ORDER.search(sql) is not None


def _check_order(context: SessionContext, node: LogicalPlan) -> None:
    for value, instead in _ordered(node):
        if any(map(pa.types.is_interval, _types(context, node, value))):
            raise Unsupported(
                f"the order of INTERVALs depends on how long a month is; write {instead}, which takes 30 days"
            )


def _ordered(node: LogicalPlan) -> Iterator[tuple[Expr, str]]:
    """Yield what an operator orders, with what to write in its place."""
    is_sort = isinstance(node.to_variant(), Sort)
    windows = node.to_variant()
    if isinstance(windows, WindowExpr):
        for window in windows.get_window_expr():
            yield from ((Expr(key.expr()), "OVER (ORDER BY epoch(a))") for key in windows.get_sort_exprs(window))
    for value in (strip_aliases(Expr(expression)) for expression in expressions_of(node)):
        called = value.schema_name().partition("(")[0]
        if is_sort:
            yield value, "ORDER BY epoch(a)"
        elif called in {"min", "max"}:
            yield from ((each, f"{called}_by(a, epoch(a))") for each in operands_of(value))
        elif called in {"greatest", "least"}:
            yield from ((each, "a CASE that compares them") for each in operands_of(value))


def _check_sums(context: SessionContext, node: LogicalPlan) -> None:
    for date, interval in _sums(node):
        if _has_times(context, node, interval) and _is_date(context, node, date):
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


def _has_times(context: SessionContext, node: LogicalPlan, interval: Expr) -> bool:
    """Return whether an interval may have hours or less: a part of a day, as of a product with a fraction, is one."""
    if _PRODUCT.search(interval.schema_name()) is None:
        match = _NANOSECONDS.search(interval.schema_name())
        return match is not None and any(map(int, filter(None, match.groups())))
    if _PRODUCT.match(interval.schema_name()) is None:  # it is around a product
        return any(_has_times(context, node, part) for part in operands_of(interval) if _is_interval(part))
    factor, *_, nanoseconds = operands_of(interval)
    return nanoseconds.python_value().as_py() != 0 or not any(map(pa.types.is_integer, _types(context, node, factor)))


def _is_date(context: SessionContext, node: LogicalPlan, value: Expr) -> bool:
    return any(map(pa.types.is_date, _types(context, node, value)))


def _types(context: SessionContext, node: LogicalPlan, value: Expr) -> Iterator[pa.DataType]:
    """Yield the type of a value over each input of a node that has its columns."""
    for below in node.inputs():
        with suppress(Exception):  # its columns are those of the other side of a join
            yield context.create_dataframe_from_logical_plan(below).select(value).schema().types[0]
