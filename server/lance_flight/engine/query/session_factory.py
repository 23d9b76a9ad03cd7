"""Factory of the contexts and sessions of statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName, Temporary
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.engine.query.access import Access, Privilege
from lance_flight.engine.query.names.statement_context import Scope, StatementContext
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables.system_tables import ServerProcess, SystemTables
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.memory import Memory
from lance_flight.engine.runtime.running_statement import MaintenanceRecords, RunningStatement
from lance_flight.engine.runtime.session_registry import Session, SessionRegistry
from lance_flight.engine.runtime.statement_registry import NO_PEERS, Peers, StatementRegistry
from lance_flight.engine.runtime.transactions import SqlTransaction


@dataclass(slots=True, kw_only=True)
class Sessions:
    """Creates the contexts and sessions of one server's statements; `target_partitions` is the number of lanes of a scan."""

    root: Root
    target_partitions: int
    memory: Memory
    running: StatementRegistry
    clients: SessionRegistry
    maintained: MaintenanceRecords
    peers: Peers = NO_PEERS
    planning_timeout: float = 0.0
    server: ServerProcess = field(default_factory=ServerProcess)

    def apply(self, limits: Limits) -> None:
        """Hold statements that begin from now on to other limits."""
        self.memory.apply(limits)
        self.planning_timeout = limits.planning_timeout

    def visible_root(self, scope: Scope) -> Root:
        """Return the root as a statement sees it; `NewerFormat` where only newer releases read it."""
        self.root.formats.check()
        return scope.temporary.over(self.root.on_branch(scope.branch).guard_with(scope.access))

    def of_scope(self, scope: Scope, running: RunningStatement) -> StatementContext:
        """Return the context of a statement in its scope, without its transaction."""
        pool = self.memory.pool(scope.issuer.allowance)
        return StatementContext(
            root=self.visible_root(scope),
            target_partitions=self.target_partitions,
            db_schema=scope.db_schema,
            execution=scope.execution,
            isolation=scope.isolation,
            access=scope.access,
            runtime=self.memory.runtime(pool),
            spill_directory=self.memory.spill_directory,
            pool=pool,
            planning_timeout=self.planning_timeout,
            running=running,
            subject=running.subject,
            system=self._system(scope.access),
        )

    def of_task(
        self, task: Task, running: RunningStatement, access: Access, temporary: Temporary, holds: list[SnapshotLease]
    ) -> StatementContext:
        """Return the context of a task, with the snapshots that it was planned with."""
        self.root.formats.check()
        pool = self.memory.pool(running.issuer.allowance)
        return StatementContext(
            root=temporary.over(self.root.on_branch(task.branch).guard_with(access)),
            target_partitions=self.target_partitions,
            # Its snapshots are fixed: the rows stream beside whatever the transaction does next.
            transaction=None if task.transaction is None else self.clients.transaction(task.transaction).sql,
            db_schema=task.db_schema,
            readings=task.readings,
            views=task.views,
            execution=task.execution,
            isolation=task.isolation,
            share=task.share,
            access=access,
            holds=holds,
            runtime=self.memory.runtime(pool),
            spill_directory=self.memory.spill_directory,
            pool=pool,
            planning_timeout=self.planning_timeout,
            running=running,
            subject=running.subject,
            system=self._system(access),
        )

    def within(self, scope: Scope, running: RunningStatement) -> Callable[..., QuerySession]:
        """Return what makes the sessions of a statement that changes something: by transaction, target, and what is done to its rows."""
        context = self.of_scope(scope, running)

        def begin(
            transaction: SqlTransaction | None = None,
            target: TableName | None = None,
            changing: frozenset[Privilege] = frozenset(),
        ) -> QuerySession:
            return self.begin(in_transaction(context, transaction, target=target, changing=changing))

        return begin

    def begin(self, context: StatementContext) -> QuerySession:
        """Begin a session for a statement that is planned for the first time."""
        return QuerySession(context)

    def system_rows(self, name: str, principal: str | None, peers: Peers = NO_PEERS) -> pa.Table:
        """Return all rows of a system table that a principal may see (None: an administrator) at this server and some others."""
        return self._system_of(principal, peers).all_rows(name)

    def _system(self, access: Access) -> SystemTables:
        return self._system_of(None if access.is_admin else access.principal, self.peers)

    def _system_of(self, principal: str | None, peers: Peers) -> SystemTables:
        return SystemTables(
            running=self.running,
            clients=self.clients,
            maintained=self.maintained,
            server=self.server,
            peers=peers,
            principal=principal,
        )


def in_transaction(
    context: StatementContext,
    transaction: SqlTransaction | None,
    *,
    holds: list[SnapshotLease] | None = None,
    target: TableName | None = None,
    changing: frozenset[Privilege] = frozenset(),
) -> StatementContext:
    """Return the context in a transaction, which then holds the leases of snapshots unless the caller does."""
    if holds is None and transaction is not None:
        holds = transaction.holds
    return replace(context, transaction=transaction, holds=holds, target=target, changing=changing)


def temporary_of(task: Task, session: Session | None) -> Temporary:
    """Return the temporary tables of a task, readable if the redeeming session is the one that created them."""
    names = frozenset(TableName(PUBLIC, name) for name in task.temporary)
    is_its_own = session is not None and session.id == task.session
    return Temporary(names, session.temporary.list_tables().root if session is not None and is_its_own else None)
