"""Audit trail of a server: logins, changes of the policy file, definitions of tables, refusals, and reads of masked tables.

`record` is called where a decision is made, and does nothing unless `trail` has a sink (`admin.work_logs.AuditLog`, by the setting `audit_log`).
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from lance_flight.errors import LanceFlightError, QuotaExceeded, Refused, Unavailable
from lance_flight.lru_cache import LruCache

PATIENCE = 5.0
"""Seconds that a statement waits until its event is written, where that is required."""
MOST_REFUSED_LOGINS = 10
"""Most refused logins a second that are recorded: anyone who can connect can cause them. The next one says how many were left out."""
MOST_REMEMBERED = 10_000
MOST_RECENT = 1_000
"""Newest events that are kept for `system.audit`."""
MOST_REASON = 2_000
"""Most characters of the reason of a kept event."""
MOST_TEXT = 10_000
"""Most characters of the text of a statement."""

Details: TypeAlias = Mapping[str, Any]
"""Further values of an event, by their names in its line."""
_NOTHING: Details = MappingProxyType({})


class EventKind(Enum):
    """Kind of an event, as the trail names it."""

    LOGIN = "login"
    POLICY = "policy"
    DDL = "ddl"
    REFUSAL = "refusal"
    MASKED_READ = "masked_read"


class Decision(Enum):
    """Decision about what was asked for."""

    ALLOWED = "allowed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The principal that an event is about: its roles, address and session, and its statement with the text of that."""

    principal: str | None = None
    roles: tuple[str, ...] = ()
    client: str | None = None
    session: str | None = None
    statement: str | None = None
    sql: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One event: what was decided about whom, and why.

    `action` is the kind of credential, the words of the statement, or what became of a role; `object` the table, schema or role.
    `error` is the code of the error that the client got. `details` are further values of the line.
    """

    kind: EventKind
    decision: Decision = Decision.ALLOWED
    subject: Subject = field(default_factory=Subject)
    action: str | None = None
    object: str | None = None
    reason: str | None = None
    error: str | None = None
    details: Details = field(default_factory=dict)
    time: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_json(self, *, with_sql: bool) -> str:
        """Return the event as one line of JSON; the text of the statement is left out unless asked for."""
        subject = self.subject
        line = {
            "time": self.time.isoformat(timespec="milliseconds"),
            "event": self.kind.value,
            "decision": self.decision.value,
            "principal": subject.principal,
            "roles": list(subject.roles),
            "client": subject.client,
            "session": subject.session,
            "statement": subject.statement,
            "action": self.action,
            "object": self.object,
            "reason": self.reason,
            "error": self.error,
            **self.details,
        }
        if with_sql and subject.sql is not None:
            line["sql"] = subject.sql[:MOST_TEXT]
        return json.dumps(line, default=str)


class Sink(Protocol):
    """Writer of lines, each on a thread of its own."""

    def put(self, line: str) -> Callable[[float], bool]:
        """Take a line, and return what waits for so many seconds at most until it is written, and says whether it is."""
        ...

    @property
    def lost(self) -> int:
        """Return the number of lines that could not be written."""
        ...


class AuditTrail:
    """Trail of one process. Safe to share among threads.

    Without a sink nothing is recorded. Where the trail `is_required`, what is allowed is refused unless its event is written.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._sink: Sink | None = None
        self._is_required = False
        self._with_sql = False
        self._counts: Counter[tuple[EventKind, Decision]] = Counter()
        self._recent: deque[AuditEvent] = deque(maxlen=MOST_RECENT)
        self._known = LruCache[tuple[object, ...], bool](MOST_REMEMBERED)
        self._now = now
        self._second = 0
        self._refused_logins = 0
        self._left_out = 0
        self._lock = threading.Lock()

    def begin(self, sink: Sink | None, *, is_required: bool = False, with_sql: bool = False) -> None:
        """Record events in a sink from now on; None ends it."""
        self._sink, self._is_required, self._with_sql = sink, is_required, with_sql

    @property
    def is_on(self) -> bool:
        """True if events are recorded."""
        return self._sink is not None

    @property
    def counts(self) -> Mapping[tuple[EventKind, Decision], int]:
        """Return the numbers of events by kind and decision."""
        with self._lock:
            return dict(self._counts)

    @property
    def recent(self) -> list[AuditEvent]:
        """Return the newest events, the oldest first, without texts of statements and further details."""
        with self._lock:
            return list(self._recent)

    @property
    def lost(self) -> int:
        """Return the number of events that could not be written."""
        return 0 if self._sink is None else self._sink.lost

    def record(self, event: AuditEvent) -> None:
        """Record an event; raise `Unavailable` if it is allowed, has to be written before, and cannot be."""
        sink = self._sink
        if sink is None:
            return
        with self._lock:
            self._counts[event.kind, event.decision] += 1
            self._recent.append(_kept(event))
        is_written = sink.put(event.to_json(with_sql=self._with_sql))
        may_wait = event.decision is Decision.ALLOWED and event.error is None and event.kind is not EventKind.POLICY
        if self._is_required and may_wait and not is_written(PATIENCE):
            raise Unavailable(
                "the audit log cannot be written, and what it does not hold is not done (audit_required);"
                " nothing was done; expected a later try"
            )

    def record_once(self, event: AuditEvent, *key: object) -> None:
        """Record the first event of a key alone, as far as keys are remembered; one that was not written is none."""
        if self._sink is not None and self._known.get((event.kind, *key)) is None:
            self.record(event)
            self._known.put((event.kind, *key), value=True)

    def refuse_login(self, principal: str | None, action: str, reason: str) -> None:
        """Record a refused credential, unless there are too many at once; `principal` is a name that is known."""
        with self._lock:
            second = int(self._now())
            if second != self._second:
                self._second, self._refused_logins = second, 0
            self._refused_logins += 1
            if self._refused_logins > MOST_REFUSED_LOGINS:
                self._left_out += 1
                return
            left_out, self._left_out = self._left_out, 0
        self.record(
            AuditEvent(
                kind=EventKind.LOGIN,
                decision=Decision.REFUSED,
                subject=Subject(principal=principal, client=current().client),
                action=action,
                reason=reason,
                error="unauthenticated",
                details={"left_out": left_out} if left_out else _NOTHING,
            )
        )


