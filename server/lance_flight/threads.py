"""Threads: an event that signal handlers set, turns at long texts, and states of threads that Python did not start.

The state of a foreign thread is kept between the callbacks that run on it. Each callback would make a state for its thread, map memory for its frames, and drop both again, which every core of the process is
interrupted for: seven or more in a call of gRPC's, and as many in a query of DataFusion's.

Long texts are read one after another: a pass over one keeps Python's lock, and several at once would keep it from all others.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

MOST_WORKERS = 256
"""Most worker states that are kept: each outlives its thread; workers are as many as cores, and live as long as the process."""

_keep = ctypes.pythonapi.PyGILState_Ensure
_drop = ctypes.pythonapi.PyGILState_Release
_worker = threading.local()
_workers: set[int] = set()


@dataclass(frozen=True, slots=True)
class ThreadState:
    """Keeps the thread state of the gRPC thread that creates it until `end`, for one call; references are counted."""

    _thread: int = field(default_factory=threading.get_ident)
    _before: int = field(default_factory=_keep)

    def end(self) -> None:
        """Release the state, which is dropped when the running callback returns."""
        if threading.get_ident() == self._thread:  # another thread has a state of its own
            _drop(self._before)


def keep_worker_state() -> None:
    """Keep the thread state of the calling worker for as long as the process lives."""
    if getattr(_worker, "is_kept", False) or len(_workers) >= MOST_WORKERS:
        return
    _worker.is_kept = True
    _workers.add(threading.get_ident())
    _keep()


class SignalEvent:
    """Event like `threading.Event` that a signal handler may set. Safe to share among threads.

    Handlers run in the main thread, between any two of its steps. One that sets a `threading.Event` while that thread begins to wait for it,
    or is about to set it, finds its lock taken by the thread that it runs in, and waits for ever; `SimpleQueue.put` may be called anywhere.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wakes = SimpleQueue[None]()

    def is_set(self) -> bool:
        """Return whether the event was set since it was cleared last."""
        return self._is_set

    def set(self) -> None:
        """Set the event, and wake all that wait for it."""
        self._is_set = True
        self._wakes.put(None)

    def clear(self) -> None:
        """Let further waits wait."""
        self._is_set = False
        with suppress(Empty):
            while True:
                self._wakes.get_nowait()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the event is set, for so many seconds at most (None: any number); return whether it is."""
        if not self._is_set:
            with suppress(Empty):
                self._wakes.get(timeout=seconds)
        if self._is_set:
            self._wakes.put(None)  # for the others that wait
        return self._is_set


_PATIENCE = 0.1
"""Seconds after which a reader that waits asks whether it is still to go on."""


def going_on() -> None:
    """Ask nothing."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns to read texts of at least `long` characters; a thread that has one may take it again."""

    long: int
    _one: threading.RLock = field(default_factory=threading.RLock)

    @contextmanager
    def turn(self, length: int, check: Callable[[], None] = going_on) -> Iterator[None]:
        """Let the block read a text of this length: a long one while no other is read; `check` ends the wait by an error."""
        if length < self.long:
            yield
            return
        while not self._one.acquire(timeout=_PATIENCE):
            check()
        try:
            check()
            yield
        finally:
            self._one.release()


STATEMENTS = Turns(256 << 10)
"""Those of the texts of statements."""
DOCUMENTS = Turns(64 << 10)
"""Those of documents: constant ones are read in other threads than the statement that has its turn."""
