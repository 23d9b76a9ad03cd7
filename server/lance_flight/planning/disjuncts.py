"""A predicate as a question to partitions: what each alternative says about each source column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lance_flight.model.domains import Domain
from lance_flight.model.schema import NamespaceSchema
from lance_flight.planning.branches import MAX_BRANCHES, branches, simplified
from lance_flight.planning.constraints import Aspect, aspect, constraint
from lance_flight.planning.predicates import (
    Constant,
    DatePart,
    Leaf,
    Opaque,
    Predicate,
    conjuncts,
)


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
        found = constraint(leaf, schema)
        return cls(leaf, source, why=found) if isinstance(found, str) else cls(leaf, source, found)

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
        for each in stated:
            if each.source is not None and each.domain is not None:
                known = domains.get(each.source)
                domains[each.source] = each.domain if known is None else known.meet(each.domain)
        domains = {number: domain.tightened() for number, domain in domains.items()}
        empty = any(domain.valueless and not domain.nulls for domain in domains.values())
        return cls(stated, domains, possible=not empty and not any(each.holds is False for each in stated))


@dataclass(frozen=True, slots=True, eq=False)
class Conjunct:
    """A top-level part of the predicate, its SQL and its branches; None where they are too many to look at."""

    predicate: Predicate
    text: str
    branches: Sequence[tuple[Stated, ...]] | None

    @classmethod
    def of(cls, predicate: Predicate, schema: NamespaceSchema) -> Conjunct:
        """Expand and resolve one conjunct."""
        found = branches(simplified(predicate))
        if found is None:
            return cls(predicate, str(predicate), None)
        stated = {id(leaf): Stated.of(leaf, schema) for branch in found for leaf in branch}
        return cls(predicate, str(predicate), [tuple(stated[id(leaf)] for leaf in branch) for branch in found])


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
