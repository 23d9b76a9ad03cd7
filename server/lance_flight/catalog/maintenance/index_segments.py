"""What a partition table has of an index: segments, each over some of its files, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import lance
from lance import LanceDataset, LanceOperation

from lance_flight.catalog import partitions
from lance_flight.catalog.store import Store
from lance_flight.errors import Unsupported
from lance_flight.model.index_kinds import Family, IndexKind, OptionValue
from lance_flight.model.pins import FixedPin

INDICES = "_indices"
MOST_SEGMENTS = 4
"""Every search looks into each of them: beyond that the next one takes the place of all."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The segments that a version of a table has of an index, and the files that none of them is about.

    `others` have the name and are of another column or kind.
    """

    segments: tuple[lance.Index, ...]
    others: tuple[lance.Index, ...]
    covered: frozenset[int]
    missing: frozenset[int]

    @classmethod
    def of(cls, dataset: LanceDataset, name: str, column: str, kind: IndexKind) -> Coverage:
        """What `dataset` has of the index."""
        number = next(field.id() for field in dataset.lance_schema.fields() if field.name() == column)
        mine: list[lance.Index] = []
        others: list[lance.Index] = []
        for index in dataset.describe_indices():
            if index.name == name:
                is_mine = list(index.fields) == [number] and _plain(index.index_type) == _plain(kind.name)
                (mine if is_mine else others).extend(_segments(index))
        fragments = frozenset(fragment.fragment_id for fragment in dataset.get_fragments())
        covered = fragments.intersection(*[set().union(*(set(each.fragment_ids) for each in mine))])
        return cls(tuple(mine), tuple(others), covered, fragments - covered)

    def replaced_by(self, fragments: frozenset[int]) -> list[lance.Index]:
        """The segments that a new one over some files makes useless."""
        live = self.covered - fragments
        return [*self.others, *(each for each in self.segments if not live.intersection(each.fragment_ids))]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSegment:
    """A piece of work: a segment of an index over some files of a version of a table, with `rows` in them."""

    object_id: str
    table: Store
    base: FixedPin
    place: Store
    column: str
    kind: IndexKind
    options: tuple[tuple[str, OptionValue], ...]
    name: str
    fragments: frozenset[int]
    rows: int

    def run(self) -> lance.Index:
        """Write it; it is part of no version yet."""
        dataset = partitions.open_at(self.table, self.base)
        try:
            built = dataset.create_index_uncommitted(
                self.column,
                self.kind.lance,
                name=self.name,
                replace=True,
                fragment_ids=sorted(self.fragments),
                **dict(self.options),
            )
            if self.kind.family is Family.TEXT:
                # Its parts are one only then.
                dataset.merge_index_metadata(built.uuid, self.kind.lance)
        except (ValueError, TypeError, NotImplementedError, KeyError) as exc:
            raise Unsupported(
                f"partition table {self.object_id!r}: no {self.kind.name} index of column {self.column!r}"
                f" ({dataset.schema.field(self.column).type}): {self.table.parent.words(exc)}"
            ) from exc
        return built

    def undo(self, result: lance.Index) -> None:
        """Delete its files."""
        self.place.child(INDICES, result.uuid).remove()


def stage(piece: BuildSegment, built: lance.Index) -> FixedPin:
    """Make what was built part of a version of its table, which nobody reads yet."""
    dataset = partitions.open_at(piece.table, piece.base)
    old = Coverage.of(dataset, piece.name, piece.column, piece.kind)
    operation = LanceOperation.CreateIndex([built], old.replaced_by(piece.fragments))
    return partitions.stage(piece.table, piece.base, operation)


def stage_without(table: Store, base: FixedPin, name: str | None = None) -> FixedPin | None:
    """A version of a table without an index (None: any), which nobody reads yet; None where it has none of that name."""
    old = [
        segment
        for index in partitions.open_at(table, base).describe_indices()
        if name in (None, index.name)
        for segment in _segments(index)
    ]
    return partitions.stage(table, base, LanceOperation.CreateIndex([], old)) if old else None


def _segments(index: lance.IndexDescription) -> Iterator[lance.Index]:
    """The segments of an index, as what takes their place must name them."""
    for segment in index.segments:
        yield lance.Index(
            uuid=segment.uuid,
            name=index.name,
            fields=index.fields,
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
        )


def _plain(kind: str) -> str:
    return kind.replace("_", "").lower()
