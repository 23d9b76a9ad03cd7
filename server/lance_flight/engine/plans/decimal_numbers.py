"""Numbers beside decimals are decimals, as in PostgreSQL and DuckDB: DataFusion 55 makes doubles of both.

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

from lance_flight.engine.plans.bounds import with_coercions, with_joined_subqueries
from lance_flight.engine.plans.nodes import Node, expressions, expressions_of, operands_of
from lance_flight.engine.sql.select_lists import REFUSAL
from lance_flight.engine.sql.tokens import RUNS, Edit, Kind, Token, closing_places, edit_text, tokenize
from lance_flight.engine.translation.typed_calls import ONE_DIGIT_MORE
from lance_flight.errors import LanceFlightError

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
