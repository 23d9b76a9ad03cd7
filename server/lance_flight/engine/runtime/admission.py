"""Admission control: quotas of statements, memory and bytes, a bounded number of running statements, and a fair queue for the waiting ones.

Shares and quotas bound the running statements of one holder or role.
A quota is counted for all members of its role together, or for each of them by itself. The policy file says who has which
(`engine.query.policy_file`); this module counts. `Limits` are those of the whole server, by its settings.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from typing import TypeAlias

from lance_flight.connections import may_hold, release
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.errors import LimitExceeded, QuotaExceeded

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


QUOTA_OF_QUEUE = 4
"""Divisor: a fourth of the queue is for statements that wait for one quota, which must leave room to others."""


@dataclass(slots=True, eq=False)
class _Waiter:
    """Waiting call, woken when it is admitted or its statement is cancelled."""

    holder: str
    quotas: Sequence[Quota] = ()
    woken: threading.Event = field(default_factory=threading.Event)
    is_admitted: bool = False


class _Queue:
    """Waiters by holder and session: holders are served in turn, and so are the sessions of each."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OrderedDict[str, deque[_Waiter]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, session: str, waiter: _Waiter) -> None:
        sessions = self._waiting.setdefault(waiter.holder, OrderedDict())
        sessions.setdefault(session, deque()).append(waiter)
        self._count += 1

    def pop(self, may_run: Callable[[_Waiter], bool]) -> _Waiter | None:
        """Remove and return the next waiter that may run, None without one; the others of its holder, and then of its session, move behind all other waiters."""
        waiting = (
            (holder, session)
            for holder, sessions in self._waiting.items()
            for session, waiters in sessions.items()
            if may_run(waiters[0])
        )
        holder, session = next(waiting, (None, None))
        if holder is None or session is None:
            return None
        sessions = self._waiting.pop(holder)
        waiters = sessions.pop(session)
        waiter = waiters.popleft()
        if waiters:
            sessions[session] = waiters
        if sessions:
            self._waiting[holder] = sessions
        self._count -= 1
        return waiter

    def of_holder(self, holder: str) -> int:
        """Return the number of a holder's waiters."""
        return sum(len(waiters) for waiters in self._waiting.get(holder, {}).values())

    def waiting_for(self, account: Account) -> int:
        """Return the number of waiters whose quotas have this account."""
        return sum(
            any(quota.account == account for quota in waiter.quotas)
            for sessions in self._waiting.values()
            for waiters in sessions.values()
            for waiter in waiters
        )

    def remove(self, session: str, waiter: _Waiter) -> None:
        """Remove a waiter that no longer waits."""
        sessions = self._waiting[waiter.holder]
        sessions[session].remove(waiter)
        if not sessions[session]:
            del sessions[session]
        if not sessions:
            del self._waiting[waiter.holder]
        self._count -= 1


