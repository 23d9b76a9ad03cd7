"""SQL transactions: the snapshots that their statements read, and the one table whose partitions they change.

Each table is read at the snapshot at which the transaction first met it, with the transaction's own changes; a single
statement is a transaction of its own. Everything it changes lies under one `__manifest`, whose commit is the atom.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from typing import TypeVar

from lance_flight.catalog.commits.transaction import CommitGuard, Transaction
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, StagedTable, TableName, Visibility
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.catalog.storage.retries import STATEMENT, RetryPolicy, retry
from lance_flight.catalog.table import Table
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.errors import InvalidTransactionState, NotFound, OutcomeUnknown, SerializationFailure, Unsupported

T = TypeVar("T")


class SqlTransaction:
    """State shared by the statements of one transaction. Not safe to share among threads.

    With `explicit` each change is staged at once, so that the next statement sees it. `serializable` ones are refused
    at their commit where another transaction has changed what they read. One that `is_read_only` refuses changes. One that is `torn` holds half a statement,
    the other half of which failed: it must not be committed.
    """

    def __init__(
        self, root: Root, *, explicit: bool = False, serializable: bool = False, is_read_only: bool = False
    ) -> None:
        self.explicit = explicit
        self._is_read_only = is_read_only
        self.serializable = serializable
        self._root = root
        self.holds: list[SnapshotLease] = []
        self._snapshots: dict[str, Snapshot] = {}
        self._reads: dict[str, set[str]] = defaultdict(set)
        self._table: Table | None = None
        self._inner: Transaction | None = None
        self._draft: StagedTable | None = None
        self._dropped: TableName | None = None
        self.torn: Exception | None = None
        self._given_up: Cancellation | None = None
        self.check: Callable[[], None] = lambda: None
        """Raises the reason if the statement that runs in it was cancelled."""

    @property
    def is_untouched(self) -> bool:
        """True if nothing was read or written yet."""
        return not (self._snapshots or self._inner or self._draft or self._dropped)

    @property
    def places(self) -> list[str]:
        """The places of the tables that were read or changed so far, and may be changed still: no change of another writer should come between."""
        changed = self._table
        return [] if self._is_read_only else [*self._snapshots, *([] if changed is None else [changed.place])]

    def read(self, name: TableName, read: Callable[[Table], T]) -> T:
        """Return the result of `read` on the table of a name inside this transaction."""
        if self._draft is not None and self._draft.name == name:
            return read(self._draft.table)
        if self._dropped == name:
            raise NotFound(f"table {name.name!r} was dropped in this transaction")
        return self._root.read(name, read)

    def table(self, name: TableName) -> Table:
        """Return the table of a name as this transaction sees it."""
        return self.read(name, lambda table: table)

    def has(self, name: TableName) -> bool:
        """Return whether a table of this name exists inside this transaction."""
        if self._draft is not None and self._draft.name == name:
            return True
        return self._dropped != name and self._root.has(name)

    def kinds(self) -> dict[TableName, bool]:
        """Map each table that this transaction sees to whether it is partitioned."""
        kinds = self._root.kinds()
        if self._dropped is not None:
            kinds.pop(self._dropped, None)
        if self._draft is not None:
            kinds[self._draft.name] = self._draft.table.is_partitioned
        return kinds

    def is_draft(self, table: Table) -> bool:
        """Return whether this transaction has created a table, which no other transaction can see."""
        return self._draft is not None and self._draft.table.store.uri == table.store.uri

    @property
    def made(self) -> Table | None:
        """Return the table that this transaction has created and not published yet."""
        return None if self._draft is None else self._draft.table

    def create(self, draft: StagedTable) -> None:
        """Take over a new table, which becomes visible at the commit."""
        if self._draft is not None and self._draft.name == draft.name:
            self.drop(draft.name)
        with ExitStack() as held:
            held.callback(draft.close)
            self._only(draft.name.name)
            held.pop_all()
        self._draft = draft

    def drop(self, name: TableName, _: object = None) -> None:
        """Drop a table at the commit."""
        table = self.table(name)
        if self._draft is not None and self._draft.name == name:
            self._undo()
            self._draft = self._inner = self._table = None
            return
        if self._inner is not None and self._writes(table):
            self._inner.abort(table.store)
            self._inner = self._table = None
        self._root.check_main(name)
        self._only(name.name)
        self._dropped = name

    def snapshot(self, table: Table) -> Snapshot:
        """Return the snapshot of a table that this transaction sees."""
        place = table.place
        if self._inner is not None and self._writes(table):
            return self._inner.snapshot
        if self.is_draft(table):
            return table.snapshot()
        if place not in self._snapshots:
            self._snapshots[place] = table.snapshot()
            self.holds.append(table.hold(self._snapshots[place], is_newest=True))
        return self._snapshots[place]

    def change_by(self, table: Table, inner: Transaction, lease: SnapshotLease) -> None:
        """Read and change a table, which was not read before, by a transaction on an earlier snapshot: changes since then conflict."""
        self.check_branch(table)
        self._only(table.store.name)
        self.holds.append(lease)
        self._inner, self._table = inner, table

    def step(self, table: Table) -> int | None:
        """Return the number of the transaction's statements that `snapshot` reflects, if it has changed the table; None otherwise."""
        return self._inner.step if self._inner is not None and self._writes(table) else None

    def base(self, table: Table) -> Snapshot | None:
        """Return the snapshot that this transaction's changes to a table began with; None if it has changed none of it."""
        return self._inner.base if self._inner is not None and self._writes(table) else None

    def snapshot_at(self, step: int) -> Snapshot:
        """Return the changed table as it was after a number of statements."""
        if self._inner is None:
            raise NotFound("the transaction has changed no table")
        return self._inner.snapshot_at(step)

    def note_reads(self, table: Table, object_ids: Sequence[str]) -> None:
        """Remember partition tables that a statement read, for the commit of a serialisable transaction."""
        if self._inner is not None and self._writes(table):
            self._inner.read(object_ids)
        else:
            self._reads[table.place].update(object_ids)

    def remember_reads(self) -> None:
        """Fail where others change what is read from here on, as a serialisable transaction does."""
        self.serializable = True
        if self._inner is not None:
            self._inner.serializable = True

    def writing(self, table: Table) -> Transaction:
        """Return the changes to a table; raise `Unsupported` if another one was changed before, or a plain one cannot be."""
        if self._inner is None or not self._writes(table):
            if not self.is_draft(table):
                self.check_branch(table)
                if self.explicit and not table.is_partitioned:
                    raise Unsupported(
                        f"table {table.name!r} is not partitioned and cannot be written inside a transaction; commit first"
                    )
                self._only(table.store.name)
            place = table.place
            self._inner = table.begin(self._snapshots.get(place), serializable=self.serializable)
            if place in self._reads:
                self._inner.read(self._reads.pop(place))
            self._table = table
        return self._inner

    def check_branch(self, table: Table) -> None:
        """Refuse to write to a table's main branch in a session on another branch, which the table lacks."""
        branch = self._root.branch
        if branch is not None and table.branch is None and not self._root.has_temporary(table):
            raise Unsupported(
                f"table {table.store.name!r} has no branch {branch!r}, which the session is on;"
                f" expected ALTER TABLE … CREATE BRANCH {branch}, or SET branch = 'main'"
            )

    def move_to_branch(self, name: str | None) -> None:
        """Read and write on a branch from now on; the transaction must be untouched."""
        self._root = self._root.on_branch(name)

    def guard(self, guard: Visibility) -> None:
        """Restrict the visible tables to those of a `Visibility` from now on."""
        self._root = self._root.guard_with(guard)

    def know(self, tables: Root | None, names: frozenset[TableName]) -> None:
        """Use these temporary tables, and no other ones, as those of the session (`Root.with_temporary`)."""
        self._root = self._root.with_temporary(tables, names)

    def seen_with(self, root: Root) -> SqlTransaction:
        """Return a view of the transaction for reading, with the temporary tables of `root` alone."""
        view = copy(self)
        view.know(root.temporary, root.temporary_names)
        return view

    def stage(self, cancellation: Cancellation) -> None:
        """Make the latest changes visible to the next statement of this transaction, unless the statement is cancelled first."""
        if self._inner is not None and self._table is not None:
            self._inner.guard = _guard_of(cancellation)
            try:
                if self._table.is_partitioned:
                    self._table.commits.stage(self._inner)
                else:
                    # A draft, which no other transaction sees: its newest version is the staged one.
                    self._table.commits.commit(self._inner)
                    self._inner = self._table = None
            except Exception as exc:
                self.torn = exc
                raise
            finally:
                if self._inner is not None:
                    self._inner.guard = CommitGuard()

    def commit(self, cancellation: Cancellation | None = None) -> None:
        """Make all changes visible, unless the statement is cancelled while its tables are staged."""
        guard = CommitGuard() if cancellation is None else _guard_of(cancellation)
        if self._inner is not None and self._table is not None:
            self._inner.guard = guard
            self._table.commits.commit(self._inner)
        guard.begin_commit()
        if self._draft is not None:
            self._draft.publish()
            self._draft.close()
        if self._dropped is not None:
            self._root.drop(self._dropped)
        self._let_go()

    def give_up(self, error: Exception, cancellation: Cancellation) -> None:
        """Fail with a statement that was given up; what it writes still is discarded once it has ended."""
        self.torn, self._given_up = error, cancellation

    def rollback(self) -> None:
        """Discard all changes; the transaction must certainly not have committed."""
        if self._given_up is None:
            self._discard()
        else:
            self._given_up.after_abandoned(self._discard)

    def _discard(self) -> None:
        self._undo()
        self._let_go()

    def _undo(self) -> None:
        if self._inner is not None and self._table is not None:
            self._inner.abort(self._table.store)
        if self._draft is not None:
            self._draft.close()

    def _let_go(self) -> None:
        """Release the snapshot leases of what this transaction has read, even if it is still referenced."""
        self.holds.clear()
        if self._inner is not None:
            self._inner.hold = None

    def _only(self, name: str) -> None:
        """Refuse a second table, since the atomic unit of a commit is one table, and any in a read-only transaction."""
        if self._is_read_only:
            raise InvalidTransactionState(
                f"the transaction is READ ONLY and cannot change table {name!r}; expected ROLLBACK, then BEGIN"
            )
        if self._draft is not None:
            changed: str | None = self._draft.name.name
        elif self._table is not None:
            changed = self._table.store.name
        else:
            changed = None if self._dropped is None else self._dropped.name
        if changed is not None:
            if changed == name:
                raise Unsupported(
                    f"this transaction has dropped table {name!r}, which can be made again after its commit"
                )
            raise Unsupported(
                f"this transaction has changed table {changed!r} and cannot change {name!r} as well: the changes of one"
                " table are what becomes visible as a whole; commit first"
            )

    def _writes(self, table: Table) -> bool:
        return self._table is not None and self._table.place == table.place


def _guard_of(cancellation: Cancellation) -> CommitGuard:
    return CommitGuard(cancellation.check, cancellation.begin_commit, cancellation.end_commit)


def autocommit(
    root: Root,
    work: Callable[[SqlTransaction], int],
    cancellation: Cancellation,
    *,
    serializable: bool = False,
    policy: RetryPolicy = STATEMENT,
) -> int:
    """Run one statement as a transaction of its own, and retry it if a concurrent transaction changed what it read."""

    def run(_: int) -> int:
        transaction = SqlTransaction(root, serializable=serializable)
        transaction.check = cancellation.check
        try:
            count = work(transaction)
            transaction.commit(cancellation)
        except OutcomeUnknown:
            raise
        except BaseException:
            transaction.rollback()
            cancellation.end_commit()
            raise
        return count

    return retry(policy, "the statement", run, on=SerializationFailure)
