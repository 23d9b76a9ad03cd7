"""Report of pruning: conjuncts that pruned, conjuncts that the kept partitions guarantee, and why any did nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from lance_flight.model.domains import Mask
from lance_flight.model.spec import Expression, PartitionField, PartitionSpec
from lance_flight.planning.constraints import Aspect, Conjunct, Disjunct, Stated
from lance_flight.planning.matching import MatchResult
from lance_flight.planning.predicates import MAX_BRANCHES

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
