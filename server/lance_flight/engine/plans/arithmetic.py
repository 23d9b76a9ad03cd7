"""Arithmetic of a plan that DataFusion 55 answers wrongly: integers that may leave their type, moments, intervals and decimals.

It wraps where sums, differences, products and negatives of integers leave their type: 9223372036854775807 + 1 is negative. The ranges of columns are those of their types, and literals and many functions have narrow ones, so most statements have no such
operator. The others are planned with operators that refuse a result beyond BIGINT (`engine.compat.checked_arithmetic`). Unnecessary with a
release in which https://github.com/apache/datafusion/issues/3520 is solved.

What it answers wrongly of moments and intervals is refused. It drops the time of a DATE with an interval of hours or less, where PostgreSQL and DuckDB answer a timestamp. It orders intervals by
their months first, then by their days: to it 40 days are less than a month. A number that it casts to a TIMESTAMP is one of
microseconds here, but of seconds in other systems; PostgreSQL and DuckDB refuse it.

Numbers beside decimals are decimals, as in PostgreSQL and DuckDB: DataFusion 55 makes doubles of both.
`datafusion.sql_parser.parse_float_as_decimal` would make decimals of all numbers. That is no way out: beside doubles it compares and unites
them as DECIMAL(30, 15), which 1e300 overflows and 1e-20 is lost in; it takes no 1e300 at all. So a statement that reads decimals is planned
with its numbers marked, and those become decimals that meet one there before they meet a double. A quotient of a number stays a double, as
in DuckDB, since a decimal one would have few digits. Numbers in subqueries within expressions stay doubles: datafusion-python does not show
their plans. Unnecessary with a release that types numbers by what is beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from datafusion import DataFrame, Expr, LogicalPlan, SessionContext
from datafusion.expr import Aggregate, Filter, Join, Projection, Sort, Union, Values, WindowExpr

from lance_flight.engine.compat.operand_types import INTERVALS
from lance_flight.engine.functions.date_spans import PRODUCT
from lance_flight.engine.plans.bounds import with_coercions, with_joined_subqueries
from lance_flight.engine.plans.nodes import Node, expressions, expressions_of, nodes_of, operands_of, strip_aliases
from lance_flight.engine.sql.select_lists import REFUSAL
from lance_flight.engine.sql.tokens import RUNS, Edit, Kind, Token, closing_places, edit_text, tokenize
from lance_flight.engine.translation.typed_calls import ONE_DIGIT_MORE
from lance_flight.errors import LanceFlightError, Unsupported
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
        for column in context.create_dataframe_from_logical_plan(expression).schema():
            if pa.types.is_integer(column.type):
                bits = column.type.bit_width
                narrow = _COUNT if column.name.startswith(("count(", "row_number(", "rank(")) else None
                low, high = narrow or (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
                known = _Range(low, high, bits)
                ranges[column.name] = ranges[column.name] | known if column.name in ranges else known
    return ranges


def _has_arithmetic(expression: Expr) -> bool:
    return any(True for _ in _arithmetic(expression))


def _arithmetic(expression: Expr) -> Iterator[Expr]:
    """Yield the sums, differences, products, negatives and SUMs in an expression."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        kind = part.variant_name()
        is_operator = kind == "BinaryExpr" and part.rex_call_operator() in {"+", "-", "*"}
        is_sum = kind in {"AggregateFunction", "WindowFunction"} and part.schema_name().startswith("sum(")
        if is_operator or is_sum or kind == "Negative":
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
            return None if of[0] is None else _Range(-of[0].high, -of[0].low, min(of[0].bits, 64))
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


_INTERVAL = re.compile(r"\binterval\b", re.IGNORECASE)
_TIME = re.compile(
    r"\d:\d|\b\d{0,20}(?:h|m|s|ms|us|ns|hr|hrs|min|mins|sec|secs|hours?|minutes?|seconds?|\w{1,20}seconds?)\b",
    re.IGNORECASE,
)
"""Matches a time behind the word INTERVAL."""
_PRODUCT = re.compile(rf"_{{0,9}}{PRODUCT}\w{{0,99}}\(")
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
    begun = _INTERVAL.search(sql)
    return (begun is not None and _TIME.search(sql, begun.end()) is not None) or _PRODUCT.search(sql) is not None


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


