"""The sessions of statements: what each of them sees of the root, within its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.roots.temporary import Temporary
from lance_flight.catalog.storage.leases import Hold
from lance_flight.engine.query.named_tables import Reading
from lance_flight.engine.query.policies.access import UNLIMITED, Access, Privilege
from lance_flight.engine.query.scope import Scope
from lance_flight.engine.query.session import Session
from lance_flight.engine.query.system_tables import SystemTables
from lance_flight.engine.query.tables import Share
from lance_flight.engine.query.tasks import Task
from lance_flight.engine.runtime.clients import Clients
from lance_flight.engine.runtime.execution import Execution
from lance_flight.engine.runtime.memory import Memory
from lance_flight.engine.runtime.running import RunningStatements
from lance_flight.engine.runtime.statement_runs import RunningStatement
from lance_flight.engine.runtime.transactions import SqlTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Makes the sessions of one server's statements; `ways` is the number of lanes of a scan."""

    root: Root
    ways: int
    memory: Memory
    running: RunningStatements
    clients: Clients
    planning_timeout: float = 0.0

    def seen(self, scope: Scope) -> Root:
        """The root as a statement sees it."""
        return scope.temporary.over(self.root.on_branch(scope.branch).guarded(scope.access))

    def within(self, scope: Scope, running: RunningStatement) -> Callable[..., Session]:
        """What makes the sessions of a statement where it belongs, for the other arguments of `begin`."""
        return partial(
            self.begin,
            self.seen(scope),
            execution=scope.execution,
            db_schema=scope.db_schema,
            running=running,
            access=scope.access,
        )

    def of_task(
        self, task: Task, running: RunningStatement, access: Access, temporary: Temporary
    ) -> Callable[..., Session]:
        """What makes the sessions of a task, of the snapshots that it was planned with."""
        # Its snapshots are fixed: the rows stream beside whatever the transaction does next.
        transaction = None if task.transaction is None else self.clients.transaction(task.transaction).sql
        return partial(
            self.begin,
            temporary.over(self.root.on_branch(task.branch).guarded(access)),
            transaction,
            readings=task.readings,
            share=task.share,
            execution=task.execution,
            db_schema=task.db_schema,
            running=running,
            access=access,
        )

    def begin(
        self,
        root: Root,
        transaction: SqlTransaction | None = None,
        target: TableName | None = None,
        changing: frozenset[Privilege] = frozenset(),
        *,
        readings: Mapping[str, Reading] | None = None,
        share: Share | None = None,
        holds: list[Hold] | None = None,
        execution: Execution | None = None,
        db_schema: str = PUBLIC,
        running: RunningStatement | None = None,
        access: Access = UNLIMITED,
    ) -> Session:
        """A session over a root as a statement sees it."""
        return Session(
            root,
            ways=self.ways,
            readings=readings,
            share=share,
            runtime=self.memory.runtime(),
            transaction=transaction,
            target=target,
            holds=holds if holds is not None or transaction is None else transaction.holds,
            execution=execution,
            db_schema=db_schema,
            running=running,
            access=access,
            changing=changing,
            planning_timeout=self.planning_timeout,
            system=SystemTables(
                running=self.running,
                clients=self.clients,
                principal=None if access.is_admin else access.principal,
            ),
        )
