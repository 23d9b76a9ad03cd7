"""Cancellation of running statements."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from lance_flight.engine.runtime.workers import workers
from lance_flight.errors import LanceFlightError

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

    @property
    def is_cancelled(self) -> bool:
        """True if the statement was cancelled."""
        return self._reason is not None

    @property
    def reason(self) -> Reason | None:
        """The reason of the cancellation; None if the statement was not cancelled."""
        return self._reason

    @property
    def is_committing(self) -> bool:
        """True while a commit runs, during which the statement cannot be cancelled."""
        return self._is_committing

    def cancel(self, reason: Reason) -> bool:
        """Cancel the statement with an error; return False if it is committing. The first of several reasons counts."""
        with self._lock:
            if self._is_committing:
                return False
            if self._reason is None:
                self._reason = reason
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

    def awaited(self, work: Callable[[], T], seconds: float = 0.0) -> T:
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

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Guard a commit against cancellation; afterwards the statement can be cancelled again, since a failed commit may be retried."""
        self.begin_commit()
        try:
            yield
        finally:
            self._is_committing = False


def _run(work: Callable[[], T], outcome: Future[T]) -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
        outcome.set_exception(error)
