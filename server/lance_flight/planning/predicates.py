"""A small predicate tree: conditions of a WHERE clause on columns, their alternatives, and their negation.

There is no Not: `negate` pushes it to the leaves, which is exact in SQL's three-valued logic. What is left is
read as WHERE reads it: a row counts when the predicate is TRUE, so NULL and FALSE mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

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
