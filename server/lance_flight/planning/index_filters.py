"""Filters in Lance's SQL that scalar indices answer, derived from the conditions above a scan.

DataFusion pushes comparisons into a scan and nothing else; `array_has`, LIKE and the like stay above it. What such a condition implies
is looked up here: the filter keeps every row for which the condition is TRUE, and may keep others, which the condition itself drops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from lance_flight.errors import Unsupported
from lance_flight.model.arrow_types import is_string
from lance_flight.model.index_kinds import Lookup
from lance_flight.planning.predicates import (
    CAST,
    And,
    Column,
    Compare,
    ComputedCondition,
    Constant,
    In,
    IsNull,
    Leaf,
    Op,
    Or,
    Predicate,
    ScalarCall,
    ScalarExpression,
    StartsWith,
    after_prefix,
    conjuncts,
    sql_literal,
    typed_literal,
)

MOST_LEAVES = 64
"""Conditions of one filter: Lance's planner recurses into chains of AND and OR."""
MOST_ELEMENTS = 1024
"""Elements that are looked up in an index of lists one after another."""
_MOST_TEXTS = 8
_WILDCARDS = re.compile(r"\\.?|[%_]", re.DOTALL)
_GRAM = 3
_LANCE_INTEGERS = range(-(2**63) + 1, 2**63)
"""Integers that Lance's SQL reads as such; one beyond becomes a float."""


@dataclass(frozen=True, slots=True)
class IndexFilter:
    """A filter in Lance's SQL, and what it looks up in the indices of which columns."""

    condition: str
    lookups: frozenset[tuple[str, Lookup]]
    leaves: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the filter speaks of."""
        return tuple(dict.fromkeys(name for name, _ in sorted(self.lookups, key=str)))


def index_filter(
    predicate: Predicate, lookups: Mapping[str, frozenset[Lookup]], columns: pa.Schema
) -> IndexFilter | None:
    """Return the filter that indices answer for rows where `predicate` is TRUE; None if none of them is of use.

    `lookups` says what can be looked up, by the names of those of the `columns` that have an index.

    >>> has = ScalarCall("array_has", (Column("tags"), pa.scalar("x")))
    >>> of_tags = {"tags": frozenset({Lookup.ELEMENT})}
    >>> index_filter(ComputedCondition.of(has), of_tags, pa.schema({"tags": pa.list_(pa.utf8())})).condition
    "array_has(`tags`, 'x')"
    """
    if not lookups:
        return None
    filters = _Lookups(lookups, columns).all_of(conjuncts(predicate))
    return filters if filters is not None and filters.leaves <= MOST_LEAVES else None


def lance_condition(predicate: Predicate) -> str | None:
    """Return a predicate in Lance's SQL, TRUE of exactly the same rows; None if that cannot say it, or not in a few words."""
    try:
        return _text(predicate) if _leaf_count(predicate) <= MOST_LEAVES else None
    except Unsupported:
        return None


