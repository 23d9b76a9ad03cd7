"""Records of the maintenance that a server does by itself: what runs, what was done lately, and counts of all of it."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product

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
