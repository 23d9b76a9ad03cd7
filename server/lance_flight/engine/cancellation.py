"""Ending a statement from outside, whatever it is doing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from typing import TypeVar

from lance_flight.errors import Cancelled

T = TypeVar("T")

Reason = Callable[[], Cancelled]
"""Makes the error of a statement that was ended: a new one for each thread, since an error keeps what its frames hold."""


class Cancellation:
    """Whether one statement is to end, and what has to be woken for that. Safe to share among threads.

    Work that goes on in steps calls `check` before each; work that waits for something else says how to wake it. A commit
    is never interrupted: from its beginning on the statement cannot be cancelled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: Reason | None = None
        self._is_committing = False
        self._wakers: dict[int, Callable[[], None]] = {}
        self._numbers = count()

    @property
    def is_cancelled(self) -> bool:
        """Whether the statement is to end."""
        return self._reason is not None

    @property
    def is_committing(self) -> bool:
        """Whether it is too late for that."""
        return self._is_committing

    def cancel(self, reason: Reason) -> bool:
        """End the statement with an error; False if it commits already. Of several reasons the first one counts."""
        with self._lock:
            if self._is_committing:
                return False
            if self._reason is None:
                self._reason = reason
            for wake in self._wakers.values():
                wake()
        return True

    def check(self) -> None:
        """Raise the reason if the statement is to end."""
        if self._reason is not None:
            raise self._reason()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake`, which must return at once, when the statement is cancelled during the block."""
        number = next(self._numbers)
        with self._lock:
            self.check()
            self._wakers[number] = wake
        try:
            yield
        finally:
            with self._lock:
                del self._wakers[number]

    def awaited(self, work: Callable[[], T]) -> T:
        """What `work` gives, unless the statement is cancelled before: then it comes to its end in its own thread, for nobody."""
        outcome: Future[T] = Future()
        woken = threading.Event()
        outcome.add_done_callback(lambda _: woken.set())

        def run() -> None:
            try:
                outcome.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits
                outcome.set_exception(error)

        with self.waking(woken.set):
            threading.Thread(target=run, name="awaited").start()
            woken.wait()
        self.check()
        return outcome.result()

    def begin_commit(self) -> None:
        """From here on nothing is interrupted; raises the reason where the statement was cancelled before."""
        with self._lock:
            self.check()
            self._is_committing = True

    @contextmanager
    def committing(self) -> Iterator[None]:
        """A commit, after which the statement can be cancelled again: where it failed, it may be run anew."""
        self.begin_commit()
        try:
            yield
        finally:
            self._is_committing = False
