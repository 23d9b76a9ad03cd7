"""Which partition tables a predicate leaves, for every spec version, and why it leaves no fewer.

Spec: Partition Pruning, Compatibility with Partition Pruning, Appendix D. Never wrong: a part of the predicate that
cannot be used prunes nothing and is reported with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate
from lance_flight.planning.alternatives import Alternative, Question
from lance_flight.planning.domains import Domain, Mask
from lance_flight.planning.enumeration import Expressions, Unresolved
from lance_flight.planning.matching import Match
from lance_flight.planning.ordering import ordering
from lance_flight.planning.partitions import SpecPartitions
from lance_flight.planning.predicates import Predicate, all_of
from lance_flight.planning.reasons import Account, Unused

__all__ = ["Pruning", "SpecPartitions", "SpecPruning", "Unresolved", "Unused", "prune"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpecPruning:
    """What is left of one spec version.

    `kept` holds ascending row numbers of `SpecPartitions.values`. `used` are the conjuncts that narrowed the
    choice, `unused` the others with the reason. `residual` is what the kept partitions do not guarantee already:
    None means that every row of theirs matches.
    """

    spec_id: int
    total: int
    kept: npt.NDArray[np.int64]
    used: tuple[str, ...]
    unused: tuple[Unused, ...]
    residual: Predicate | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pruning:
    """What is left of a namespace, one entry for each spec version in the order given."""

    versions: tuple[SpecPruning, ...]

    @property
    def scanned(self) -> int:
        """How many partition tables are left."""
        return sum(len(version.kept) for version in self.versions)

    @property
    def total(self) -> int:
        """How many partition tables there are."""
        return sum(version.total for version in self.versions)


def prune(
    versions: Sequence[SpecPartitions], schema: NamespaceSchema, predicate: Predicate, evaluate: Evaluate | None
) -> Pruning:
    """The partition tables that can hold a row for which `predicate` is TRUE.

    `evaluate` computes custom expressions, once for each field; without it (or when it raises `Unresolved`) they
    prune nothing. An error of it is a reason too, never an exception of this function.
    """
    question = Question.of(predicate, schema)
    expressions = Expressions(evaluate)
    plans = [_Plan.of(version, question, expressions, schema) for version in versions]
    return Pruning(versions=tuple(plan.result(question) for plan in plans))


@dataclass(frozen=True, slots=True)
class _Plan:
    """One spec version: for each group of alternatives (all must hold), what each alternative is matched with."""

    partitions: SpecPartitions
    names: Mapping[int, str]
    groups: list[list[tuple[Alternative, list[Match]]]]

    @classmethod
    def of(
        cls, partitions: SpecPartitions, question: Question, expressions: Expressions, schema: NamespaceSchema
    ) -> _Plan:
        names, orders = _columns(schema)
        groups = [
            [(each, list(_matches(partitions, each, expressions, orders))) for each in group]
            for group in question.groups
        ]
        return cls(partitions, names, groups)

    def result(self, question: Question) -> SpecPruning:
        rows = np.ones(len(self.partitions), np.bool_)
        account = Account(self.partitions.spec, self.names)
        for group in self.groups:
            rows &= self._any_of(group, account)
        conjuncts = question.conjuncts
        unguaranteed = [each.predicate for each in conjuncts if not account.is_exact(each)]
        return SpecPruning(
            spec_id=self.partitions.spec.id,
            total=len(rows),
            kept=np.flatnonzero(rows).astype(np.int64, copy=False),
            used=tuple(str(each.predicate) for each in conjuncts if account.is_used(each)),
            unused=tuple(account.unused(each) for each in conjuncts if not account.is_used(each)),
            residual=all_of(unguaranteed) if unguaranteed else None,
        )

    def _any_of(self, group: list[tuple[Alternative, list[Match]]], account: Account) -> Mask:
        rows = np.zeros(len(self.partitions), np.bool_)
        for alternative, matches in group:
            found = [match.find() for match in matches]
            account.add(alternative, found)
            if alternative.possible:
                rows |= np.logical_and.reduce([np.ones(len(rows), np.bool_), *(each.rows for each in found)])
        return rows


def _columns(schema: NamespaceSchema) -> tuple[dict[int, str], dict[int, Domain]]:
    """The names of the top-level columns, and the domains of those that have an order, by id."""
    names = {number: name for name, number in schema.ids.items()}
    orders = {number: ordering(schema.arrow.field(name).type) for number, name in names.items()}
    return names, {number: Domain.everything(order) for number, order in orders.items() if order is not None}


def _matches(
    partitions: SpecPartitions, alternative: Alternative, expressions: Expressions, whole: Mapping[int, Domain]
) -> Iterator[Match]:
    if not alternative.possible:
        return
    for fields in partitions.components:
        sources = {number for each in fields for number in each.source_ids}
        if sources & alternative.domains.keys():
            domains = {number: alternative.domains.get(number, whole[number]) for number in sources & whole.keys()}
            match = Match(partitions, fields, domains, frozenset(alternative.domains), expressions)
            match.plan()
            yield match
