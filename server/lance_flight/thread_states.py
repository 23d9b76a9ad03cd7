"""Python thread states of foreign threads, kept between the callbacks that run on them.

Each callback would make a state for its thread, map memory for its frames, and drop both again, which every core of the process is
interrupted for: seven or more in a call of gRPC's, and as many in a query of DataFusion's.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, field

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
