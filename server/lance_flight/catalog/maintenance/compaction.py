"""Compaction: small files and deleted rows of partition tables written anew, the moved pins in one manifest commit.

Fragments are rewritten from the version that a row pins, and put on top of that version like any other change of rows
(decision 13). Whoever changes a table meanwhile wins: an append goes on top of whatever is there, while what was
compacted is good for the version that was read alone, and is given up with the table named in the report; or else, with
`rebase`, it goes on top of each version that still has the files that were read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count, islice

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.optimize import Compaction, CompactionTask, RewriteResult

from lance_flight.catalog.bulk.pieces import BY_THREADS, PieceWork
from lance_flight.catalog.commits.commit import has_data, is_old
from lance_flight.catalog.commits.transaction import Removal, TableUpdate, Transaction
from lance_flight.catalog.commits.writer import edit_of
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.maintenance.indexing import IndexingReport, refresh_indices, stage_without
from lance_flight.catalog.manifests.snapshot import PartitionTable, Pin, Snapshot
from lance_flight.catalog.storage.lance_columns import numbers
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.storage.whole_files import DATA, seal_fragments
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.indices import all_segments
from lance_flight.catalog.tables.schema_adapter import identify_columns, partly_stored
from lance_flight.faults import failpoint
from lance_flight.model.operations import check_least


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRules:
    """Rules that select the tables and files to compact, and their size afterwards.

    A table counts when it has more than `files` files or more than the part `deleted` of its rows deleted; what is
    rewritten are its files below `target_rows` that lie side by side, and those with more than `deleted` deleted.
    """

    target_rows: int = 1 << 20
    files: int = 1
    deleted: float = 0.1
    tables_per_commit: int = 1024

    def check(self) -> CompactionRules:
        """Return these rules, or `InvalidInput` that names the one that cannot be."""
        check_least(1, target_rows=self.target_rows, tables_per_commit=self.tables_per_commit)
        check_least(0, files=self.files, deleted=self.deleted)
        return self

    def counts_deleted(self, deleted: int, rows: int) -> bool:
        """Return whether a table counts for its deleted rows, of so many that it stores."""
        return deleted > self.deleted * rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedTable:
    """One partition table that was rewritten; `is_lost` if another writer changed it first, and it stays as it was."""

    object_id: str
    files_before: int
    files_after: int
    deleted_rows: int
    is_lost: bool = False


COMPACTION_SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.utf8()),
        pa.field("files_before", pa.int64()),
        pa.field("files_after", pa.int64()),
        pa.field("deleted_rows", pa.int64()),
        pa.field("is_lost", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport(OperationReport):
    """Report of a compaction: the tables that needed one, out of `table_count`, the snapshots that it made, and indices."""

    table_count: int
    tables: tuple[CompactedTable, ...]
    versions: tuple[int, ...]
    indices: tuple[IndexingReport, ...] = ()

    @property
    def as_table(self) -> pa.Table:
        """One row for each table that needed it."""
        return pa.Table.from_pylist([asdict(table) for table in self.tables], schema=COMPACTION_SCHEMA)

    @property
    def without_counts(self) -> pa.Table:
        lost = [{"is_lost": any(table.is_lost for table in self.tables)}] if self.tables else []
        return pa.Table.from_pylist(lost, schema=COMPACTION_SCHEMA)

    def __str__(self) -> str:
        done = [table for table in self.tables if not table.is_lost]
        lost = len(self.tables) - len(done)
        before, after = sum(table.files_before for table in done), sum(table.files_after for table in done)
        return (
            f"{len(done):,} of {self.table_count:,} partition tables compacted, {before:,} files into {after:,}"
            + (f"; {lost:,} left to others who changed them meanwhile" if lost else "")
            + "".join(f"; {index}" for index in self.indices if index.tables)
        )


@dataclass(frozen=True, slots=True)
class Files:
    """Some files of a version of a table, to be written anew; the new ones go to `place`."""

    table: Store
    pin: Pin
    place: Store
    task: CompactionTask

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.file_size_bytes or 0 for fragment in self.task.fragments for file in fragment.files)

    def run(self) -> RewriteResult:
        """Write the new files, which are part of no version yet."""
        return self.task.execute(partitions.open_at(self.table, self.pin))

    def undo(self, result: RewriteResult) -> None:
        """Delete the files that were written."""
        names = (file.path for fragment in result.new_fragments for file in fragment.files)
        self.place.remove_files([f"{DATA}/{name}" for name in names])


@dataclass(frozen=True, slots=True)
class _Due:
    """A table that needs it: the edit that it becomes, how many files it has, and the work.

    `segments` are those of its indices, where row ids are stable; None where they are not.
    """

    edit: TableUpdate
    files: int
    segments: tuple[lance.Index, ...] | None
    pieces: tuple[Files, ...]


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A table whose files are written anew, but not committed.

    `segments` are the indices' ones that are committed with it, by their UUIDs; one that `rebases` goes on top of rows that were added meanwhile.
    """

    edit: TableUpdate
    table: CompactedTable
    segments: frozenset[str] = frozenset()
    rebases: bool = False

    @property
    def object_id(self) -> str:
        return self.edit.object_id


