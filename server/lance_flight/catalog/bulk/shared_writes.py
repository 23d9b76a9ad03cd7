"""A write that many processes share: each of them writes data files, and one makes all of it visible in one commit.

What goes from one process to another is plain, and pickled. All of them write for the snapshot that the write began with;
the directories of new partitions carry the mark of the write, so that files of several processes for one partition lie
together. Files of a process that died, or whose work was done twice, are part of no version: vacuum removes them.

So do the shared ingests of one session, which store rows for one commit. Each ingest writes its rows as invisible data files, under the name of its part. `COMMIT WRITE` makes those of some parts visible. Files
of the other parts, and of a session that ends without one, belong to no version: vacuum removes what is left of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from threading import Lock
from typing import Protocol, Self, TypeAlias

import pyarrow as pa

from lance_flight.arrow_streams import decode_table, encode_rows
from lance_flight.catalog.commits.commit import is_old
from lance_flight.catalog.commits.once import Once
from lance_flight.catalog.commits.transaction import TableUpdate, Transaction, removed_rows
from lance_flight.catalog.commits.writer import all_removed, combine_edits, replace_rows
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.manifests.version_log import Revision
from lance_flight.catalog.plain_table import table_at
from lance_flight.catalog.storage.durability import flush
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table, require_partitions
from lance_flight.errors import Conflict, InvalidInput, LimitExceeded, NotFound, SerializationFailure
from lance_flight.model.naming import directory_name, new_mark
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate


class Replaces(Enum):
    """Rows that a write removes as it adds new ones."""

    NOTHING = "nothing"
    PARTITIONS = "partitions"
    """All that lies in the partitions that the new rows fall into."""
    TABLE = "table"
    READ = "read"
    """All rows of the tables that the new rows were computed from."""
    NOTHING_OF_READ = "nothing of read"
    """Nothing: the rows are new to the tables that they were compared with, as those are at the beginning."""


WrittenFiles: TypeAlias = tuple[TableUpdate, ...]
"""Files that one process wrote, as one edit for each partition."""
_RESTING_ON_READS = frozenset({Replaces.TABLE, Replaces.READ, Replaces.NOTHING_OF_READ})


class Evolution(Protocol):
    """A change of columns that goes with the rows (`schema_evolution.PlannedEvolution`)."""

    @property
    def before(self) -> NamespaceSchema:
        """The columns that it changes."""
        ...

    @property
    def after(self) -> NamespaceSchema:
        """The columns that the rows have."""
        ...

    def on(self, root: Store, snapshot: Snapshot) -> Revision:
        """Return the change on a snapshot; `SerializationFailure` where its columns are others by now."""
        ...

    def check_kept(self, root: Store) -> None:
        """Raise `SerializationFailure` where vacuum has removed what was staged for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedWrite:
    """State of one write that all its processes share: the namespace, its snapshot at the beginning, the write's mark.

    A snapshot with that number and another `committed_at` is one of another table that has the name by now. The columns that
    `evolution` changes are committed with the rows. `began` is by the clock of the machine that begins it, which also commits it.
    """

    store: Store
    branch: str | None
    version: int
    committed_at: datetime
    mark: str
    evolution: Evolution | None = None
    began: float = field(default_factory=time.time)

    @classmethod
    def begin(cls, namespace: Table, at: int | None = None) -> Self:
        """Return a write on top of the newest snapshot, or of the one whose rows it will replace."""
        return cls.of(namespace, namespace.begin(None if at is None else namespace.snapshot(at)).base)

    @classmethod
    def of(cls, namespace: Table, base: Snapshot, evolution: Evolution | None = None) -> Self:
        """Return a write on top of a snapshot that a transaction has begun with, and of a change of its columns."""
        return cls(
            store=namespace.store,
            branch=None if namespace.branch is None else namespace.branch.name,
            version=base.version,
            committed_at=base.committed_at,
            mark=new_mark(),
            evolution=evolution,
        )

    def write(
        self,
        tables: Iterable[pa.Table],
        evaluate: Evaluate,
        *,
        is_stored: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> WrittenFiles:
        """Write rows as invisible data files, in bounded memory, and return one edit for each partition; remove the files if that fails.

        Rows that are stored already are moved as they are. `check` is called meanwhile, and ends it by an error.
        """
        namespace, snapshot = self._begun()
        with namespace.hold(snapshot, is_newest=False):
            edits = namespace.write_files(snapshot, tables, evaluate, mark=self.mark, is_stored=is_stored, check=check)
        # The process that commits may be on another machine, and cannot flush what lies in the memory of this one.
        flush(self.store.uri)
        # A slice would be pickled with all that it was cut from.
        return tuple(replace(edit, values=decode_table(encode_rows(edit.values))) for edit in edits)

    def commit(
        self,
        written: Iterable[TableUpdate],
        evaluate: Evaluate,
        *,
        replaces: Replaces = Replaces.NOTHING,
        read: Collection[str] = (),
        once: Once | None = None,
    ) -> int:
        """Make what all processes wrote visible, once, and return the version; each piece of work counts as it is given here.

        The object ids `read` are those of the tables whose place the rows take (`Replaces.READ`), or which they were compared with.
        Errors as of `Commits.commit`. Rows that are added go on top of whatever others did meanwhile; what is replaced must
        be as it was at the beginning, or it is a `SerializationFailure`. The files go unless the outcome is unknown.
        """
        parts = list(written)
        try:
            namespace, snapshot = self._begun()
        except (NotFound, SerializationFailure):
            self.discard(parts)
            raise
        edits = combine_edits(parts)
        with namespace.discarding(snapshot, edits):
            transaction = self.begin_commit(namespace, snapshot, serializable=replaces in _RESTING_ON_READS)
            transaction.once = once
            if replaces is Replaces.NOTHING_OF_READ:
                transaction.read(read)
            if replaces is Replaces.READ:
                _replace(transaction, namespace.store, edits, read)
            else:
                _add(transaction, namespace.store, edits, replaces, evaluate)
        with namespace.changing(transaction):
            return namespace.commits.commit(transaction)

    def begin_commit(self, namespace: Table, snapshot: Snapshot, *, serializable: bool) -> Transaction:
        """Return the transaction that makes the write visible, with its change of columns; `snapshot` shows these.

        It is as old as the files of the write: its commit looks for them where they may have been vacuumed.
        """
        if self.evolution is None:
            transaction = namespace.begin(snapshot, serializable=serializable)
        else:
            evolution, table = self.evolution, require_partitions(namespace)

            def change(newest: Snapshot) -> Revision:
                table.check_free_ids(evolution.before, evolution.after)
                if is_old(transaction.began):
                    evolution.check_kept(table.store)
                return evolution.on(table.store, newest)

            transaction = Transaction(snapshot, serializable=serializable)
            transaction.evolution = change
        transaction.began -= max(time.time() - self.began, 0)
        return transaction

    def remove(self, written: Iterable[TableUpdate]) -> None:
        """Delete the files of a piece of work whose rows are not wanted; others may have written into the same directories."""
        for part in written:
            self.store.child(part.place).remove_files(part.data_files)

    def discard(self, written: Iterable[TableUpdate]) -> None:
        """Delete the files of a write of which no commit was begun: the directories that are its own, and what is `written`."""
        self.remove(written)
        for name in self.store.directories():
            if name.startswith(directory_name("", self.mark)):
                self.store.child(name).remove()
        if not self.store.directories():
            # The table was dropped: nothing but directories of ours was left of it.
            self.store.remove()

    def _begun(self) -> tuple[Table, Snapshot]:
        namespace = table_at(self.store)
        if self.branch is not None:
            namespace = namespace.on_branch(self.branch)
        snapshot = namespace.snapshot(self.version)
        if snapshot.committed_at != self.committed_at:
            raise SerializationFailure(f"table {self.store.name!r} was dropped or replaced by another writer")
        if self.evolution is not None:
            snapshot = self.evolution.on(self.store, snapshot).shown_on(snapshot)
        return namespace, snapshot


def _replace(transaction: Transaction, store: Store, edits: Sequence[TableUpdate], read: Collection[str]) -> None:
    """Add rows in place of all those of the tables that were read."""
    snapshot = transaction.snapshot
    transaction.read(list(read))
    room = all_removed(store, snapshot, list(snapshot.tables_named(list(read)).values()))
    count, gone = sum(edit.rows for edit in edits), removed_rows(room)
    transaction.add(combine_edits([*room, *edits]), f"write {count} rows in place of {gone} of {len(read)} partitions")


def _add(
    transaction: Transaction, store: Store, edits: Sequence[TableUpdate], replaces: Replaces, evaluate: Evaluate
) -> None:
    snapshot, count = transaction.snapshot, sum(edit.rows for edit in edits)
    match replaces:
        case Replaces.NOTHING | Replaces.NOTHING_OF_READ:
            transaction.add(edits, f"append {count} rows into {len(edits)} partitions")
            return
        case Replaces.PARTITIONS if snapshot.is_partitioned:
            room = replace_rows(store, snapshot, edits, evaluate)
        case _:
            # What others add meanwhile, be it a new partition, belongs to the table that is replaced.
            transaction.read(snapshot.table_ids)
            room = all_removed(store, snapshot, snapshot.all_tables())
    gone = removed_rows(room)
    what = "the table" if replaces is Replaces.TABLE else f"{len(edits)} partitions"
    transaction.add(combine_edits([*room, *edits]), f"overwrite {what} with {count} rows in place of {gone}")


MOST_WRITES = 8
"""Most shared ingests of a session that have not ended."""
MOST_UPDATES = 16_384
"""Most files and names of parts that a shared ingest keeps in memory, some KiB each."""


@dataclass(slots=True, eq=False)
class SharedIngest:
    """Parts of one write to the table `place`, on top of `snapshot`, which is kept from vacuum meanwhile. Safe to share among threads."""

    place: str
    snapshot: Snapshot
    shared: SharedWrite
    lease: SnapshotLease
    _parts: dict[str, WrittenFiles | None] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def begin(
        cls, table: Table, version: int | None, evolve: Callable[[Snapshot], Evolution] | None = None
    ) -> SharedIngest:
        """Return a write on top of a version of a table, or of its newest one, and of a change of its columns."""
        begun = table.begin(None if version is None else table.snapshot(version))
        lease, snapshot = begun.hold or table.hold(begun.base, is_newest=False), begun.base
        evolution = None if evolve is None else evolve(snapshot)
        if evolution is not None:
            snapshot = evolution.on(table.store, snapshot).shown_on(snapshot)
        return cls(table.place, snapshot, SharedWrite.of(table, snapshot, evolution), lease)

    def write(self, part: str, rows: Iterable[pa.Table], evaluate: Evaluate, check: Callable[[], None]) -> None:
        """Store the rows of a part; `InvalidInput` for one that was stored before, and nothing is left of one that fails."""
        with self._lock:
            if part in self._parts:
                raise InvalidInput(f"part {part!r} of the shared ingest was stored before; expected another name")
            self._keep(part, None)
        files: WrittenFiles = ()
        try:
            files = self.shared.write(rows, evaluate, check=check)
            with self._lock:
                self._keep(part, files)
        except BaseException:
            with self._lock:
                self._parts.pop(part, None)
            self.shared.remove(files)
            raise

    def _keep(self, part: str, files: WrittenFiles | None) -> None:
        others = (known for name, known in self._parts.items() if name != part)
        if sum(len(known or ()) or 1 for known in (*others, files)) > MOST_UPDATES:
            raise LimitExceeded(
                f"a shared ingest of more than {MOST_UPDATES} files; expected fewer parts, or rows in the order of their partitions"
            )
        self._parts[part] = files

    def updates(self, parts: Sequence[str]) -> list[TableUpdate]:
        """Return the files of some parts; `InvalidInput` for one that was not stored."""
        with self._lock:
            updates: list[TableUpdate] = []
            for part in dict.fromkeys(parts):
                files = self._parts.get(part)
                if files is None:
                    raise InvalidInput(f"part {part!r} of the shared ingest was not stored")
                updates += files
            return updates

    def discard(self) -> None:
        """Remove the files of all parts, none of which was committed."""
        with self._lock:
            self.shared.discard(update for files in self._parts.values() for update in files or ())


class SharedIngests:
    """Shared ingests of one session, by the names that its client gives them. Safe to share among threads."""

    def __init__(self) -> None:
        self._ingests: dict[str, SharedIngest] = {}
        self._lock = Lock()

    @property
    def has_begun(self) -> bool:
        """True while one is there that has not ended."""
        return bool(self._ingests)

    def begin(self, name: str, table: Table, version: int | None, evolve: Callable[[Snapshot], Evolution]) -> None:
        """Begin a shared ingest of rows with the columns after a change; `InvalidInput` for the name of another one."""
        with self._lock:
            if name in self._ingests:
                raise InvalidInput(f"shared ingest {name!r} has begun already; expected another name")
            self._begin(name, table, version, evolve)

    def _begin(
        self, name: str, table: Table, version: int | None, evolve: Callable[[Snapshot], Evolution] | None = None
    ) -> SharedIngest:
        if len(self._ingests) >= MOST_WRITES:
            raise LimitExceeded(f"a session has {MOST_WRITES} shared ingests; expected COMMIT WRITE of one")
        begun = self._ingests[name] = SharedIngest.begin(table, version, evolve)
        return begun

    def find(self, name: str, table: Table, version: int | None) -> SharedIngest:
        """Return the shared ingest of a name into a table, which begins on top of a version with its first part."""
        with self._lock:
            found = self._ingests.get(name) or self._begin(name, table, version)
            if found.place != table.place or version not in (None, found.snapshot.version):
                raise InvalidInput(
                    f"shared ingest {name!r} is one into {found.place!r} at version {found.snapshot.version},"
                    f" not into {table.place!r} at {version}"
                )
            return found

    def take(self, name: str, table: Table) -> SharedIngest:
        """End a shared ingest, which is to be committed to a table, and return it; `Conflict` for one that is not there."""
        with self._lock:
            found = self._ingests.get(name)
            if found is None or found.place != table.place:
                raise Conflict(
                    f"the session has no shared ingest {name!r} into table {table.name!r}: it was committed, or the session is a new one"
                )
            return self._ingests.pop(name)

    def close(self) -> None:
        """Remove the files of all that have not ended."""
        with self._lock:
            left, self._ingests = list(self._ingests.values()), {}
        for ingest in left:
            ingest.discard()
