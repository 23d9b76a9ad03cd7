"""Python's state of threads that are not Python's, kept between the callbacks that run on them.

Each callback would make a state for its thread, map memory for its frames, and drop both again, which every core of the process is
interrupted for: seven or more in a call of gRPC's, and as many in a query of DataFusion's.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, field

MOST_WORKERS = 256
"""A state that is kept for good outlives its thread; workers are as many as cores, and live as long as the process."""

_keep = ctypes.pythonapi.PyGILState_Ensure
_drop = ctypes.pythonapi.PyGILState_Release
_worker = threading.local()
_workers: set[int] = set()


@dataclass(frozen=True, slots=True)
class ThreadState:
    """Keeps the state of the gRPC thread that makes it, for one call: until that thread ends it. The state counts who has asked for it."""

    _thread: int = field(default_factory=threading.get_ident)
    _before: int = field(default_factory=_keep)

    def end(self) -> None:
        """Let go of it: it is dropped when the callback that runs now returns."""
        if threading.get_ident() == self._thread:  # another thread has a state of its own
            _drop(self._before)


def keep_worker_state() -> None:
    """Keep the state of the worker that calls this, for as long as the process lives."""
    if getattr(_worker, "is_kept", False) or len(_workers) >= MOST_WORKERS:
        return
    _worker.is_kept = True
    _workers.add(threading.get_ident())
    _keep()
