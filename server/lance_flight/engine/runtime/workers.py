"""Threads for work whose caller waits for its result: each takes further work once its own has ended.

A thread of its own for each piece of work costs milliseconds of processor time: its allocators' memory is mapped when it begins, and
what Lance and Arrow keep for each thread is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue

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
