"""Commits of transactions, one after another in a process, and the checks that conflict with other writers.

Decisions 15 and 16. Additions rest on nothing but the namespace; what rewrites a table rests on the version that it read,
and a serialisable transaction on all that it read.

Spec: Multi-Partition Transaction, Conflict Resolution; decisions 12 to 17. Transactions of one process that are ready at
the same moment share a commit. `CONFLICTS` says who is out of date, `transaction.py` stages, and `manifests/version_log.py` tries it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from threading import Lock

import pyarrow as pa

from lance_flight.catalog.commits.once import remembering
from lance_flight.catalog.commits.transaction import (
    PartitionChange,
    Staging,
    TableUpdate,
    Transaction,
    gone,
    without_repeats,
)
from lance_flight.catalog.manifests.snapshot import NAMESPACE_KEY, SCHEMA_KEY, Latest, Snapshot
from lance_flight.catalog.manifests.version_log import (
    Change,
    Revision,
    VersionLog,
    commit,
    reservation_of,
    wait_for_release,
)
from lance_flight.catalog.storage.durability import check_kept
from lance_flight.catalog.storage.filesystems import CommitEvent, commit_counts
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.storage.whole_files import DATA
from lance_flight.catalog.tables import partitions
from lance_flight.errors import (
    AlreadyExists,
    Conflict,
    LanceFlightError,
    NotFound,
    OutcomeUnknown,
    SerializationFailure,
)
from lance_flight.faults import failpoint
from lance_flight.model.schema_changes import takes_rows_of

DELETIONS = "_deletions"
OLD_SECONDS = 3600.0
"""Age from which on a transaction looks for its files before it commits: vacuum removes what is a day old and visible nowhere."""


class Before:
    """Changes by the transactions of a group that come before the one checked."""

    def __init__(self) -> None:
        self.touched: set[str] = set()
        self.once: set[str] = set()
        self.created = False

    def add(self, transaction: Transaction) -> None:
        """Count a transaction that goes along."""
        self.touched.update(transaction.parts)
        if transaction.once is not None:
            self.once.add(transaction.once.name)
        self.created |= any(part.table is None for part in transaction.parts.values())


def check(transaction: Transaction, newest: Snapshot, before: Before) -> None:
    """Raise `SerializationFailure` for a transaction that is out of date by `CONFLICTS`, and `AlreadyExists` as `Once.check` does.

    One that can be divided leaves out the partitions that conflict.
    """
    if transaction.once is not None:
        transaction.once.check(newest)
    meeting = Meeting(transaction, newest, before)
    for rule in CONFLICTS:
        while (conflict := rule.find(meeting)) is not None:
            _refuse(transaction, conflict)


def _refuse(transaction: Transaction, conflict: Conflicting) -> None:
    """Leave out the partition that conflicts, or raise `SerializationFailure`."""
    if transaction.divided is None or conflict.partition is None:
        raise SerializationFailure(conflict.problem)
    transaction.leave_out(conflict.partition)


def check_files(transaction: Transaction, root: Store) -> None:
    """Raise `SerializationFailure` for an old transaction whose files were vacuumed: its process was stopped for long.

    So for one that wrote before the disk failed to store something. One that can be divided leaves out the partitions without files.
    """
    check_kept(root.uri, transaction.began)
    if not is_old(transaction.began):
        return
    for object_id, part in list(transaction.parts.items()):
        if not part.drops and not _has_files(part, root):
            problem = f"what was written for partition table {object_id!r} was vacuumed before its commit: the transaction began too long ago"
            _refuse(transaction, Conflicting(problem, object_id))


def is_old(began: float) -> bool:
    """Return whether files that were written since a moment of the monotonic clock may have been vacuumed."""
    return time.monotonic() - began >= OLD_SECONDS


def has_data(update: TableUpdate, root: Store) -> bool:
    """Return whether the data files that an update adds are there."""
    return _has(
        update, root, DATA, {PurePosixPath(file.path).name for fragment in update.fragments for file in fragment.files}
    )


def _has_files(part: PartitionChange, root: Store) -> bool:
    if part.staged is not None:
        try:
            partitions.open_at(root.child(part.staged.location), part.staged.pin)
        except NotFound:
            return False
    left_out = {
        PurePosixPath(fragment.deletion_file.path(fragment.id)).name
        for update in part.waiting
        if update.removal is not None
        for fragment in update.removal.updated
        if fragment.deletion_file is not None
    }
    return has_data(part.added, root) and _has(part.added, root, DELETIONS, left_out)


def _has(update: TableUpdate, root: Store, directory: str, names: set[str]) -> bool:
    return not names or names <= set(root.child(update.place).child(directory).files())


class Meeting:
    """A transaction, and what other writers have done since it began: the newest snapshot, and those that go along before it."""

    def __init__(self, transaction: Transaction, newest: Snapshot, before: Before) -> None:
        self.transaction, self.newest, self.before = transaction, newest, before
        self.tables = newest.tables_named(list(transaction.parts))
        """The partitions of the transaction that are there."""

    def find(self, is_met: Callable[[str, PartitionChange], bool], problem: str) -> Conflicting | None:
        """Return the conflict of the first partition of the transaction that a condition holds for."""
        offence = next((name for name, part in self.transaction.parts.items() if is_met(name, part)), None)
        return None if offence is None else Conflicting(problem.format(f"partition table {offence!r}"), offence)

    @property
    def has_read(self) -> bool:
        """True for a serialisable transaction that rests on what it has read."""
        return self.transaction.serializable and self.transaction.has_read


@dataclass(frozen=True, slots=True)
class Conflicting:
    """A conflict as the error says it, and the partition that it is about (None: the whole transaction)."""

    problem: str
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class ConflictRule:
    """A change by another writer beside which a transaction is not committed, for the documentation and for the check.

    `find` returns the first conflict; None where the rule does not stand against the transaction.
    """

    transaction: str
    change: str
    find: Callable[[Meeting], Conflicting | None]


def _has_same_id(meeting: Meeting) -> Conflicting | None:
    once = meeting.transaction.once
    if once is None or once.name not in meeting.before.once:
        return None
    return Conflicting(f"{once.name} is being committed by another writer")


def _branch_was_replaced(meeting: Meeting) -> Conflicting | None:
    transaction, newest = meeting.transaction, meeting.newest
    # A partition may have the same pin, but what was written of it lies on another Lance branch of its table.
    if transaction.only_adds or transaction.base.table_branch == newest.table_branch:
        return None
    return Conflicting("the branch was replaced by another writer")


def _was_replaced(meeting: Meeting) -> Conflicting | None:
    transaction, newest = meeting.transaction, meeting.newest
    old, new = transaction.base.metadata, newest.metadata
    is_same_table = old.get(NAMESPACE_KEY) == new.get(NAMESPACE_KEY)
    is_same = is_same_table and old.get(SCHEMA_KEY) == new.get(SCHEMA_KEY)
    if is_same or transaction.divided is not None:
        return None
    is_added_to = is_same_table and takes_rows_of(newest.schema, transaction.base.schema)
    if is_added_to and transaction.only_adds and not meeting.has_read:
        return None
    return Conflicting("the table was dropped, replaced or changed in its schema by another writer")


def _was_made(meeting: Meeting) -> Conflicting | None:
    # What it has taken away again of its own new partition must not come back with the files of others.
    known = meeting.tables.keys() | meeting.before.touched
    return meeting.find(
        lambda name, part: part.table is None and part.rewrites and name in known, "{} was made by another writer"
    )


def _was_dropped(meeting: Meeting) -> Conflicting | None:
    return meeting.find(
        lambda name, part: part.table is not None and name not in meeting.tables, "{} was dropped by another writer"
    )


def _lost_its_pin(meeting: Meeting) -> Conflicting | None:
    return meeting.find(
        lambda name, part: part.table is not None and isinstance(meeting.tables[name].pin, Latest),
        "{} lost its pin to another writer",
    )


def _was_changed(meeting: Meeting) -> Conflicting | None:
    touched = meeting.before.touched
    return meeting.find(
        lambda name, part: (
            part.table is not None and part.rewrites and (meeting.tables[name] != part.table or name in touched)
        ),
        "the rows of {} were changed by another writer",
    )


def _was_read(meeting: Meeting) -> Conflicting | None:
    if not meeting.has_read:
        return None
    read = list(meeting.transaction.reads)
    then, now = meeting.transaction.base.tables_named(read), meeting.newest.tables_named(read)
    changed = min((n for n in read if then.get(n) != now.get(n) or n in meeting.before.touched), default=None)
    if changed is None:
        return None
    return Conflicting(f"partition table {changed!r}, which was read, was changed by another writer")


def _has_new_partitions(meeting: Meeting) -> Conflicting | None:
    is_new = meeting.before.created or meeting.newest.table_ids != meeting.transaction.base.table_ids
    if not (meeting.has_read and is_new):
        return None
    return Conflicting("partitions were created by another writer after this transaction had read the table")


CONFLICTS = (
    ConflictRule(
        "every one but a compaction",
        "drops or replaces the table, or changes its columns; rows that are only added go beside ADD COLUMN",
        _was_replaced,
    ),
    ConflictRule("one that changes, removes or compacts rows of a branch", "replaces the branch", _branch_was_replaced),
    ConflictRule("one with a commit id", "commits the same id", _has_same_id),
    ConflictRule("one that writes to a partition", "drops the partition", _was_dropped),
    ConflictRule("one that writes to a partition", "lets readers have whatever is its newest version", _lost_its_pin),
    ConflictRule(
        "one that changes, removes or compacts rows of a partition", "adds, changes or removes rows there", _was_changed
    ),
    ConflictRule("one that makes a partition and removes rows of it again", "makes the partition", _was_made),
    ConflictRule("a serialisable one", "changes a partition that it has read", _was_read),
    ConflictRule("a serialisable one", "makes a partition of a table that it has read", _has_new_partitions),
)
"""The conflict rules, which `transactions.md` prints; what none of them names goes together. The first that is met is the error's."""


