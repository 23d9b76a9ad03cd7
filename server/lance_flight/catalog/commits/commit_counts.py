"""Counters of the commits of this process, for monitoring."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from threading import Lock


class CommitEvent(Enum):
    """Event of a commit that is counted."""

    COMMITTED = "committed"  # one `__manifest` commit, of one transaction or several
    TRANSACTION = "transaction"  # one transaction that became visible
    RETRY = "retry"  # another writer was first, and it was tried again
    CONFLICT = "conflict"  # another writer was first, and the transaction failed


class CommitCounts:
    """Counts. Safe to share among threads.

    >>> counts = CommitCounts()
    >>> counts.add(CommitEvent.RETRY, 2)
    >>> counts[CommitEvent.RETRY]
    2
    """

    def __init__(self) -> None:
        self._counts: Counter[CommitEvent] = Counter()
        self._lock = Lock()

    def add(self, event: CommitEvent, times: int = 1) -> None:
        """Add to the count of an event."""
        with self._lock:
            self._counts[event] += times

    def __getitem__(self, event: CommitEvent) -> int:
        return self._counts[event]


commit_counts = CommitCounts()
"""Those of the whole process: namespaces come and go."""
