"""Cancellation of running statements: of planning, which cannot be interrupted, and of work on other threads.

A thread of its own for each piece of work costs milliseconds of processor time: its allocators' memory is mapped when it begins, and
what Lance and Arrow keep for each thread is made.

A statement that may be costly to plan (`bounds.is_costly`) is planned in threads of their own. They keep its turn until they end,
also where its client was answered before.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from datafusion import DataFrame, SQLOptions

from lance_flight.errors import LanceFlightError, LimitExceeded, StatementTimeout

MOST_IDLE = 16
"""Threads that wait for work; a thread beyond these ends with its work."""
BUSY, IDLE = "awaited", "idle"
"""Names of threads that work, and of those that wait for work."""


class Workers:
    """As many threads as there is work at once, of which some stay for the next. Safe to share among threads."""

    def __init__(self, most_idle: int = MOST_IDLE) -> None:
        self._most_idle = most_idle
        self._idle: list[SimpleQueue[Callable[[], None]]] = []
        self._lock = threading.Lock()

    def run(self, work: Callable[[], None]) -> None:
        """Run work, which must not raise, in a thread that does nothing else meanwhile; in an empty context."""
        with self._lock:
            tasks = self._idle.pop() if self._idle else None
        if tasks is None:
            tasks = SimpleQueue()
            threading.Thread(target=self._serve, args=[tasks], name=BUSY, daemon=True).start()
        tasks.put(work)

    def _serve(self, tasks: SimpleQueue[Callable[[], None]]) -> None:
        thread = threading.current_thread()
        while True:
            work = tasks.get()
            thread.name = BUSY
            Context().run(work)
            del work  # what it holds is not to live for as long as the thread is idle
            thread.name = IDLE
            with self._lock:
                if len(self._idle) >= self._most_idle:
                    return
                self._idle.append(tasks)


workers = Workers()
"""Those of this process."""


T = TypeVar("T")

Reason = Callable[[], LanceFlightError]
"""Factory of a cancelled statement's error: a new one for each thread, since an error keeps its frames alive."""


class Cancellation:
    """Cancellation flag of one statement, with the callbacks that wake its waiting work. Safe to share among threads.

    Work that goes on in steps calls `check` before each; work that waits for something else says how to wake it. A commit
    is never interrupted: from its beginning on the statement cannot be cancelled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: Reason | None = None
        self._is_committing = False
        self._wakers: dict[int, Callable[[], None]] = {}
        self._numbers = count()
        self._abandoned: list[Future[Any]] = []
        self._left: list[weakref.ref[Any]] = []
        self._since = math.inf

    def overdue(self, now: float) -> float:
        """Return for how many seconds the statement has been cancelled; at most 0 for one that was not."""
        return now - self._since

    @property
    def is_at_work(self) -> bool:
        """True if work that was given up has not ended."""
        if self._left:
            SQLOptions()  # any call of it makes DataFusion let go of what its threads have dropped without Python's lock
        return any(not outcome.done() for outcome in self._abandoned) or any(left() is not None for left in self._left)

    def leave(self, tasks: Iterable[Any]) -> None:
        """Note tasks of DataFusion's that were given up: each keeps its object until it ends."""
        self._left += map(weakref.ref, tasks)

    @property
    def is_cancelled(self) -> bool:
        """True if the statement was cancelled."""
        return self._reason is not None

    @property
    def reason(self) -> Reason | None:
        """The reason of the cancellation; None if the statement was not cancelled."""
        return self._reason

    def cancel(self, reason: Reason) -> bool:
        """Cancel the statement with an error; return False if it is committing. The first of several reasons counts."""
        with self._lock:
            if self._is_committing:
                return False
            if self._reason is None:
                self._reason, self._since = reason, time.monotonic()
            for wake in self._wakers.values():
                wake()
        return True

    def check(self) -> None:
        """Raise the reason if the statement was cancelled."""
        if self._reason is not None:
            raise self._reason()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake`, which must return at once, if the statement is cancelled during the block."""
        number = next(self._numbers)
        with self._lock:
            self.check()
            self._wakers[number] = wake
        try:
            yield
        finally:
            with self._lock:
                del self._wakers[number]

    def run_in_thread(self, work: Callable[[], T], seconds: float = 0.0) -> T:
        """Run `work` in a thread that does nothing else meanwhile and return its result, unless the statement is cancelled first.

        Raises TimeoutError after so many `seconds` (0: never). Work that is given up goes on until its end (`after_abandoned`).
        """
        outcome: Future[T] = Future()
        woken = SimpleQueue[None]()
        outcome.add_done_callback(lambda _: woken.put(None))
        with self.waking(partial(woken.put, None)):
            workers.run(partial(_run, work, outcome))
            with suppress(Empty):
                woken.get(timeout=seconds or None)
        is_over = outcome.done()
        if not is_over:
            self._abandoned.append(outcome)
        self.check()
        if not is_over:
            raise TimeoutError
        try:
            return outcome.result()
        finally:
            del outcome  # else its error and this frame keep each other, and with them what the statement holds

    def after_abandoned(self, then: Callable[[], None]) -> None:
        """Call `then` once no abandoned work is running any more; at once without any."""
        running = next((outcome for outcome in self._abandoned if not outcome.done()), None)
        if running is None:
            then()
        else:
            # Work within other work is given up before that.
            running.add_done_callback(lambda _: self.after_abandoned(then))

    def begin_commit(self) -> None:
        """Make the statement uncancellable; raise the reason if it was cancelled before."""
        with self._lock:
            self.check()
            self._is_committing = True

    def end_commit(self) -> None:
        """Let the statement be cancelled again, as after an attempt that failed."""
        self._is_committing = False

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Guard a commit against cancellation; afterwards the statement can be cancelled again, since a failed commit may be retried."""
        self.begin_commit()
        try:
            yield
        finally:
            self.end_commit()


def _run(work: Callable[[], T], outcome: Future[T]) -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
        outcome.set_exception(error)


MOST_SECONDS = 3.0
"""Most seconds of one core that planning may take, for which all other clients may have to wait."""


@dataclass(slots=True)
class PlanningLimits:
    """Plans one statement within `timeout` seconds (0: any number), in a thread of its own where it `is_costly`.

    It `is_linear` if what makes it so are lists of literals in a single query.
    """

    cancellation: Cancellation
    timeout: float
    is_costly: bool = False
    is_linear: bool = True

    def run(self, plan: Callable[[], T]) -> T:
        """Run `plan` and return its result; raise `Cancelled` or `StatementTimeout` as soon as the statement is cancelled or times out."""
        self.cancellation.check()
        if not self.is_costly:
            return plan()
        try:
            return self.cancellation.run_in_thread(plan, self.timeout)
        except TimeoutError as exc:
            raise StatementTimeout(
                f"planning the statement took more than {self.timeout:g} s, the setting planning_timeout"
            ) from exc

    def check_cost(self, frame: DataFrame) -> None:
        """Refuse a query whose optimisation takes long.

        DataFusion's `optimized_logical_plan` holds Python's lock, and with it every other client; `execution_plan` does not, and
        does as much and more.
        """

        def measured() -> float:
            began = time.thread_time()
            frame.execution_plan()
            return time.thread_time() - began

        seconds = self.run(measured)
        if seconds > MOST_SECONDS:
            raise LimitExceeded(
                f"planning the statement took {seconds:.1f} s of a core; expected at most {MOST_SECONDS:g}:"
                " calls over constants are computed while planning, so send their values, and long lists as a table"
            )
