"""Changes of one statement to one partition table, not visible yet: rows removed, data files added."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import lance
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation

from lance_flight.catalog.manifests.snapshot import PartitionTable
from lance_flight.catalog.storage.whole_files import DATA, sealed_deletions
from lance_flight.catalog.tables.partitions import path_of_base
from lance_flight.faults import failpoint
from lance_flight.model.spec import PartitionSpec


@dataclass(frozen=True, slots=True)
class Removal:
    """Rows to remove: fragments with new deletion files, and fragments without remaining rows."""

    updated: tuple[FragmentMetadata, ...] = ()
    removed: tuple[int, ...] = ()
    rows: int = 0

    @classmethod
    def of(cls, dataset: LanceDataset, offsets: Iterable[tuple[int, Sequence[int]]]) -> Removal:
        """Take the rows at `offsets` out of each fragment; the deletion files are written here."""
        updated: list[FragmentMetadata] = []
        removed, rows = [], 0
        for number, gone in offsets:
            left = dataset.get_fragment(number).delete_rows(gone)
            updated += sealed_deletions(path_of_base(dataset.uri), [] if left is None else [left])
            failpoint("rows_removed")
            rows += len(gone)
            if left is None:
                removed.append(number)
        return cls(tuple(updated), tuple(removed), rows)

    @classmethod
    def everything(cls, dataset: LanceDataset) -> Removal:
        """Remove all rows."""
        fragments = dataset.get_fragments()
        rows = sum(fragment.count_rows() for fragment in fragments)
        return cls(removed=tuple(fragment.fragment_id for fragment in fragments), rows=rows)


@dataclass(slots=True, kw_only=True)
class TableUpdate:
    """Data files for one partition, and what goes from its table; `values` is its one row of partition values.

    `table` is the table as the statement saw it (None: a new one). `location` is the table's directory and `place` the
    one that holds the files' own `data`, the same but for branches. One that `replaces` stands for all rows of its
    partition, be there a table with some to remove or none; one that `drops` takes the table itself away. `groups` are files
    whose rows are moved into others, in their order: said so, they keep their lineage. `touched` are segments of indices
    that cover files of a group: they go first, since Lance would say that they cover fragment 0 in place of the new ones.
    """

    spec: PartitionSpec
    schema: pa.Schema
    values: pa.Table
    object_id: str
    location: str
    place: str
    table: PartitionTable | None
    fragments: list[FragmentMetadata] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    removal: Removal | None = None
    groups: list[LanceOperation.RewriteGroup] = field(default_factory=list)
    touched: list[lance.Index] = field(default_factory=list)
    replaces: bool = False
    drops: bool = False
    rows: int = 0

    @property
    def rewrites(self) -> bool:
        """True if the update is valid only for the version of the partition that the statement read."""
        return self.replaces or self.removal is not None

    @property
    def operations(self) -> list[LanceOperation.BaseOperation]:
        """Operations that Lance commits to the table that the statement read, one after another."""
        if self.removal is None:
            return [LanceOperation.Append(list(self.fragments))]
        if self.groups:
            rewrite = LanceOperation.Rewrite(groups=list(self.groups), rewritten_indices=[])
            return [LanceOperation.CreateIndex([], list(self.touched)), rewrite] if self.touched else [rewrite]
        update = LanceOperation.Update(
            removed_fragment_ids=list(self.removal.removed),
            updated_fragments=list(self.removal.updated),
            new_fragments=list(self.fragments),
        )
        return [update]

    @property
    def data_files(self) -> set[str]:
        """The files that were written, by their paths within `place`."""
        written = {file.path for fragment in self.fragments for file in fragment.files}
        return {f"{DATA}/{name}" for name in written.union(self.files)}


def removed_rows(edits: Iterable[TableUpdate]) -> int:
    """Return how many rows some edits take away."""
    return sum(edit.removal.rows for edit in edits if edit.removal is not None)
