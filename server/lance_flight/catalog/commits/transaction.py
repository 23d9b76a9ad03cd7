"""One transaction: what it writes and removes, table by table, until it is committed.

Spec: Multi-Partition Transaction; decisions 12 to 16. `commit.py` makes the changes visible, those of several
transactions together where it can.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import lance
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation

from lance_flight.catalog.commits.once import Once
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.manifests.version_log import Change
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import kept_tables
from lance_flight.catalog.storage.whole_files import DATA, sealed_deletions
from lance_flight.catalog.tables.partitions import path_of_base
from lance_flight.errors import NotFound
from lance_flight.faults import failpoint
from lance_flight.model.pins import FixedPin
from lance_flight.model.spec import PartitionSpec

log = logging.getLogger(__name__)


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


MOVES = ("compact ", "rewrite ", "repair: move ")
"""Prefixes of the operations in the history that only write rows anew."""
KEPT_STEPS = 16
"""Each is a manifest in memory; a result that is still being read after so many statements of its transaction is rare."""

REMOVERS, FEW_PARTS = 8, 64
"""Threads that remove the files of a transaction of many partitions, most of whose time is the disk's."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A version that was put on a table: where, on top of which pin (None: the first one), and the pin to it."""

    location: str
    on: FixedPin | None
    pin: FixedPin


@dataclass(slots=True, kw_only=True)
class PartitionChange:
    """All that a transaction does to one partition.

    `table` is the partition table in the transaction's first snapshot. `waiting` is not staged yet. Rows that were only
    added can be put on top of whatever is there; a part that `rewrites` is good for the version that it read alone, or
    for a partition that no other writer has made.
    """

    table: PartitionTable | None
    added: TableUpdate
    waiting: list[TableUpdate] = field(default_factory=list)
    staged: Staged | None = None
    rewrites: bool = False
    drops: bool = False
    was_staged: bool = False
    owns_directory: bool = False


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class CommitGuard:
    """Guard of a commit: `check` ends it while its tables are staged. From `begin_commit` on nothing does, until `end_commit`."""

    check: Callable[[], None] = _nothing
    begin_commit: Callable[[], None] = _nothing
    end_commit: Callable[[], None] = _nothing


