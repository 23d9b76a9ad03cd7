"""Admission control: a bounded number of running statements, of which shares and quotas bound those of one holder or role, and a fair queue for the waiting ones."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.quotas import Account, Quota, QuotaBook
from lance_flight.errors import LimitExceeded
from lance_flight.shares import may_hold, release

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
