"""One transaction: what it writes and removes, table by table, until it is committed; and the versions that it stages.

Spec: Multi-Partition Transaction; decisions 12 to 16. `commit.py` makes the changes visible, those of several
transactions together where it can.

Staging: an invisible version of every table that a commit concerns, on top of the pins of one snapshot.

Decision 13. What is still staged on the right pin is kept, the rest is staged once more; data files are never written
again. Several transactions that only add rows to a table share a version of it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import lance
import pyarrow as pa
from lance import FragmentMetadata, LanceDataset, LanceOperation

from lance_flight.catalog.commits.once import Once, remembering
from lance_flight.catalog.manifests.manifest_rows import NOTES, NewPartitions, notes_text
from lance_flight.catalog.manifests.snapshot import (
    NAMESPACE_KEY,
    PIN_COLUMNS,
    FixedPin,
    PartitionTable,
    Pin,
    PlainVersion,
    Snapshot,
    Version,
)
from lance_flight.catalog.manifests.version_log import Change, said_of
from lance_flight.catalog.storage.formats import file_version_of
from lance_flight.catalog.storage.lance_columns import numbers_of_columns
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.catalog.storage.retries import until_answered
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import is_followed, kept_tables
from lance_flight.catalog.storage.whole_files import DATA, sealed_deletions
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.partitions import path_of_base
from lance_flight.catalog.tables.rows import conform
from lance_flight.errors import NotFound, SerializationFailure
from lance_flight.faults import failpoint
from lance_flight.model.arrow_types import concatenate_tables
from lance_flight.model.file_versions import NEWEST
from lance_flight.model.hashing import match
from lance_flight.model.naming import namespaces_above
from lance_flight.model.schema import DEFAULT, NamespaceSchema
from lance_flight.model.spec import PartitionSpec

STAGERS, REMOTE_STAGERS = 4, 16
"""Threads of one commit, and those where a table takes four requests and no thread computes."""

_stagers = ThreadPoolExecutor(REMOTE_STAGERS, thread_name_prefix="stager")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """One partition table of a commit: the parts that change it, and the table as it is now (None: not there yet)."""

    object_id: str
    parts: tuple[PartitionChange, ...]
    table: PartitionTable | None


class Staging:
    """Stages the changes of a group of transactions, again and again until they are committed."""

    def __init__(self, root: Store) -> None:
        self._root = root
        self._done: dict[tuple[str, FixedPin | None, tuple[int, ...]], Staged] = {}

    def rows(self, group: Sequence[Transaction], snapshot: Snapshot) -> pa.Table:
        """Stage everything on the pins of `snapshot` and return the manifest rows that make it visible."""
        targets = [target for target in _targets(group, snapshot) if not any(part.drops for part in target.parts)]
        properties = said_of("; ".join(t.operation for t in group), [t.id for t in group])
        once = [t.once for t in group if t.once is not None]
        if once:
            properties[NOTES] = notes_text(remembering(snapshot, snapshot.rows.slice(0, 0), once))
        now = snapshot.schema.arrow
        # Schemas of plain tables have no version of their own.
        others = [
            t for t in group if t.evolution is not None or not t.base.schema.arrow.equals(now, check_metadata=True)
        ]
        early = {id(part) for t in others for part in t.parts.values()}
        stage = partial(self._stage, metadata=properties, snapshot=snapshot, early=early)
        staged = self._stage_all(targets, [transaction.guard.check for transaction in group], stage)
        changed = [snapshot.rows.slice(0, 0)]
        old = [(t, s) for t, s in zip(targets, staged, strict=True) if t.table is not None]
        if old:
            rows = snapshot.rows_of([target.object_id for target, _ in old])
            changed.append(repin_rows(rows, [place.pin for _, place in old]))
        key = namespace_key(snapshot)
        for spec in snapshot.specs:
            new = [
                (t, s)
                for t, s in zip(targets, staged, strict=True)
                if t.table is None and t.parts[0].added.spec.id == spec.id
            ]
            if new:
                values = concatenate_tables([target.parts[0].added.values for target, _ in new])
                builder = NewPartitions(snapshot, spec, key)
                changed.append(builder.rows(values, [s.location for _, s in new], [s.pin for _, s in new]))
        return without_repeats(pa.concat_tables(changed))

    def _stage_all(
        self, targets: Sequence[_Target], checks: Sequence[Callable[[], None]], stage: Callable[[_Target], Staged]
    ) -> list[Staged]:
        if len(targets) == 1:
            return [stage(targets[0])]
        staged: dict[int, Staged] = {}
        waiting = iter(enumerate(targets))

        def stage_waiting() -> None:
            for place, target in waiting:
                for check in checks:
                    check()
                staged[place] = stage(target)

        # A task for each thread and not for each table, which costs as much as a part of its commit.
        threads = REMOTE_STAGERS if self._root.is_remote else STAGERS
        running = [_stagers.submit(stage_waiting) for _ in range(min(threads, len(targets)))]
        # Where one fails the others are not left running: what they stage is about to be tried again, or taken away.
        wait(running)
        for task in running:
            task.result()
        return [staged[place] for place in range(len(targets))]

    def _stage(
        self, target: _Target, *, metadata: Mapping[str, str], snapshot: Snapshot, early: Collection[int]
    ) -> Staged:
        """Stage a version with the changes of all parts on the table's pin in `snapshot`; a plain one stores `metadata` in the version.

        The parts `early`, by their `id`, were written under another schema, or for versions that were staged with that of the snapshot.
        """
        head, *rest = sorted(target.parts, key=lambda part: not part.rewrites)
        table = target.table
        base = (
            None
            if table is None
            else partitions.base_of(self._root.child(table.location), table.pin, snapshot.table_branch)
        )
        location = head.added.location if table is None else table.location
        key = target.object_id, base, tuple(map(id, target.parts))
        if key in self._done:
            return self._done[key]
        store = self._root.child(location)
        place = partitions.place_of_files(location, base)
        if isinstance(base, PlainVersion):
            partitions.check_same_table(
                store, base, [part.table.pin for part in target.parts if part.table is not None]
            )
        for part in target.parts:
            if part.rewrites and part.table is None and table is not None:
                # The new partition was made by a writer that names it otherwise.
                raise SerializationFailure(f"partition table {target.object_id!r} was made by another writer")
            is_elsewhere = part.added.place != place
            if is_elsewhere or (id(part) in early and _is_outdated(self._root, part, base, snapshot.schema.table)):
                _move(self._root, part, (location, place), base, snapshot.schema)
                head.owns_directory = head.owns_directory and not is_elsewhere
        kept = (
            head.staged
            if head.staged is not None and (head.staged.location, head.staged.on) == (location, base)
            else None
        )
        pin = base if kept is None else kept.pin
        for operation in _operations(head, rest, is_staged=kept is not None):
            with _noting(target.parts, store, base):
                if pin is None:
                    files = _fragments(operation)
                    create = partial(
                        partitions.create, store, head.added.schema, files, stable_row_ids=snapshot.has_stable_row_ids
                    )
                    pin = until_answered(create)
                else:
                    stage = partial(partitions.stage, store, pin, operation, metadata, is_first=NOTES in metadata)
                    pin = until_answered(stage)
            failpoint("table_staged")
        if pin is None:
            raise AssertionError("a new table without rows")
        staged = Staged(location, base, pin)
        if not rest:
            head.staged, head.waiting = staged, []
        self._done[key] = staged
        return staged


@contextmanager
def _noting(parts: Sequence[PartitionChange], store: Store, base: FixedPin | None) -> Iterator[None]:
    """Note that parts are being staged on a table, so that their files are left to vacuum if the transaction is given up.

    Not where that failed, as on a full disk, and has put nothing on top of `base`: no version refers to the files then.
    """
    before = [part.was_staged for part in parts]
    for part in parts:
        part.was_staged = True
    try:
        yield
    except OSError:
        if isinstance(base, Version) and is_followed(store, base.version) is False:
            for part, was_staged in zip(parts, before, strict=True):
                part.was_staged = was_staged
        raise


def namespace_key(snapshot: Snapshot) -> bytes:
    """Return the key that names new partitions (decision 4)."""
    return bytes.fromhex(snapshot.metadata[NAMESPACE_KEY])


def pinned_rows(root: Store, snapshot: Snapshot) -> pa.Table:
    """Return the rows of floating tables, pinned at what they show now: to stage on such a table would publish it."""
    tables = snapshot.floating
    pins = list(_stagers.map(lambda table: partitions.resolve(root.child(table.location), table.pin), tables))
    return repin_rows(snapshot.rows_of([table.object_id for table in tables]), pins)


def gone(group: Sequence[Transaction], snapshot: Snapshot) -> tuple[str, ...]:
    """Return the objects that a group takes away.

    Tables, and the namespaces above them in which nothing else is left.
    """
    tables = {object_id for transaction in group for object_id in transaction.drops}
    if not tables:
        return ()
    namespaces = {above for object_id in tables for above in namespaces_above(object_id)}
    others = set(snapshot.rows["object_id"].to_pylist()) - tables - namespaces
    needed = {above for object_id in others for above in namespaces_above(object_id)}
    return (*sorted(tables), *sorted(namespaces - needed))


def _operations(
    head: PartitionChange, rest: Sequence[PartitionChange], *, is_staged: bool
) -> list[LanceOperation.BaseOperation]:
    """Return what is still to be put on the table: what `head` has not staged, with the rows that the rest adds."""
    operations: list[LanceOperation.BaseOperation]
    if is_staged or head.rewrites:
        operations = [operation for edit in head.waiting for operation in edit.operations]
    else:
        operations = [LanceOperation.Append(list(head.added.fragments))]
    more = [fragment for part in rest for fragment in part.added.fragments]
    match operations[-1] if operations else None:
        case LanceOperation.Append(fragments=fragments) if more:
            operations[-1] = LanceOperation.Append([*fragments, *more])
        case LanceOperation.Update() as update if more:
            update.new_fragments = [*update.new_fragments, *more]
        case None | LanceOperation.Rewrite() if more:
            operations.append(LanceOperation.Append(more))
    return operations


def _fragments(operation: LanceOperation.BaseOperation) -> list[FragmentMetadata]:
    match operation:
        case LanceOperation.Append(fragments=fragments):
            return list(fragments)
    raise AssertionError(f"{operation} on a table that is not there")


def _is_outdated(root: Store, part: PartitionChange, base: FixedPin | None, schema: pa.Schema) -> bool:
    """Return whether rows that were added under an earlier schema have to be written anew; NULL need not be, in a table that is there."""
    if part.table is None and base is None:
        return not part.added.schema.equals(schema, check_metadata=True)
    if part.table is None or base is None:
        raise SerializationFailure(f"columns of {part.added.object_id!r} were changed while its rows were committed")
    if part.table.pin == base:
        return False
    store, known = root.child(part.table.location), part.added.schema.names
    if any(DEFAULT in (field.metadata or {}) for field in schema if field.name not in known):
        return True
    before, now = (numbers_of_columns(partitions.open_at(store, pin)) for pin in (part.table.pin, base))
    # Columns that were changed, and changed back, have other numbers.
    return any(now.get(column) != number for column, number in before.items())


def _move(
    root: Store, part: PartitionChange, to: tuple[str, str], base: FixedPin | None, schema: NamespaceSchema
) -> None:
    """Take added rows along to the location and the place of the table now, with the columns that it has now.

    Another writer made it first for the same values, added columns, or the row of the table refers to another branch of it.
    """
    source, (location, place) = root.child(part.added.place), to
    of = None if part.table is None else partitions.open_at(root.child(part.table.location), part.table.pin)
    rows = partitions.read_files(source, part.added.schema, part.added.fragments, of)
    if not part.added.schema.equals(schema.table, check_metadata=True):
        rows = _with_new_columns(rows, part.added, schema)
    before, file_version = part.added.data_files, file_version_of(part.added.fragments) or NEWEST
    store, part.added.schema = root.child(place), schema.table
    part.added.fragments[:] = (
        partitions.write_new_files(store, schema.table, rows, file_version)
        if base is None
        else partitions.write_files(store, base.version, rows)
    )
    failpoint("files_moved")
    part.added.files.clear()
    if part.owns_directory and part.added.place != place:
        kept_tables.forget(source)
        source.remove()
    elif part.table is None or not part.was_staged:
        source.remove_files(before)
    part.owns_directory = part.owns_directory and part.added.place == place
    part.added.location, part.added.place = location, place
    part.waiting, part.staged = [part.added], None
    if part.table is not None and base is not None:
        # The numbers of its columns are those of the files.
        part.table = replace(part.table, pin=base)


def _with_new_columns(rows: pa.RecordBatchReader, added: TableUpdate, schema: NamespaceSchema) -> pa.RecordBatchReader:
    if rows.schema.names != added.schema.names:
        raise SerializationFailure(f"columns of {added.object_id!r}, which has others, were changed by another writer")
    target, defaults = schema.table, schema.defaults
    tables = (conform(batch, target, defaults, is_stored=True) for batch in rows)
    return pa.RecordBatchReader.from_batches(target, (batch for table in tables for batch in table.to_batches()))


def _targets(group: Sequence[Transaction], snapshot: Snapshot) -> Iterator[_Target]:
    """Yield the tables that a group changes.

    A table that is not there yet is found by its values, however it is called.
    """
    parts = [part for transaction in group for part in transaction.parts.values()]
    ids = [part.added.object_id for part in parts]
    for spec in snapshot.specs:
        new = [i for i, part in enumerate(parts) if part.table is None and part.added.spec.id == spec.id]
        if not new:
            continue
        values = concatenate_tables([parts[i].added.values for i in new])
        tables = snapshot.tables_of(spec.id)
        names = NewPartitions(snapshot, spec, namespace_key(snapshot)).object_ids(values)
        for i, row, name in zip(new, match(values, tables.values), names, strict=True):
            ids[i] = tables.table(int(row)).object_id if row >= 0 else name
    together: dict[str, list[PartitionChange]] = {}
    for object_id, part in zip(ids, parts, strict=True):
        together.setdefault(object_id, []).append(part)
    known_tables = snapshot.tables_named(list(together))
    for object_id, mine in together.items():
        yield _Target(object_id=object_id, parts=tuple(mine), table=known_tables.get(object_id))


def repin_rows(rows: pa.Table, pins: Sequence[Pin]) -> pa.Table:
    """Return the same manifest rows with other pins."""
    for name in PIN_COLUMNS:
        at = rows.schema.get_field_index(name)
        values = pa.array([getattr(pin.columns, name) for pin in pins], rows.schema.field(at).type)
        rows = rows.set_column(at, rows.schema.field(at), values)
    return rows


def without_repeats(rows: pa.Table) -> pa.Table:
    """Return each object once, as it stands last."""
    last = {object_id: place for place, object_id in enumerate(rows["object_id"].to_pylist())}
    return rows if len(last) == rows.num_rows else rows.take(sorted(last.values()))


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
