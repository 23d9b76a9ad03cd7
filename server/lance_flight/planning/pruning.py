"""Pruning of partition tables by a predicate, for every spec version, with the reasons why no fewer are left.

Spec: Partition Pruning, Compatibility with Partition Pruning, Appendix D. Never wrong: a part of the predicate that
cannot be used prunes nothing and is reported with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lance_flight.model.domains import Domain, Mask
from lance_flight.model.ordering import ordering
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate
from lance_flight.planning.constraints import Disjunct, NormalForm
from lance_flight.planning.enumeration import ComputedConditions, Expressions, Sources, Unresolved
from lance_flight.planning.matching import Match, MatchResult
from lance_flight.planning.partitions import Component, Part, Partitions, SpecPartitions
from lance_flight.planning.predicates import ALWAYS, Predicate, all_of, conjuncts, not_true
from lance_flight.planning.preimages import with_preimages
from lance_flight.planning.reasons import PruningReport, Unused
from lance_flight.planning.scalar_expressions import ComputedCondition

__all__ = ["Partitions", "Pruning", "SpecPartitions", "SpecPruning", "Unresolved", "Unused", "prune", "without_idle"]

EXCLUDES_NONE = "every partition may have such rows"
MOST_EXPLAINED = 32
"""Most conjuncts that EXPLAIN looks at one by one."""
FEWEST_CERTAIN = 2
"""Fewer partitions are not worth a scan of their own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpecPruning:
    """Result of pruning one spec version.

    `kept` holds ascending row numbers of `SpecPartitions.values`. `used` are the conjuncts that narrowed the
    choice, `unused` the others with the reason. `residual` is what the kept partitions do not guarantee already:
    None means that every row of theirs matches. `unfiltered` is the part of it that is not a hint's. `certain` are those of the
    `kept` whose values guarantee it of all their rows.
    """

    spec_id: int
    total: int
    kept: npt.NDArray[np.int64]
    used: tuple[str, ...]
    unused: tuple[Unused, ...]
    residual: Predicate | None
    unfiltered: Predicate | None
    certain: npt.NDArray[np.int64]

    def by_residual(self, rows: npt.NDArray[np.int64]) -> list[tuple[Predicate | None, npt.NDArray[np.int64]]]:
        """Split some of the kept partitions by what their rows are to be filtered by."""
        is_certain = np.isin(rows, self.certain, assume_unique=True)
        if is_certain.all():
            return [(None, rows)]
        if np.count_nonzero(is_certain) < FEWEST_CERTAIN:
            return [(self.unfiltered, rows)]
        return [(None, rows[is_certain]), (self.unfiltered, rows[~is_certain])]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pruning:
    """Result of pruning a namespace, one entry for each spec version in the order given."""

    versions: tuple[SpecPruning, ...]

    @property
    def scanned(self) -> int:
        """Number of partition tables that are left."""
        return sum(len(version.kept) for version in self.versions)

    @property
    def total(self) -> int:
        """Number of partition tables in all."""
        return sum(version.total for version in self.versions)


def prune(
    partitions: Partitions | Sequence[SpecPartitions],
    schema: NamespaceSchema,
    predicate: Predicate,
    evaluate: Evaluate | None,
    hint: Predicate = ALWAYS,
) -> Pruning:
    """Return the partition tables that can hold a row for which `predicate` and `hint` are TRUE.

    Who reads filters by the predicate alone; rows for which the hint is not TRUE are dropped later.
    `evaluate` computes custom expressions, once for each field; without it (or when it raises `Unresolved`) they
    prune nothing. An error of it is a reason too, never an exception of this function.
    """
    whole = partitions if isinstance(partitions, Partitions) else Partitions.apart(partitions)
    question = NormalForm.of(all_of([predicate, with_preimages(hint, schema)]), schema)
    versions = _left_of(whole, schema, question, evaluate)
    prunings = [version.result(question, len(conjuncts(predicate))) for version in versions]
    pruning = Pruning(versions=tuple(prunings))
    if any(version.unfiltered is not None and len(version.kept) >= FEWEST_CERTAIN for version in prunings):
        return with_certain(pruning, whole, schema, predicate)
    return pruning


def with_certain(pruning: Pruning, whole: Partitions, schema: NamespaceSchema, predicate: Predicate) -> Pruning:
    """Return the result for `predicate` with the `certain` partitions: those that its negation prunes."""
    dropped = _left_of(whole, schema, NormalForm.of(not_true(predicate, schema), schema), None)
    prunings = [
        replace(version, certain=version.kept[~left.rows[version.kept]]) if version.unfiltered is not None else version
        for version, left in zip(pruning.versions, dropped, strict=True)
    ]
    return Pruning(versions=tuple(prunings))


