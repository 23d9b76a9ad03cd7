"""Arithmetic of a plan that DataFusion 55 answers wrongly: integers that may leave their type, moments and intervals.

It wraps where sums, differences and products of integers leave their type: 9223372036854775807 + 1 is negative. The ranges of columns are those of their types, and literals and many functions have narrow ones, so most statements have no such
operator. The others are planned with operators that refuse a result beyond BIGINT (`engine.compat.checked_arithmetic`). Unnecessary with a
release in which https://github.com/apache/datafusion/issues/3520 is solved.

What it answers wrongly of moments and intervals is refused. It drops the time of a DATE with an interval of hours or less, where PostgreSQL and DuckDB answer a timestamp. It orders intervals by
their months first, then by their days: to it 40 days are less than a month. A number that it casts to a TIMESTAMP is one of
microseconds here, but of seconds in other systems; PostgreSQL and DuckDB refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from datafusion import Expr, LogicalPlan, SessionContext
from datafusion.expr import Sort, WindowExpr

from lance_flight.engine.compat.operand_types import INTERVALS
from lance_flight.engine.functions.date_spans import PRODUCT
from lance_flight.engine.plans.nodes import expressions_of, nodes_of, operands_of, strip_aliases
from lance_flight.errors import Unsupported
from lance_flight.model.arrow_types import is_number
from lance_flight.model.type_names import type_name

_COUNT = (0, 2**53)
_SMALL = (-(2**31), 2**31 - 1)
_SMALL_FUNCTIONS = frozenset(
    [
        *(
            "date_part",
            "character_length",
            "length",
            "char_length",
            "octet_length",
            "bit_length",
            "ascii",
            "strpos",
            "instr",
        ),
        *(
            "array_length",
            "cardinality",
            "levenshtein",
            "find_in_set",
            "array_ndims",
            "array_position",
            "murmur3",
            "sign",
        ),
    ]
)
_COUNTS = frozenset(["count", "row_number", "rank", "dense_rank", "ntile", "approx_distinct", "regexp_count"])
_ONE_OF = frozenset(
    ["coalesce", "nullif", "greatest", "least", "min", "max", "lag", "lead", "first_value", "last_value", "nth_value"]
)


@dataclass(frozen=True, slots=True)
class _Range:
    """Range of the integers of an expression, and the width of its type in bits."""

    low: int
    high: int
    bits: int = 64

    def is_within(self) -> bool:
        """Return whether its type holds all of it."""
        most: int = 2 ** (self.bits - 1)
        return -most <= self.low and self.high < most

    def __or__(self, other: _Range) -> _Range:
        return _Range(min(self.low, other.low), max(self.high, other.high), max(self.bits, other.bits))


_ANY = _Range(-(2**63), 2**63 - 1)


def may_overflow(context: SessionContext, plan: LogicalPlan) -> bool:
    """Return whether an operator or a sum of a plan, not yet optimised, may give an integer beyond its type."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        below = node.inputs()
        waiting += below
        expressions = expressions_of(node)
        if any(_has_arithmetic(expression) for expression in expressions):
            columns = _columns(context, below)
            if any(_overflows(expression, columns) for expression in expressions):
                return True
    return False


