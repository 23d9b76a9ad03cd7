"""Pruning of partition tables by a predicate, for every spec version, with the reasons why no fewer are left.

Spec: Partition Pruning, Compatibility with Partition Pruning, Appendix D. Each alternative of the predicate is matched with the fields of
one spec version that share source columns. Never wrong: a part of the predicate that cannot be used prunes nothing and is reported with
the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_flight.errors import LanceFlightError
from lance_flight.model.domains import Domain, Mask, ordering
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate, Expression, PartitionField, PartitionSpec
from lance_flight.model.transforms import Nulls
from lance_flight.planning.constraints import Aspect, Conjunct, Disjunct, NormalForm, Stated
from lance_flight.planning.partitions import (
    MAX_COMBINATIONS,
    UNITS,
    Candidates,
    Component,
    ComputedConditions,
    Expressions,
    Part,
    Partitions,
    Sources,
    SpecPartitions,
    Unresolved,
    calendar_problem,
    calendar_rows,
    combinations,
    count,
    rows_of,
    stored_values,
)
from lance_flight.planning.predicates import (
    ALWAYS,
    MAX_BRANCHES,
    ComputedCondition,
    Predicate,
    all_of,
    conjuncts,
    not_true,
)
from lance_flight.planning.preimages import with_preimages

Say = tuple[int, Aspect, str]
"""Statement of a leaf: its source column, the aspect, and the date part where it is one."""


@dataclass(slots=True)
class MatchResult:
    """The rows that one alternative leaves, and what it used.

    `used` and `exact` hold what pruned, and what every row of the kept partitions is known to fulfil; a bare source
    column stands for all that is said about it. `why` has the obstacles by source column.
    """

    rows: Mask
    used: set[Say | int] = field(default_factory=set)
    exact: set[Say | int] = field(default_factory=set)
    why: dict[int, list[str]] = field(default_factory=dict)

    def object(self, sources: Sequence[int], why: str) -> None:
        """Note an obstacle."""
        for number in sources:
            self.why.setdefault(number, []).append(why)


@dataclass(slots=True)
class _Points:
    """Fields to be looked up together, each with its values at every combination or the number of its question."""

    sources: list[int]
    values: list[tuple[PartitionField, pa.Array | int]]


@dataclass(slots=True)
class Match:
    """The comparison of one alternative with one component: `plan` asks for expressions, `find` uses them."""

    component: Component
    sources: Sources
    expressions: Expressions
    points: list[_Points] = field(default_factory=list)
    obstacles: list[tuple[PartitionField, str]] = field(default_factory=list)

    def plan(self) -> None:
        """Decide which fields are enumerated, compute their transforms, and ask for their expressions."""
        lists = self._lists()
        wanted = self._enumerable(lists)
        if len(wanted) == 1 and wanted[0].rule.keeps_value:
            return
        together = count([lists[number] for number in _sources(wanted)]) <= MAX_COMBINATIONS
        for group in [wanted] if together and wanted else [[partition_field] for partition_field in wanted]:
            if count([lists[number] for number in _sources(group)]) > MAX_COMBINATIONS:
                self.obstacles.append((group[0], f"there are more than {MAX_COMBINATIONS} values to try"))
            else:
                columns = combinations({number: lists[number] for number in _sources(group)})
                self.points.append(_Points([*columns], list(self._apply_fields(group, columns))))

    def _enumerable(self, lists: Mapping[int, Candidates]) -> list[PartitionField]:
        """Return the fields over constrained columns that have few values, and those that only repeat their columns."""
        listed = [
            partition_field
            for partition_field in self.component.fields
            if set(partition_field.source_ids) <= lists.keys()
        ]
        asked = _sources(
            [
                partition_field
                for partition_field in listed
                if self.sources.constrained & set(partition_field.source_ids)
            ]
        )
        return [
            partition_field
            for partition_field in listed
            if set(partition_field.source_ids) <= set(asked) and not self._meets_nan(partition_field)
        ]

    def _meets_nan(self, partition_field: PartitionField) -> bool:
        domains = [self.sources.domains[number] for number in partition_field.source_ids]
        has_nan = isinstance(partition_field.rule, Expression) and any(
            d.order.is_float and d.holds_nan for d in domains
        )
        if has_nan:
            self.obstacles.append((partition_field, "an expression may tell one NaN from another"))
        return has_nan

    def _lists(self) -> dict[int, Candidates]:
        """List candidates of each source column that has few, or whose identity another field of the group keeps."""
        known = self.component.sources & self.sources.domains.keys()
        candidates = {number: self.sources.candidates(number) for number in known}
        lists = {number: some for number, some in candidates.items() if some is not None}
        given = lists.keys() & self.sources.constrained
        identities = {
            partition_field.source_ids[0]: partition_field
            for partition_field in self.component.fields
            if partition_field.rule.keeps_value
        }
        for partition_field in self.component.fields:
            if given & set(partition_field.source_ids):
                for number in set(partition_field.source_ids) & identities.keys() - lists.keys():
                    lists[number] = stored_values(
                        self.component.column_of(identities[number]), self.sources.domains[number]
                    )
        return lists

    def _apply_fields(
        self, group: Sequence[PartitionField], columns: Mapping[int, pa.Array]
    ) -> Iterator[tuple[PartitionField, pa.Array | int]]:
        for partition_field in group:
            inputs = [columns[number] for number in partition_field.source_ids]
            if isinstance(partition_field.rule, Expression):
                exact = [
                    values.cast(self.sources.domains[number].order.kind)
                    for number, values in zip(partition_field.source_ids, inputs, strict=True)
                ]
                yield partition_field, self.expressions.ask(partition_field, exact)
                continue
            try:
                yield partition_field, partition_field.rule.apply(inputs)
            except (LanceFlightError, pa.ArrowException) as exc:
                self.obstacles.append(
                    (partition_field, f"{partition_field.rule.type} does not apply to its columns any more: {exc}")
                )

    def find(self) -> MatchResult:
        """Return the rows that are left."""
        findings = MatchResult(np.ones(len(self.component), np.bool_))
        for partition_field, why in self.obstacles:
            findings.object(partition_field.source_ids, why)
        looked_up = {
            partition_field.field_id for points in self.points for partition_field in self._look_up(points, findings)
        }
        rest = [
            partition_field for partition_field in self.component.fields if partition_field.field_id not in looked_up
        ]
        for partition_field in rest:
            self._not_null(partition_field, findings)
            self._in_order(partition_field, findings)
        self._times([partition_field for partition_field in rest if partition_field.rule.date_part in UNITS], findings)
        return findings

    def _look_up(self, points: _Points, findings: MatchResult) -> list[PartitionField]:
        known: list[tuple[PartitionField, pa.Array]] = []
        for partition_field, values in points.values:
            answer = self.expressions.answer(partition_field, values) if isinstance(values, int) else values
            if isinstance(answer, str):
                findings.object(partition_field.source_ids, answer)
            else:
                known.append((partition_field, answer))
        try:
            if known:
                findings.rows &= rows_of(
                    [(self.component.column_of(partition_field), values) for partition_field, values in known]
                )
        except pa.ArrowException as exc:
            findings.object(points.sources, f"stored values do not compare with what the columns give now: {exc}")
            return []
        for partition_field, _ in known:
            findings.used.update(partition_field.source_ids)
            self._note_exact(partition_field, findings)
        return [partition_field for partition_field, _ in known]

    def _not_null(self, partition_field: PartitionField, findings: MatchResult) -> None:
        """Drop NULL values of a field whose source, or one of whose sources, may not be NULL."""
        if partition_field.rule.nulls is Nulls.UNKNOWN:
            return
        certain = [
            n for n in partition_field.source_ids if n in self.sources.domains and not self.sources.domains[n].nulls
        ]
        if certain:
            findings.rows &= ~self.component.column_of(partition_field).is_null
            findings.used.update((number, Aspect.NULLNESS, "") for number in certain)
            if partition_field.rule.nulls is Nulls.OF_ITS_SOURCE:
                findings.exact.add((certain[0], Aspect.NULLNESS, ""))

    def _in_order(self, partition_field: PartitionField, findings: MatchResult) -> None:
        number = partition_field.source_ids[0]
        if number not in self.sources.constrained:
            return
        domain = self.sources.domains[number]
        image = _image(partition_field, domain)
        if image is None:
            return
        coded = self.component.column_of(partition_field)
        inside = image if isinstance(image, str) else _accept(partition_field, coded.values, image)
        if isinstance(image, str) or isinstance(inside, str):
            findings.object([number], str(inside))
            return
        findings.rows &= coded.rows(inside, null=domain.nulls)
        if partition_field.rule.keeps_value:
            findings.used.add(number)
            self._note_exact(partition_field, findings)
            return
        findings.used.update((number, aspect, "") for aspect in _ranging(domain))
        if image.excluded:
            findings.used.add((number, Aspect.EXCLUDED, ""))

    def _note_exact(self, partition_field: PartitionField, findings: MatchResult) -> None:
        number = partition_field.source_ids[0]
        if partition_field.rule.keeps_value and not self.sources.domains[number].order.is_float:
            findings.exact.add(number)

    def _times(self, fields: Sequence[PartitionField], findings: MatchResult) -> None:
        for number in {partition_field.source_ids[0] for partition_field in fields} & self.sources.constrained:
            mine = {
                str(partition_field.rule.date_part): partition_field
                for partition_field in fields
                if partition_field.source_ids[0] == number
            }
            domain = self.sources.domains[number]
            problem = calendar_problem(domain)
            if problem is not None:
                findings.object([number], problem)
                continue
            coded = {name: self.component.column_of(partition_field) for name, partition_field in mine.items()}
            rows = calendar_rows(coded, domain)
            findings.rows &= rows
            findings.used.update((number, aspect, "") for aspect in _ranging(domain))
            # A part without a field may prune through the others: no 31st in February.
            more = {
                n for n in domain.parts.keys() - mine.keys() if (calendar_rows(coded, _but(domain, n)) & ~rows).any()
            }
            findings.used.update((number, Aspect.PART, name) for name in mine.keys() | more)
            findings.exact.update((number, Aspect.PART, name) for name in mine)


def _image(partition_field: PartitionField, domain: Domain) -> Domain | str | None:
    """Return the values that a field has for sources in a domain, or why they are not known."""
    try:
        return partition_field.rule.image(domain, partition_field.result_type)
    except (LanceFlightError, pa.ArrowException) as exc:
        return str(exc)


def _accept(partition_field: PartitionField, values: pa.Array, image: Domain) -> Mask | str:
    """Return a flag for each of a field's distinct values that is in a domain, or why they do not compare."""
    try:
        return image.accepts(values.cast(image.order.kind))
    except pa.ArrowInvalid:
        return f"the values of {partition_field.field_id} do not compare with {image.order.kind}"


