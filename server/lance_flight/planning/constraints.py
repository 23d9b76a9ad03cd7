"""Leaves of a predicate as domains of their columns, and a predicate as a question to partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa

from lance_flight.model.domains import DATE_PARTS, PART_ORDER, Domain, Key, Located, Ordering, locate, ordering
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.zones import zone_of
from lance_flight.planning.predicates import (
    MAX_BRANCHES,
    Compare,
    Constant,
    DatePart,
    In,
    IsNull,
    Leaf,
    Op,
    Opaque,
    Predicate,
    StartsWith,
    after_prefix,
    branches,
    conjuncts,
    simplify,
)

Statement: TypeAlias = Compare | In | IsNull | StartsWith
"""A leaf that says something about one column."""


KNOWN_PARTS = frozenset({*DATE_PARTS, "quarter"})
"""Date parts that leave a domain to their column."""


class Aspect(Enum):
    """Kind of condition that a leaf states; a transform can use some of them."""

    VALUES = "the values"
    RANGE = "a range"
    EXCLUDED = "excluded values"
    NULLNESS = "NULL or not"
    PART = "a date part"


def aspect(leaf: Statement) -> Aspect:
    """Return what sort of thing `leaf` says."""
    if isinstance(leaf, IsNull):
        return Aspect.NULLNESS
    if isinstance(leaf.term, DatePart):
        return Aspect.PART
    match leaf:
        case In(_, _, negated):
            return Aspect.EXCLUDED if negated else Aspect.VALUES
        case Compare(_, Op.EQ, _):
            return Aspect.VALUES
        case Compare(_, Op.NE, _):
            return Aspect.EXCLUDED
    return Aspect.RANGE


def constraint(leaf: Statement, schema: NamespaceSchema) -> Domain | str:
    """Return the domain of the column of `leaf`, or why the leaf cannot be used."""
    number = schema.source_ids.get(leaf.term.path)
    if number is None:
        return f"{'.'.join(leaf.term.path)} is not a column of the namespace"
    kind = schema.sources[number].field.type
    order = ordering(kind)
    if isinstance(leaf, IsNull):
        order = order or ordering(pa.bool_())
    if order is None:
        return f"values of type {kind} are not compared"
    if isinstance(leaf, IsNull):
        return _nullness(order, leaf)
    if not isinstance(leaf.term, DatePart):
        return _values(order, leaf)
    why = _part_problem(leaf.term, kind)
    if why is not None:
        return why
    part = _values(PART_ORDER, leaf)
    return part if isinstance(part, str) else _of_part(order, leaf.term.part, part)


def _nullness(order: Ordering, leaf: IsNull) -> Domain:
    everything = Domain.everything(order)
    return replace(everything, nulls=False) if leaf.negated else Domain.nothing(order, nulls=True)


def _part_problem(term: DatePart, kind: pa.DataType) -> str | None:
    if term.part not in KNOWN_PARTS:
        return f"date_part('{term.part}') is not known here"
    if pa.types.is_date(kind):
        known = term.part in ("year", "quarter", "month", "day")
        return None if known else f"{term.part} of a {kind} column is not known here"
    if not pa.types.is_timestamp(kind):
        return f"date_part of a {kind} column is not known here"
    return None if zone_of(kind) is not None else f"the zone {kind.tz!r} is not known here"


def _of_part(order: Ordering, name: str, part: Domain) -> Domain:
    """Return all values whose `name` part is in `part`."""
    everything = replace(Domain.everything(order), nulls=False)
    if name == "quarter":
        name, part = "month", _months_of(part)
    return replace(everything, parts={name: part})


def _months_of(quarters: Domain) -> Domain:
    wanted = quarters.accepts(pa.array([1, 2, 3, 4], pa.int32()))
    months = frozenset(month for month in range(1, 13) if wanted[(month - 1) // 3])
    return replace(Domain.nothing(PART_ORDER, nulls=False), points=months)


def _values(order: Ordering, leaf: Compare | In | StartsWith) -> Domain | str:
    match leaf:
        case Compare(_, op, value):
            domain = _compare(order, op, value)
        case In(_, values, negated):
            domain = _list_items(order, values, negated=negated)
        case StartsWith(_, prefix, _):
            domain = _prefix(order, prefix)
    if domain is None:
        return f"the literal is not compared exactly with {order.kind}"
    # What lies beyond the type's own range is cut off.
    return Domain.everything(order).meet(domain)


def _compare(order: Ordering, op: Op, value: pa.Scalar) -> Domain | None:
    if not value.is_valid:
        return Domain.nothing(order, nulls=False)
    place = locate(value, order)
    if place is None:
        return None
    everything = replace(Domain.everything(order), nulls=False)
    if place.key in _ambiguous(order):
        if op is Op.NE:
            return everything
        op = _CLOSED.get(op, op) if place.key else op
    limits = _INTEGRAL if order.integral else _TEXTUAL
    return replace(everything, **limits[op](place))


def _list_items(order: Ordering, values: pa.Array, *, negated: bool) -> Domain | None:
    known = values.drop_null()
    if negated and len(known) < len(values):
        return Domain.nothing(order, nulls=False)
    keys = _keys(order, known)
    if keys is None:
        return None
    everything = replace(Domain.everything(order), nulls=False)
    if not negated:
        return replace(everything, points=keys)
    return replace(everything, excluded=keys - _ambiguous(order))


def _ambiguous(order: Ordering) -> frozenset[Key]:
    """Return the keys that stand for several values.

    In a list, and where it folds constants, DataFusion 55 tells −0.0 from 0.0.
    """
    return frozenset({0, order.smallest, order.largest}) if order.is_float else frozenset()


def _keys(order: Ordering, values: pa.Array) -> frozenset[Key] | None:
    if values.type == order.kind:
        return frozenset(order.keys(values))
    places = [locate(value, order) for value in values]
    if None in places:
        return None
    return frozenset(place.key for place in places if place is not None and place.exact)


def _prefix(order: Ordering, prefix: str) -> Domain | None:
    if order.dimension != "text":
        return None
    following = after_prefix(prefix)
    return replace(Domain.everything(order), nulls=False, low=prefix, high=following, open=following is not None)


_Limits: TypeAlias = Callable[[Located], dict[str, Any]]

_INTEGRAL: Mapping[Op, _Limits] = MappingProxyType(
    {
        Op.EQ: lambda at: {"points": frozenset({at.key} if at.exact else ())},
        Op.NE: lambda at: {"excluded": frozenset({at.key} if at.exact else ())},
        Op.LT: lambda at: {"high": at.key - at.exact},
        Op.LE: lambda at: {"high": at.key},
        Op.GT: lambda at: {"low": at.key + 1},
        Op.GE: lambda at: {"low": at.key + (not at.exact)},
    }
)
"""Limits that a comparison leaves, for keys that are integers."""

_CLOSED = MappingProxyType({Op.LT: Op.LE, Op.GT: Op.GE})
"""For NaNs, which DataFusion orders by their bits."""

_TEXTUAL: Mapping[Op, _Limits] = MappingProxyType(
    {
        Op.EQ: lambda at: {"points": frozenset({at.key})},
        Op.NE: lambda at: {"excluded": frozenset({at.key})},
        Op.LT: lambda at: {"high": at.key, "open": True},
        Op.LE: lambda at: {"high": at.key},
        # The first text behind another is that text and a zero.
        Op.GT: lambda at: {"low": at.key + ("\0" if isinstance(at.key, str) else b"\0")},
        Op.GE: lambda at: {"low": at.key},
    }
)
"""Limits that a comparison leaves, for texts and binaries."""


@dataclass(frozen=True, slots=True, eq=False)
class Stated:
    """A leaf, resolved: the id of its column and the domain it leaves there, or why it says nothing."""

    leaf: Leaf
    source: int | None = None
    domain: Domain | None = None
    why: str = ""

    @classmethod
    def of(cls, leaf: Leaf, schema: NamespaceSchema) -> Stated:
        """Resolve a leaf against the schema."""
        match leaf:
            case Opaque(_, why):
                return cls(leaf, why=why)
            case Constant():
                return cls(leaf, why="it holds for every row")
        source = schema.source_ids.get(leaf.term.path)
        constrained = constraint(leaf, schema)
        return cls(leaf, source, why=constrained) if isinstance(constrained, str) else cls(leaf, source, constrained)

    @property
    def says(self) -> tuple[int | None, Aspect | None, str]:
        """The source column, the aspect, and the date part where it is one (a quarter is three months)."""
        if isinstance(self.leaf, Opaque | Constant):
            return None, None, ""
        part = self.leaf.term.part if isinstance(self.leaf.term, DatePart) else ""
        return self.source, aspect(self.leaf), "month" if part == "quarter" else part

    @property
    def holds(self) -> bool | None:
        """True if the leaf holds for every row, False if for none, None if for some or unknown."""
        if isinstance(self.leaf, Constant):
            return self.leaf.value is True
        return False if self.domain is not None and self.domain.valueless and not self.domain.nulls else None


@dataclass(frozen=True, slots=True, eq=False)
class Disjunct:
    """Leaves that must all hold; `domains` has what they leave to each source column they constrain."""

    leaves: tuple[Stated, ...]
    domains: Mapping[int, Domain]
    possible: bool

    @classmethod
    def of(cls, leaves: Iterable[Stated]) -> Disjunct:
        """Intersect what the leaves say."""
        stated = tuple(leaves)
        domains: dict[int, Domain] = {}
        for conjunct in stated:
            if conjunct.source is not None and conjunct.domain is not None:
                known = domains.get(conjunct.source)
                domains[conjunct.source] = conjunct.domain if known is None else known.meet(conjunct.domain)
        domains = {number: domain.tighten() for number, domain in domains.items()}
        empty = any(domain.valueless and not domain.nulls for domain in domains.values())
        return cls(stated, domains, possible=not empty and not any(conjunct.holds is False for conjunct in stated))


@dataclass(frozen=True, slots=True, eq=False)
class Conjunct:
    """A top-level part of the predicate, its SQL and its branches; None where they are too many to look at."""

    predicate: Predicate
    text: str
    branches: Sequence[tuple[Stated, ...]] | None

    @classmethod
    def of(cls, predicate: Predicate, schema: NamespaceSchema) -> Conjunct:
        """Expand and resolve one conjunct."""
        alternatives = branches(simplify(predicate))
        if alternatives is None:
            return cls(predicate, str(predicate), None)
        stated = {id(leaf): Stated.of(leaf, schema) for branch in alternatives for leaf in branch}
        return cls(predicate, str(predicate), [tuple(stated[id(leaf)] for leaf in branch) for branch in alternatives])


@dataclass(frozen=True, slots=True, eq=False)
class NormalForm:
    """The whole predicate: in each group one alternative must hold; a group has every leaf that stands alone."""

    conjuncts: tuple[Conjunct, ...]
    groups: tuple[tuple[Disjunct, ...], ...]

    @classmethod
    def of(cls, predicate: Predicate, schema: NamespaceSchema) -> NormalForm:
        """Multiply the branches of all conjuncts out while they are few; each further OR becomes a group of its own."""
        parts = tuple(Conjunct.of(part, schema) for part in conjuncts(predicate))
        known = [part.branches for part in parts if part.branches is not None]
        base = tuple(stated for some in known if len(some) == 1 for stated in some[0])
        combined, aside = [base], []
        for some in known:
            if len(some) == 1:
                continue
            product = [(*left, *right) for left in combined for right in some] if _few(combined, some) else None
            if product is None:
                aside.append([(*base, *branch) for branch in some])
            else:
                combined = product
        return cls(parts, tuple(tuple(map(Disjunct.of, group)) for group in [combined, *aside]))


def _few(left: Sequence[object], right: Sequence[object]) -> bool:
    return len(left) * len(right) <= MAX_BRANCHES
