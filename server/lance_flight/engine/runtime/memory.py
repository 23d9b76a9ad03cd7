"""Memory limits of DataFusion, and the directory that it spills to."""

from __future__ import annotations

from datafusion import RuntimeEnvBuilder

from lance_flight.engine.runtime.limits import Limits


class Memory:
    """Assigns memory to statements: of one pool for all of them, unless each has a bound of its own.

    Contexts that are made with one builder have one pool. It is a fair one, so that a statement that spills leaves room to
    others. Batches of Lance's that are read ahead are not counted: they are a few for each lane.
    """

    def __init__(self, limits: Limits) -> None:
        self._statement = limits.statement_memory
        self._directory = limits.spill_directory
        self._shared = (
            None if limits.server_memory is None else self._runtime(limits.server_memory - limits.write_memory)
        )

    def runtime(self) -> RuntimeEnvBuilder:
        """Return the runtime builder for the context of a new statement."""
        if self._statement is not None:
            return self._runtime(self._statement)
        return RuntimeEnvBuilder() if self._shared is None else self._shared

    def _runtime(self, size: int) -> RuntimeEnvBuilder:
        builder = RuntimeEnvBuilder().with_fair_spill_pool(size)
        if self._directory is None:
            return builder.with_disk_manager_os()
        return builder.with_disk_manager_specified(self._directory)