def compact(
    namespace: Table,
    rules: CompactionRules | None = None,
    work: PieceWork = BY_THREADS,
    *,
    among: Collection[str] | None = None,
    rebase: bool = False,
) -> CompactionReport:
    """Rewrite the tables that `rules` name, and return what was done; their rows stay the same.

    `among` are the object ids of the tables that are looked at (None: all). One with `rebase` gives up no table to which rows were merely
    added: what was rewritten goes on top of them. The pins of up to `tables_per_commit` tables move in one commit. The work is checked before each attempt to
    commit: with what that raises, the attempt and all further work are given up. Indices are brought up to date afterwards.
    """
    rules = (rules or CompactionRules()).check()
    # The transaction keeps what it reads from being vacuumed, and adds what a foreign namespace lacks for writes.
    reading = namespace.begin()
    snapshot = reading.base
    targets = snapshot.all_tables() if among is None else list(snapshot.tables_named(list(among)).values())
    done: list[CompactedTable] = []
    versions: list[int] = []
    for start in range(0, len(targets), rules.tables_per_commit):
        began, batch = time.monotonic(), targets[start : start + rules.tables_per_commit]
        due = _due(namespace.store, snapshot, rules, batch)
        pieces = [piece for table in due for piece in table.pieces]
        results = iter(work.do(pieces, start, len(batch), len(targets)))
        rewritten = [_rewrite_result(table, list(islice(results, len(table.pieces))), rebases=rebase) for table in due]
        failpoint("data_written")
        version, tables = _commit(namespace, rewritten, began, work.check)
        done += tables
        versions += [] if version is None else [version]
        if work.progress is not None and not pieces:
            work.progress(start + len(batch), len(targets))
    indices = refresh_indices(namespace, PieceWork(run=work.run))
    return CompactionReport(
        table_count=len(targets), tables=tuple(done), versions=tuple(versions), indices=tuple(indices)
    )


def _due(store: Store, snapshot: Snapshot, rules: CompactionRules, tables: Sequence[PartitionTable]) -> list[_Due]:
    planned = map_tables(partial(_plan_table, store, snapshot, rules), tables, "compaction")
    return [work for work in planned if work is not None]


def _plan_table(root: Store, snapshot: Snapshot, rules: CompactionRules, table: PartitionTable) -> _Due | None:
    """Return what is to be done about one table, where the rules say so."""
    store = root.child(table.location)
    dataset = partitions.open_at(store, table.pin)
    if not _is_due(dataset, rules):
        return None
    # Lance keeps files apart that are in different segments of an index: where there is none it sees the files alone.
    # In a plain table everybody would see that it has gone.
    is_hidden = dataset.has_index and snapshot.is_partitioned
    # The new files must lie where the version will be that they are for: on a branch, in its own directory.
    base = partitions.base_of(store, partitions.resolve(store, table.pin), snapshot.table_branch)
    pin = (stage_without(store, base) if is_hidden else None) or base
    options = {"target_rows_per_fragment": rules.target_rows, "materialize_deletions_threshold": rules.deleted}
    filled = _filled_fragments(dataset, snapshot, table)
    planned = Compaction.plan(partitions.open_at(store, pin), options).tasks
    # Lance would write NULL where a reader fills a column that a file lacks.
    tasks = [task for task in planned if filled.isdisjoint(fragment.id for fragment in task.fragments)]
    if not tasks:
        return None
    edit = edit_of(root, snapshot, table)
    files = sum(len(fragment.metadata.files) for fragment in dataset.get_fragments())
    segments = tuple(all_segments(dataset)) if dataset.has_stable_row_ids else None
    return _Due(edit, files, segments, tuple(Files(store, pin, root.child(edit.place), task) for task in tasks))


def _filled_fragments(dataset: LanceDataset, snapshot: Snapshot, table: PartitionTable) -> set[int]:
    """Return the fragments whose files lack a column that is filled when they are read."""
    known = table.identity.by_source
    lacking = partly_stored(dataset, identify_columns(dataset, snapshot.schema), known) if known else {}
    return {int(number) for fragments in lacking.values() for number in fragments}


