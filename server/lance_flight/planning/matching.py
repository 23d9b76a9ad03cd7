"""One alternative of a predicate against the fields of one spec version that share source columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lance_flight.errors import LanceFlightError
from lance_flight.model.domains import Domain, Mask
from lance_flight.model.spec import Expression, PartitionField
from lance_flight.model.transforms.transform import Nulls
from lance_flight.planning.calendar import UNITS, calendar_problem, calendar_rows
from lance_flight.planning.constraints import Aspect
from lance_flight.planning.enumeration import (
    MAX_COMBINATIONS,
    Candidates,
    Expressions,
    Sources,
    combinations,
    count,
    rows_of,
    stored_values,
)
from lance_flight.planning.partitions import Component

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
