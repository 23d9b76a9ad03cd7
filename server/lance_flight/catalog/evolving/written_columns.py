"""Files with new columns that earlier attempts of a schema change have written, for the fragments that are still there.

A commit that comes too late begins again on a newer snapshot. Whatever others have appended meanwhile is new; data files never
change, so the columns that were written for them are good for every later version that has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset
from lance.schema import LanceSchema

from lance_flight.catalog.evolving.new_columns import NewColumns, Widened
from lance_flight.catalog.storage.addresses import OFFSETS, ROW_ADDRESS
from lance_flight.catalog.storage.lance_fields import field_id, least_number
from lance_flight.catalog.tables import partitions

_Key = tuple[str, tuple[int | None, ...], int, tuple[str, ...]]
"""A table's place, the ids of the columns, Lance's number of the first of them, and the files of a fragment."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A fragment with its new columns, as it was at the version that the `work` read."""

    work: NewColumns
    widened: FragmentMetadata
    schema: LanceSchema


class WrittenColumns:
    """The new columns that were written so far. Filled between attempts, and read by many threads."""

    def __init__(self) -> None:
        self._written: dict[_Key, _Written] = {}

    def add(self, work: NewColumns, result: Widened) -> None:
        """Remember what a piece of work has written."""
        dataset = partitions.open_at(work.table, work.base)
        columns = _columns(dataset, work.fresh)
        for number, widened in zip(work.fragments, result.fragments, strict=True):
            key = *columns, _paths(dataset.get_fragment(number).metadata)
            self._written[key] = _Written(work, widened, result.schema)

    def missing(self, dataset: LanceDataset, fresh: Sequence[pa.Field]) -> list[FragmentMetadata]:
        """Return the fragments of a version whose columns `fresh` have to be written."""
        return [fragment for fragment, written in self._match_written(dataset, fresh) if written is None]

    def of(self, dataset: LanceDataset, fresh: Sequence[pa.Field]) -> Widened | None:
        """Return all fragments of a version with their new columns, none of which is missing.

        None for a version without fragments.
        """
        fragments, schema = [], None
        for now, written in self._match_written(dataset, fresh):
            if written is None:
                raise AssertionError(f"fragment {now.id} has no new columns")
            added = [file for file in written.widened.files if file.path not in _paths(now)]
            fragments.append(replace(now, files=[*now.files, *added]))
            schema = written.schema
        return None if schema is None else Widened(tuple(fragments), schema)

    def _match_written(
        self, dataset: LanceDataset, fresh: Sequence[pa.Field]
    ) -> Iterator[tuple[FragmentMetadata, _Written | None]]:
        """Yield each fragment with what was written for its files, if all rows that it has now have values there."""
        columns = _columns(dataset, fresh)
        for fragment in dataset.get_fragments():
            now = fragment.metadata
            written = self._written.get((*columns, _paths(now)))
            yield now, written if written is not None and _has_values(written, dataset, now) else None


def _columns(dataset: LanceDataset, fresh: Sequence[pa.Field]) -> tuple[str, tuple[int | None, ...], int]:
    return dataset.uri, tuple(field_id(each) for each in fresh), least_number(dataset)


def _paths(fragment: FragmentMetadata) -> tuple[str, ...]:
    return tuple(file.path for file in fragment.files)


def _has_values(written: _Written, dataset: LanceDataset, now: FragmentMetadata) -> bool:
    """Return whether no row is back that was deleted when the values were computed: deleted rows got none."""
    then = written.widened.deletion_file
    if then is None or then.asdict() == (now.deletion_file.asdict() if now.deletion_file is not None else None):
        return True
    before = partitions.open_at(written.work.table, written.work.base)
    return bool(np.isin(_offsets(dataset, now.id), _offsets(before, written.widened.id)).all())


def _offsets(dataset: LanceDataset, number: int) -> np.ndarray:
    """Return where the rows of a fragment lie that are not deleted."""
    rows = dataset.get_fragment(number).scanner(columns=[], with_row_address=True).to_table()
    offsets: np.ndarray = rows[ROW_ADDRESS].to_numpy() & np.uint64(OFFSETS)
    return offsets
