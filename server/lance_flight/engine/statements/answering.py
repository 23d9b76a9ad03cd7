"""Answers of statements: rows of a query, from a cached plan or a new one, and kept reports; and the sessions that give them.

A report describes the work of a maintenance statement in rows, which are read as often as its ticket is redeemed.
Such a statement runs once, when it is executed; its ticket gives the report and can never run it again. A small report travels in
its ticket, so that any server gives it; a large one is kept by the server that ran the statement.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.arrow_streams import decode_table, encode_rows
from lance_flight.catalog.bulk.pieces import Watch
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName, Temporary
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.engine.query.access import Access, Privilege
from lance_flight.engine.query.planned_query import (
    LONGEST_TEXT,
    PlanCache,
    PlanKey,
    PlannedQuery,
    QueryPlan,
    Task,
    tasks_of,
)
from lance_flight.engine.query.runner import shape_batches
from lance_flight.engine.query.search.arguments import without_vectors
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.statement_context import Scope, StatementContext
from lance_flight.engine.query.tables.system_tables import ServerProcess, SystemTables
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.memory import Memory
from lance_flight.engine.runtime.running_statement import MaintenanceRecords, RunningStatement
from lance_flight.engine.runtime.session_registry import Session, SessionRegistry
from lance_flight.engine.runtime.statement_registry import NO_PEERS, Peers, StatementRegistry
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.references import table_name
from lance_flight.engine.statements.kinds import Answer, MaintenanceStatement, MaintenanceWork, RowsStatement
from lance_flight.errors import InvalidInput, NotFound, TicketError, Unsupported
from lance_flight.lru_cache import LruCache


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


AnswerTo = Callable[[pa.RecordBatch | None], Answer]
"""Function that plans the answer to one row of parameters, in a session of its own."""


@dataclass(frozen=True, slots=True)
class RowByRow:
    """Concatenated answers to all rows of parameters; each but the first is planned when it is reached."""

    first: Answer
    others: pa.RecordBatch
    answer_to: AnswerTo
    frame: DataFrame | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.first.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.first.batches()
        for place in range(self.others.num_rows):
            yield from shape_batches(self.answer_to(self.others.slice(place, 1)).batches(), self.schema)


def answer_by_rows(statement: RowsStatement, parameters: pa.RecordBatch | None, answer_to: AnswerTo) -> Answer:
    """Return the answer to all rows of parameters; raise `InvalidInput` for several if the statement is no query."""
    if parameters is None or parameters.num_rows == 1:
        return answer_to(parameters)
    if statement.text is None:
        raise InvalidInput(f"{statement.label} takes one row of parameters, got {parameters.num_rows}")
    return RowByRow(answer_to(parameters.slice(0, 1)), parameters.slice(1), answer_to)


@dataclass(frozen=True, slots=True)
class Answering:
    """Answers the statements of one server, and caches the plans of their queries."""

    sessions: Sessions
    plans: PlanCache = field(default_factory=PlanCache)

    def answer(
        self,
        statement: RowsStatement,
        context: StatementContext,
        branch: str | None,
        parameters: pa.RecordBatch | None,
    ) -> tuple[QuerySession, Answer]:
        """Plan what a statement returns; `keep` takes the answer back, and the session is the one that it is planned in."""
        key = _plan_key(statement, context, branch, parameters)
        text = statement.text
        kept = None if key is None or text is None else self.plans.take(key, text, context, parameters)
        if kept is not None:
            return kept.session, kept
        target, changing = statement.target
        begun: list[QuerySession] = []

        def answer_to(row: pa.RecordBatch | None) -> Answer:
            session = self.sessions.begin(replace(context, target=target, changing=changing))
            begun.append(session)
            return statement.answer(session, row)

        answered = answer_by_rows(statement, parameters, answer_to)
        if key is not None and isinstance(answered, PlannedQuery):
            # The ticket of a PIVOT has the values that were read for it.
            text = key.text if answered.text == text else without_vectors(answered.text)
            answered = replace(answered, key=replace(key, text=text))
        return begun[0], answered

    def keep(self, answered: Answer, *, is_awaited: bool = False) -> None:
        """Return the plan of a statement to the cache: a finished one, or one that `is_awaited` by its ticket."""
        if isinstance(answered, PlannedQuery) and answered.key is not None:
            self.plans.keep(answered.key, answered, is_awaited=is_awaited)


def _plan_key(
    statement: RowsStatement, context: StatementContext, branch: str | None, parameters: pa.RecordBatch | None
) -> PlanKey | None:
    """Return the plan-cache key of a query; None if its plan cannot be shared: in a transaction, over temporary tables, or row by row."""
    text = statement.text
    is_shared = context.transaction is None and not context.access.own
    is_one = parameters is None or parameters.num_rows == 1
    if text is None or not (is_shared and is_one) or len(text) > LONGEST_TEXT:
        return None
    return PlanKey(without_vectors(text), context.db_schema, branch, context.execution, context.access, context.pool)


MOST_TICKET_BYTES = 64 << 10
MOST_BYTES = 64 << 20
MOST_REPORTS = 256

KEPT_HERE = b""
"""Marker in a task whose report is stored on this server."""

_COMPRESSION = "zstd"


def maintenance_work(
    root: Root, transaction: SqlTransaction | None, statement: MaintenanceStatement, progress: Watch | None = None
) -> MaintenanceWork:
    """Return the work of a maintenance statement on its table, without doing it."""
    name = table_name(statement.table)
    if transaction is not None:
        raise Unsupported(f"table {name.name!r} is maintained outside of any transaction; commit first")
    table = root.table(name)
    return statement.work(table, progress)


@dataclass(frozen=True, slots=True)
class _Kept:
    content: bytes
    expires: float
    owner: str


class Reports:
    """Store of the reports that are too large for their tickets, as compressed Arrow IPC. Safe to share among threads.

    Each is kept for `seconds`; those that were read longest ago go where there are more than `MOST_REPORTS`, or than `MOST_BYTES` in all.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._kept = LruCache[str, _Kept](MOST_REPORTS, most_weight=MOST_BYTES, weigh=lambda kept: len(kept.content))

    def plan(self, running: RunningStatement, report: pa.Table, scope: Scope) -> QueryPlan:
        """Plan the report of a statement that has run, as its only task."""
        running.rows, running.size = report.num_rows, report.nbytes
        content = encode_rows(report, _COMPRESSION)
        if len(content) > MOST_TICKET_BYTES:
            self._keep(running.id, content, running.issuer.holder)
            content = KEPT_HERE
        tasks = tuple(replace(task, report=content) for task in tasks_of(running, None, {}, 1, scope))
        return QueryPlan(schema=report.schema, tasks=tasks, expires=self._expiry(), rows=report.num_rows)

    def _keep(self, statement: str, content: bytes, owner: str) -> None:
        now = time.monotonic()
        self._kept.discard(lambda kept: kept.expires < now)
        self._kept.put(statement, _Kept(content, now + self.seconds, owner), owner=owner)

    def read(self, task: Task) -> pa.Table:
        """Return the report of a task; `NotFound` where it is kept by another server, or no longer."""
        return _decode(task.report or self._find(task).content)

    def renew(self, task: Task) -> datetime:
        """Keep the report of a task for as long as a new one, and return the time of expiry; raises the errors of `read`."""
        if not task.report:
            kept = self._find(task)
            self._keep(task.statement, kept.content, kept.owner)
        return self._expiry()

    def _find(self, task: Task) -> _Kept:
        kept = self._kept.get(task.statement)
        if kept is None:
            raise NotFound(
                f"the report of statement {task.statement!r} is not kept here: the statement has run, on another server, or"
                " before this one started, or many have run since; a ticket never runs it again"
            )
        return kept

    def _expiry(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.seconds)


def _decode(content: bytes) -> pa.Table:
    try:
        return decode_table(content)
    except pa.ArrowInvalid as exc:
        raise TicketError(f"a ticket that does not hold a report: {exc}") from exc