def _ranging(domain: Domain) -> list[Aspect]:
    """Return what went into the interval of a domain."""
    return [Aspect.VALUES, Aspect.RANGE, *([Aspect.EXCLUDED] if domain.trimmed else [])]


def _but(domain: Domain, part: str) -> Domain:
    return replace(domain, parts={name: kept for name, kept in domain.parts.items() if name != part})


def _sources(fields: Sequence[PartitionField]) -> list[int]:
    return list(dict.fromkeys(number for partition_field in fields for number in partition_field.source_ids))


EMPTY: Mapping[Stated, Mask | str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Unused:
    """A conjunct that pruned nothing, as SQL, and the reason."""

    predicate: str
    why: str


@dataclass(slots=True)
class PruningReport:
    """Effect of the leaves of a predicate on one spec version, collected over all alternatives."""

    spec: PartitionSpec
    names: Mapping[int, str]
    doubtful: Sequence[PartitionField] = ()
    _used: set[Stated] = field(default_factory=set)
    _inexact: set[Stated] = field(default_factory=set)
    _obstacles: dict[int, list[str]] = field(default_factory=dict)
    _not_computed: dict[Stated, str] = field(default_factory=dict)

    def add(
        self, alternative: Disjunct, results: Sequence[MatchResult], computed: Mapping[Stated, Mask | str] = EMPTY
    ) -> None:
        """Take in what one alternative found in each group of fields, and of its conditions on computed values."""
        if not alternative.possible:
            self._used.update(alternative.leaves)
            return
        for result in results:
            for number, whys in result.why.items():
                self._obstacles.setdefault(number, []).extend(whys)
        for stated in alternative.leaves:
            if stated in computed:
                self._add_computed(stated, computed[stated])
                continue
            keys = {stated.source, stated.says}
            if stated.domain is not None and any(keys & result.used for result in results):
                self._used.add(stated)
            if not (stated.holds or (stated.domain is not None and any(keys & result.exact for result in results))):
                self._inexact.add(stated)

    def _add_computed(self, stated: Stated, truths: Mask | str) -> None:
        if isinstance(truths, str):
            self._not_computed[stated] = truths
            self._inexact.add(stated)
        else:
            self._used.add(stated)

    def is_used(self, conjunct: Conjunct) -> bool:
        """Return whether every branch of a conjunct narrowed the choice."""
        branches = conjunct.branches
        return branches is not None and all(any(leaf in self._used for leaf in branch) for branch in branches)

    def is_exact(self, conjunct: Conjunct) -> bool:
        """Return whether every row of the kept partitions is known to fulfil a conjunct."""
        branches = conjunct.branches
        return branches is not None and not any(leaf in self._inexact for branch in branches for leaf in branch)

    def note_unused(self, conjunct: Conjunct) -> Unused:
        """Return a conjunct that did nothing, with the reason."""
        if conjunct.branches is None:
            return Unused(conjunct.text, f"it has more than {MAX_BRANCHES} alternatives")
        idle = next(branch for branch in conjunct.branches if not any(leaf in self._used for leaf in branch))
        whys = dict.fromkeys(self._why(leaf) for leaf in idle)
        place = f"{' AND '.join(str(leaf.leaf) for leaf in idle)}: " if len(conjunct.branches) > 1 else ""
        return Unused(conjunct.text, place + "; ".join(whys))

    def _why(self, stated: Stated) -> str:
        if stated.why or stated.source is None:
            return self._not_computed.get(stated, stated.why)
        obstacles = dict.fromkeys(self._obstacles.get(stated.source, ()))
        fields = [field for field in self.spec.fields if stated.source in field.source_ids]
        whys = [*obstacles] or [self._need(field, stated) for field in fields]
        whys += [
            f"rows may not lie by {describe(field, self.names)}: an older release wrote them; ALTER TABLE … REWRITE PARTITIONS"
            " moves those"
            for field in self.doubtful
            if stated.source in field.source_ids
        ]
        return ", ".join(whys) or f"v{self.spec.id} has no partition field over {self.names[stated.source]}"

    def _need(self, partition_field: PartitionField, stated: Stated) -> str:
        shown = describe(partition_field, self.names)
        _, aspect, part = stated.says
        if partition_field.rule.needs_values:
            return (
                f"{shown} needs = or IN on {_and(self.names.get(n, f'column {n}') for n in partition_field.source_ids)}"
            )
        if aspect is Aspect.PART:
            return f"{shown} does not keep the {part}"
        return f"{shown} says nothing about {'excluded values' if aspect is Aspect.EXCLUDED else 'this'}"


def _and(names: Iterable[str]) -> str:
    return " and ".join(names)


def describe(partition_field: PartitionField, names: Mapping[int, str]) -> str:
    """Return a partition field as EXPLAIN shows it, such as `bucket(id, 16)`."""
    sources = ", ".join(names.get(number, f"removed column {number}") for number in partition_field.source_ids)
    if isinstance(partition_field.rule, Expression):
        return f"{partition_field.field_id}({sources})"
    arguments = "".join(f", {value}" for value in partition_field.rule.arguments.values())
    return f"{partition_field.rule.type}({sources}{arguments})"


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
