"""The maintainer: two threads of a server that keep the tables of its root in order, one rewriting, one vacuuming.

It works for a share of the time, within the memory that a write may have, and on one server of a root at a time. A server that is killed leaves what
any writer leaves that dies: files that no version has, which the next vacuum removes, or an announcement, with which it goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lance_flight.catalog.bulk.pieces import Keep, Piece, PieceWork, Progress, R, Threads, processes
from lance_flight.catalog.commits.writer import LEAST_BYTES, write_memory
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.indexing import refresh_indices
from lance_flight.catalog.maintenance.root_lease import RootLease
from lance_flight.catalog.maintenance.vacuum import FLOOR_HOURS, HOUR, VacuumRules, vacuum
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.engine.maintenance.choosing import Work, WorkChooser
from lance_flight.engine.runtime.maintenance_records import INTERNAL, OK, MaintenanceRecords, WorkKind
from lance_flight.errors import Cancelled, LanceFlightError, StatementTimeout
from lance_flight.faults import failpoint

log = logging.getLogger("lance_flight.maintenance")

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