def _rewrite_result(due: _Due, results: Sequence[RewriteResult], *, rebases: bool) -> _Rewritten:
    old = [fragment for result in results for fragment in result.original_fragments]
    written_by = [seal_fragments(due.pieces[0].place.uri, result.new_fragments) for result in results]
    new = [fragment for fragments in written_by for fragment in fragments]
    due.edit.removal = Removal(removed=tuple(fragment.id for fragment in old))
    due.edit.fragments += new
    if due.segments is not None:
        due.edit.groups += [
            LanceOperation.RewriteGroup(old_fragments=result.original_fragments, new_fragments=fragments)
            for result, fragments in zip(results, written_by, strict=True)
        ]
        moved = {fragment.id for fragment in old}
        due.edit.touched += [segment for segment in due.segments if not moved.isdisjoint(segment.fragment_ids)]
    written, replaced = (sum(len(fragment.files) for fragment in fragments) for fragments in (new, old))
    summary = CompactedTable(
        object_id=due.edit.object_id,
        files_before=due.files,
        files_after=due.files - replaced + written,
        deleted_rows=sum(f.deletion_file.num_deleted_rows for f in old if f.deletion_file is not None),
    )
    return _Rewritten(due.edit, summary, frozenset(segment.uuid for segment in due.segments or ()), rebases)


def _is_due(dataset: LanceDataset, rules: CompactionRules) -> bool:
    fragments = dataset.get_fragments()
    deleted = sum(fragment.num_deletions for fragment in fragments)
    rows = sum(fragment.physical_rows for fragment in fragments)
    return sum(len(f.metadata.files) for f in fragments) > rules.files or rules.counts_deleted(deleted, rows)


def _commit(
    namespace: Table, rewritten: Sequence[_Rewritten], began: float, check: Callable[[], None]
) -> tuple[int | None, list[CompactedTable]]:
    """Make tables that were rewritten since `began` visible in one commit, all but those that were changed meanwhile."""
    if not rewritten:
        return None, []
    root, transaction = namespace.store, namespace.begin()
    transaction.began = began
    transaction.add([group.edit for group in rewritten], _operation([group.table for group in rewritten]))
    transaction.divided = lambda left: _operation([group.table for group in rewritten if group.object_id in left])
    for group in rewritten:
        if is_old(began) and not has_data(group.edit, root):
            transaction.leave_out(group.object_id)
    attempts = count()

    def rebase(mine: Transaction, newest: Snapshot) -> None:
        # Writers of this process never come in between. Nor does this refer to the transaction, whose lease ends with it.
        if next(attempts):
            check()
        now = newest.tables_named(list(mine.parts))
        for group in rewritten:
            if group.object_id in now and _rebase(root, group, now[group.object_id]):
                mine.move(group.edit)

    transaction.rebase = rebase
    with namespace.changing(transaction):
        check()
        version = namespace.commits.commit(transaction)
    transaction.clear(root)
    done = [group.table for group in rewritten if group.object_id in transaction.parts]
    lost = [replace(group.table, is_lost=True) for group in rewritten if group.object_id in transaction.left_out]
    return version if done else None, done + lost


def _rebase(root: Store, group: _Rewritten, now: PartitionTable) -> bool:
    """Put a rewrite on top of what its table is `now`, and return True, where that has all the files that were rewritten, as they were read."""
    before = group.edit.table
    if before is None or now == before or not group.rebases or group.edit.removal is None:
        return False
    store = root.child(now.location)
    place = partitions.place_of_files(now.location, partitions.resolve(store, now.pin))
    if (now.location, place) != (before.location, group.edit.place):
        return False
    read, newest = partitions.open_table(root, before), partitions.open_table(root, now)
    segments = {segment.uuid for segment in all_segments(newest)} if newest.has_stable_row_ids else set()
    is_alike = read.schema == newest.schema and numbers(read.lance_schema) == numbers(newest.lance_schema)
    if not is_alike or segments != group.segments:
        return False
    removed = frozenset(group.edit.removal.removed)
    if _files_of(read, removed) != _files_of(newest, removed):
        return False
    group.edit.table = now
    return True


def _files_of(dataset: LanceDataset, fragments: frozenset[int]) -> dict[int, object]:
    """Return all that a version says of some fragments: their files, deleted rows and row ids."""
    return {f.fragment_id: f.metadata.to_json() for f in dataset.get_fragments() if f.fragment_id in fragments}


def _operation(tables: Sequence[CompactedTable]) -> str:
    before, after = sum(t.files_before for t in tables), sum(t.files_after for t in tables)
    return f"compact {len(tables)} partitions: {before} files into {after}"