def _kept(event: AuditEvent) -> AuditEvent:
    """Return an event without what may be large."""
    reason = event.reason and event.reason[:MOST_REASON]
    return replace(event, subject=replace(event.subject, sql=None), reason=reason, details=_NOTHING)


trail = AuditTrail()
"""Trail of this process."""

_UNKNOWN = Subject()
_current: ContextVar[Subject] = ContextVar("audit_subject", default=_UNKNOWN)


def current() -> Subject:
    """Return the principal of the call that runs on this thread, as far as it is known."""
    return _current.get()


def enter(subject: Subject) -> None:
    """Say whose call runs on this thread from now on."""
    _current.set(subject)


def record(event: AuditEvent) -> None:
    """Record an event in the trail of this process."""
    trail.record(event)


def record_refusal(error: BaseException, subject: Subject | None = None) -> None:
    """Record an error that refuses something to a principal (None: that of the current call), once; others are left alone."""
    if trail.is_on and isinstance(error, Refused | QuotaExceeded) and not error.is_recorded:
        error.is_recorded = True
        trail.record(
            AuditEvent(
                kind=EventKind.REFUSAL,
                decision=Decision.REFUSED,
                subject=subject or current(),
                reason=str(error),
                error=error.code,
            )
        )


def record_masked_read(subject: Subject, table: str, columns: Iterable[str]) -> None:
    """Record that a statement reads a table in some of whose columns its principal sees masks; each table once for a statement."""
    if trail.is_on:
        event = AuditEvent(
            kind=EventKind.MASKED_READ,
            subject=subject,
            action="SELECT",
            object=table,
            reason="columns are masked by the policy file",
            details={"masked": sorted(columns)},
        )
        trail.record_once(event, subject.statement or object(), table)


def error_code(error: BaseException) -> str:
    """Return the code of an error, as clients get it."""
    return error.code if isinstance(error, LanceFlightError) else "internal"
