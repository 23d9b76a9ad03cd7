"""The maintainer: two threads of a server that keep the tables of its root in order, one rewriting, one vacuuming.

The next piece of work is done for the table with most to gain (`WorkChooser`).

It works for a share of the time, within the memory that a write may have, and on one server of a root at a time. A server that is killed leaves what
any writer leaves that dies: files that no version has, which the next vacuum removes, or an announcement, with which it goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lance_flight.catalog.bulk.pieces import Keep, Piece, PieceWork, Progress, R, Threads, processes
from lance_flight.catalog.commits.writer import LEAST_BYTES, write_memory
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.indexing import refresh_indices
from lance_flight.catalog.maintenance.survey import (
    LATE,
    MaintenancePolicy,
    Surveyor,
    TableSurvey,
    expired_snapshots,
    policy_for_server,
)
from lance_flight.catalog.maintenance.vacuum import FLOOR_HOURS, HOUR, VacuumRules, vacuum
from lance_flight.catalog.manifests.snapshot import PartitionTable
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.leases import RootLease
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.catalog.table import Table
from lance_flight.engine.runtime.running_statement import INTERNAL, OK, MaintenanceRecords, WorkKind
from lance_flight.errors import Cancelled, LanceFlightError, StatementTimeout
from lance_flight.faults import failpoint

log = logging.getLogger("lance_flight.maintenance")

MOST_TABLES = 256
"""Partition tables of one compaction: what it has read is committed soon, and other work has its turn."""
RETRY_SECONDS = 300.0
"""Time after work that has failed until it is tried again."""
HISTORY_SECONDS = 600.0
"""Time between two looks at the history of a table, which lists its versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One piece of maintenance: what is done to a table, why, and the seconds that a scan of it gains."""

    kind: WorkKind
    name: TableName
    table: Table
    policy: MaintenancePolicy
    gain: float
    reason: str
    due: tuple[PartitionTable, ...] = ()


@dataclass(slots=True)
class _History:
    """Times at which the history of a table was looked at, under which retention, and a vacuum has ended; how many snapshots are `over`."""

    retain: float
    looked: float
    vacuumed: float | None = None
    over: int = 0


@dataclass(slots=True)
class WorkChooser:
    """Chooses work of some `kinds` on the tables of a root. For one thread.

    `in_use` returns the places of tables that open transactions may change: a rewrite would make their commits fail.
    """

    root: Root
    in_use: Callable[[], set[str]]
    kinds: frozenset[WorkKind] = frozenset(WorkKind)
    now: Callable[[], float] = time.monotonic
    surveyor: Surveyor = field(default_factory=Surveyor)
    backlog: Counter[WorkKind] = field(default_factory=Counter)
    """What was due at the last look at all tables: files that compactions would spare, rows without an index, snapshots that are over."""
    _failed: dict[tuple[str, WorkKind], float] = field(default_factory=dict)
    _histories: dict[str, _History] = field(default_factory=dict)
    _unlooked: dict[TableName, float] = field(default_factory=dict)
    """Tables at which a look has failed by an error that nothing expects, and when that was."""

    def choose(self, is_over: Callable[[], bool] = lambda: False) -> Work | None:
        """Return the most urgent work: a vacuum, which is due once in a while, or else what gains most; None where nothing is due.

        Once `is_over` is true no further table is looked at.
        """
        tables: list[Table] = []
        best: Work | None = None
        backlog: Counter[WorkKind] = Counter()
        for name in self.root.tables():
            if is_over():
                return None
            if self.now() - self._unlooked.get(name, -RETRY_SECONDS) < RETRY_SECONDS:
                continue
            try:
                table = self.root.table(name)
                tables.append(table)
                for work in self._works(name, table, backlog):
                    if work.kind is WorkKind.VACUUM:
                        return work
                    if best is None or work.gain > best.gain:
                        best = work
            except (LanceFlightError, *UNREADABLE) as exc:
                # Dropped in this moment, or broken, which `lance-flight doctor` tells; others have their turn.
                log.info("table %s is left alone: %s", name, self.root.store.words(exc))
            except Exception:
                log.exception("table %s cannot be looked at, and is left alone for a while", name)
                self._unlooked[name] = self.now()
        self._forget_others(tables)
        self.backlog = backlog
        return best

    def postpone(self, work: Work) -> None:
        """Leave some work for a while."""
        self._failed[work.table.place, work.kind] = self.now()

    def finish(self, work: Work) -> None:
        """Note that some work has ended."""
        if work.kind is WorkKind.VACUUM:
            history = self._histories[work.table.place]
            history.vacuumed, history.over = self.now(), 0

    def _works(self, name: TableName, table: Table, backlog: Counter[WorkKind]) -> Iterator[Work]:
        """Yield all that is due on one table, and add to the backlog."""
        if WorkKind.VACUUM in self.kinds:
            policy = policy_for_server(table.snapshot())
            if policy is not None:
                yield from filter(self._may_try, self._vacuums(name, table, policy))
            backlog[WorkKind.VACUUM] = sum(history.over for history in self._histories.values())
        if self.kinds - {WorkKind.VACUUM}:
            survey = self.surveyor.survey(table)
            if survey is not None:
                backlog[WorkKind.COMPACT] += survey.backlog
                backlog[WorkKind.REINDEX] += survey.unindexed if survey.is_index_due else 0
                yield from filter(self._may_try, _rewrites(name, table, survey))

    def _may_try(self, work: Work) -> bool:
        """Return whether some work has not failed lately, and rewrites no table that is in use."""
        failed = self._failed.get((work.table.place, work.kind))
        is_late = failed is None or self.now() - failed > RETRY_SECONDS
        return is_late and not (work.kind is WorkKind.COMPACT and self.is_in_use(work.table))

    def is_in_use(self, table: Table) -> bool:
        """Return whether an open transaction of this server may change a table."""
        return table.place in self.in_use()

    def _vacuums(self, name: TableName, table: Table, policy: MaintenancePolicy) -> Iterator[Work]:
        known = self._histories.get(table.place)
        is_known = known is not None and known.retain == policy.retain
        if known is not None and is_known and self.now() - known.looked < HISTORY_SECONDS:
            return
        vacuumed = known.vacuumed if known is not None and is_known else None
        if vacuumed is not None and self.now() - vacuumed < policy.retain * LATE:
            return
        expired = expired_snapshots(table, policy)
        if expired:
            # It is looked at again until the vacuum has run.
            self._histories[table.place] = _History(policy.retain, self.now() - HISTORY_SECONDS, vacuumed, expired)
            reason = f"{expired:,} snapshots were replaced more than {policy.retain / 3600:g} hours ago"
            yield Work(kind=WorkKind.VACUUM, name=name, table=table, policy=policy, gain=0.0, reason=reason)
        else:
            self._histories[table.place] = _History(policy.retain, self.now(), vacuumed)

    def _forget_others(self, tables: list[Table]) -> None:
        places = {table.place for table in tables}
        self.surveyor.forget_others(tables)
        self._failed = {key: moment for key, moment in self._failed.items() if key[0] in places}
        self._histories = {place: history for place, history in self._histories.items() if place in places}


def _rewrites(name: TableName, table: Table, survey: TableSurvey) -> Iterator[Work]:
    """Yield the compaction and the indexing that a table needs."""
    if survey.due:
        due = survey.due[:MOST_TABLES]
        reason = f"{len(survey.due):,} partition tables have small files or deleted rows"
        yield Work(
            kind=WorkKind.COMPACT,
            name=name,
            table=table,
            policy=survey.policy,
            gain=survey.gain,
            reason=reason,
            due=due,
        )
    elif survey.is_index_due:
        # A compaction brings indices up to date, too.
        reason = f"{survey.unindexed:,} of {survey.rows:,} rows are not in an index"
        yield Work(
            kind=WorkKind.REINDEX, name=name, table=table, policy=survey.policy, gain=survey.index_gain, reason=reason
        )


TABLES_PER_COMMIT = 64
BACKLOG = {WorkKind.COMPACT: 128, WorkKind.VACUUM: 10_000}
"""Files that wait to be joined, and snapshots to be removed, for which the share of the time is twice, for as many again three times … what it is."""
MOST_SHARE = 0.5
"""Part of the time that it works at most while files wait, unless it is told to work more."""
LONGEST_SECONDS, SLOWEST_BYTES = 1800.0, 100_000
"""A batch of pieces may take so long, and a second more for each so many bytes; one that takes longer hangs."""
IDLE_SECONDS, REMOTE_IDLE_SECONDS = 2.0, 60.0
"""Rest after a look at a root that has found nothing to do; a look at an object store costs requests."""
VACUUM_IDLE = 30
"""Factor of these for vacuums, which are due by hours."""
FAILED_SECONDS = 60.0
"""Rest after a look that has failed, as over a root that cannot be written."""
STOPPING_SECONDS = 5.0
"""Longest wait for the end of the piece that is being written when a server stops: it is not lost, and not needed."""


class Maintainer:
    """Maintains the tables of a root in threads of its own, for the part `share` of the time (0: not at all), which may change.

    One rewrites and one vacuums: a vacuum of a long history takes long, and small files come meanwhile. `in_use` returns the places of tables
    that open transactions may change, which are not rewritten meanwhile.
    """

    def __init__(
        self, root: Root, records: MaintenanceRecords, *, share: float, in_use: Callable[[], set[str]]
    ) -> None:
        self.share = share
        self.records = records
        self.root = root
        self.stopped = threading.Event()
        self._lease = RootLease(root.store, pause=self.stopped.wait)
        self._lease_lock = threading.Lock()
        self._lanes = [
            MaintenanceThread(self, name, WorkChooser(root, in_use, kinds)) for name, kinds in _LANES.items()
        ]
        self._is_started = False
        self.at_work: set[MaintenanceThread] = set()

    @property
    def is_on(self) -> bool:
        """True if it maintains anything."""
        return self.share > 0

    @property
    def backlog(self) -> Counter[WorkKind]:
        """Amounts that were due at the last look: files to spare, rows to index, snapshots to remove."""
        return sum((lane.chooser.backlog for lane in self._lanes), Counter())

    def start(self) -> None:
        """Begin to maintain, once it is on."""
        self._is_started = True
        self._begin()

    def set_share(self, share: float) -> None:
        """Maintain for another part of the time from now on; what is begun when it becomes 0 is given up as by `interrupt`."""
        self.share = share
        for lane in self._lanes:
            lane.woken.set()
        if self._is_started:
            self._begin()

    def _begin(self) -> None:
        for lane in self._lanes:
            if self.is_on and lane.thread.ident is None:
                lane.thread.start()

    def interrupt(self) -> None:
        """Begin to stop: end after the piece that is being written, and undo what is not committed."""
        self.stopped.set()
        for lane in self._lanes:
            lane.woken.set()

    def stop(self) -> None:
        """Stop, and wait for that for a few seconds."""
        self.interrupt()
        end = time.monotonic() + STOPPING_SECONDS
        for lane in self._lanes:
            if lane.thread.is_alive():
                lane.thread.join(max(end - time.monotonic(), 0))

    def step(self) -> bool:
        """Do the most urgent work if this server has the lease, a vacuum before anything else; return whether there was any."""
        return any(lane.step() for lane in self._lanes)

    def hold(self) -> bool:
        """Take the lease of the root, or renew it; return False where another server has it."""
        with self._lease_lock:
            return self._lease.hold()

    def release(self) -> None:
        """Let another server maintain the root, where no thread is at work."""
        try:
            with self._lease_lock:
                if not self.at_work:
                    self._lease.release()
        except UNREADABLE as exc:
            log.info("the lease of the maintenance is left to expire: %s", self.root.store.words(exc))


_LANES = {"vacuum": frozenset({WorkKind.VACUUM}), "maintenance": frozenset({WorkKind.COMPACT, WorkKind.REINDEX})}
"""The threads of a maintainer, and what each does."""


class MaintenanceThread:
    """A thread that does some kinds of maintenance, one piece of work after another."""

    def __init__(self, owner: Maintainer, name: str, chooser: WorkChooser) -> None:
        self._owner = owner
        self._words = owner.root.store.words
        self.chooser = chooser
        self.woken = threading.Event()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def step(self) -> bool:
        """Do the most urgent work if this server has the lease; return whether there was any."""
        owner = self._owner
        if not owner.hold():
            self.chooser.backlog.clear()
            return False
        failpoint("maintenance_leased")
        work = self.chooser.choose(lambda: owner.stopped.is_set() or not owner.is_on)
        if work is None:
            return False
        failpoint("maintenance_chosen")
        self._do(work)
        return True

    def _run(self) -> None:
        owner = self._owner
        idle = REMOTE_IDLE_SECONDS if owner.root.store.is_remote else IDLE_SECONDS
        idle *= VACUUM_IDLE if self.chooser.kinds == {WorkKind.VACUUM} else 1
        while not owner.stopped.is_set():
            self.woken.clear()
            share = owner.share
            if not share:
                self.chooser.backlog.clear()
                self._end()
                self.woken.wait()
                continue
            owner.at_work.add(self)
            began = time.monotonic()
            try:
                rest = 0.0 if self.step() else idle
            except (LanceFlightError, *UNREADABLE) as exc:
                log.warning("maintenance cannot look at the root: %s", self._words(exc))
                rest = FAILED_SECONDS
            except Exception:
                # An error of ours: without this thread nothing would be maintained until the server is started again.
                log.exception("maintenance cannot look at the root")
                rest = FAILED_SECONDS
            seconds = time.monotonic() - began
            self.woken.wait(max(rest_after(seconds, share, self.chooser.backlog), rest))
        self._end()

    def _end(self) -> None:
        self._owner.at_work.discard(self)
        self._owner.release()

    def _do(self, work: Work) -> None:
        """Do some work, and record what came of it."""
        records = self._owner.records
        record = records.begin(work.name.db_schema, work.name.name, work.kind.value, work.reason)
        outcome, freed = OK, 0
        try:
            result, freed = _DO[work.kind](work, self._check(work), self.chooser)
        except (LanceFlightError, *UNREADABLE) as exc:
            outcome = exc.code if isinstance(exc, LanceFlightError) else LanceFlightError.code
            result = self._words(exc)
            if not isinstance(exc, Cancelled) or isinstance(exc, StatementTimeout):
                self.chooser.postpone(work)
        except Exception as exc:
            log.exception("maintenance failed: %s of table %s", work.kind.value, work.name)
            outcome, result = INTERNAL, f"{type(exc).__name__}; the log of the server has the details"
            self.chooser.postpone(work)
        else:
            self.chooser.finish(work)
        failpoint("maintenance_done")
        records.end(record, outcome, result, freed)

    def _check(self, work: Work) -> Callable[[], None]:
        """Return a check, made between pieces of some work, that raises `Cancelled` where it should not go on."""
        owner = self._owner

        def check() -> None:
            if owner.stopped.is_set():
                raise Cancelled("the server is stopping")
            if not owner.is_on:
                raise Cancelled("maintenance was switched off")
            if not owner.hold():
                raise Cancelled("another server maintains the root by now")
            if work.kind is WorkKind.COMPACT and self.chooser.is_in_use(work.table):
                raise Cancelled("a transaction has begun that may change the table")

        return check


def rest_after(worked: float, share: float, backlog: Mapping[WorkKind, int]) -> float:
    """Return how many seconds maintenance rests that has worked for some, at a share of the time that grows with its backlog.

    >>> [rest_after(1.0, 0.1, {WorkKind.COMPACT: files}) for files in (0, 128, 512, 5000)], rest_after(1.0, 0.8, {})
    ([9.0, 4.0, 1.0, 1.0], 0.25)
    """
    times = sum(backlog.get(kind, 0) / amount for kind, amount in BACKLOG.items())
    grown = max(share, min(MOST_SHARE, share * (1 + times)))
    return worked * (1 / grown - 1)


@dataclass(frozen=True, slots=True)
class _Modest:
    """Executor of pieces one after another, within the memory of one write; it checks all the time whether to go on.

    A small piece that has begun is written to its end; the process of a large one is ended, also where it takes longer than it can.
    What an interrupted work has written is deleted again.
    """

    check: Callable[[], None]

    def __call__(
        self, pieces: Sequence[Piece[R]], told: Progress | None = None, keep: Keep[R] | None = None
    ) -> list[R]:
        size = LEAST_BYTES if pieces and write_memory.take(LEAST_BYTES, 0) else 0
        end = time.monotonic() + LONGEST_SECONDS + sum(getattr(piece, "size", 0) for piece in pieces) / SLOWEST_BYTES

        def check() -> None:
            self.check()
            if time.monotonic() > end:
                raise StatementTimeout("maintenance of these files takes longer than it can; it was given up")

        try:
            check()
            return Threads(1, check, processes.run)(pieces, self._check(told), keep)
        finally:
            write_memory.release(size)

    def _check(self, told: Progress | None) -> Progress:
        def checked(done: int, pieces: int) -> None:
            self.check()
            if told is not None:
                told(done, pieces)

        return checked


def _compact(work: Work, check: Callable[[], None], chooser: WorkChooser) -> tuple[str, int]:
    # What is due was chosen, some of it for what the whole table has too many of.
    rules = CompactionRules(deleted=work.policy.compact_deleted, tables_per_commit=TABLES_PER_COMMIT)
    among = [table.object_id for table in work.due]
    # A table that is always written to would be compacted never.
    report = compact(work.table, rules, PieceWork(run=_Modest(check), check=check), among=among, rebase=True)
    lost = {table.object_id for table in report.tables if table.is_lost}
    chooser.surveyor.settle(work.table, [table for table in work.due if table.object_id not in lost])
    return str(report), 0


def _reindex(work: Work, check: Callable[[], None], chooser: WorkChooser) -> tuple[str, int]:
    reports = refresh_indices(work.table, PieceWork(run=_Modest(check)))
    if not any(report.tables for report in reports):
        chooser.surveyor.settle_indices(work.table)
    return "; ".join(map(str, reports)), 0


def _vacuum(work: Work, check: Callable[[], None], chooser: WorkChooser) -> tuple[str, int]:
    hours = work.policy.retain / HOUR
    # A policy that keeps less was chosen by who may drop the table.
    rules = VacuumRules(
        retain_hours=hours, transaction_hours=work.policy.transactions / HOUR, force=hours < FLOOR_HOURS
    )
    report = vacuum(work.table, rules, lambda *_: check())
    total = report.total
    removed = f"{total.versions:,} versions and {total.files:,} files removed, {total.bytes:,} bytes; {report.snapshots:,} snapshots stay"
    return removed, total.bytes


_DO: dict[WorkKind, Callable[[Work, Callable[[], None], WorkChooser], tuple[str, int]]] = {
    WorkKind.COMPACT: _compact,
    WorkKind.REINDEX: _reindex,
    WorkKind.VACUUM: _vacuum,
}
"""What does each kind of work: it returns what was done, and the bytes that it has freed."""
