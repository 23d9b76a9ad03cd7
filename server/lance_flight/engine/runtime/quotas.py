"""Limits of a server and quotas of roles: statements, memory, and bytes in an hour.

A quota is counted for all members of its role together, or for each of them by itself. The policy file says who has which
(`engine.query.policies.file`); this module counts. `Limits` are those of the whole server, by its settings.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TypeAlias

from lance_flight.errors import QuotaExceeded

HOUR = 3600.0
BUCKET_SECONDS = 60.0
"""Bytes are counted by the minute: one is free again up to a minute after an hour."""
MOST_KNOWN = 10_000
"""Most pairs of an account and a principal that are remembered for `system.quotas`."""


class Resource(Enum):
    """Resource that a quota bounds, by its word in a policy file."""

    STATEMENTS = "statements"
    MEMORY = "memory"
    BYTES_PER_HOUR = "bytes_per_hour"


Account: TypeAlias = tuple[str | None, Resource, str | None]
"""What usage is counted under: a role (None: the default of the policy file), a resource, and a member (None: all together)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Most of a resource that the members of a role use: all together, or (`principal`) one of them.

    >>> str(Quota(role="analysts", resource=Resource.STATEMENTS, limit=4))
    "role 'analysts' has a quota of statements = 4"
    """

    role: str | None
    resource: Resource
    limit: int
    principal: str | None = None

    @property
    def account(self) -> Account:
        """Return the key that usage is counted under, whatever the limit is."""
        return self.role, self.resource, self.principal

    def __str__(self) -> str:
        owner = "the default of the policy file" if self.role is None else f"role {self.role!r}"
        member = "" if self.principal is None else f" for {self.principal!r}"
        return f"{owner} has a quota of {self.resource.value} = {self.limit}{member}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Quotas of one principal, None where a resource is not bounded; `reserved` are the bytes of memory of all roles' quotas."""

    statements: Quota | None = None
    memory: Quota | None = None
    bytes_per_hour: Quota | None = None
    reserved: int = 0

    @property
    def quotas(self) -> tuple[Quota, ...]:
        """Return the quotas that there are."""
        return tuple(quota for quota in (self.statements, self.memory, self.bytes_per_hour) if quota is not None)

    def slot_quotas(self, statement_memory: int | None) -> tuple[Quota, ...]:
        """Return the quotas on statements at once: the one that says so, and as many as fit into that of memory.

        Memory bounds them where each statement has a pool of its own, of `statement_memory` bytes; otherwise they share one.
        """
        slots = () if self.statements is None else (self.statements,)
        if self.memory is None or statement_memory is None:
            return slots
        most = max(self.memory.limit // statement_memory, 1)
        fitting = replace(self.memory, resource=Resource.STATEMENTS, limit=most)
        if self.statements is None or self.statements.account != fitting.account:
            return (*slots, fitting)
        return (min(self.statements, fitting, key=lambda quota: quota.limit),)


NO_QUOTAS = Allowance()
"""Allowance of a principal without quotas."""


class _HourWindow:
    """Bytes of the last hour, by the minute."""

    def __init__(self) -> None:
        self.total = 0
        self._buckets: deque[tuple[float, int]] = deque()

    def forget(self, now: float) -> None:
        """Drop what is older than an hour."""
        while self._buckets and self._buckets[0][0] + BUCKET_SECONDS + HOUR <= now:
            self.total -= self._buckets.popleft()[1]

    def add(self, now: float, size: int) -> None:
        """Count bytes at a time that is not before the last one."""
        start = math.floor(now / BUCKET_SECONDS) * BUCKET_SECONDS
        if self._buckets and self._buckets[-1][0] >= start:
            start, before = self._buckets.pop()
            self._buckets.append((start, before + size))
        else:
            self._buckets.append((start, size))
        self.total += size

    def seconds_until_below(self, now: float, limit: int) -> float:
        """Return the seconds until fewer than `limit` bytes are counted; 0 if they are now."""
        left, until = self.total, now
        for start, size in self._buckets:
            if left < limit:
                break
            left -= size
            until = start + BUCKET_SECONDS + HOUR
        return max(until - now, 0.0)


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """Row of `system.quotas`: a quota and its use; `used` is None where that is not known, `free_at` where it is free now."""

    quota: Quota
    used: int | None
    free_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    quota: Quota
    seen: float


class QuotaBook:
    """Usage of the quotas of one server, since its start. Safe to share among threads.

    >>> book, quota = QuotaBook(clock=lambda: 7.0), Quota(role="r", resource=Resource.BYTES_PER_HOUR, limit=10)
    >>> meter = book.meter(Allowance(bytes_per_hour=quota), "ann")
    >>> meter.charge(12)
    >>> [usage.used for usage in book.usage({}, "ann")]
    [12]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[Account, _HourWindow] = {}
        self._known: OrderedDict[tuple[Account, str], _Known] = OrderedDict()
        self._most_windows = MOST_KNOWN
        self._refusals: Counter[Resource] = Counter()
        self._lock = threading.Lock()

    def meter(self, allowance: Allowance, principal: str) -> ByteMeter:
        """Return what counts the bytes of a principal's statement, and remember which quotas the principal has."""
        if not allowance.quotas:
            return UNMETERED
        with self._lock:
            now = self._clock()
            for quota in allowance.quotas:
                self._known[quota.account, principal] = _Known(quota, now)
                self._known.move_to_end((quota.account, principal))
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return UNMETERED if allowance.bytes_per_hour is None else ByteMeter(self, allowance.bytes_per_hour)

    def check_bytes(self, quota: Quota, size: int = 0) -> None:
        """Count `size` bytes; raise `QuotaExceeded` instead if the quota was used up before them."""
        with self._lock:
            now = self._clock()
            if len(self._windows) > self._most_windows:
                self._forget(now)
                self._most_windows = max(2 * len(self._windows), MOST_KNOWN)
            window = self._windows.setdefault(quota.account, _HourWindow())
            window.forget(now)
            if window.total < quota.limit:
                window.add(now, size)
                return
            seconds = window.seconds_until_below(now, quota.limit)
        free_at = _time_after(seconds).isoformat(timespec="seconds")
        raise self.refusal(quota, f"and {window.total} are used; expected a later try, from {free_at} on")

    def refusal(self, quota: Quota, reason: str) -> QuotaExceeded:
        """Return the error of a statement beyond a quota, which is counted as one."""
        with self._lock:
            self._refusals[quota.resource] += 1
        return QuotaExceeded(f"{quota}, {reason}")

    @property
    def refusals(self) -> Mapping[Resource, int]:
        """Return the numbers of statements that were refused, by the resource whose quota was used up."""
        with self._lock:
            return {resource: self._refusals[resource] for resource in Resource}

    def usage(self, running: Mapping[Account, int], principal: str | None) -> list[QuotaUsage]:
        """Return the quotas that have counted for a principal (None: for any) within the last hour, with their use now."""
        with self._lock:
            now = self._clock()
            self._forget(now)
            mine = {
                account: known.quota for (account, member), known in self._known.items() if principal in (None, member)
            }
            return [self._usage(quota, running, now) for _, quota in sorted(mine.items(), key=_order)]

    def _usage(self, quota: Quota, running: Mapping[Account, int], now: float) -> QuotaUsage:
        if quota.resource is Resource.STATEMENTS:
            return QuotaUsage(quota, running.get(quota.account, 0))
        if quota.resource is Resource.MEMORY:
            return QuotaUsage(quota, None)
        window = self._windows.get(quota.account)
        if window is None:
            return QuotaUsage(quota, 0)
        seconds = window.seconds_until_below(now, quota.limit)
        return QuotaUsage(quota, window.total, _time_after(seconds) if seconds else None)

    def _forget(self, now: float) -> None:
        """Drop what has not been used for an hour."""
        for account, window in list(self._windows.items()):
            window.forget(now)
            if not window.total:
                del self._windows[account]
        for key, known in list(self._known.items()):
            if known.seen + HOUR < now and key[0] not in self._windows:
                del self._known[key]


@dataclass(frozen=True, slots=True)
class ByteMeter:
    """Counts the bytes of one statement under the quota of its principal."""

    book: QuotaBook | None = None
    quota: Quota | None = None

    def charge(self, size: int) -> None:
        """Count bytes; raise `QuotaExceeded` instead if the quota was used up before them."""
        if self.book is not None and self.quota is not None:
            self.book.check_bytes(self.quota, size)


UNMETERED = ByteMeter()
"""ByteMeter of a statement whose bytes are not bounded."""


def _time_after(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def _order(item: tuple[Account, Quota]) -> tuple[str, str, str]:
    role, resource, principal = item[0]
    return role or "", resource.value, principal or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the resources of statements and sessions; each is described by the server's setting of a like name.

    Sizes are in bytes, None for no bound; times are in seconds, 0 for no bound.
    """

    server_memory: int | None = None
    write_memory: int = 0
    """Share of `server_memory` for rows that are being written into tables, in bytes."""
    process_memory: int | None = None
    """Memory of the whole server, beyond which the statement that it grew with most is ended, in bytes."""
    statement_memory: int | None = None
    spill_directory: str | None = None
    statement_timeout: float = 0.0
    planning_timeout: float = 30.0
    statement_text: int | None = None
    ticket_lifetime: float = 600.0
    running_statements: int = 1_000
    waiting_statements: int = 1_000
    ingest_idle_timeout: float = 0.0
    stream_memory: int | None = None
    stream_idle_timeout: float = 0.0
    sessions: int = 10_000
    sessions_per_principal: int = 0
    session_idle_timeout: float = 3600.0


NO_LIMITS = Limits()
