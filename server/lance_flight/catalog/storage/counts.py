"""Counts for monitoring: commits of this process, and what object stores are asked for, by it and by Lance.

What is asked for once may be several requests, as a listing of many names is, or one that is sent again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from threading import Lock

from lance import LanceDataset


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


class StoreRequest(Enum):
    """Kind of what an object store is asked for."""

    LIST = "list"
    READ = "read"
    WRITE = "write"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Asked:
    """Number of requests of a kind, of those that failed, and the seconds until their answers."""

    requests: int = 0
    errors: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LanceRequests:
    """Reads and writes by Lance of open tables in a bucket, and their bytes.

    Lance counts neither questions without content nor the data files of writers.
    """

    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    written_bytes: int = 0


class StoreRequests:
    """Counts of one process. Safe to share among threads.

    >>> counted = StoreRequests()
    >>> with counted.count_request(StoreRequest.LIST):
    ...     pass
    >>> counted.counts[StoreRequest.LIST].requests
    1
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(StoreRequest, Asked())
        self._dataset: LanceDataset | None = None
        self._lock = Lock()

    @contextmanager
    def count_request(
        self, kind: StoreRequest, answers: tuple[type[Exception], ...] = (FileNotFoundError,)
    ) -> Iterator[None]:
        """Count what the block asks for; an exception that is an answer, such as that nothing is there, counts as no error."""
        began, errors = time.perf_counter(), 1
        try:
            yield
            errors = 0
        except answers:
            errors = 0
            raise
        finally:
            took = time.perf_counter() - began
            with self._lock:
                before = self._counts[kind]
                self._counts[kind] = replace(
                    before,
                    requests=before.requests + 1,
                    errors=before.errors + errors,
                    seconds=before.seconds + took,
                )

    def watch(self, dataset: LanceDataset) -> None:
        """Take Lance's counts from this dataset: it counts for all that a session has opened in a bucket."""
        self._dataset = dataset

    @property
    def counts(self) -> Mapping[StoreRequest, Asked]:
        """Requests of this process itself so far, by kind."""
        with self._lock:
            return dict(self._counts)

    @property
    def of_lance(self) -> LanceRequests:
        """Reads and writes by Lance so far."""
        if self._dataset is None:
            return LanceRequests()
        stats = self._dataset.io_stats_snapshot()
        return LanceRequests(stats.read_iops, stats.read_bytes, stats.write_iops, stats.written_bytes)


store_requests = StoreRequests()
"""Those of the whole process: stores come and go."""
