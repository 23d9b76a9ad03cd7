"""A small predicate tree: conditions of a WHERE clause, their alternatives and their negation, and the scalar expressions that they compare.

There is no Not: `negate` pushes it to the leaves, which is exact in SQL's three-valued logic. What is left is
read as WHERE reads it: a row counts when the predicate is TRUE, so NULL and FALSE mean the same.

A scalar expression is a tree over columns: what a condition computes before it compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import Unsupported
from lance_flight.model.arrow_types import UNIT_NAMES
from lance_flight.model.schema import NamespaceSchema

SHOWN_VALUES = 8
LAST_CODE_POINT = chr(0x10FFFF)
SURROGATES = range(0xD800, 0xE000)

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")


class Op(Enum):
    """A comparison operator, as SQL writes it."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def negated(self) -> Op:
        """The operator that is TRUE where this one is FALSE."""
        return _NEGATED[self]

    @property
    def flipped(self) -> Op:
        """The operator for exchanged sides."""
        return _FLIPPED.get(self, self)


_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}
_FLIPPED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by name, or the field `inside` its structs with these names."""

    name: str
    inside: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """Its name, and those of the fields down to it."""
        return (self.name, *self.inside)

    def __str__(self) -> str:
        return ".".join(
            name if _PLAIN_NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in self.path
        )


@dataclass(frozen=True, slots=True)
class DatePart:
    """`date_part(part, column)`; `part` in lower case."""

    part: str
    column: str
    inside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column

    @property
    def path(self) -> tuple[str, ...]:
        """The column's name, and those of the fields inside it."""
        return (self.column, *self.inside)

    def __str__(self) -> str:
        return f"date_part('{self.part}', {Column(self.column, self.inside)})"


Term: TypeAlias = Column | DatePart


@dataclass(frozen=True, slots=True)
class And:
    """All of `parts`."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """Any of `parts`."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({part})" if isinstance(part, And) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Compare:
    """`term op value`; never TRUE of a NULL on either side."""

    term: Term
    op: Op
    value: pa.Scalar

    def __str__(self) -> str:
        return f"{self.term} {self.op.value} {sql_literal(self.value)}"


@dataclass(frozen=True, slots=True)
class In:
    """`term [NOT] IN (values)`; a NULL among the values makes NOT IN never TRUE."""

    term: Term
    values: pa.Array
    negated: bool = False

    def __str__(self) -> str:
        shown = [sql_literal(value) for value in self.values[:SHOWN_VALUES]]
        more = len(self.values) - len(shown)
        inside = ", ".join([*shown, f"… {more} more"] if more else shown)
        return f"{self.term} {'NOT ' * self.negated}IN ({inside})"