@dataclass(slots=True, eq=False)
class _Member:
    """A transaction that waits for its commit, and what came of it; one that `has_waited` for a reservation waits no more."""

    transaction: Transaction
    has_waited: bool = False
    version: int | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.version is not None or self.error is not None


class Commits:
    """Commits the transactions of this process to one namespace. Safe to share among threads."""

    def __init__(self, log: VersionLog) -> None:
        self._log = log
        self._waiting: list[_Member] = []
        self._lock = Lock()
        self._turn = Lock()

    def commit(self, transaction: Transaction) -> int:
        """Make a transaction visible and return the new snapshot's version.

        `SerializationFailure` where what it read or rewrote has changed, `Conflict` after the last attempt against other
        writers, `AlreadyExists` as of `Once.check`; after these nothing of it is visible.
        `OutcomeUnknown` where an object store did not say.
        """
        if not transaction.parts and transaction.once is None and transaction.evolution is None:
            return transaction.base.version
        mine = _Member(transaction)
        while not mine.is_done:
            self._take_turn(mine)
            if not mine.is_done:
                # Nobody waits with the turn: whoever has reserved the namespace may be in this process.
                wait_for_release(self._log, transaction.reservation)
                mine.has_waited = True
        if mine.error is not None:
            if isinstance(mine.error, Conflict):
                commit_counts.add(CommitEvent.CONFLICT)
            raise mine.error
        if mine.version is None:
            raise AssertionError("a commit without an outcome")
        return mine.version

    def _take_turn(self, mine: _Member) -> None:
        """Commit the waiting transactions when it is this one's turn; none commits while another writer has a reservation."""
        with self._lock:
            self._waiting.append(mine)
        with self._turn:
            # The transaction that had the turn before may have taken this one along.
            if not mine.is_done:
                with self._lock:
                    group, self._waiting = self._waiting, []
                self._commit(group)

    def _commit(self, group: Sequence[_Member]) -> None:
        """Settle every member of the group; a transaction that drops a table or changes columns commits alone.

        So does one that only moves rows: readers of the history need not tell these from rows that another one adds.
        """
        alone = [member for member in group if member.transaction.is_alone]
        together = [member for member in group if member not in alone]
        for part in filter(None, (together, *([member] for member in alone))):
            try:
                self._settle(part)
            except BaseException as exc:  # noqa: BLE001 - each waiting thread raises it
                for member in part:
                    if not member.is_done:
                        member.error = exc

    def _settle(self, group: Sequence[_Member]) -> None:
        together = _Together(self._log, list(group))
        try:
            version = commit(self._log, together, together.newest)
        except OutcomeUnknown:
            raise
        except (LanceFlightError, OSError) as exc:
            is_late = isinstance(exc, Conflict) and not isinstance(exc, SerializationFailure)
            if is_late or len(together.members) == 1:
                raise
            # One of them cannot be staged; by itself each gets its own answer. In a plain table all of them may be visible.
            for member in [each for each in together.members if not each.is_done]:
                member.version = self._log.note_commit(member.transaction.base, member.transaction.id)
                if not member.is_done:
                    self._commit([member])
        else:
            together.answer(version)

    def stage(self, transaction: Transaction) -> None:
        """Stage the last statement of a transaction, so that its own snapshot alone shows it."""
        transaction.show(Staging(self._log.root).rows([transaction], transaction.base))