@dataclass(frozen=True, slots=True)
class _Lookups:
    """Lookups that the indices of some columns offer."""

    lookups: Mapping[str, frozenset[Lookup]]
    columns: pa.Schema

    def all_of(self, parts: Iterable[Predicate]) -> IndexFilter | None:
        """Return what must hold for all parts: those that cannot be looked up are left out."""
        filters = [each for part in parts if (each := self.of(part)) is not None]
        return _join(" AND ", filters) if filters else None

    def of(self, predicate: Predicate) -> IndexFilter | None:
        try:
            match predicate:
                case And(parts):
                    return self.all_of(parts)
                case Or(parts):
                    filters = [self.of(part) for part in parts]
                    known = [each for each in filters if each is not None]
                    return _join(" OR ", known) if len(known) == len(filters) else None
                case Compare(Column(name, ()), op, value) if value.is_valid and op is not Op.NE:
                    return self._looked_up(name, Lookup.VALUE if op is Op.EQ else Lookup.RANGE, predicate)
                case In(Column(name, ()), values, False) if len(values) > values.null_count:
                    return self._looked_up(name, Lookup.VALUE, predicate)
                case IsNull(Column(name, ()), False):
                    return self._looked_up(name, Lookup.RANGE, predicate)
                case StartsWith(Column(name, ()), prefix, False):
                    return self._prefix(name, prefix)
                case ComputedCondition(expression=ScalarCall() as call, negated=False):
                    return self._compute(call)
        except Unsupported:
            pass
        return None

    def _looked_up(self, name: str, lookup: Lookup, leaf: Predicate) -> IndexFilter | None:
        return IndexFilter(_text(leaf), frozenset({(name, lookup)})) if self._has(name, lookup) else None

    def _has(self, name: str, lookup: Lookup) -> bool:
        return lookup in self.lookups.get(name, frozenset())

    def _prefix(self, name: str, prefix: str) -> IndexFilter | None:
        if not self._has(name, Lookup.RANGE) or not prefix:
            return self._containing(name, [prefix])
        low, high = Compare(Column(name), Op.GE, pa.scalar(prefix)), after_prefix(prefix)
        between = [low] if high is None else [low, Compare(Column(name), Op.LT, pa.scalar(high))]
        return _join(" AND ", [IndexFilter(_text(compare), frozenset({(name, Lookup.RANGE)})) for compare in between])

    def _compute(self, call: ScalarCall) -> IndexFilter | None:
        match call:
            case ScalarCall("like", (Column(name, ()), pa.Scalar() as pattern)) if _is_text(pattern):
                return self._containing(name, _WILDCARDS.split(pattern.as_py()))
            case ScalarCall("contains", (Column(name, ()), pa.Scalar() as text)) if _is_text(text):
                return self._containing(name, [text.as_py()])
            case ScalarCall("array_has", (lists, pa.Scalar() as element)) if element.is_valid:
                return self._elements("array_has", lists, pa.array([element.as_py()], element.type))
            case ScalarCall("array_has_any", (pa.Scalar() as wanted, lists) | (lists, pa.Scalar() as wanted)):
                values = _values(wanted)
                # To DataFusion NULL is an element like any other.
                return None if values is None or values.null_count else self._elements("array_has_any", lists, values)
            case ScalarCall("array_has_all", (lists, pa.Scalar() as wanted)):
                values = _values(wanted)
                return None if values is None else self._elements("array_has_all", lists, values.drop_null())
        return None

    def _containing(self, name: str, texts: Iterable[str]) -> IndexFilter | None:
        """Return that a column contains those of some texts that are long enough for an index."""
        known = [text for text in dict.fromkeys(texts) if _has_gram(text)]
        if not known or not self._has(name, Lookup.SUBSTRING):
            return None
        column, lookup = _name(name), frozenset({(name, Lookup.SUBSTRING)})
        some = sorted(known, key=len, reverse=True)[:_MOST_TEXTS]
        return _join(
            " AND ", [IndexFilter(f"contains({column}, {sql_literal(pa.scalar(text))})", lookup) for text in some]
        )

    def _elements(self, function: str, lists: ScalarExpression, values: pa.Array) -> IndexFilter | None:
        """Return that lists of a column, or these cast to other integers, have some elements."""
        match lists:
            case Column(name, ()):
                is_cast = False
            case ScalarCall(function=cast, arguments=(Column(name, ()),)) if cast == CAST:
                is_cast = True
            case _:
                return None
        if not self._has(name, Lookup.ELEMENT) or not 0 < len(values) <= MOST_ELEMENTS:
            return None
        stored = _stored_elements(values, self.columns.field(name).type.value_type, is_cast=is_cast)
        if stored is None:
            return None
        elements = ", ".join(map(_element, stored))
        wanted = elements if function == "array_has" else f"[{elements}]"
        return IndexFilter(f"{function}({_name(name)}, {wanted})", frozenset({(name, Lookup.ELEMENT)}))


def _join(word: str, parts: list[IndexFilter]) -> IndexFilter:
    if len(parts) == 1:
        return parts[0]
    lookups = frozenset[tuple[str, Lookup]]().union(*(index_filter.lookups for index_filter in parts))
    return IndexFilter(
        f"({word.join(index_filter.condition for index_filter in parts)})",
        lookups,
        sum(index_filter.leaves for index_filter in parts),
    )


