"""The memory that writers of this process hold rows in, so that each partition's rows reach Lance in few, large pieces.

Lance makes at least one page of each column for every piece that it is given. Ten pages of a partition's column cost twice the time of one
to write, and a quarter more to read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

DEFAULT_BYTES = 256 << 20
LEAST_BYTES = 64 << 20


@dataclass(slots=True)
class WriteMemory:
    """A budget of bytes, shared by all writers of a process: `total` for all of them, `per_write` for each (None: all).

    Each has its first `least` bytes whatever the others hold.
    """

    total: int = DEFAULT_BYTES
    per_write: int | None = None
    least: int = LEAST_BYTES
    _taken: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def taken(self) -> int:
        """The bytes that writers hold at this moment."""
        return self._taken

    def take(self, size: int, held: int) -> bool:
        """Reserve `size` bytes for a writer that has `held` bytes already; False where they are not to be had."""
        if self.per_write is not None and held + size > self.per_write:
            return False
        with self._lock:
            if self._taken + size > self.total and held + size > self.least:
                return False
            self._taken += size
            return True

    def release(self, size: int) -> None:
        """Return bytes that were taken."""
        with self._lock:
            self._taken -= size


write_memory = WriteMemory()
"""The budget of this process; a server sets its bounds before it writes anything."""