class _Together:
    """The change that a group of transactions is; `members` are those that have no answer yet."""

    def __init__(self, log: VersionLog, members: list[_Member]) -> None:
        self.members = members
        self._log = log
        self._staging = Staging(log.root)
        self._attempts = 0

    def newest(self) -> Snapshot:
        """Return the newest snapshot, while nothing is being committed."""
        for member in self.members:
            member.transaction.guard.end_commit()
        try:
            newest = self._log.snapshot()
            if not (newest.pending and self._changes):
                return newest
            # The guard row has room for one note of metadata.
            self._log.follow(newest)
            return self._log.snapshot()
        except NotFound as exc:
            raise SerializationFailure(f"table {self._log.root.name!r} was dropped by another writer") from exc

    def __call__(self, snapshot: Snapshot) -> Revision | None:
        """Stage what goes together on a snapshot; None where no member is left."""
        if self._attempts:
            commit_counts.add(CommitEvent.RETRY)
        self._attempts += 1
        evolved = next((change(snapshot) for change in self._changes), None)
        if evolved is not None:
            snapshot = evolved.shown_on(snapshot)
        self.members[:] = _still_good(self.members, snapshot, self._log.root)
        if not self.members:
            return None
        done = [member.transaction for member in self.members]
        if not snapshot.is_partitioned:
            _begin_guards(done)  # What is staged of a plain table is visible.
        rows = self._staging.rows(done, snapshot)
        failpoint("all_staged")
        once = [transaction.once for transaction in done if transaction.once is not None]
        _begin_guards(done)
        revision = Revision(
            operation="; ".join(t.operation for t in done),
            rows=remembering(snapshot, rows, once),
            removed=gone(done, snapshot),
            transactions=tuple(t.id for t in done),
        )
        return revision if evolved is None else _with_columns(revision, evolved)

    @property
    def _changes(self) -> list[Change]:
        """The change of columns that goes along; none for most."""
        changes = (member.transaction.evolution for member in self.members)
        return [change for change in changes if change is not None]

    def answer(self, version: int) -> None:
        """Tell the members the version that shows them."""
        if self._changes:
            # It is committed, whatever comes of this: the next writer finds what is still missing.
            with suppress(LanceFlightError, *UNREADABLE):
                self._log.follow(self._log.snapshot())
        if self.members:
            commit_counts.add(CommitEvent.COMMITTED)
            commit_counts.add(CommitEvent.TRANSACTION, len(self.members))
        for member in self.members:
            member.version = version


