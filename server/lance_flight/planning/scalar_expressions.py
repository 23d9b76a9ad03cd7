"""Scalar expressions over columns, as trees: what a condition computes before it compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa

from lance_flight.errors import Unsupported
from lance_flight.planning.predicates import (
    Column,
    Compare,
    DatePart,
    In,
    IsNull,
    Leaf,
    Opaque,
    StartsWith,
    sql_literal,
)

CAST = "cast"
CASE = "case"
NOT_COMPUTED = "it is computed, and no partition field keeps what it is computed from"

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
INFIX = COMPARISONS | {"+", "-", "*", "/", "%", "||", "AND", "OR", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"}
"""Operators with two operands, as SQL writes them."""

PATTERNS = frozenset({"like", "not like", "ilike", "not ilike"})
_AFTER = MappingProxyType(
    {
        name: name.upper()
        for name in (
            *("is null", "is not null", "is true", "is false", "is not true", "is not false"),
            *("is unknown", "is not unknown"),
        )
    }
)
_BEFORE = MappingProxyType({"not": "NOT", "negative": "-"})

PLAIN_FUNCTIONS = frozenset(
    {
        *(
            "abs",
            "ascii",
            "btrim",
            "ceil",
            "character_length",
            "char_length",
            "coalesce",
            "concat",
            "date_bin",
            "date_part",
        ),
        *(
            "date_trunc",
            "ends_with",
            "floor",
            "initcap",
            "left",
            "length",
            "lower",
            "ltrim",
            "nullif",
            "nvl",
        ),
        *("reverse", "right", "round", "rtrim", "signum", "split_part", "starts_with", "strpos", "substr", "to_date"),
        *("trunc", "upper", "to_char", "date_diff", "last_day", "epoch", "epoch_ms", "epoch_us", "epoch_ns"),
        *("greatest", "least"),
    }
)
"""Functions that are computed for partition values: deterministic, and what they give is no longer than what they take."""


@dataclass(frozen=True, slots=True)
class ScalarCall:
    """A function, an operator or a cast, of `arguments`; `kind` is the type of a cast as `arrow_cast` calls it.

    The arguments of `case` are its conditions, each with its result, and the result without one.
    """

    function: str
    arguments: tuple[ScalarExpression, ...]
    kind: str = ""

    def __str__(self) -> str:
        return _text(self, str, sql_literal)


ScalarExpression: TypeAlias = Column | pa.Scalar | ScalarCall


@dataclass(frozen=True, slots=True)
class ComputedCondition(Opaque):
    """A condition whose `expression` is computed (`negated`: whose negation is), for partitions that determine its columns.

    `stored` has the expressions that partition fields store, each with the derivation of these fields.
    """

    expression: ScalarExpression
    negated: bool = False
    stored: tuple[tuple[object, ScalarExpression], ...] = ()

    @classmethod
    def of(cls, expression: ScalarExpression, *, negated: bool = False) -> ComputedCondition:
        """Make the condition that an expression is TRUE (or FALSE)."""
        shown = _bare(str(expression))
        return cls(f"NOT ({shown})" if negated else shown, NOT_COMPUTED, expression, negated)

    @property
    def uses_stored(self) -> bool:
        """True if the expression, or a part of it, is one that a partition field stores."""
        return any(_has_part(self.expression, stored) for _, stored in self.stored)

    def negation(self) -> ComputedCondition:
        """Return the condition that is TRUE where this one is FALSE."""
        return replace(ComputedCondition.of(self.expression, negated=not self.negated), stored=self.stored)


def _bare(text: str) -> str:
    """Return an expression without the brackets around all of it."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[1:-1] if place == len(text) - 1 and text.startswith("(") else text
    return text


def columns_of_expression(expression: ScalarExpression) -> Iterator[Column]:
    """Return the columns that an expression speaks of."""
    if isinstance(expression, Column):
        yield expression
    elif isinstance(expression, ScalarCall):
        for argument in expression.arguments:
            yield from columns_of_expression(argument)


def _has_part(expression: ScalarExpression, part: ScalarExpression) -> bool:
    if type(expression) is type(part) and expression == part:
        return True
    return isinstance(expression, ScalarCall) and any(_has_part(column, part) for column in expression.arguments)


def replace_parts(
    expression: ScalarExpression, change: Callable[[ScalarExpression], ScalarExpression | None]
) -> ScalarExpression:
    """Return an expression in which every part that `change` has another for is that; larger parts are asked first."""
    other = change(expression)
    if other is not None:
        return other
    if isinstance(expression, ScalarCall):
        return replace(expression, arguments=tuple(replace_parts(column, change) for column in expression.arguments))
    return expression


def leaf_expression(leaf: Leaf) -> tuple[ScalarExpression, bool] | None:
    """Return a leaf on a column as an expression, and whether it is negated; None for one that is on none."""
    match leaf:
        case ComputedCondition():
            return leaf.expression, leaf.negated
        case Compare(term, op, value):
            return ScalarCall(op.value, (_term(term), value)), False
        case In(term, values, negated):
            return ScalarCall("in", (_term(term), *values)), negated
        case IsNull(term, negated):
            return ScalarCall("is not null" if negated else "is null", (_term(term),)), False
        case StartsWith(term, prefix, negated) if not set(prefix) & set("\\%_"):
            return ScalarCall("like", (_term(term), pa.scalar(prefix + "%"))), negated
    return None


def _term(term: Column | DatePart) -> ScalarExpression:
    if isinstance(term, DatePart):
        return ScalarCall("date_part", (pa.scalar(term.part), Column(term.column, term.inside)))
    return term


def expression_sql(expression: ScalarExpression, names: Mapping[Column, str]) -> str:
    """Return an expression as SQL that DataFusion computes just so, with other names for its columns.

    `Unsupported` if it has a function that is not computed for partition values, or a literal that SQL cannot say.
    """
    return _text(expression, lambda column: names[column], typed_literal, PLAIN_FUNCTIONS)


def _text(
    expression: ScalarExpression,
    column: Callable[[Column], str],
    literal: Callable[[pa.Scalar], str],
    functions: frozenset[str] | None = None,
) -> str:
    if isinstance(expression, Column):
        return column(expression)
    if not isinstance(expression, ScalarCall):
        return literal(expression)
    function, some = expression.function, [_text(each, column, literal, functions) for each in expression.arguments]
    if function in INFIX or function in PATTERNS:
        return f"({some[0]} {function.upper()} {some[1]})"
    if function in _AFTER:
        return f"({some[0]} {_AFTER[function]})"
    if function in _BEFORE:
        return f"({_BEFORE[function]} {some[0]})"
    if function == "in":
        return f"({some[0]} IN ({', '.join(some[1:])}))"
    if function == CAST:
        return f"arrow_cast({some[0]}, '{expression.kind}')" if functions else f"CAST({some[0]} AS {expression.kind})"
    if function == CASE:
        whens = "".join(f"WHEN {when} THEN {then} " for when, then in zip(some[:-1:2], some[1:-1:2], strict=True))
        return f"CASE {whens}ELSE {some[-1]} END"
    if functions is not None and function not in functions:
        raise Unsupported(f"{function} of partition values")
    return f"{function}({', '.join(some)})"


_TYPE_NAMES = MappingProxyType(
    {
        **{
            getattr(pa, name.lower())(): name
            for name in ("Int8", "Int16", "Int32", "Int64", "Date32", "Date64", "Float32")
        },
        **{getattr(pa, name.lower())(): name for name in ("UInt8", "UInt16", "UInt32", "UInt64", "Float64")},
        pa.utf8(): "Utf8",
        pa.large_utf8(): "LargeUtf8",
        pa.string_view(): "Utf8View",
        pa.bool_(): "Boolean",
        pa.null(): "Null",
    }
)
_UNITS = MappingProxyType({"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"})


def typed_literal(value: pa.Scalar) -> str:
    """Return a value as SQL that DataFusion reads with just its type; `Unsupported` for types without such a form."""
    kind = value.type
    if isinstance(value, pa.MonthDayNanoIntervalScalar) and value.is_valid:
        months, days, nanoseconds = value.as_py()
        return f"INTERVAL '{months} months {days} days {nanoseconds} nanoseconds'"
    name = _type_name(kind)
    if not value.is_valid:
        return f"arrow_cast(NULL, '{name}')"
    if pa.types.is_timestamp(kind):
        return f"arrow_cast(arrow_cast('{value.value}', 'Int64'), '{name}')"
    plain: Any = value.as_py()
    if kind == pa.utf8():
        return "'" + str(plain).replace("'", "''") + "'"
    if kind == pa.bool_():
        return str(plain).upper()
    if kind == pa.int64() and plain >= 0:
        return str(plain)
    quoted = str(plain).replace("'", "''")
    return f"arrow_cast('{quoted}', '{name}')"


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        return f"Timestamp({_UNITS[kind.unit]}, {zone})"
    if pa.types.is_decimal128(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if kind not in _TYPE_NAMES:
        raise Unsupported(f"a literal of type {kind} in a condition on partition values")
    return _TYPE_NAMES[kind]