class Transaction:
    """Changes to the partition tables of one namespace that become visible together, or not at all.

    It sees the snapshot that it began with, and its own writes: after `step` statements, `snapshot`. Serialisable ones
    also remember what they read. `once` is what no other one may have been, `reservation` the name of the one that it
    commits in (`manifests/version_log.py`), `evolution` the change of columns that goes along: its base shows the columns after it. `rebase` is called with it and the newest snapshot when no other transaction of this process can commit
    any more: it moves what has only to be put on top of another version. One with `divided` goes on without the partitions that
    conflict, which are `left_out`; it is called with the ids of the others, and returns what was done. Not safe to share among threads.
    """

    def __init__(self, base: Snapshot, *, serializable: bool = False) -> None:
        self.id = secrets.token_hex(16)
        self.began = time.monotonic()
        self.base = base
        self.step = 0
        self._snapshots = {0: base}
        self.serializable = serializable
        self.parts: dict[str, PartitionChange] = {}
        self.has_read = False
        self.reads: set[str] = set()
        self.did: list[str] = []
        self.hold: SnapshotLease | None = None
        self.once: Once | None = None
        self.reservation: str | None = None
        self.evolution: Change | None = None
        self.guard = CommitGuard()
        self.rebase: Callable[[Transaction, Snapshot], None] = lambda *_: None
        self.divided: Callable[[Collection[str]], str] | None = None
        self.left_out: dict[str, PartitionChange] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that the next statement reads."""
        return self._snapshots[self.step]

    def snapshot_at(self, step: int) -> Snapshot:
        """Return what it saw after so many of its statements; `NotFound` for one that was long ago."""
        if step not in self._snapshots:
            raise NotFound(
                f"the state after {step} statements of a transaction is no longer known, it has run {self.step}"
            )
        return self._snapshots[step]

    def show(self, rows: pa.Table) -> None:
        """Make the rows of `__manifest` changed so far visible to the next statement."""
        self.step += 1
        self._snapshots[self.step] = self.base.overlay(rows)
        self._snapshots.pop(self.step - KEPT_STEPS, None)

    def read(self, object_ids: Iterable[str]) -> None:
        """Remember partition tables that a statement read, or that it found none; matters for serialisable ones alone."""
        self.has_read = True
        self.reads.update(object_ids)

    def add(self, edits: Sequence[TableUpdate], did: str) -> None:
        """Take over the changes of one statement; `did` describes the statement in the history."""
        self.did.append(did)
        for edit in edits:
            part = self.parts.get(edit.object_id)
            if part is None:
                part = self.parts[edit.object_id] = PartitionChange(
                    table=edit.table,
                    added=replace(edit, fragments=[], files=[], removal=None, replaces=False, rows=0),
                    owns_directory=edit.table is None,
                )
            part.waiting.append(edit)
            part.rewrites |= edit.rewrites
            part.drops |= edit.drops
            part.added.fragments += edit.fragments
            part.added.files += edit.files

    def move(self, edit: TableUpdate) -> None:
        """Put the only change of a partition on top of the version that it names by now, wherever it was staged before."""
        part = self.parts[edit.object_id]
        part.table = part.added.table = edit.table
        part.waiting, part.staged = [edit], None

    def leave_out(self, object_id: str) -> None:
        """Go on without what was to be done to a partition, where the transaction can be divided."""
        if self.divided is None:
            raise AssertionError("a transaction that is committed as a whole")
        self.left_out[object_id] = self.parts.pop(object_id)
        self.did = [self.divided(self.parts)]

    def attach(self, edit: TableUpdate, pin: FixedPin, did: str) -> None:
        """Take over a finished table for a partition that has none; the transaction owns its directory."""
        self.did.append(did)
        self.parts[edit.object_id] = PartitionChange(
            table=None,
            added=edit,
            staged=Staged(edit.location, None, pin),
            rewrites=True,
            was_staged=True,
            owns_directory=True,
        )

    @property
    def drops(self) -> list[str]:
        """The object ids of the tables that it takes away."""
        return [object_id for object_id, part in self.parts.items() if part.drops]

    @property
    def only_adds(self) -> bool:
        """True if the transaction takes nothing away: what it writes rests on no rows that are there."""
        return not any(part.rewrites or part.drops for part in self.parts.values())

    @property
    def moves(self) -> bool:
        """True if the transaction only writes existing rows anew."""
        return bool(self.did) and all(did.startswith(MOVES) for did in self.did)

    @property
    def is_alone(self) -> bool:
        """True if nothing else goes into its commit."""
        return bool(self.drops) or self.moves or self.evolution is not None

    @property
    def operation(self) -> str:
        """The operation, as the history shows it."""
        return "; ".join(self.did)

    def abort(self, root: Store) -> None:
        """Delete the files of a transaction that certainly did not commit."""
        _remove(root, [*self.parts.values(), *self.left_out.values()])
        if not root.directories():
            # The namespace was dropped while files were written: nothing but our own directories was left of it.
            root.remove()

    def clear(self, root: Store) -> None:
        """Delete the files of what was left out of a transaction that was committed."""
        _remove(root, list(self.left_out.values()))


def _remove(root: Store, parts: Sequence[PartitionChange]) -> None:
    """Delete the files of partitions that certainly were not committed.

    What was staged on a table that others know is part of a version, which a reader of the table itself may have
    open: vacuum takes it away, as it does what cannot be removed here.
    """

    def remove(part: PartitionChange) -> None:
        place = root.child(part.added.place)
        try:
            if part.owns_directory:
                kept_tables.forget(place)
                place.remove()
            elif not part.was_staged:
                place.remove_files(part.added.data_files)
        except OSError:
            log.warning("files of a transaction that was given up are left in %s", place.name, exc_info=True)
        failpoint("part_removed")

    if len(parts) < FEW_PARTS:
        for part in parts:
            remove(part)
    else:
        with ThreadPoolExecutor(REMOVERS, thread_name_prefix="remover") as pool:
            for _ in pool.map(remove, parts):
                pass