def _with_columns(revision: Revision, evolved: Revision) -> Revision:
    """Return a revision together with the change of columns that its rows were written on top of."""
    rows = [each.rows for each in (evolved, revision) if each.rows is not None]
    return replace(
        revision,
        operation=f"{evolved.operation}; {revision.operation}",
        rows=without_repeats(pa.concat_tables(rows)),
        schema=evolved.schema,
    )


def _begin_guards(group: Sequence[Transaction]) -> None:
    for transaction in group:
        transaction.guard.begin_commit()


def _is_reserved(group: Sequence[_Member], snapshot: Snapshot) -> bool:
    """Return whether another writer has reserved the snapshot against every member of a group."""
    reservation = reservation_of(snapshot)
    return reservation is not None and not any(
        member.has_waited or member.transaction.reservation == reservation.holder for member in group
    )


def _still_good(group: Sequence[_Member], snapshot: Snapshot, root: Store) -> list[_Member]:
    """Return the members that may commit together on a snapshot; set the error of each that may not.

    None may, and no error is set, while another writer has reserved the namespace.
    """
    if _is_reserved(group, snapshot):
        return []
    good, before = [], Before()
    for member in group:
        try:
            member.transaction.rebase(member.transaction, snapshot)
            check(member.transaction, snapshot, before)
            check_files(member.transaction, root)
        except (SerializationFailure, AlreadyExists) as exc:
            member.error = exc
        else:
            if member.transaction.left_out and not member.transaction.parts:
                member.version = snapshot.version
                continue
            before.add(member.transaction)
            good.append(member)
    return good