def _columns(context: SessionContext, below: Sequence[LogicalPlan]) -> Mapping[str, _Range]:
    """Return the ranges of the integer columns that operators read, by their names without relations."""
    ranges: dict[str, _Range] = {}
    for expression in below:
        for field in context.create_dataframe_from_logical_plan(expression).schema():
            if pa.types.is_integer(field.type):
                bits = field.type.bit_width
                narrow = _COUNT if field.name.startswith(("count(", "row_number(", "rank(")) else None
                low, high = narrow or (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
                known = _Range(low, high, bits)
                ranges[field.name] = ranges[field.name] | known if field.name in ranges else known
    return ranges


def _has_arithmetic(expression: Expr) -> bool:
    return any(True for _ in _arithmetic(expression))


def _arithmetic(expression: Expr) -> Iterator[Expr]:
    """Yield the sums, differences, products and SUMs in an expression."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        kind = part.variant_name()
        is_operator = kind == "BinaryExpr" and part.rex_call_operator() in {"+", "-", "*"}
        is_sum = kind in {"AggregateFunction", "WindowFunction"} and part.schema_name().startswith("sum(")
        if is_operator or is_sum:
            yield part
        waiting += operands_of(part)


def _overflows(expression: Expr, columns: Mapping[str, _Range]) -> bool:
    """Return whether a part of an expression may be beyond its type."""
    # Without recursion: an expression may be deeper than Python's stack.
    waiting: list[tuple[Expr, bool]] = [(expression, False)]
    values: list[_Range | None] = []
    while waiting:
        part, is_read = waiting.pop()
        operands = operands_of(part)
        if not is_read:
            waiting.append((part, True))
            waiting += [(operand, False) for operand in reversed(operands)]
            continue
        first = len(values) - len(operands)
        of, values = values[first:], values[:first]
        value = _value(part, of, columns)
        if value is not None and not value.is_within():
            return True
        values.append(value)
    return False


def _value(part: Expr, of: Sequence[_Range | None], columns: Mapping[str, _Range]) -> _Range | None:
    """Return the range of an expression by those of its operands; None for one that is no integer, or has any value."""
    match part.variant_name():
        case "Column":
            return columns.get(part.to_variant().name())
        case "LambdaVariable":
            return _ANY
        case "Literal":
            return _literal(part)
        case "Alias":
            return of[0] if of else None
        case "Cast" | "TryCast":
            return _cast(part, of)
        case "Negative":
            # Arrow refuses to negate the lowest integer.
            return None if of[0] is None else _Range(-of[0].high, min(-of[0].low, -of[0].low - 1), of[0].bits)
        case "BinaryExpr":
            return _combine(part.rex_call_operator(), *of)
        case "Case":
            results = [*of[1::2], *of[len(of) - len(of) % 2 :]]
            return _join(results)
        case "ScalarFunction" | "AggregateFunction" | "WindowFunction":
            return _function(part, of)
    return None


def _literal(part: Expr) -> _Range | None:
    literal = part.python_value()
    if not pa.types.is_integer(literal.type) or not literal.is_valid:
        return None
    return _Range(literal.as_py(), literal.as_py(), literal.type.bit_width)


def _cast(part: Expr, of: Sequence[_Range | None]) -> _Range | None:
    """Return the range of a cast: its type is told by its text alone."""
    kind = part.canonical_name().rpartition(" AS ")[2].removesuffix(")")
    bits = {"Int64": 64, "Int32": 32, "Int16": 16, "Int8": 8}.get(kind)
    if bits is None:
        return None
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    inner = of[0] if of else None
    return _Range(low, high, bits) if inner is None else _Range(max(low, inner.low), min(high, inner.high), bits)


def _combine(operator: str, left: _Range | None, right: _Range | None) -> _Range | None:
    if left is None or right is None:
        return None
    bits = max(left.bits, right.bits)
    match operator:
        case "+":
            return _Range(left.low + right.low, left.high + right.high, bits)
        case "-":
            return _Range(left.low - right.high, left.high - right.low, bits)
        case "*":
            products = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            return _Range(min(products), max(products), bits)
        case "%":
            most = max(abs(right.low), abs(right.high)) - 1
            return _Range(max(left.low, -most), min(left.high, most), bits) if most >= 0 else None
        case "/":
            return _Range(-max(abs(left.low), left.high), max(abs(left.low), left.high), 65)
    return None


def _join(values: Sequence[_Range | None]) -> _Range | None:
    known = [value for value in values if value is not None]
    joined = known[0] if known else None
    for value in known[1:]:
        joined = joined | value if joined is not None else value
    return joined


def _function(part: Expr, of: Sequence[_Range | None]) -> _Range | None:
    name = part.schema_name().partition("(")[0].lower()
    if name in _SMALL_FUNCTIONS:
        return _Range(*_SMALL)
    if name in _COUNTS:
        return _Range(*_COUNT)
    if name == "abs" and of and of[0] is not None:
        return _Range(0, max(abs(of[0].low), of[0].high), of[0].bits)
    if name == "sum":
        # Rows are fewer than 2**31 times the integers that INT holds.
        is_wide = bool(of) and of[0] is not None and (of[0].low < -(2**31) or of[0].high >= 2**32)
        return _Range(_ANY.low - 1, _ANY.high) if is_wide else None
    return _join(of) if name in _ONE_OF else None


_TIME = re.compile(
    r"\binterval\b.*?(?:\d:\d|\b\d*(?:h|m|s|ms|us|ns|hr|hrs|min|mins|sec|secs|hours?|minutes?|seconds?|\w+seconds?)\b)",
    re.IGNORECASE | re.DOTALL,
)
_PRODUCT = re.compile(rf"_*{PRODUCT}\w*\(")
"""Matches the call that an interval times a number of rows is (`engine.compat.checked_arithmetic`)."""
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