def _is_text(value: pa.Scalar) -> bool:
    return is_string(value.type) and bool(value.is_valid)


def _has_gram(text: str) -> bool:
    """Return whether a text has as many letters and digits in a row as an index of parts of texts needs."""
    run = 0
    for letter in text:
        run = run + 1 if letter.isalnum() else 0
        if run == _GRAM:
            return True
    return False


def _values(wanted: pa.Scalar) -> pa.Array | None:
    """Return the elements of a list literal."""
    return wanted.values if isinstance(wanted, pa.ListScalar | pa.LargeListScalar) and wanted.is_valid else None


def _stored_elements(values: pa.Array, kind: pa.DataType, *, is_cast: bool) -> pa.Array | None:
    """Return elements in the type that a column has; None where they are not sure to equal the same ones there.

    Floats are left out: which of them are equal is not the same for all that compare them.
    """
    if not is_cast:
        is_known = types.is_integer(kind) or is_string(kind)
        return values if is_known and (values.type == kind or (is_string(kind) and is_string(values.type))) else None
    if not (types.is_integer(kind) and types.is_integer(values.type)) or not _holds(values.type, kind):
        return None
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        return None


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Return whether an integer type has all values of another."""
    if types.is_signed_integer(wide) == types.is_signed_integer(narrow):
        return bool(wide.bit_width >= narrow.bit_width)
    return bool(types.is_signed_integer(wide) and wide.bit_width > narrow.bit_width)


def _element(value: pa.Scalar) -> str:
    """Return an element of lists: its type must be just theirs, or Lance casts every list and looks nothing up."""
    return sql_literal(value) if is_string(value.type) else typed_literal(value)


def _leaf_count(predicate: Predicate) -> int:
    if isinstance(predicate, And | Or):
        return sum(map(_leaf_count, predicate.parts))
    return 1


def _text(predicate: Predicate) -> str:
    match predicate:
        case And(parts):
            return f"({' AND '.join(map(_text, parts))})"
        case Or(parts):
            return f"({' OR '.join(map(_text, parts))})"
        case leaf:
            return _leaf_text(leaf)


def _leaf_text(leaf: Leaf) -> str:
    match leaf:
        case Constant(value):
            return str(value is True).upper()
        case Compare(Column(name, ()), op, value) if value.is_valid:
            return f"{_name(name)} {op.value} {_literal(value)}"
        case Compare(Column(_, ())):
            return "FALSE"
        case IsNull(Column(name, ()), negated):
            return f"{_name(name)} IS {'NOT ' * negated}NULL"
        case In(Column(name, ()), values, negated):
            known = values.drop_null()
            if negated and len(known) < len(values):
                return "FALSE"
            if not len(known):
                return f"{_name(name)} IS NOT NULL" if negated else "FALSE"
            return f"{_name(name)} {'NOT ' * negated}IN ({', '.join(_literals(known))})"
        case StartsWith(Column(name, ()), prefix, negated):
            return f"{'NOT ' * negated}starts_with({_name(name)}, {sql_literal(pa.scalar(prefix))})"
    raise Unsupported(f"{leaf} in Lance's SQL")


def _name(name: str) -> str:
    if "`" in name:
        raise Unsupported(f"a column called {name!r} in Lance's SQL")
    return f"`{name}`"


def _literals(values: pa.Array) -> Iterable[str]:
    # Thousands of scalars take a while to make.
    if types.is_integer(values.type) and not types.is_uint64(values.type):
        values_of_list = values.to_pylist()
        return map(str, values_of_list) if min(values_of_list) in _LANCE_INTEGERS else map(_literal, values)
    return map(_literal, values)


def _literal(value: pa.Scalar) -> str:
    """Return a value that a column of its type is compared with."""
    if is_string(value.type):
        return sql_literal(value)
    if types.is_integer(value.type) and value.as_py() in _LANCE_INTEGERS:
        return str(value.as_py())
    return typed_literal(value)
