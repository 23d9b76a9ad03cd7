"""Event that signal handlers set, and that any thread waits for."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue


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
