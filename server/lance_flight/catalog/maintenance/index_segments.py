"""Segments of an index, each over some files of a partition table: how they are built, and become part of a version."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation

from lance_flight.catalog.bulk.pieces import check_stopped
from lance_flight.catalog.manifests.indices import IndexDefinition
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import INDICES, sealed_index
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.index_coverage import Coverage, all_segments
from lance_flight.errors import Unsupported
from lance_flight.model.arrow_types import field_at, is_multivector
from lance_flight.model.index_kinds import BYTE_METRIC, Family, IndexKind, OptionValue, metrics_of
from lance_flight.model.pins import FixedPin

MOST_SEGMENTS = 4
"""Every search looks into each of them: beyond that the next one takes the place of all."""


_REFUSALS = (ValueError, TypeError, NotImplementedError, KeyError, RuntimeError)
"""Errors of Lance for an index that it cannot build."""


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
        """Write the segment, which is part of no version yet; nothing of it is left if that fails or is given up."""
        dataset = partitions.open_at(self.table, self.base)
        # Lance takes no name for a segment of most scalar kinds: what these leave, the next vacuum removes.
        segment = None if self.kind.family is Family.SCALAR else str(uuid.uuid4())
        try:
            built = _built(
                dataset,
                self.column,
                self.kind,
                dict(self.options),
                name=self.name,
                fragments=self.fragments,
                segment=segment,
                check=check_stopped,
            )
            return replace(built, uuid=sealed_index(self.place.uri, built.uuid))
        except _REFUSALS as exc:
            self._remove(segment)
            reason = self.table.parent.words(exc)
            what = _refused(field_at(dataset.schema, self.column), self.kind, reason)
            raise Unsupported(f"partition table {self.object_id!r}: {what}") from exc
        except BaseException:
            self._remove(segment)
            raise

    def has_files(self, result: lance.Index) -> bool:
        """Return whether the files of the segment are there: a vacuum removes one that was built long ago and is not committed."""
        return bool(self.place.child(INDICES, result.uuid).files())

    def undo(self, result: lance.Index) -> None:
        """Delete the files of the segment."""
        self._remove(result.uuid)

    def _remove(self, segment: str | None) -> None:
        if segment is not None:
            self.place.child(INDICES, segment).remove()


def check_possible(root: Store, column: pa.Field, definition: IndexDefinition) -> None:
    """Refuse an index that Lance cannot build, or not with these options, by a trial build over a single row."""
    kind, options = definition.of_kind, dict(definition.options)
    if kind.is_quantised and BYTE_METRIC in metrics_of(column.type):
        # Lance says so only where there are vectors enough to learn from: later REINDEX and COMPACT would fail.
        raise Unsupported(_refused(column, kind, "bits are not quantised; expected ivf_flat or ivf_hnsw_flat"))
    row = pa.array([_trial_value(column.type)], column.type)
    dataset = lance.write_dataset(pa.table({column.name: row}), f"memory://{secrets.token_hex(8)}")
    if kind.is_quantised:
        options.setdefault("num_sub_vectors", 1)
    if "num_partitions" in options:
        # Lance warns of more parts than there are rows.
        options["num_partitions"] = 1
    try:
        _built(dataset, column.name, kind, options, name=definition.name, fragments=[0])
    except _REFUSALS as exc:
        raise Unsupported(_refused(column, kind, root.words(exc))) from exc


def _trial_value(kind: pa.DataType) -> list[object] | None:
    """Return a vector or multivector of a type; None for any other type."""
    if is_multivector(kind):
        return [_trial_value(kind.value_type)]
    return [1] * kind.list_size if pa.types.is_fixed_size_list(kind) else None


def _built(
    dataset: LanceDataset,
    column: str,
    kind: IndexKind,
    options: Mapping[str, OptionValue],
    *,
    name: str,
    fragments: Iterable[int],
    segment: str | None = None,
    check: Callable[[], None] = lambda: None,
) -> lance.Index:
    """Build a segment, called `segment` (None: by any name); `check` may end it where Lance says how far it is."""
    built = dataset.create_index_uncommitted(
        column,
        kind.lance,
        name=name,
        replace=True,
        fragment_ids=sorted(fragments),
        index_uuid=segment,
        progress_callback=partial(_checked, check),
        **options,
    )
    if kind.family is Family.TEXT:
        # Its parts are one only then.
        dataset.merge_index_metadata(built.uuid, kind.lance)
    # Lance may come to the end before it looks at what a stage has raised.
    check()
    return built


def _checked(check: Callable[[], None], event: lance.IndexProgress) -> None:
    # Lance only warns of an error at the end of a stage.
    if event.event != "complete":
        check()


def _refused(column: pa.Field, kind: IndexKind, reason: str) -> str:
    return f"no {kind.name} index of column {column.name!r} ({column.type}): {reason}"


def stage(piece: BuildSegment, built: lance.Index, said: Mapping[str, str]) -> FixedPin:
    """Stage a version of the table with the built index; it is invisible, except in a plain table, which stores `said`."""
    dataset = partitions.open_at(piece.table, piece.base)
    old = Coverage.of(dataset, piece.name, piece.column, piece.kind)
    operation = LanceOperation.CreateIndex([built], old.replaced_by(piece.fragments))
    return partitions.stage(piece.table, piece.base, operation, said)


def stage_without(
    table: Store, base: FixedPin, name: str | None = None, said: Mapping[str, str] = MappingProxyType({})
) -> FixedPin | None:
    """Stage a version of a table without an index (None: any), invisible until it is committed.

    None where it has none of that name.
    """
    old = [each for each in all_segments(partitions.open_at(table, base)) if name in (None, each.name)]
    return partitions.stage(table, base, LanceOperation.CreateIndex([], old), said) if old else None
