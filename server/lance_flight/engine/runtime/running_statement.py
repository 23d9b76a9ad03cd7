"""State of the work of a server: running statements with their issuers and progress, and its own maintenance.

Of the maintenance that a server does by itself there are records: what runs, what was done lately, and counts of all of it.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum, StrEnum
from itertools import product
from typing import Any

import pyarrow as pa

from lance_flight.audit import Subject
from lance_flight.connections import holder_of
from lance_flight.engine.runtime.admission import NO_QUOTAS, UNMETERED, AdmissionSlot, Allowance, ByteMeter
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.streams import HeldBytes
from lance_flight.errors import Cancelled, StatementTimeout


class StatementKind(Enum):
    """The kind of a statement, as metrics and logs name it."""

    PREPARE = "prepare"
    QUERY = "query"
    UPDATE = "update"
    INGEST = "ingest"


class State(Enum):
    """Activity of a statement; a `PLANNED` one waits for its reader."""

    QUEUED = "queued"
    PLANNING = "planning"
    PLANNED = "planned"
    RUNNING = "running"
    STREAMING = "streaming"


_AT_WORK = (State.QUEUED, State.PLANNING, State.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Issuer:
    """Issuer of a statement: principal, session, address, and the other end of its connection; `is_gone` returns whether the client has disconnected.

    `roles` are the principal's in the policy file, and `allowance` the quotas of these. `trace` is the context of a trace that the
    statement belongs to. `progressed` is told how much of the statement's work is done, 0 to 1.
    """

    principal: str = "anonymous"
    session: str = ""
    peer: str = ""
    connection: str = ""
    roles: tuple[str, ...] = ()
    allowance: Allowance = NO_QUOTAS
    trace: Any = None
    is_gone: Callable[[], bool] = field(default=lambda: False, repr=False)
    progressed: Callable[[float], object] = field(default=lambda _: None, repr=False)

    @property
    def holder(self) -> str:
        """Return whom the statement counts for where something is shared."""
        return holder_of(self.principal, self.peer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Snapshot of a statement's state.

    `rows` and `size` (bytes) are those that were sent to its client, or stored; partitions are those of all tables that it reads.
    `progress` is how much of its work is done, 0 to 1; None if it is not known.
    `outcome` is None while it runs, then `ok`, the code of its error, `closed` if its reader stopped early, or
    `abandoned` if none came.
    """

    id: str
    kind: StatementKind
    sql: str
    principal: str
    session: str
    peer: str
    began: datetime
    state: State
    snapshots: Mapping[str, int]
    partitions_scanned: int
    partitions_total: int
    rows: int
    size: int
    queued_seconds: float
    planning_seconds: float
    seconds: float
    progress: float | None = None
    outcome: str | None = None
    trace: Any = None


@dataclass(frozen=True, slots=True)
class StatementWatch:
    """Watch of the long work of a statement (`catalog.bulk.pieces.Watch`): it may be cancelled, and what is done shows in its record where `is_told`."""

    running: RunningStatement
    is_told: bool = True

    def __call__(self, done: int, total: int) -> None:
        """Report that `done` of `total` partition tables are done."""
        if self.is_told:
            self.running.partitions[_WORK] = done, total
            self.running.report_progress(done, total)

    def add_rows(self, rows: int) -> None:
        """Report that so many more rows are done."""
        if self.is_told:
            self.running.add_rows(rows)

    def check(self) -> None:
        """Raise the reason if the statement was cancelled."""
        self.running.cancellation.check()


_WORK = "", 0
"""Key of the partitions that long work is done on, beside those of tables that are read."""


