"""Memory limits of DataFusion, and the directory that it spills to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from datafusion import RuntimeEnvBuilder

from lance_flight import machine
from lance_flight.engine.runtime.admission import NO_QUOTAS, Account, Allowance, Limits
from lance_flight.engine.runtime.running_statement import RunningStatement
from lance_flight.engine.runtime.streams import release_unused
from lance_flight.errors import LimitExceeded

KEPT_OF_MEMORY = 4
"""Divisor: 1/4 of the bound is free for statements whatever allocators keep for them."""
ENDING_SECONDS = 0.5
"""Time that a statement has to end before the next one is ended."""
LEAST_SHARED = 4
"""Divisor: a fourth of the memory of statements is for those without a quota, whatever the quotas of roles are."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Memory pool of statements: its size in bytes (None: unbounded), and the account of the quota that it is for."""

    size: int | None = None
    account: Account | None = None


class MemoryWatch:
    """Ends statements while the memory of the process grows beyond its bound: DataFusion counts not all that it allocates.

    What the process grows by is shared among the statements that run meanwhile; the one with the largest share is ended.
    """

    def __init__(self, measure: Callable[[], int] = machine.own_memory) -> None:
        self._measure = measure
        self._grown: dict[RunningStatement, float] = {}
        self._size = self._idle = measure()
        self._next = 0.0

    def watch(self, running: Collection[RunningStatement], most: int | None) -> bool:
        """Measure once, and end a statement if it has to be; return whether memory is short enough to measure often."""
        size, before = self._measure(), self._size
        self._size, grown = size, size - before
        self._grown = {statement: self._grown.get(statement, 0.0) + grown / len(running) for statement in running}
        if not running:
            self._idle = size
        if most is None or size <= most // 2:
            return False
        # What allocators keep for later from statements that have ended is no fault of the next ones.
        bound = max(most, self._idle + most // KEPT_OF_MEMORY)
        if running and grown > 0 and size > bound and time.monotonic() >= self._next:
            self._next = time.monotonic() + ENDING_SECONDS
            release_unused()
            self._size = self._measure()
            if self._size > bound:
                max(running, key=self._grown.__getitem__).cancellation.cancel(_too_much)
        return True


def _too_much() -> LimitExceeded:
    return LimitExceeded(
        "the statement was ended: it took more memory than the server has, for values that DataFusion does not count; expected fewer or"
        " shorter values in string_agg, array_agg, a window or a recursive query"
    )


class Memory:
    """Assigns memory to statements: of one pool for all of them, unless each has a bound of its own.

    The statements of a role with a quota have a pool of their own, which is taken from that of all. Contexts that are made with one
    builder have one pool. It is a fair one, so that a statement that spills leaves room to
    others. Batches of Lance's that are read ahead are not counted: they are a few for each lane.
    """

    def __init__(self, limits: Limits) -> None:
        self._lock = threading.Lock()
        self.apply(limits)

    def apply(self, limits: Limits) -> None:
        """Assign memory within other limits from now on; statements that run keep that of the pool which they have begun with."""
        with self._lock:
            self._statement = limits.statement_memory
            self.spill_directory = limits.spill_directory
            self._total = None if limits.server_memory is None else limits.server_memory - limits.write_memory
            self._shared: dict[Account | None, tuple[Pool, RuntimeEnvBuilder]] = {}

    def pool(self, allowance: Allowance = NO_QUOTAS) -> Pool:
        """Return the pool that the statements of a principal take memory from."""
        quota = allowance.memory
        if self._statement is not None:
            return Pool(self._statement if quota is None else min(self._statement, quota.limit))
        if self._total is None:
            return Pool() if quota is None else Pool(quota.limit, quota.account)
        reservable = self._total - self._total // LEAST_SHARED
        if quota is None:
            return Pool(self._total - min(allowance.reserved, reservable))
        # Quotas that are more than there is are kept in proportion.
        size = quota.limit * reservable // allowance.reserved if allowance.reserved > reservable else quota.limit
        return Pool(max(size, 1), quota.account)

    def runtime(self, pool: Pool) -> RuntimeEnvBuilder:
        """Return the runtime builder for the context of a new statement in a pool."""
        if pool.size is None:
            return RuntimeEnvBuilder()
        if self._statement is not None:
            return self._runtime(pool.size)
        with self._lock:
            known = self._shared.get(pool.account)
            if known is None or known[0] != pool:
                known = self._shared[pool.account] = pool, self._runtime(pool.size)
            return known[1]

    def _runtime(self, size: int) -> RuntimeEnvBuilder:
        builder = RuntimeEnvBuilder().with_fair_spill_pool(size)
        if self.spill_directory is None:
            return builder.with_disk_manager_os()
        return builder.with_disk_manager_specified(self.spill_directory)
