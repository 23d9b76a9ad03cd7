"""Concurrent execution of groups and tasks on threads of the server's own, in one bounded stream of batches.

DataFusion may not be called inside its own callbacks (decision 25): a lane plans and drains queries for the
reader of the batches, which may be one of DataFusion's workers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_flight.engine import WORKERS
from lance_flight.engine.query.tables.table_view import TableView
from lance_flight.engine.runtime.streams import AHEAD_BYTES, HeldBytes
from lance_flight.errors import OutOfMemory
from lance_flight.machine import cores
from lance_flight.planning.joins import Group

Task = Callable[[], Iterator[pa.RecordBatch]]

AHEAD = 2
"""Most batches of each lane that wait for their reader, if they have no more than `AHEAD_BYTES` together."""


class Admission:
    """Bounds the number of DataFusion's workers that wait for lanes at the same time, since the lanes need some of them.

    Safe to share among threads.
    """

    def __init__(self, free: int) -> None:
        self._free = free
        self._changed = threading.Condition()

    @contextmanager
    def of(self, workers: int, seconds: float) -> Iterator[bool]:
        """Reserve workers inside the block; yield whether they became free within `seconds`."""
        with self._changed:
            admitted = self._changed.wait_for(lambda: self._free >= workers, seconds)
            self._free -= workers if admitted else 0
        try:
            yield admitted
        finally:
            with self._changed:
                self._free += workers if admitted else 0
                self._changed.notify_all()


admission = Admission(WORKERS - cores())


def run(tasks: Sequence[Task], lanes: int, ahead: HeldBytes | None = None) -> Iterator[pa.RecordBatch]:
    """Run tasks in lanes and yield their batches, in order within each task; closing the iterator ends the lanes at their next batch.

    A task that runs out of memory beside other tasks is run again alone. `ahead` counts the bytes that wait for the reader.
    """
    work = _Lanes(tasks, lanes, HeldBytes(ahead))
    try:
        yield from work.batches()
    finally:
        work.close()


class _Lanes:
    """Threads that take one task after another, and the bounded queue that they put batches into."""

    def __init__(self, tasks: Sequence[Task], lanes: int, ahead: HeldBytes) -> None:
        self._tasks = deque(tasks)
        self._count = min(lanes, len(tasks))
        self._bound = self._count * AHEAD
        self._waiting: deque[pa.RecordBatch | BaseException | None] = deque()
        self._ahead = ahead
        self._running = 0
        self._is_alone = False
        self._is_closed = False
        self._changed = threading.Condition()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Start the lanes, and yield their batches until all have ended; an error in one ends them all."""
        for _ in range(self._count):
            threading.Thread(target=self._drain, name="group lane", daemon=True).start()
        ended = 0
        while ended < self._count:
            got = self._get()
            if isinstance(got, BaseException):
                raise got
            if got is None:
                ended += 1
            else:
                yield got

    def close(self) -> None:
        """Stop reading, which ends the lanes."""
        with self._changed:
            self._is_closed = True
            self._tasks.clear()
            self._waiting.clear()
            self._ahead.change(-self._ahead.size)
            self._changed.notify_all()

    def _drain(self) -> None:
        """Run tasks in one lane until none is left, and pass an error to the reader."""
        try:
            while (task := self._next()) is not None:
                self._run(task)
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the reader of the batches raises it
            self._put(exc)
        else:
            self._put(None)

    def _run(self, task: Task) -> None:
        """Run a task concurrently with other tasks, and once more alone if memory did not suffice."""
        for alone in (False, True):
            begun = False
            try:
                with self._turn(alone=alone):
                    for batch in task():
                        begun = True
                        if not self._put(batch):
                            return
            except OutOfMemory:
                if alone or begun:
                    raise
            else:
                return

    @contextmanager
    def _turn(self, *, alone: bool) -> Iterator[None]:
        """Hold a shared slot for one task, or an exclusive one if `alone`; a waiting exclusive task keeps new tasks from beginning."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_alone)
            if alone:
                self._is_alone = True
                self._changed.wait_for(lambda: self._running == 0)
            else:
                self._running += 1
        try:
            yield
        finally:
            with self._changed:
                if alone:
                    self._is_alone = False
                else:
                    self._running -= 1
                self._changed.notify_all()

    def _next(self) -> Task | None:
        with self._changed:
            return self._tasks.popleft() if self._tasks else None

    def _put(self, item: pa.RecordBatch | BaseException | None) -> bool:
        """Wait for room and enqueue an item; return False if the reader has closed the iterator."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has_room)
            if self._is_closed:
                return False
            self._waiting.append(item)
            self._ahead.change(_size(item))
            self._changed.notify_all()
            return True

    @property
    def _has_room(self) -> bool:
        return not self._waiting or (len(self._waiting) < self._bound and self._ahead.size < AHEAD_BYTES)

    def _get(self) -> pa.RecordBatch | BaseException | None:
        """Wait for the next item."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting)
            item = self._waiting.popleft()
            self._ahead.change(-_size(item))
            self._changed.notify_all()
            return item


def _size(item: pa.RecordBatch | BaseException | None) -> int:
    return int(item.nbytes) if isinstance(item, pa.RecordBatch) else 0


FIRST_ROWS = 10
"""Size of the first groups of a query for the first rows, as a multiple of these rows: most may be filtered."""


def join_groups(groups: Sequence[Group], views: Sequence[TableView], enough: int) -> tuple[Group, ...]:
    """Merge neighbouring groups until they have `enough` rows; groups stay separate if they share a table."""
    return _steps(groups, views, enough, growing=1)


def growing_steps(groups: Sequence[Group], views: Sequence[TableView], fetch: int) -> tuple[Group, ...]:
    """Return steps for the first rows of ordered groups: the first one small, each further one twice as large."""
    return _steps(groups, views, max(fetch, 1) * FIRST_ROWS, growing=2)


def _steps(groups: Sequence[Group], views: Sequence[TableView], enough: int, *, growing: int) -> tuple[Group, ...]:
    sizes = _sizes(groups, views) if enough > 0 and groups else None
    if sizes is None:
        return tuple(groups)
    return tuple(_together([groups[place] for place in places]) for places in _runs(sizes, enough, growing))


def _sizes(groups: Sequence[Group], views: Sequence[TableView]) -> npt.NDArray[np.int64] | None:
    """Return the number of rows in the tables of each group; None if a table is in several groups."""
    sizes = np.zeros(len(groups), np.int64)
    for side, view in enumerate(views):
        versions = range(len(groups[0].rows[side]))
        tables = [[group.rows[side][version] for group in groups] for version in versions]
        whole = [np.concatenate(some) for some in tables]
        unique = [np.unique(some) for some in whole]
        if sum(map(len, unique)) < sum(map(len, whole)):
            return None
        for version, counts in enumerate(view.row_counts(tuple(unique))):
            rows = counts[np.searchsorted(unique[version], whole[version])]
            ends = np.cumsum([0, *map(len, tables[version])])
            sizes += [int(rows[start:stop].sum()) for start, stop in pairwise(ends)]
    return sizes


def _runs(sizes: npt.NDArray[np.int64], enough: int, growing: int) -> Iterator[list[int]]:
    """Yield neighbours whose sizes together are enough."""
    begun: list[int] = []
    rows = 0
    for place, size in enumerate(sizes):
        begun.append(place)
        rows += int(size)
        if rows >= enough:
            yield begun
            begun, rows, enough = [], 0, enough * growing
    if begun:
        yield begun


def _together(groups: Sequence[Group]) -> Group:
    if len(groups) == 1:
        return groups[0]
    rows = tuple(
        tuple(np.sort(np.concatenate(versions)) for versions in zip(*sides, strict=True))
        for sides in zip(*(group.rows for group in groups), strict=True)
    )
    return Group((), rows)