def value_type(context: SessionContext, node: LogicalPlan, value: Expr) -> pa.DataType | None:
    """Return the type of a value over the rows below a node; None where it is of no input."""
    return next(_types(context, node, value), None)


def _types(context: SessionContext, node: LogicalPlan, value: Expr) -> Iterator[pa.DataType]:
    """Yield the type of a value over each input of a node that has its columns."""
    for below in node.inputs():
        with suppress(Exception):  # its columns are those of the other side of a join
            yield context.create_dataframe_from_logical_plan(below).select(value).schema().types[0]


MOST_ROUNDS = 8
"""Most times that a statement is planned: a number may be beside a column of a subquery that has one itself."""
MOST_DIGITS = 38
_FRACTION = re.compile(r"(?<![\w.$])(?:\d*\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)(?![\w.])", re.IGNORECASE)
_DECIMAL = re.compile("Decimal(?:32|64|128|256)")
_ROUNDED = re.compile(r"\b(?:ceil|floor)\s*\(", re.IGNORECASE)
_MARK = re.compile(r"0{12}(?P<place>\d+)")
"""Mark of a number, which is one itself: DataFusion computes what it joins."""
_COMPARISONS = frozenset(["=", "!=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
_SUMS = frozenset(["+", "-", "*", "%"])
_OF_ALL = frozenset(["coalesce", "nullif", "nvl", "nvl2", "greatest", "least"])
_OF_FIRST = frozenset(["abs", "round", "trunc", "ceil", "floor"])


_Marked: TypeAlias = Sequence[tuple[int, Token]]
"""Tokens with numbers, each with its mark."""


class _Kind(Enum):
    NUMBER = "only numbers of the statement, and integers"
    DECIMAL = "a decimal"
    DOUBLE = "a float"
    OTHER = "anything else"


@dataclass(frozen=True, slots=True)
class _Value:
    """An expression: its kind, None where its plan has to be asked, and the numbers in it that have met no other kind."""

    kind: _Kind | None
    numbers: tuple[int, ...] = ()
    expression: Expr | None = None


def with_decimal_numbers(
    text: str,
    frame: DataFrame,
    plan: Callable[[str], DataFrame],
    context: SessionContext,
    planned: Callable[[Callable[[], Any]], Any],
) -> str:
    """Return a query whose numbers beside decimals are decimals.

    `frame` is its plan as it is, `plan` makes one of another text, and `planned` calls DataFusion and raises this package's errors.
    """
    numbers, rounded = _numbers(text), _ROUNDED.search(text) is not None
    if not (numbers or rounded) or _DECIMAL.search(frame.logical_plan().display_indent_schema()) is None:
        return text
    if rounded:
        with suppress(LanceFlightError):
            wide = with_wide_arguments(text)
            plan(wide)
            text, numbers = wide, _numbers(wide)
    by_text = {token.text: place for place, token in enumerate(numbers)}
    # One that is grouped by and selected is written twice, and has to be the same there.
    for marks in (list(range(len(numbers))), [by_text[token.text] for token in numbers]):
        try:
            return _with_decimals(text, list(zip(marks, numbers, strict=True)), plan, context, planned)
        except LanceFlightError as exc:
            if REFUSAL in str(exc):
                # A column gets an alias, and the query is planned again.
                raise
    return text


def _with_decimals(
    text: str,
    numbers: _Marked,
    plan: Callable[[str], DataFrame],
    context: SessionContext,
    planned: Callable[[Callable[[], Any]], Any],
) -> str:
    chosen: frozenset[int] = frozenset()
    for _ in range(MOST_ROUNDS):
        marked = plan(edit_text(text, _edits(text, numbers, chosen, are_marked=True)))
        whole = marked.logical_plan()
        meetings = _Meetings(context, whole.display_indent())
        meetings.read(Node.of(planned(partial(with_joined_subqueries, whole))))
        if meetings.decimals - meetings.doubles <= chosen:
            break
        chosen |= meetings.decimals - meetings.doubles
    exact = edit_text(text, _edits(text, numbers, chosen, are_marked=False))
    if chosen:
        # A product may have more digits than a decimal has.
        plan(exact)
    return exact


def has_decimals_and_doubles(frame: DataFrame) -> bool:
    """Return whether both decimals and doubles occur in a query."""
    schema = frame.logical_plan().display_indent_schema()
    return "Float" in schema and _DECIMAL.search(schema) is not None


def are_doubles_decimals(frame: DataFrame, context: SessionContext) -> bool:
    """Return whether DataFusion makes decimals of doubles where these meet decimals, and not because the client writes a cast."""
    plan = frame.logical_plan()
    written, waiting = plan.display_indent(), [with_coercions(plan)]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs()
        expressions = expressions_of(node)
        while expressions:
            each = Expr(expressions.pop()) if not isinstance(expressions[-1], Expr) else expressions.pop()
            parts = operands_of(each)
            expressions += parts
            made = _OF_DOUBLE.search(str(each)) if each.variant_name() == "Cast" else None
            if made is not None and made["type"] not in written and _is_double(parts[0], node, context):
                return True
    return False


_OF_DOUBLE = re.compile(r" AS (?P<type>Decimal\d+\(\d+, (?:15|7)\))\)+$")
"""A cast of a double, or of a real, to the decimal that DataFusion compares it as."""


def _is_double(expression: Expr, node: LogicalPlan, context: SessionContext) -> bool:
    kinds: list[pa.DataType] = []
    for below in node.inputs():
        with suppress(Exception):  # a column of another input of a join
            kinds += context.create_dataframe_from_logical_plan(below).select(expression).schema().types
    return any(map(pa.types.is_floating, kinds))


def with_wide_arguments(text: str) -> str:
    """Return a query whose ceil and floor have room for one more digit: the decimal 9.5 is not rounded up to one of two digits.

    >>> with_wide_arguments("SELECT ceil(p), floor(p + 1) FROM t")
    "SELECT ceil((p) + CAST('+0' AS TINYINT)), floor((p + 1) + CAST('+0' AS TINYINT)) FROM t"
    """
    tokens = tokenize(text)
    closing = closing_places(tokens)
    edits: list[Edit] = []
    for place, token in enumerate(tokens[:-1]):
        stop = closing.get(place + 1)
        if token.word in {"CEIL", "FLOOR"} and stop is not None:
            inside = tokens[place + 2 : stop]
            if inside and not any(each.word == "TO" or each.is_sign(",") for each in inside):
                edits.append((inside[0].start, inside[0].start, "("))
                edits.append((inside[-1].stop, inside[-1].stop, f"){ONE_DIGIT_MORE}"))
    return edit_text(text, edits)


def _numbers(text: str) -> list[Token]:
    """Return the tokens that are, or have, numbers with a fraction, but for those of vectors."""
    if _FRACTION.search(text) is None:
        return []
    depth, numbers = 0, []
    for token in tokenize(text):
        if token.kind is Kind.SIGN:
            depth += (token.text == "[") - (token.text == "]")
        elif depth == 0 and (token.kind is Kind.NUMBER or token.kind in RUNS) and _FRACTION.search(token.text):
            numbers.append(token)
    return numbers


def _edits(text: str, numbers: _Marked, chosen: frozenset[int], *, are_marked: bool) -> Iterator[Edit]:
    """Yield the edits that make decimals of the chosen numbers, and mark the first number of each other token."""
    for mark, token in numbers:
        for match in _FRACTION.finditer(text, token.start, token.stop):
            if mark in chosen:
                yield *match.span(), _decimal(match[0])
            elif are_marked:
                yield *match.span(), f"CAST('{'0' * 12}{mark}' AS DOUBLE)"
                break


def _decimal(number: str) -> str:
    """Return a number as a decimal, where it has no more digits than one.

    >>> _decimal("0.50"), _decimal("1.5e-3"), _decimal("2e2"), _decimal("1e300")
    ("CAST('0.50' AS DECIMAL(2, 2))", "CAST('0.0015' AS DECIMAL(4, 4))", "CAST('200' AS DECIMAL(3, 0))", '1e300')
    """
    _, digits, exponent = Decimal(number).as_tuple()
    scale = max(-int(exponent), 0)
    size = max(len(digits) + max(int(exponent), 0), scale, 1)
    return f"CAST('{Decimal(number):f}' AS DECIMAL({size}, {scale}))" if size <= MOST_DIGITS else number


@dataclass(slots=True)
class _Meetings:
    """The numbers of a plan that meet decimals, and those that meet doubles."""

    context: SessionContext
    written: str
    """The plan as the statement writes it, whose casts are its own."""
    decimals: set[int] = field(default_factory=set)
    doubles: set[int] = field(default_factory=set)
    _inputs: Sequence[Node] = ()
    _columns: Mapping[str, _Value] = field(default_factory=dict)

    def read(self, node: Node) -> list[_Value]:
        """Read a node and all below it; return its columns as far as they are numbers of a projection, others by their types."""
        below = [self.read(child) for child in node.inputs]
        self._inputs, self._columns = node.inputs, self._named(node, below)
        if isinstance(node.variant, Union):
            for branches in zip(*below, strict=False):
                self._meet(branches)
        if isinstance(node.variant, Join):
            for left, right in node.variant.on():
                self._meet([self._of(Expr(left)), self._of(Expr(right))])
        values = [self._of(expression) for expression in _expressions(node)]
        if isinstance(node.variant, Projection):
            return [_Value(self._kind(value), value.numbers) for value in values]
        schema = self.context.create_dataframe_from_logical_plan(node.plan).schema()
        columns = [
            self._columns.get(name, _Value(_kind_of(kind)))
            for name, kind in zip(schema.names, schema.types, strict=True)
        ]
        if isinstance(node.variant, Values):
            for row in node.variant.values():
                for column, value in zip(columns, row, strict=True):
                    self._meet([column, self._of(_uncast(value))])
        return columns

    def _named(self, node: Node, below: Sequence[Sequence[_Value]]) -> dict[str, _Value]:
        """Return the columns below a node that are numbers of the statement, or decimals that DataFusion casts, by their names."""
        schemas = [self.context.create_dataframe_from_logical_plan(child.plan).schema() for child in node.inputs]
        return {
            name: value
            for schema, values in zip(schemas, below, strict=True)
            for name, kind, value in zip(schema.names, schema.types, values, strict=False)
            if value.numbers or (value.kind is _Kind.DECIMAL and not pa.types.is_decimal(kind))
        }

    def _of(self, expression: Expr) -> _Value:
        variant = expression.variant_name()
        if variant in _LEAVES:
            name = expression.to_variant().name() if variant == "Column" else ""
            return self._columns.get(name, _Value(_LEAVES[variant], expression=expression))
        parts = operands_of(expression)
        match variant:
            case "Alias" | "Negative":
                return self._of(parts[0])
            case "Cast" | "TryCast":
                return self._cast(expression, parts[0])
            case "BinaryExpr":
                return self._binary(expression.rex_call_operator(), [self._of(part) for part in parts])
            case "Between" | "InList":
                self._meet([self._of(part) for part in parts])
                return _Value(_Kind.OTHER)
            case "Case":
                values = [self._of(part) for part in parts]
                return self._meet([*values[1::2], *values[len(values) - len(values) % 2 :]])
            case "ScalarFunction" if expression.rex_call_operator() in _OF_ALL:
                return self._meet([self._of(part) for part in parts])
            case "ScalarFunction" if expression.rex_call_operator() in _OF_FIRST and parts:
                return next(iter([self._of(part) for part in parts]))
        for part in parts:
            self._of(part)
        return _Value(None, expression=expression)

    def _cast(self, expression: Expr, inner: Expr) -> _Value:
        if inner.variant_name() == "Literal":
            mark = _MARK.search(str(inner))
            if mark is not None:
                return _Value(_Kind.NUMBER, (int(mark["place"]),))
        value = self._of(inner)
        if str(expression).removeprefix("Expr(").removesuffix(")") not in self.written:
            return value
        if value.numbers and pa.types.is_decimal(self._type(expression)):
            self.decimals.update(value.numbers)
        return _Value(None, expression=expression)

    def _binary(self, operator: str, values: Sequence[_Value]) -> _Value:
        if operator in _SUMS:
            return self._meet(values, is_sum=True)
        if operator in _COMPARISONS:
            self._meet(values)
            return _Value(_Kind.OTHER)
        if operator == "/" and any(value.kind in {_Kind.NUMBER, _Kind.DOUBLE} for value in values):
            return _Value(_Kind.DOUBLE)
        if operator == "/":
            return _Value(_Kind.DECIMAL if _Kind.DECIMAL in map(self._kind, values) else _Kind.OTHER)
        return _Value(_Kind.OTHER)

    def _meet(self, values: Sequence[_Value], *, is_sum: bool = False) -> _Value:
        """Return what some values are together; numbers among them that meet a decimal, and no double, become decimals.

        A sum of a double and a decimal is a double, as it should be.
        """
        numbers = tuple(number for value in values for number in value.numbers)
        kinds = {self._kind(value) for value in values}
        if _Kind.DOUBLE in kinds:
            self.doubles.update(() if is_sum else numbers)
            return _Value(_Kind.DOUBLE)
        if _Kind.DECIMAL in kinds:
            self.decimals.update(numbers)
            return _Value(_Kind.DECIMAL)
        return _Value(_Kind.NUMBER if numbers else _Kind.OTHER, numbers)

    def _kind(self, value: _Value) -> _Kind:
        if value.kind is not None or value.expression is None:
            return value.kind or _Kind.OTHER
        return _kind_of(self._type(value.expression))

    def _type(self, expression: Expr) -> pa.DataType:
        """Return the type of an expression over the rows of one of the inputs of its node; NULL's where none says it."""
        for node in self._inputs:
            with suppress(Exception):  # a column of the other input of a join
                kind: pa.DataType = (
                    self.context.create_dataframe_from_logical_plan(node.plan).select(expression).schema().field(0).type
                )
                return kind
        return pa.null()


_LEAVES: Mapping[str, _Kind | None] = {"Column": None, "Literal": None}


def _uncast(expression: Expr) -> Expr:
    """Return what is cast to the type of a column; DataFusion casts each value of one that is not all alike."""
    inner = expression.rex_call_operands() if expression.variant_name() == "Cast" else []
    return inner[0] if inner and inner[0].variant_name() != "Literal" else expression


def _kind_of(kind: pa.DataType) -> _Kind:
    if pa.types.is_decimal(kind):
        return _Kind.DECIMAL
    return _Kind.DOUBLE if pa.types.is_floating(kind) else _Kind.OTHER


def _expressions(node: Node) -> list[Expr]:
    """Return the expressions of a node that may have numbers."""
    match node.variant:
        case Projection():
            return expressions(node.variant.projections())
        case Filter():
            return [Expr(node.variant.predicate())]
        case Aggregate():
            return expressions([*node.variant.group_by_exprs(), *node.variant.aggregate_exprs()])
        case Sort():
            return [Expr(by.expr()) for by in node.variant.sort_exprs()]
        case WindowExpr():
            return expressions(node.variant.get_window_expr())
        case Join():
            return [] if node.variant.filter() is None else [Expr(node.variant.filter())]
    return []
