"""Interface of every table, partitioned or plain: snapshots to read, and transactions that make the next one.

Decisions 12 to 16. `namespace.py` has the tables with partitions, `plain_table.py` those without.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import ClassVar

import pyarrow as pa
from lance import LanceDataset

from lance_flight.catalog.commits.commit import Commits
from lance_flight.catalog.commits.once import Once
from lance_flight.catalog.commits.staging import namespace_key
from lance_flight.catalog.commits.transaction import CommitGuard, TableUpdate, Transaction
from lance_flight.catalog.commits.writer import PartitionWriter
from lance_flight.catalog.manifests.snapshot import NAMESPACE_KEY, Snapshot
from lance_flight.catalog.manifests.version_log import Change, VersionLog
from lance_flight.catalog.storage.blobs import all_rows
from lance_flight.catalog.storage.branches import BranchRef, TagRef, create_tag, drop_tag, replace_tag, tags_of
from lance_flight.catalog.storage.leases import SnapshotLease, expiring_snapshots, leases
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.lineage import NumberOf, conform
from lance_flight.catalog.tables.rows import in_parts
from lance_flight.errors import Corrupt, LanceFlightError, NotFound, OutcomeUnknown, SerializationFailure, Unsupported
from lance_flight.faults import failpoint
from lance_flight.model.spec import Evaluate


class Table(ABC):
    """One table at one place, on its main branch or on another. Safe to share among threads."""

    is_partitioned: ClassVar[bool]

    def __init__(self, store: Store, log: VersionLog, branch: BranchRef | None = None) -> None:
        self.store = store
        self.branch = branch
        self.log = log
        self.commits = Commits(log)

    @property
    @abstractmethod
    def name(self) -> str:
        """Return what messages call it."""

    @abstractmethod
    def rollback(self, at: int | str | datetime) -> int:
        """Make the newest snapshot equal to an old one, in one commit, and return its version."""

    @abstractmethod
    def evolve(self, change: Change) -> int:
        """Change specs, schema or indices, and return the version in which that is visible."""

    @property
    @abstractmethod
    def branches(self) -> list[BranchRef]:
        """The branches, by name."""

    @abstractmethod
    def on_branch(self, name: str) -> Table:
        """Return the same table as one of its branches shows it; what is written there stays there until it is published."""

    @abstractmethod
    def _writable(self) -> Snapshot:
        """Return the newest snapshot, once it has what our writes need."""

    def snapshot(self, at: int | str | datetime | None = None) -> Snapshot:
        """Return the newest snapshot, or the one with a version, a tag, or the newest one as old as a moment."""
        match at:
            case str(name):
                return self._tagged_snapshot(name)
            case datetime():
                return self._old_snapshot(self.log.version_at(at))
            case int():
                return self._old_snapshot(at)
        return self.log.snapshot()

    def _old_snapshot(self, version: int) -> Snapshot:
        """Return a snapshot; `NotFound` for one of which vacuum has removed a part, where it was stopped then."""
        try:
            return self.log.snapshot(version)
        except Corrupt as exc:
            if (self._chain, version) not in expiring_snapshots(self.store):
                raise
            raise NotFound(f"snapshot {version} of {self.name!r} has expired") from exc

    @property
    def place(self) -> str:
        """The key of a branch of a namespace, unique below a root."""
        return (
            self.store.uri if self.branch is None else f"{self.store.uri}@{self.branch.name}-{self.branch.identifier}"
        )

    @property
    def tags(self) -> list[TagRef]:
        """The names that snapshots have."""
        return tags_of(self._main())

    def create_tag(self, name: str, at: int | str | datetime | None = None, *, replaces: bool = False) -> None:
        """Name a snapshot (None: the newest one), so that `snapshot(name)` finds it; with `replaces` by a name that another one has."""
        self.refuse_on_branch("be given tags")
        snapshot = self.snapshot(at)
        with self.hold(snapshot, is_newest=at is None), self.log.changing_references(snapshot) as main:
            (replace_tag if replaces else create_tag)(main, name, snapshot.version)

    def drop_tag(self, name: str) -> None:
        """Delete the tag of a snapshot."""
        with self.log.changing_references(self.snapshot()) as main:
            drop_tag(main, name)

    def rows(self) -> Iterator[pa.Table]:
        """Yield all rows of the newest snapshot, one partition table after another."""
        for table in self.snapshot().all_tables():
            for batch in all_rows(partitions.open_table(self.store, table)):
                yield pa.Table.from_batches([batch])

    def append(
        self,
        tables: Iterable[pa.Table],
        evaluate: Evaluate,
        *,
        operation: str = "append",
        once: Callable[[int], Once] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> int:
        """Store rows (tables of exactly the namespace schema) in one commit and return how many they were.

        Nothing is visible unless all of it is; what was written by a failed append is deleted again. `once` names the commit
        of that many rows, which is not made twice.
        """
        transaction = self.begin()
        transaction.guard = CommitGuard(check)
        with self.changing(transaction):
            count = self.write(transaction, tables, evaluate, operation=operation, check=check)
            transaction.once = None if once is None else once(count)
            self.commits.commit(transaction)
        return count

    def begin(self, base: Snapshot | None = None, *, serializable: bool = False) -> Transaction:
        """Return a transaction on the newest snapshot, or on one that was read before.

        What a foreign namespace lacks for our writes is added first.
        """
        newest = self._writable()
        if base is None or base.version == newest.version:
            transaction = Transaction(newest, serializable=serializable)
            transaction.hold = self.hold(newest, is_newest=True)
            return transaction
        if NAMESPACE_KEY not in base.metadata or base.floating:
            raise SerializationFailure(f"table {self.store.name!r} was made ready for writing after it had been read")
        return Transaction(base, serializable=serializable)

    def hold(self, snapshot: Snapshot, *, is_newest: bool) -> SnapshotLease:
        """Keep a snapshot that was just read from being vacuumed, in this process or another, while the result lives.

        `is_newest` says that it was read as the newest one; `NotFound` where an older one is being removed already.
        """
        return leases.hold(self.store, (self._chain, snapshot.version), snapshot.committed_at, is_newest=is_newest)

    def has_expired(self, version: int, key: str | None) -> bool:
        """Return whether vacuum has removed a snapshot, or is about to; `key` is that of the table that it is of.

        False for a table that was dropped or replaced, and where the table has no key.
        """
        if (self._chain, version) in expiring_snapshots(self.store):
            return True
        with suppress(NotFound):
            self.snapshot(version)
            return False
        return key is not None and self.snapshot().metadata.get(NAMESPACE_KEY) == key

    def hold_between(self, first: int, last: int) -> list[SnapshotLease]:
        """Return the same for a stretch of history that is still to be read."""
        return leases.hold_all(self.store, [(self._chain, version) for version in range(first, last + 1)])

    @contextmanager
    def changing(self, transaction: Transaction) -> Iterator[None]:
        """Delete what a transaction has written if the block fails, unless it may have been committed."""
        try:
            yield
        except OutcomeUnknown:
            raise
        except NotFound as exc:
            transaction.abort(self.store)
            raise self._damage_of(transaction.base, exc) from exc
        except BaseException:
            transaction.abort(self.store)
            raise

    def _damage_of(self, snapshot: Snapshot, missing: NotFound) -> LanceFlightError:
        """Return `Corrupt` for something missing that a snapshot names, while that snapshot is there."""
        try:
            is_there = self.snapshot(snapshot.version).committed_at == snapshot.committed_at
            if not is_there or self.has_expired(snapshot.version, snapshot.metadata.get(NAMESPACE_KEY)):
                return missing
        except LanceFlightError:
            return missing
        return Corrupt(f"{missing}; expected lance-flight verify and repair, or a restore from a backup")

    def write(
        self,
        transaction: Transaction,
        tables: Iterable[pa.Table],
        evaluate: Evaluate,
        *,
        operation: str = "append",
        check: Callable[[], None] = lambda: None,
    ) -> int:
        """Write rows (tables of exactly the namespace schema) as a part of a transaction and return how many they were."""
        edits = self.write_files(transaction.snapshot, tables, evaluate, check=check)
        count = sum(edit.rows for edit in edits)
        transaction.add(edits, f"{operation} {count} rows into {len(edits)} partitions")
        return count

    def write_files(
        self,
        snapshot: Snapshot,
        tables: Iterable[pa.Table],
        evaluate: Evaluate,
        *,
        mark: str | None = None,
        number_of: NumberOf | None = None,
        is_stored: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> list[TableUpdate]:
        """Write rows as data files, one edit for each partition; delete them if that fails.

        Others who write with the same `mark` have the directories of new partitions in common with this one. Rows may have
        `lineage.ORIGIN_FIELDS` where `number_of` says which number the table with an object id has there. Rows that are stored
        already are moved as they are. `check` is called meanwhile, and ends it by an error.
        """
        key = namespace_key(snapshot)
        with PartitionWriter(
            self.store, snapshot, key, evaluate, mark=mark, number_of=number_of, check=check
        ) as writer:
            try:
                target, defaults = snapshot.schema.plain, snapshot.schema.defaults
                parts = in_parts(tables, target, defaults)
                writer.write_all(conform(table, target, defaults, is_stored=is_stored) for table in parts)
                failpoint("data_written")
            except BaseException:
                writer.cancel()
                if mark is None:
                    self.discard(snapshot, writer.edits)
                else:
                    self.discard_files(writer.edits)
                raise
        return writer.edits

    @contextmanager
    def discarding(self, snapshot: Snapshot, written: Sequence[TableUpdate]) -> Iterator[None]:
        """Delete data files if the block fails, before a transaction takes them over."""
        try:
            yield
        except BaseException:
            self.discard(snapshot, written)
            raise

    def discard(self, snapshot: Snapshot, written: Sequence[TableUpdate]) -> None:
        """Delete data files that no transaction took over."""
        failed = Transaction(snapshot)
        failed.add(written, "discard")
        failed.abort(self.store)

    def discard_files(self, written: Iterable[TableUpdate]) -> None:
        """Delete data files that may lie among those of another table: their directories stay."""
        for edit in written:
            self.store.child(edit.place).remove_files(edit.data_files)

    @property
    def _chain(self) -> str | None:
        """The branch of `__manifest` that the snapshots are versions of."""
        return None if self.branch is None else self.branch.name

    def _main(self) -> LanceDataset:
        return self.log.store.open()

    def _tagged_snapshot(self, name: str) -> Snapshot:
        tags = {tag.name: tag for tag in self.tags}
        if name not in tags:
            raise NotFound.named("snapshot tag", name, tags)
        if tags[name].branch is not None:
            raise Unsupported(
                f"tag {name!r} is on branch {tags[name].branch!r}; only tags of the main branch can be read"
            )
        return self.log.snapshot(tags[name].version)

    def refuse_on_branch(self, what: str) -> None:
        """Raise `Unsupported` on a branch: branches cannot do `what`."""
        if self.branch is not None:
            raise Unsupported(f"branch {self.branch.name!r}: branches cannot {what}; only the main branch can")