class AdmissionQueue:
    """Admits at most `most` statements at a time, and lets at most `most_waiting` new ones wait. Safe to share among threads.

    A statement whose quotas are used up, or whose holder has its share of the slots, waits as well, and lets those pass that have some
    left: whenever a slot is free, all waiters are such ones. `may_hold` decides about shares.
    """

    def __init__(
        self,
        most: int,
        most_waiting: int,
        book: QuotaBook | None = None,
        *,
        may_hold: Callable[[int, int], bool] = may_hold,
    ) -> None:
        self._free = most
        self._most = most
        self._most_waiting = most_waiting
        self._book = book or QuotaBook()
        self._running: Counter[Account] = Counter()
        self._held: Counter[str] = Counter()
        self._may_hold = may_hold
        self._queue = _Queue()
        self._lock = threading.Lock()

    def take(
        self,
        holder: str,
        session: str,
        cancellation: Cancellation,
        *,
        is_new: bool,
        quotas: Sequence[Quota] = (),
    ) -> None:
        """Wait for admission; raise `LimitExceeded` for a new statement if too many wait, and the reason of a cancelled one."""
        with self._lock:
            waiter = _Waiter(holder, quotas)
            if self._may_run(waiter):
                self._admit(waiter)
                return
            if is_new:
                self._check_room(waiter)
            self._queue.put(session, waiter)
        try:
            with cancellation.waking(waiter.woken.set):
                waiter.woken.wait()
            cancellation.check()
        except BaseException:
            self._give_up(session, waiter)
            raise

    def leave(self, holder: str, quotas: Sequence[Quota] = ()) -> None:
        """Release a slot that a holder has taken with some quotas, and admit the next waiters."""
        with self._lock:
            self._free += 1
            release(self._held, holder)
            if quotas:
                self._running.subtract(quota.account for quota in quotas)
                self._running += Counter()  # drops what is 0
            self._admit_waiters()

    def resize(self, most: int, most_waiting: int) -> None:
        """Change both bounds: further waiters are admitted at once; of too many statements none is ended, and none admitted until some have."""
        with self._lock:
            self._free += most - self._most
            self._most, self._most_waiting = most, most_waiting
            self._admit_waiters()

    @property
    def running(self) -> Mapping[Account, int]:
        """Return the numbers of slots that are taken, by the accounts of quotas."""
        with self._lock:
            return dict(self._running)

    def _admit_waiters(self) -> None:
        """Admit waiters for as long as there are free slots, past those whose shares or quotas are used up."""
        while self._free > 0 and (waiter := self._queue.pop(self._may_run)):
            self._admit(waiter)
            waiter.is_admitted = True
            waiter.woken.set()

    def _may_run(self, waiter: _Waiter) -> bool:
        return self._may_hold(self._held[waiter.holder], self._free) and self._exhausted_quota(waiter.quotas) is None

    def _admit(self, waiter: _Waiter) -> None:
        self._free -= 1
        self._held[waiter.holder] += 1
        self._running.update(quota.account for quota in waiter.quotas)

    def _exhausted_quota(self, quotas: Sequence[Quota]) -> Quota | None:
        """Return the first quota that is used up; None if there is none."""
        return next((quota for quota in quotas if self._running[quota.account] >= quota.limit), None)

    def _check_room(self, waiter: _Waiter) -> None:
        """Raise the error of a new statement for which there is no room in the queue."""
        waiting, most = len(self._queue), self._most_waiting
        exhausted = self._exhausted_quota(waiter.quotas)
        if waiting >= most:
            raise LimitExceeded(
                f"{sum(self._held.values())} statements are at work, of {self._most} (running_statements), and {waiting} wait, of {most}"
                " (waiting_statements); expected a later try"
            )
        own = self._queue.of_holder(waiter.holder)
        if not may_hold(own, most - waiting):
            raise LimitExceeded(
                f"{own} statements of {waiter.holder!r} wait, and {waiting} of all, of {most} (waiting_statements), of which"
                " some are for others; expected a later try"
            )
        if exhausted is not None:
            waiting = self._queue.waiting_for(exhausted.account)
            if waiting >= -(-self._most_waiting // QUOTA_OF_QUEUE):
                raise self._book.refusal(
                    exhausted, f"as many are at work, and {waiting} wait; expected a later try, when some have ended"
                )

    def _give_up(self, session: str, waiter: _Waiter) -> None:
        with self._lock:
            if not waiter.is_admitted:
                self._queue.remove(session, waiter)
                return
        self.leave(waiter.holder, waiter.quotas)


@dataclass(slots=True, eq=False)
class AdmissionSlot:
    """Slot of one thread that works for a statement."""

    turns: AdmissionQueue
    holder: str
    session: str
    cancellation: Cancellation
    quotas: Sequence[Quota] = ()
    _is_held: bool = False

    def take(self, *, is_new: bool = False) -> None:
        """Wait for admission; only a new statement is subject to the limit on the length of the queue."""
        self.turns.take(self.holder, self.session, self.cancellation, is_new=is_new, quotas=self.quotas)
        self._is_held = True

    def leave(self) -> None:
        """Release the slot, if it is held, once no abandoned work of its statement is running."""
        if self._is_held:
            self._is_held = False
            self.cancellation.after_abandoned(partial(self.turns.leave, self.holder, self.quotas))

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Release the slot inside the block, in which the call waits for its client; an error in the block leaves it released."""
        self.leave()
        yield
        self.take()
