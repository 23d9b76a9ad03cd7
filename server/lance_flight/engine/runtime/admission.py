"""Admission control: a bounded number of running statements, and a fair queue for the waiting ones."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.errors import LimitExceeded


@dataclass(slots=True, eq=False)
class _Waiter:
    """Waiting call, woken when it is admitted or its statement is cancelled."""

    woken: threading.Event = field(default_factory=threading.Event)
    is_admitted: bool = False


class _Queue:
    """Waiters by principal and session: principals are served in turn, and so are the sessions of each."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, OrderedDict[str, deque[_Waiter]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, principal: str, session: str, waiter: _Waiter) -> None:
        sessions = self._waiting.setdefault(principal, OrderedDict())
        sessions.setdefault(session, deque()).append(waiter)
        self._count += 1

    def pop(self) -> _Waiter:
        """Remove and return the next waiter; the others of its principal, and then of its session, move behind all other waiters."""
        principal, sessions = self._waiting.popitem(last=False)
        session, waiters = sessions.popitem(last=False)
        waiter = waiters.popleft()
        if waiters:
            sessions[session] = waiters
        if sessions:
            self._waiting[principal] = sessions
        self._count -= 1
        return waiter

    def remove(self, principal: str, session: str, waiter: _Waiter) -> None:
        """Remove a waiter that no longer waits."""
        sessions = self._waiting[principal]
        sessions[session].remove(waiter)
        if not sessions[session]:
            del sessions[session]
        if not sessions:
            del self._waiting[principal]
        self._count -= 1


class AdmissionQueue:
    """Admits at most `most` statements at a time, and lets at most `most_waiting` new ones wait. Safe to share among threads."""

    def __init__(self, most: int, most_waiting: int) -> None:
        self._free = most
        self._most = most
        self._most_waiting = most_waiting
        self._queue = _Queue()
        self._lock = threading.Lock()

    def take(self, principal: str, session: str, cancellation: Cancellation, *, is_new: bool) -> None:
        """Wait for admission; raise `LimitExceeded` for a new statement if too many wait, and the reason of a cancelled one."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            if is_new and len(self._queue) >= self._most_waiting:
                raise LimitExceeded(
                    f"{self._most} statements are at work and {len(self._queue)} wait; expected a later try"
                )
            waiter = _Waiter()
            self._queue.put(principal, session, waiter)
        try:
            with cancellation.waking(waiter.woken.set):
                waiter.woken.wait()
            cancellation.check()
        except BaseException:
            self._give_up(principal, session, waiter)
            raise

    def leave(self) -> None:
        """Release a slot and admit the next waiter."""
        with self._lock:
            if len(self._queue):
                waiter = self._queue.pop()
                waiter.is_admitted = True
                waiter.woken.set()
            else:
                self._free += 1

    def _give_up(self, principal: str, session: str, waiter: _Waiter) -> None:
        with self._lock:
            if not waiter.is_admitted:
                self._queue.remove(principal, session, waiter)
                return
        self.leave()


@dataclass(slots=True, eq=False)
class AdmissionSlot:
    """Slot of one thread that works for a statement."""

    turns: AdmissionQueue
    principal: str
    session: str
    cancellation: Cancellation
    _is_held: bool = False

    def take(self, *, is_new: bool = False) -> None:
        """Wait for admission; only a new statement is subject to the limit on the length of the queue."""
        self.turns.take(self.principal, self.session, self.cancellation, is_new=is_new)
        self._is_held = True

    def leave(self) -> None:
        """Release the slot, if it is held, once no abandoned work of its statement is running."""
        if self._is_held:
            self._is_held = False
            self.cancellation.after_abandoned(self.turns.leave)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Release the slot inside the block, in which the call waits for its client; an error in the block leaves it released."""
        self.leave()
        yield
        self.take()
