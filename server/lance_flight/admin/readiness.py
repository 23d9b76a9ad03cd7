"""Readiness of a server for calls, shared by the HTTP and gRPC health checks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from threading import Lock

PROBE_SECONDS = 5.0
"""Seconds that a probe may take before the server counts as not ready."""


class Phase(Enum):
    """Phase of a server's life; each value is the reason for taking no calls, empty for `SERVING`."""

    STARTING = "the server is starting"
    SERVING = ""
    STOPPING = "the server is stopping"


class Readiness:
    """Readiness for calls: the server's phase, and a probe of its data. Safe to share among threads.

    `probe` raises what keeps the server from its data; it runs at most once at a time, however many checks arrive meanwhile.

    >>> readiness = Readiness(lambda: None)
    >>> readiness.obstacle()
    'the server is starting'
    >>> readiness.enter(Phase.SERVING)
    >>> readiness.obstacle() is None
    True
    """

    def __init__(self, probe: Callable[[], object], *, patience: float = PROBE_SECONDS) -> None:
        self._probe = probe
        self._patience = patience
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._running: Future[object] | None = None
        self._lock = Lock()
        self._phase = Phase.STARTING

    def enter(self, phase: Phase) -> None:
        """Set the phase of the server's life."""
        self._phase = phase

    def obstacle(self) -> str | None:
        """Return the reason why no calls are taken; None while they are."""
        return self._phase.value or self._failure()

    def reaches_root(self) -> bool:
        """Return whether the probe finds nothing that keeps the server from its data."""
        return self._failure() is None

    def _failure(self) -> str | None:
        with self._lock:
            if self._running is None or self._running.done():
                self._running = self._pool.submit(self._probe)
            running = self._running
        try:
            failure = running.exception(self._patience)
        except TimeoutError:
            return f"the root did not answer within {self._patience:g} seconds"
        return None if failure is None else f"the root cannot be listed: {type(failure).__name__}"