@dataclass(frozen=True, slots=True)
class IsNull:
    """`term IS [NOT] NULL`."""

    term: Term
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.term} IS {'NOT ' * self.negated}NULL"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """`term [NOT] LIKE 'prefix%'`."""

    term: Term
    prefix: str
    negated: bool = False

    def __str__(self) -> str:
        escaped = self.prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("'", "''")
        return f"{self.term} {'NOT ' * self.negated}LIKE '{escaped}%'"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A condition that partitions cannot use, and why."""

    text: str
    why: str

    def negation(self) -> Opaque:
        """Return the condition that is TRUE where this one is FALSE."""
        return Opaque(f"NOT ({self.text})", self.why)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE, or None for NULL."""

    value: bool | None

    def __str__(self) -> str:
        return {True: "TRUE", False: "FALSE", None: "NULL"}[self.value]


ALWAYS = Constant(True)
NEVER = Constant(False)
UNKNOWN = Constant(None)

Leaf: TypeAlias = Compare | In | IsNull | StartsWith | Opaque | Constant
Predicate: TypeAlias = And | Or | Leaf


def negate(predicate: Predicate) -> Predicate:
    """NOT `predicate`, pushed to the leaves.

    >>> str(negate(And((IsNull(Column("a")), Compare(Column("b"), Op.LT, pa.scalar(3))))))
    'a IS NOT NULL OR b >= 3'
    """
    match predicate:
        case And(parts):
            return Or(tuple(negate(part) for part in parts))
        case Or(parts):
            return And(tuple(negate(part) for part in parts))
        case Compare(term, op, value):
            return Compare(term, op.negated, value)
        case Opaque():
            return predicate.negation()
        case Constant(value):
            return Constant(None if value is None else not value)
        case In() | IsNull() | StartsWith():
            return replace(predicate, negated=not predicate.negated)


def all_of(parts: Iterable[Predicate]) -> Predicate:
    """Return the conjunction of `parts`, flattened; `ALWAYS` of none."""
    flat = [part for part in _flat(And, parts) if part != ALWAYS]
    return And(tuple(flat)) if len(flat) > 1 else flat[0] if flat else ALWAYS


def any_of(parts: Iterable[Predicate]) -> Predicate:
    """Return the disjunction of `parts`, flattened; `NEVER` of none."""
    flat = [part for part in _flat(Or, parts) if part != NEVER]
    return Or(tuple(flat)) if len(flat) > 1 else flat[0] if flat else NEVER


def _flat(kind: type[And | Or], parts: Iterable[Predicate]) -> Iterator[Predicate]:
    for part in parts:
        if isinstance(part, kind):
            yield from _flat(kind, part.parts)
        else:
            yield part


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the parts that must all hold; none for `ALWAYS`."""
    match all_of([predicate]):
        case And(parts):
            return parts
        case Constant(True):
            return ()
        case single:
            return (single,)


def equal_or_both_null(term: Term, value: pa.Scalar) -> Predicate:
    """Return `term IS NOT DISTINCT FROM value`; its negation is IS DISTINCT FROM, NULL rows included."""
    if not value.is_valid:
        return IsNull(term)
    return And((IsNull(term, negated=True), Compare(term, Op.EQ, value)))


def like(term: Term, pattern: str) -> Predicate:
    """Return `term LIKE pattern`: an equality, a prefix, or opaque."""
    text = f"{term} LIKE {sql_literal(pa.scalar(pattern))}"
    if "\\" in pattern:
        return Opaque(text, "the pattern has an escape")
    body = pattern.rstrip("%")
    if "%" in body or "_" in body:
        return Opaque(text, "the pattern has wildcards before its end")
    return StartsWith(term, body) if body != pattern else Compare(term, Op.EQ, pa.scalar(pattern))


def after_prefix(prefix: str) -> str | None:
    """Return the first string, in code point order, behind all that start with `prefix`; None where there is none.

    >>> after_prefix("ab"), after_prefix("")
    ('ac', None)
    """
    kept = prefix.rstrip(LAST_CODE_POINT)
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(SURROGATES.stop if following in SURROGATES else following)


def sql_literal(value: pa.Scalar) -> str:
    """Return a value as SQL writes it."""
    kind = value.type
    if not value.is_valid:
        return "NULL"
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        naive = pa.scalar(value.value, pa.timestamp(kind.unit))
        return f"TIMESTAMP '{pc.cast(naive, pa.string()).as_py().replace(' ', 'T')}{zone}'"
    if pa.types.is_date(kind):
        return f"DATE '{pc.cast(value, pa.date32(), safe=False).cast(pa.string()).as_py()}'"
    if pa.types.is_time(kind):
        return f"TIME '{pc.cast(value, pa.string()).as_py()}'"
    plain = value.as_py()
    match plain:
        case bool():
            return str(plain).upper()
        case bytes():
            return f"X'{plain.hex()}'"
        case str():
            return "'" + plain.replace("'", "''") + "'"
        case _:
            return str(plain)


MAX_BRANCHES = 128


