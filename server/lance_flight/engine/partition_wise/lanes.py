"""Running tasks on threads of our own, beside one another, with their batches in one bounded stream.

DataFusion may not be called inside its own callbacks (decision 25): a lane plans and drains queries for whoever waits for
the batches, be it one of DataFusion's workers.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

Task = Callable[[], Iterator[pa.RecordBatch]]

AHEAD = 2
"""So many batches of each lane wait for their reader."""


class Tasks:
    """Tasks that lanes take one after another, each of them once. Safe to share among threads."""

    def __init__(self, tasks: Iterator[Task]) -> None:
        self._tasks = tasks
        self._lock = threading.Lock()

    def next(self) -> Task | None:
        """The next task; None if there is none left."""
        with self._lock:
            return next(self._tasks, None)


class Admission:
    """How many of DataFusion's workers may wait for lanes at the same time: those must be left that the lanes need themselves.

    Safe to share among threads.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._changed = threading.Condition()

    @contextmanager
    def of(self, lanes: int, seconds: float) -> Iterator[bool]:
        """Whether so many lanes are let in before the time is over; they are for as long as the block lasts."""
        with self._changed:
            admitted = self._changed.wait_for(lambda: self._free >= lanes, seconds)
            self._free -= lanes if admitted else 0
        try:
            yield admitted
        finally:
            with self._changed:
                self._free += lanes if admitted else 0
                self._changed.notify_all()


admission = Admission(int(os.environ["TOKIO_WORKER_THREADS"]) - (os.cpu_count() or 1))


def run(tasks: Tasks, lanes: int) -> Iterator[pa.RecordBatch]:
    """The batches of all tasks, in any order; when the reader goes the lanes end with their next batch."""
    stream = _Stream(lanes * AHEAD)
    threads = [
        threading.Thread(target=_drain, args=(tasks, stream), name="group lane", daemon=True) for _ in range(lanes)
    ]
    try:
        for thread in threads:
            thread.start()
        running = lanes
        while running:
            got = stream.get()
            if isinstance(got, BaseException):
                raise got
            if got is None:
                running -= 1
            else:
                yield got
    finally:
        stream.close()


def _drain(tasks: Tasks, stream: _Stream) -> None:
    try:
        while (task := tasks.next()) is not None:
            for batch in task():
                if not stream.put(batch):
                    return
    except BaseException as exc:  # noqa: BLE001 - whatever it is, the reader of the stream raises it
        stream.put(exc)
    else:
        stream.put(None)


class _Stream:
    """A bounded queue whose reader may go away."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._waiting: deque[pa.RecordBatch | BaseException | None] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, item: pa.RecordBatch | BaseException | None) -> bool:
        """Wait for room; False if nobody reads any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or len(self._waiting) < self._bound)
            if self._is_closed:
                return False
            self._waiting.append(item)
            self._changed.notify_all()
            return True

    def get(self) -> pa.RecordBatch | BaseException | None:
        """Wait for the next item."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            item = self._waiting.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Read no more."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
