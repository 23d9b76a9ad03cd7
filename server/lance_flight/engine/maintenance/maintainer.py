"""The maintainer: a thread of a server that keeps the tables of its root in order, one piece of work after another.

It works for a share of the time, within the memory that a write may have, and on one server of a root at a time. A server that is killed leaves what
any writer leaves that dies: files that no version has, which the next vacuum removes, or an announcement, with which it goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lance_flight.catalog.bulk.pieces import Keep, Piece, R, Threads, Told
from lance_flight.catalog.commits.writer import LEAST_BYTES, write_memory
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.indexing import refresh_indices
from lance_flight.catalog.maintenance.root_lease import RootLease
from lance_flight.catalog.maintenance.vacuum import FLOOR_HOURS, HOUR, VacuumRules, vacuum
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.engine.maintenance.choosing import Work, WorkChooser, WorkKind
from lance_flight.engine.runtime.maintenance_records import INTERNAL, OK, MaintenanceRecords
from lance_flight.errors import Cancelled, LanceFlightError
from lance_flight.faults import failpoint

log = logging.getLogger("lance_flight.maintenance")

TABLES_PER_COMMIT = 64
BACKLOG_FILES = 128
"""Files that wait to be joined, for each of which as many again the part of the time is twice, three times … what it is."""
MOST_SHARE = 0.5
"""Part of the time that it works at most while files wait, unless it is told to work more."""
IDLE_SECONDS, REMOTE_IDLE_SECONDS = 2.0, 60.0
"""Rest after a look at a root that has found nothing to do; a look at an object store costs requests."""
FAILED_SECONDS = 60.0
"""Rest after a look that has failed, as over a root that cannot be written."""
STOPPING_SECONDS = 5.0
"""Longest wait for the end of the piece that is being written when a server stops: it is not lost, and not needed."""


class Maintainer:
    """Maintains the tables of a root in a thread of its own, for the part `share` of the time (0: not at all), which may change.

    `in_use` returns the places of tables that open transactions may change, which are not rewritten meanwhile.
    """

    def __init__(
        self, root: Root, records: MaintenanceRecords, *, share: float, in_use: Callable[[], set[str]]
    ) -> None:
        self._records = records
        self._share = share
        self._root = root
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._lease = RootLease(root.store, pause=self._stopped.wait)
        self._chooser = WorkChooser(root, in_use)
        self._is_started = False
        self._thread = threading.Thread(target=self._run, name="maintenance", daemon=True)

    @property
    def is_on(self) -> bool:
        """True if it maintains anything."""
        return self._share > 0

    def start(self) -> None:
        """Begin to maintain, once it is on."""
        self._is_started = True
        self._begin()

    def set_share(self, share: float) -> None:
        """Maintain for another part of the time from now on; what is begun when it becomes 0 is given up as by `interrupt`."""
        self._share = share
        self._woken.set()
        if self._is_started:
            self._begin()

    def _begin(self) -> None:
        if self.is_on and self._thread.ident is None:
            self._thread.start()

    def interrupt(self) -> None:
        """Begin to stop: end after the piece that is being written, and undo what is not committed."""
        self._stopped.set()
        self._woken.set()

    def stop(self) -> None:
        """Stop, and wait for that for a few seconds."""
        self.interrupt()
        if self._thread.is_alive():
            self._thread.join(STOPPING_SECONDS)

    def step(self) -> bool:
        """Do the most urgent work if this server has the lease; return whether there was any."""
        if not self._lease.hold():
            return False
        failpoint("maintenance_leased")
        work = self._chooser.choose(lambda: self._stopped.is_set() or not self.is_on)
        if work is None:
            return False
        failpoint("maintenance_chosen")
        self._do(work)
        return True

    def release(self) -> None:
        """Let another server maintain the root."""
        try:
            self._lease.release()
        except UNREADABLE as exc:
            log.info("the lease of the maintenance is left to expire: %s", self._root.store.words(exc))

    def _run(self) -> None:
        idle = REMOTE_IDLE_SECONDS if self._root.store.is_remote else IDLE_SECONDS
        while not self._stopped.is_set():
            self._woken.clear()
            share = self._share
            if not share:
                self.release()
                self._woken.wait()
                continue
            began = time.monotonic()
            try:
                rest = 0.0 if self.step() else idle
            except (LanceFlightError, *UNREADABLE) as exc:
                log.warning("maintenance cannot look at the root: %s", self._root.store.words(exc))
                rest = FAILED_SECONDS
            except Exception:
                # An error of ours: without this thread nothing would be maintained until the server is started again.
                log.exception("maintenance cannot look at the root")
                rest = FAILED_SECONDS
            seconds = time.monotonic() - began
            self._woken.wait(max(rest_after(seconds, share, self._chooser.backlog), rest))
        self.release()

    def _do(self, work: Work) -> None:
        """Do some work, and record what came of it."""
        self._records.begin(work.name.db_schema, work.name.name, work.kind.value, work.reason)
        outcome = OK
        try:
            result = _DO[work.kind](work, self._check(work), self._chooser)
        except (LanceFlightError, *UNREADABLE) as exc:
            outcome = exc.code if isinstance(exc, LanceFlightError) else LanceFlightError.code
            result = self._root.store.words(exc)
            if not isinstance(exc, Cancelled):
                self._chooser.postpone(work)
        except Exception as exc:
            log.exception("maintenance failed: %s of table %s", work.kind.value, work.name)
            outcome, result = INTERNAL, f"{type(exc).__name__}; the log of the server has the details"
            self._chooser.postpone(work)
        else:
            self._chooser.finish(work)
        failpoint("maintenance_done")
        self._records.end(outcome, result)

    def _check(self, work: Work) -> Callable[[], None]:
        """Return a check, made between pieces of some work, that raises `Cancelled` where it should not go on."""

        def check() -> None:
            if self._stopped.is_set():
                raise Cancelled("the server is stopping")
            if not self.is_on:
                raise Cancelled("maintenance was switched off")
            if not self._lease.hold():
                raise Cancelled("another server maintains the root by now")
            if work.kind is WorkKind.COMPACT and self._chooser.is_in_use(work.table):
                raise Cancelled("a transaction has begun that may change the table")

        return check


def rest_after(worked: float, share: float, backlog: int) -> float:
    """Return how many seconds maintenance rests that has worked for some, at a share of the time that grows with its backlog of files.

    >>> [rest_after(1.0, 0.1, backlog) for backlog in (0, 128, 512, 5000)], rest_after(1.0, 0.8, 0)
    ([9.0, 4.0, 1.0, 1.0], 0.25)
    """
    grown = max(share, min(MOST_SHARE, share * (1 + backlog / BACKLOG_FILES)))
    return worked * (1 / grown - 1)


@dataclass(frozen=True, slots=True)
class _Modest:
    """Executor of pieces in one thread, within the memory of one write; after each piece it checks whether to go on.

    A piece that has begun is written to its end. What an interrupted work has written is deleted again.
    """

    check: Callable[[], None]

    def __call__(self, pieces: Sequence[Piece[R]], told: Told | None = None, keep: Keep[R] | None = None) -> list[R]:
        size = LEAST_BYTES if pieces and write_memory.take(LEAST_BYTES, 0) else 0
        try:
            self.check()
            return Threads(workers=1)(pieces, self._checked(told), keep)
        finally:
            write_memory.release(size)

    def _checked(self, told: Told | None) -> Told:
        def checked(done: int, pieces: int) -> None:
            self.check()
            if told is not None:
                told(done, pieces)

        return checked


def _compact(work: Work, check: Callable[[], None], chooser: WorkChooser) -> str:
    # What is due was chosen, some of it for what the whole table has too many of.
    rules = CompactionRules(deleted=work.policy.compact_deleted, tables_per_commit=TABLES_PER_COMMIT)
    among = [each.object_id for each in work.due]
    # A table that is always written to would be compacted never.
    report = compact(work.table, rules, run=_Modest(check), among=among, rebase=True, check=check)
    lost = {each.object_id for each in report.tables if each.is_lost}
    chooser.surveyor.settle(work.table, [each for each in work.due if each.object_id not in lost])
    return str(report)


def _reindex(work: Work, check: Callable[[], None], chooser: WorkChooser) -> str:
    reports = refresh_indices(work.table, run=_Modest(check))
    if not any(report.tables for report in reports):
        chooser.surveyor.settle_indices(work.table)
    return "; ".join(map(str, reports))


def _vacuum(work: Work, check: Callable[[], None], chooser: WorkChooser) -> str:
    hours = work.policy.retain / HOUR
    # A policy that keeps less was chosen by who may drop the table.
    rules = VacuumRules(
        retain_hours=hours, transaction_hours=work.policy.transactions / HOUR, force=hours < FLOOR_HOURS
    )
    report = vacuum(work.table, rules, lambda *_: check())
    total = report.total
    return f"{total.versions:,} versions and {total.files:,} files removed, {total.bytes:,} bytes; {report.snapshots:,} snapshots stay"


_DO: dict[WorkKind, Callable[[Work, Callable[[], None], WorkChooser], str]] = {
    WorkKind.COMPACT: _compact,
    WorkKind.REINDEX: _reindex,
    WorkKind.VACUUM: _vacuum,
}