def without_idle(
    pruning: Pruning, whole: Partitions, schema: NamespaceSchema, predicate: Predicate, evaluate: Evaluate | None
) -> Pruning:
    """Return the result with those conjuncts as unused that exclude no partition, neither alone nor beside the others.

    This prunes twice for each conjunct, which is for EXPLAIN.
    """
    parts = NormalForm.of(predicate, schema).conjuncts
    used = {text for version in pruning.versions for text in version.used}
    if len(parts) > MOST_EXPLAINED:
        return pruning

    def kept(of: Sequence[Predicate]) -> list[Mask]:
        return [version.rows for version in _left_of(whole, schema, NormalForm.of(all_of(of), schema), evaluate)]

    everything = kept([conjunct.predicate for conjunct in parts])
    idle: list[set[str]] = [set() for _ in pruning.versions]
    for part in parts:
        if part.text not in used:
            continue
        alone, others = kept([part.predicate]), kept([conjunct.predicate for conjunct in parts if conjunct is not part])
        for texts, mine, rest, left in zip(idle, alone, others, everything, strict=True):
            if mine.all() and np.array_equal(rest, left):
                texts.add(part.text)
    return Pruning(
        versions=tuple(
            replace(
                version,
                used=tuple(text for text in version.used if text not in texts),
                unused=(*version.unused, *(Unused(text, EXCLUDES_NONE) for text in version.used if text in texts)),
            )
            for version, texts in zip(pruning.versions, idle, strict=True)
        )
    )


def _left_of(
    whole: Partitions, schema: NamespaceSchema, question: NormalForm, evaluate: Evaluate | None
) -> list[_Version]:
    """Return what is left of every spec version."""
    expressions, conditions = Expressions(evaluate), ComputedConditions(schema, evaluate)
    everything = _everything(schema, whole.components)
    plans = [
        [(disjunct, _matches(whole, disjunct, expressions, everything)) for disjunct in group]
        for group in question.groups
    ]
    versions = [
        _Version(
            version,
            parts,
            conditions,
            np.ones(len(version), np.bool_),
            PruningReport(version.spec, schema.source_names, version.doubtful),
        )
        for version, parts in zip(whole.versions, whole.parts, strict=True)
    ]
    for group in plans:
        _keep_any_of(group, versions)
    return versions


@dataclass(slots=True)
class _Version:
    """One spec version: the rows that are left, and what the predicate did for it."""

    partitions: SpecPartitions
    parts: Sequence[Part]
    conditions: ComputedConditions
    rows: Mask
    account: PruningReport

    def left(self, alternative: Disjunct, results: Mapping[Component, MatchResult]) -> Mask:
        """Return the rows that one alternative leaves."""
        mine = [(results[part.component], part.rows) for part in self.parts if part.component in results]
        computed = {
            stated: self.conditions.rows(stated.leaf, self.partitions)
            for stated in alternative.leaves
            if isinstance(stated.leaf, ComputedCondition) and alternative.possible
        }
        self.account.add(alternative, [result for result, _ in mine], computed)
        left = np.full(len(self.rows), alternative.possible)
        for result, rows in mine:
            left &= result.rows[rows]
        for mask in computed.values():
            if not isinstance(mask, str):
                left &= mask
        return left

    def result(self, question: NormalForm, of_the_predicate: int) -> SpecPruning:
        """Return the result; the first so many conjuncts are the predicate's, the remaining ones the hint's."""
        account, parts = self.account, question.conjuncts
        unsure = [(place, conjunct.predicate) for place, conjunct in enumerate(parts) if not account.is_exact(conjunct)]
        unfiltered = _conjunction([predicate for place, predicate in unsure if place < of_the_predicate])
        kept = np.flatnonzero(self.rows).astype(np.int64, copy=False)
        return SpecPruning(
            spec_id=self.partitions.spec.id,
            total=len(self.rows),
            kept=kept,
            used=tuple(conjunct.text for conjunct in parts if account.is_used(conjunct)),
            unused=tuple(account.note_unused(conjunct) for conjunct in parts if not account.is_used(conjunct)),
            residual=_conjunction([predicate for _, predicate in unsure]),
            unfiltered=unfiltered,
            certain=kept if unfiltered is None else kept[:0],
        )


def _conjunction(parts: Sequence[Predicate]) -> Predicate | None:
    return all_of(parts) if parts else None


def _keep_any_of(group: Sequence[tuple[Disjunct, Mapping[Component, Match]]], versions: Sequence[_Version]) -> None:
    """Keep what some alternative of a group leaves."""
    kept = [np.zeros(len(version.rows), np.bool_) for version in versions]
    for alternative, matches in group:
        found_by = {component: match.find() for component, match in matches.items()}
        kept = [rows | version.left(alternative, found_by) for rows, version in zip(kept, versions, strict=True)]
    for rows, version in zip(kept, versions, strict=True):
        version.rows &= rows


def _everything(schema: NamespaceSchema, components: Sequence[Component]) -> dict[int, Domain]:
    """Return the domains of the source columns that have an order, by id."""
    sources = frozenset[int]().union(*(component.sources for component in components))
    kinds = {number: source.field.type for number, source in schema.sources.items() if number in sources}
    orders = {number: ordering(kind) for number, kind in kinds.items()}
    return {number: Domain.everything(order) for number, order in orders.items() if order is not None}


def _matches(
    partitions: Partitions, alternative: Disjunct, expressions: Expressions, everything: Mapping[int, Domain]
) -> dict[Component, Match]:
    """Return what an alternative is matched with: the components over the columns that it constrains."""
    constrained = frozenset(alternative.domains)
    domains = {number: alternative.domains.get(number, domain) for number, domain in everything.items()}
    sources = Sources(domains, constrained)
    matches = {
        component: Match(component, sources, expressions)
        for component in partitions.components
        if alternative.possible and component.sources & constrained
    }
    for match in matches.values():
        match.plan()
    return matches
