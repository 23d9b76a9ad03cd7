"""Python's state of a thread of gRPC's, kept for a whole call.

gRPC's threads are not Python's: each of the callbacks of a call, seven or more, would make a state for the thread, map memory for
its frames, and drop both again, which every core of the process is interrupted for.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass, field

_keep = ctypes.pythonapi.PyGILState_Ensure
_drop = ctypes.pythonapi.PyGILState_Release


@dataclass(frozen=True, slots=True)
class ThreadState:
    """Keeps the state of the thread that makes it, until that thread ends it: the state counts who has asked for it."""

    _thread: int = field(default_factory=threading.get_ident)
    _before: int = field(default_factory=_keep)

    def end(self) -> None:
        """Let go of it: it is dropped when the callback that runs now returns."""
        if threading.get_ident() == self._thread:  # another thread has a state of its own
            _drop(self._before)