def simplify(predicate: Predicate) -> Predicate:
    """Return the same predicate with equalities on one term under OR joined to an IN, and NOT LIKE 'x%' as two ranges."""
    match predicate:
        case And(parts):
            return all_of(map(simplify, parts))
        case Or():
            flat = any_of([predicate])
            parts = flat.parts if isinstance(flat, Or) else (flat,)
            return any_of(_join_parts([simplify(part) for part in parts]))
        case StartsWith(term, prefix, True):
            return _outside(term, prefix)
    return predicate


def _outside(term: Term, prefix: str) -> Predicate:
    below = Compare(term, Op.LT, pa.scalar(prefix))
    following = after_prefix(prefix)
    return below if following is None else Or((below, Compare(term, Op.GE, pa.scalar(following))))


def _join_parts(parts: Iterable[Predicate]) -> Iterable[Predicate]:
    lists: dict[tuple[Term, str], list[pa.Array]] = {}
    for part in parts:
        match part:
            case Compare(term, Op.EQ, value):
                lists.setdefault((term, str(value.type)), []).append(pa.repeat(value, 1))
            case In(term, values, False):
                lists.setdefault((term, str(values.type)), []).append(values)
            case _:
                yield part
    yield from (In(term, pa.concat_arrays(values)) for (term, _), values in lists.items())


def branches(predicate: Predicate) -> list[tuple[Leaf, ...]] | None:
    """Return the alternatives of `predicate`; None where they are more than `MAX_BRANCHES`."""
    match predicate:
        case And(parts):
            return product([branches(part) for part in parts])
        case Or(parts):
            nested = [branches(part) for part in parts]
            flat = [branch for some in nested if some is not None for branch in some]
            return None if None in nested or len(flat) > MAX_BRANCHES else flat
        case leaf:
            return [(leaf,)]


def product(factors: Iterable[list[tuple[Leaf, ...]] | None]) -> list[tuple[Leaf, ...]] | None:
    """Return every combination of one branch of each factor; None where they are more than `MAX_BRANCHES`."""
    combined: list[tuple[Leaf, ...]] = [()]
    for factor in factors:
        if factor is None or len(combined) * len(factor) > MAX_BRANCHES:
            return None
        combined = [(*left, *right) for left in combined for right in factor]
    return combined


def not_true(predicate: Predicate, schema: NamespaceSchema) -> Predicate:
    """Return a predicate that is TRUE of every row of which `predicate` is not; it may be TRUE of further rows too.

    `negate` says FALSE alone.
    """
    match predicate:
        case And(parts):
            return any_of(not_true(part, schema) for part in parts)
        case Or(parts):
            return all_of(not_true(part, schema) for part in parts)
        case leaf:
            return _dropped_by(leaf, schema)


def _dropped_by(leaf: Leaf, schema: NamespaceSchema) -> Predicate:
    match leaf:
        case Constant(value):
            return NEVER if value else ALWAYS
        case IsNull():
            return negate(leaf)
        case In(_, values, negated) if values.null_count:
            return ALWAYS if negated else _dropped_by(In(leaf.term, values.drop_null()), schema)
        case Compare() | In() | StartsWith() if not _is_float(leaf, schema):
            return any_of([negate(leaf), IsNull(leaf.term)])
        case Compare() | In() | StartsWith() | Opaque():
            return ALWAYS


def _is_float(leaf: Compare | In | StartsWith, schema: NamespaceSchema) -> bool:
    """Return whether a leaf compares floats: engines disagree about zeros and NaNs."""
    number = schema.source_ids.get(leaf.term.path)
    return number is None or pa.types.is_floating(schema.sources[number].field.type)


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
        return f"Timestamp({UNIT_NAMES[kind.unit]}, {zone})"
    if pa.types.is_decimal128(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if kind not in _TYPE_NAMES:
        raise Unsupported(f"a literal of type {kind} in a condition on partition values")
    return _TYPE_NAMES[kind]
