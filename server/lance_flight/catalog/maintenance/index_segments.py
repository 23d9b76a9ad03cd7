"""Segments of an index, each over some files of a partition table: how they are built, and become part of a version."""

from __future__ import annotations

from dataclasses import dataclass

import lance
from lance import LanceOperation

from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.index_coverage import INDICES, Coverage, segments
from lance_flight.errors import Unsupported
from lance_flight.model.index_kinds import Family, IndexKind, OptionValue
from lance_flight.model.pins import FixedPin

MOST_SEGMENTS = 4
"""Every search looks into each of them: beyond that the next one takes the place of all."""


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
        except (ValueError, TypeError, NotImplementedError, KeyError, RuntimeError) as exc:
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
        for segment in segments(index)
    ]
    return partitions.stage(table, base, LanceOperation.CreateIndex([], old)) if old else None