class RunningStatement:
    """Mutable state of one running statement, written by its threads; `record` returns a snapshot.

    The `meter` counts its bytes; `uncounted` are those of its parameters until then. `ahead` counts the bytes that it has read
    before its clients ask for them. `measured` has the plans that EXPLAIN ANALYZE runs (`measured_plans.MeasuredPlans`).
    One that `watches` asks what the server does, and waits for no other statement.
    """

    watches = False

    def __init__(
        self,
        statement_id: str,
        kind: StatementKind,
        sql: str,
        issuer: Issuer,
        meter: ByteMeter = UNMETERED,
        *,
        ahead: HeldBytes | None = None,
    ) -> None:
        self.id = statement_id
        self.kind = kind
        self.sql = sql
        self.issuer = issuer
        self.meter = meter
        self.cancellation = Cancellation()
        self.ahead = ahead or HeldBytes()
        self.snapshots: Mapping[str, int] = {}
        self.partitions: dict[tuple[str, int], tuple[int, int]] = {}
        self.measured: list[Any] = []
        self.rows = 0
        self.size = 0
        self.uncounted = 0
        self.progress: float | None = None
        self.awaited: set[int] = set()
        self.active: list[Issuer] = []
        self.failure: str | None = None
        self.was_left = False
        self.has_ended = False
        self.began = datetime.now(UTC)
        self.started = time.monotonic()
        self._since = self.started
        self._timeout = 0.0
        self.expires = math.inf
        self._seconds = dict.fromkeys(State, 0.0)
        self._state = State.QUEUED
        self._lock = threading.Lock()

    @property
    def subject(self) -> Subject:
        """Return who runs the statement, for the audit trail."""
        issuer = self.issuer
        return Subject(
            principal=issuer.principal,
            roles=issuer.roles,
            client=issuer.peer or None,
            session=issuer.session or None,
            statement=self.id,
            sql=self.sql,
        )

    @property
    def state(self) -> State:
        """Return the current activity of the statement."""
        return self._state

    def at(self, state: State) -> None:
        """Set the current activity of the statement."""
        with self._lock:
            now = time.monotonic()
            self._seconds[self._state] += now - self._since
            self._state, self._since = state, now

    @property
    def scanned(self) -> tuple[int, int] | None:
        """Return the numbers of scanned and of all partitions; None before they are known."""
        counts = list(self.partitions.values())
        return (sum(scanned for scanned, _ in counts), sum(total for _, total in counts)) if counts else None

    def report_progress(self, done: int, total: int) -> None:
        """Report that `done` of `total` parts of the work are done."""
        self.progress = done / total if total else 1.0
        self.issuer.progressed(self.progress)

    def add_rows(self, rows: int) -> None:
        """Count rows that the work of the statement has done with."""
        with self._lock:
            self.rows += rows

    def limit(self, seconds: float) -> None:
        """Lower the time limit of the statement to so many seconds; 0 leaves it unchanged."""
        self._timeout = min(filter(None, (self._timeout, seconds)), default=0.0)

    def keep(self, seconds: float) -> None:
        """Let the statement wait for its reader for so many seconds from now on."""
        self.expires = time.monotonic() + seconds

    def watch(self) -> None:
        """Cancel the statement if it has timed out or all its clients have disconnected; the caller keeps them from changing meanwhile."""
        if self._timeout and self._seconds_at_work() > self._timeout:
            seconds = self._timeout
            self.cancellation.cancel(
                lambda: StatementTimeout(
                    f"the statement was ended after {seconds:g} s, which the session or the server gives it"
                )
            )
        elif self.active and all(issuer.is_gone() for issuer in self.active):
            self.was_left = True
            self.cancellation.cancel(lambda: Cancelled("the client disconnected"))

    def _seconds_at_work(self) -> float:
        """Return the seconds that the statement has worked, without the time that it waited for its client."""
        with self._lock:
            seconds = {**self._seconds, self._state: self._seconds[self._state] + time.monotonic() - self._since}
        return sum(seconds[state] for state in _AT_WORK)

    def count_received(self, batches: Iterator[pa.RecordBatch], turn: AdmissionSlot) -> Iterator[pa.RecordBatch]:
        """Yield and count batches received from the client; the admission slot is released while waiting for each."""
        counted = self.count_sent(batches)
        while True:
            self.at(State.STREAMING)
            with turn.pause():
                batch = next(counted, None)
            self.at(State.RUNNING)
            if batch is None:
                return
            yield batch

    def count_sent(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same batches until the statement is cancelled or its quota of bytes is used up, counting rows and bytes."""
        for batch in batches:
            self.cancellation.check()
            size = batch.nbytes
            self.meter.charge(size)
            with self._lock:
                self.rows += batch.num_rows
                self.size += size
            yield batch

    def record(self, outcome: str | None = None) -> Record:
        """Return a snapshot of the statement's state."""
        with self._lock:
            now = time.monotonic()
            scanned, total = self.scanned or (0, 0)
            seconds = {**self._seconds, self._state: self._seconds[self._state] + now - self._since}
            return Record(
                id=self.id,
                kind=self.kind,
                sql=self.sql,
                principal=self.issuer.principal,
                session=self.issuer.session,
                peer=self.issuer.peer,
                began=self.began,
                state=self._state,
                snapshots=self.snapshots,
                partitions_scanned=scanned,
                partitions_total=total,
                rows=self.rows,
                size=self.size,
                queued_seconds=seconds[State.QUEUED],
                planning_seconds=seconds[State.PLANNING],
                seconds=now - self.started,
                progress=self.progress,
                outcome=outcome,
                trace=self.issuer.trace,
            )


MOST_RECORDS = 1000
RUNNING = "running"
OK = "ok"
INTERNAL = "internal"
"""Outcome of work that has failed by an error that nothing expects."""


class WorkKind(StrEnum):
    """Kinds of maintenance."""

    COMPACT = "compact"
    REINDEX = "reindex"
    VACUUM = "vacuum"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceTotals:
    """Counts of all maintenance since the start, by kind: pieces of work by their outcome, their seconds, and when one last ended well, in Unix time.

    Before the first success that is the start. `freed` are the bytes that vacuums removed.
    """

    counts: Mapping[tuple[str, str], int]
    seconds: Mapping[str, float]
    succeeded: Mapping[str, float]
    freed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRecord:
    """One piece of work on a table: its `kind`, why it was chosen, when it began, its seconds so far or in all.

    `outcome` is `running`, `ok`, or the code of the error that `result` tells of; otherwise `result` says what was done.
    """

    id: str
    db_schema: str
    table: str
    kind: str
    reason: str
    began: datetime
    seconds: float = 0.0
    outcome: str = RUNNING
    result: str = ""
    _began: float = field(default_factory=time.monotonic, repr=False)

    def now(self) -> MaintenanceRecord:
        """Return the record with the seconds up to this moment, if it is running."""
        return replace(self, seconds=time.monotonic() - self._began) if self.outcome == RUNNING else self


class MaintenanceRecords:
    """Records of the newest pieces of work, and counts of all since the start. Safe to share among threads."""

    def __init__(self) -> None:
        self._ended: deque[MaintenanceRecord] = deque(maxlen=MOST_RECORDS)
        self._running: dict[str, MaintenanceRecord] = {}
        # From the start, so that an increase is seen from the first one on.
        self._counts: dict[tuple[str, str], int] = dict.fromkeys(product(WorkKind, (OK, INTERNAL)), 0)
        self._seconds: dict[str, float] = dict.fromkeys(WorkKind, 0.0)
        self._succeeded: dict[str, float] = dict.fromkeys(WorkKind, time.time())
        self._freed = 0
        self._observers: list[Callable[[MaintenanceRecord], None]] = []
        self._lock = threading.Lock()

    def observe(self, observer: Callable[[MaintenanceRecord], None]) -> None:
        """Call an observer with each record that ends from now on."""
        self._observers.append(observer)

    def begin(self, db_schema: str, table: str, kind: str, reason: str) -> MaintenanceRecord:
        """Record the beginning of some work, and return its record."""
        began = datetime.now(UTC)
        record = MaintenanceRecord(
            id=secrets.token_hex(8), db_schema=db_schema, table=table, kind=kind, reason=reason, began=began
        )
        with self._lock:
            self._running[record.id] = record
        return record

    def end(self, record: MaintenanceRecord, outcome: str, result: str, freed: int = 0) -> None:
        """Record the end of some work that runs, and how many bytes it has freed."""
        with self._lock:
            ended = replace(record.now(), outcome=outcome, result=result)
            self._running.pop(record.id)
            self._ended.append(ended)
            self._counts[ended.kind, outcome] = self._counts.get((ended.kind, outcome), 0) + 1
            self._seconds[ended.kind] += ended.seconds
            self._freed += freed
            if outcome == OK:
                self._succeeded[ended.kind] = time.time()
        for observer in self._observers:
            observer(ended)

    def records(self) -> list[MaintenanceRecord]:
        """Return what runs and what has ended, the oldest first."""
        with self._lock:
            return [*self._ended, *(record.now() for record in self._running.values())]

    @property
    def totals(self) -> MaintenanceTotals:
        """Counts of all work up to now."""
        with self._lock:
            return MaintenanceTotals(
                counts=dict(self._counts),
                seconds=dict(self._seconds),
                succeeded=dict(self._succeeded),
                freed=self._freed,
            )
