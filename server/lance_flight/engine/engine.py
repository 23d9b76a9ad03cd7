"""Engine facade: runs one statement and returns its rows or a count."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import pyarrow as pa

from lance_flight.backend_values import Description, IfExists, TablePlace
from lance_flight.catalog.manifests.snapshot import BranchVersion
from lance_flight.catalog.roots.directory import NO_TABLES, Root, TableName, Temporary
from lance_flight.catalog.storage.leases import SnapshotLease, leases
from lance_flight.catalog.storage.retries import listing, looking_since
from lance_flight.catalog.storage.staging_area import run_with_reserve
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables.partitions import place_of_files
from lance_flight.engine.functions.routines import routines, volatile_functions
from lance_flight.engine.query.access import UNLIMITED, Access, Privilege
from lance_flight.engine.query.planned_query import (
    PlanCache,
    PlannedQuery,
    QueryPlan,
    Task,
    is_ordered,
    split,
    tasks_of,
)
from lance_flight.engine.query.session import QuerySession, parameter_schema
from lance_flight.engine.query.statement_context import ALONE, Scope
from lance_flight.engine.runtime.admission import NO_LIMITS, AdmissionSlot, Limits
from lance_flight.engine.runtime.memory import Memory
from lance_flight.engine.runtime.running_statement import (
    Issuer,
    MaintenanceRecords,
    RunningStatement,
    State,
    StatementKind,
    StatementWatch,
)
from lance_flight.engine.runtime.session_registry import Session, SessionRegistry
from lance_flight.engine.runtime.statement_registry import NO_PEERS, Peers, StatementRegistry
from lance_flight.engine.runtime.streams import BatchStream
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.references import CATALOG, reads_activity, table_name
from lance_flight.engine.sql.tokens import LONGEST_PLANNED, insert_head
from lance_flight.engine.statements.answering import (
    Answering,
    Reports,
    Sessions,
    in_transaction,
    maintenance_work,
    temporary_of,
)
from lance_flight.engine.statements.kinds import (
    Answer,
    Changes,
    ChangeStatement,
    HistoryAlteration,
    MaintenanceStatement,
    MaintenanceWork,
    RowsStatement,
    Server,
    SessionStatement,
    Statement,
    check_privileges,
    record_ingest,
    record_statement,
    shared_ingests,
    temporary_root,
)
from lance_flight.engine.statements.parsing import parse
from lance_flight.engine.translation.parameters import check_parameters
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.column_changes import ColumnChanges
from lance_flight.engine.writes.ingest import APPENDED, IngestOptions, Receiver, SharedPart
from lance_flight.errors import Cancelled, LimitExceeded, NotFound, SqlError, StatementTimeout
from lance_flight.model.schema import NamespaceSchema, primary_key_name
from lance_flight.threads import STATEMENTS, going_on

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Begun:
    """Query that is planned and not yet read, with the leases of its snapshots."""

    running: RunningStatement
    answer: Answer
    holds: list[SnapshotLease]


class Engine:
    """Runs SQL over one root. Safe to share among threads.

    `target_partitions` is the number of lanes of a scan.
    """

    def __init__(
        self, root: Root, *, target_partitions: int, limits: Limits = NO_LIMITS, peers: Peers = NO_PEERS
    ) -> None:
        self.root = root
        self.peers = peers
        self.limits = limits
        self.clients = SessionRegistry(root, limits)
        self.running = StatementRegistry(limits)
        self.maintained = MaintenanceRecords()
        self._reports = Reports(limits.ticket_lifetime)
        self.sessions = Sessions(
            root=root,
            target_partitions=target_partitions,
            memory=Memory(limits),
            running=self.running,
            clients=self.clients,
            maintained=self.maintained,
            peers=peers,
            planning_timeout=limits.planning_timeout,
        )
        self.plans = PlanCache()
        # DataFusion cannot list them while it plans.
        routines()
        volatile_functions()
        self._answering = Answering(self.sessions, self.plans)

    def apply(self, limits: Limits) -> None:
        """Hold statements and sessions that begin from now on to other limits."""
        self.limits = limits
        self.clients.limits = limits
        self.running.apply(limits)
        self.sessions.apply(limits)
        self._reports.seconds = limits.ticket_lifetime

    def describe(self, sql: str, scope: Scope = ALONE) -> Description:
        """The result schema and the parameters of a statement, none of which is run."""
        with self.running.enter(StatementKind.PREPARE, sql, scope.issuer) as running:
            running.watches = reads_activity(sql)
            return self._describe(running, scope)

    def _describe(self, running: RunningStatement, scope: Scope) -> Description:
        sql = running.sql
        statement = check_privileges(self._parse(sql, scope, running), scope.access, self.sessions.visible_root(scope))
        if isinstance(statement, SessionStatement):
            return Description(schema=None, parameters=parameter_schema(sql))
        with self._turn(running, scope) as (transaction, _):
            running.at(State.PLANNING)
            match statement:
                case RowsStatement():
                    context = in_transaction(self.sessions.of_scope(scope, running), transaction)
                    session, answered = self._answering.answer(statement, context, scope.branch, None)
                    parameters = parameter_schema(sql, session.wanted_types())
                    self._answering.keep(answered)
                    return Description(schema=answered.schema, parameters=parameters)
                case MaintenanceStatement():
                    work = maintenance_work(self.sessions.visible_root(scope), transaction, statement)
                    return Description(schema=work.schema, parameters=parameter_schema(sql))
                case ChangeStatement():
                    changes = self._changes(running, scope, transaction)
                    schema = statement.answer_schema(changes)
                    return Description(schema=schema, parameters=statement.parameters(sql, changes))
        raise TypeError(f"{statement.label} is of no kind of statement")

    def _parse(self, sql: str, scope: Scope, running: RunningStatement | None = None) -> Statement:
        """Parse a statement; raise `LimitExceeded` if its text is too long."""
        size, most = len(sql.encode()), self.limits.statement_text
        if most is not None and size > most:
            raise LimitExceeded(
                f"the statement has {size} bytes; expected at most {most}, the setting statement_limit:"
                " send rows as an ingest, and values as parameters"
            )
        if most is not None and size > (most := max(LONGEST_PLANNED, most // 4)) and insert_head(sql) is None:
            raise LimitExceeded(
                f"the text has {size} bytes, and is no list of rows; expected at most {most}, a quarter of the setting statement_limit:"
                " send values as parameters"
            )
        return parse(sql, scope.db_schema, check=going_on if running is None else running.cancellation.check)

    def execute(
        self,
        sql: str,
        parameters: pa.RecordBatch | None = None,
        *,
        endpoints: int = 1,
        scope: Scope = ALONE,
        begun: list[_Begun] | None = None,
    ) -> QueryPlan | int:
        """Plan a query; run any other statement once for each row of `parameters`, and return the number of affected rows.

        One that returns a report, or rows by RETURNING, is run as well, and its plan gives these. A query that is read at once is
        added to `begun`.
        """
        with self.running.enter(StatementKind.QUERY, sql, scope.issuer) as running:
            running.watches = reads_activity(sql)
            if parameters is not None:
                running.uncounted = parameters.nbytes
            running.limit(scope.execution.statement_timeout)

            def read() -> Statement:
                return check_privileges(
                    self._parse(sql, scope, running), scope.access, self.sessions.visible_root(scope)
                )

            statement = self._in_time(running, read)
            if isinstance(statement, RowsStatement):
                return self._plan(running, statement, parameters, endpoints, scope, begun=begun)
            running.kind = StatementKind.UPDATE
            with record_statement(statement, running.subject):
                if isinstance(statement, MaintenanceStatement):
                    return self._run_maintenance(running, statement, parameters, scope)
                change = partial(self._run_change, running, statement, parameters, scope)
                # What a transaction has written before is not run again.
                is_whole = statement.frees_room and scope.transaction is None
                outcome = run_with_reserve(self.root.store, change) if is_whole else change()
                if isinstance(outcome, pa.Table):
                    return self._reports.plan(running, outcome, scope)
                running.rows = outcome
            return running.rows

    def answer(
        self, sql: str, parameters: pa.RecordBatch | None = None, scope: Scope = ALONE
    ) -> tuple[QueryPlan, BatchStream]:
        """Run a query for its rows: as `execute` and `stream` do it in two calls, but planned and admitted once."""
        begun: list[_Begun] = []
        plan = self.execute(sql, parameters, scope=scope, begun=begun)
        if isinstance(plan, int):
            raise SqlError("the statement returns no rows")
        if not begun:  # a report
            return plan, self.stream(plan.tasks[0], scope.issuer, scope.access, scope.session)
        query = begun.pop()
        batches = self._stream_held(query.answer, query.holds)
        return plan, self._send(query.running, 0, scope.issuer, plan.schema, batches)

    def plan(
        self, sql: str, parameters: pa.RecordBatch | None = None, *, endpoints: int = 1, scope: Scope = ALONE
    ) -> QueryPlan | None:
        """Plan a statement that returns rows, or run it for its report; return None for one without rows, which is not run."""
        if not self._parse(sql, scope).returns_rows:
            return None
        planned = self.execute(sql, parameters, endpoints=endpoints, scope=scope)
        return planned if isinstance(planned, QueryPlan) else None

    def update(self, sql: str, parameters: pa.RecordBatch | None = None, scope: Scope = ALONE) -> int:
        """Run a statement that is no query, once for each row of `parameters`; return the number of affected rows, or of its report's."""
        if isinstance(self._parse(sql, scope), RowsStatement):
            raise SqlError("the statement returns rows; run it as a query")
        outcome = self.execute(sql, parameters, scope=scope)
        return outcome if isinstance(outcome, int) else outcome.rows or 0

    def column_changes(self, name: TableName, sql: str) -> ColumnChanges | None:
        """Return what an ALTER TABLE makes of the columns of a table, and change nothing; None for one about something else."""
        statement = parse(sql)
        return statement.column_changes(self.root, name) if isinstance(statement, HistoryAlteration) else None

    def _run_maintenance(
        self,
        running: RunningStatement,
        statement: MaintenanceStatement,
        parameters: pa.RecordBatch | None,
        scope: Scope,
    ) -> QueryPlan:
        """Run a maintenance statement once, and plan its report; a disconnecting client ends only what can be cancelled."""
        check_parameters(running.sql, parameters, is_query=True)
        with self._turn(running, scope) as (transaction, _):
            root = self.sessions.visible_root(scope)

            def open_table() -> tuple[bool, MaintenanceWork]:
                # How many partitions there are, and which rows lie in one, is for those who may read them all.
                is_told = scope.access.reads_all(root.governing_table(table_name(statement.table)))
                watch = StatementWatch(running, is_told=is_told)
                return is_told, maintenance_work(root, transaction, statement, watch)

            is_told, work = self._in_time(running, open_table)
            running.at(State.RUNNING)
            if work.is_cancellable:
                report = running.cancellation.run_in_thread(work.run)
            else:
                running.cancellation.begin_commit()
                report = work.run()
        return self._reports.plan(running, report.as_table if is_told else report.without_counts, scope)

    def _plan(
        self,
        running: RunningStatement,
        statement: RowsStatement,
        parameters: pa.RecordBatch | None,
        endpoints: int,
        scope: Scope,
        *,
        begun: list[_Begun] | None = None,
    ) -> QueryPlan:
        check_parameters(running.sql, parameters, is_query=True)
        holds: list[SnapshotLease] = []
        shares, rows, sql = 1, None, ""
        if begun is not None:
            self._wait_for_room(running, scope.issuer)
        with self._turn(running, scope) as (transaction, _):
            running.at(State.PLANNING)
            context = in_transaction(self.sessions.of_scope(scope, running), transaction, holds=holds)

            def work() -> tuple[QuerySession, Answer, bool]:
                with STATEMENTS.turn(len(running.sql), running.cancellation.check):
                    session, answered = self._answering.answer(statement, context, scope.branch, parameters)
                    if answered.frame is None:
                        return session, answered, False
                    session.plan_ahead(answered.frame)
                    return session, answered, is_ordered(answered.frame.logical_plan())

            session, answered, ordered = work() if transaction else self._in_time(running, work)
            if isinstance(answered, PlannedQuery):
                shares, rows = split(answered, endpoints)
                sql = "" if statement.text in {None, answered.text} else answered.text
            readings, views = dict(session.named.readings), session.view_digests
            if begun is None:
                self._answering.keep(answered, is_awaited=True)
            else:
                begun.append(_Begun(running, answered, list(holds)))
                holds.clear()
        expires = self._keep(running, holds)
        running.snapshots = {name: reading.version for name, reading in readings.items()}
        running.awaited.update(range(shares))
        return QueryPlan(
            schema=answered.schema,
            tasks=tasks_of(running, parameters, readings, shares, scope, sql=sql, views=views),
            expires=expires,
            snapshots=running.snapshots,
            rows=rows,
            ordered=ordered,
            partitions=running.scanned,
        )

    def _in_time(self, running: RunningStatement, work: Callable[[], T]) -> T:
        """Run work outside of transactions; in an object store give it up once the statement is over, since requests cannot be ended.

        Its commit, if it comes to one, fails then.
        """
        if not self.root.store.is_remote:
            return work()
        return running.cancellation.run_in_thread(partial(copy_context().run, work))

    def _keep(self, running: RunningStatement, holds: list[SnapshotLease]) -> datetime:
        """Keep the snapshots of a query until its tickets expire, and return that time."""
        seconds = self.limits.ticket_lifetime
        leases.keep(holds, seconds)
        holds.clear()
        running.keep(seconds)
        return datetime.now(UTC) + timedelta(seconds=seconds)

    def renew(self, task: Task, issuer: Issuer, access: Access = UNLIMITED, session: Session | None = None) -> datetime:
        """Keep the snapshots of a task for as long as those of a new plan, and say until when that is.

        It may be one of another server over the same root.
        """
        if task.report is not None:
            self._check_reader(task, access, temporary_of(task, session))
            return self._reports.renew(task)
        running = self.running.of_ticket(task.statement, task.share.part, task.sql, issuer, task.began)
        with self.running.working(running, issuer), self.running.turn(running, issuer):
            holds: list[SnapshotLease] = []
            self._answering.keep(self._redeem(running, task, holds, access, temporary_of(task, session)))
            return self._keep(running, holds)

    def run(
        self,
        task: Task,
        issuer: Issuer | None = None,
        access: Access = UNLIMITED,
        session: Session | None = None,
    ) -> pa.RecordBatchReader:
        """Run one task and return its rows as a `RecordBatchReader`."""
        rows = self.stream(task, issuer, access, session)
        return pa.RecordBatchReader.from_batches(rows.schema, rows)

    def stream(
        self,
        task: Task,
        issuer: Issuer | None = None,
        access: Access = UNLIMITED,
        session: Session | None = None,
    ) -> BatchStream:
        """Run one task and stream its rows in exactly the schema of its plan, restricted to what the issuer may see.

        The temporary tables of a `session` are read for that one alone.
        """
        if task.report is not None:
            self._check_reader(task, access, temporary_of(task, session))
            report = self._reports.read(task)
            return BatchStream(report.schema, iter(report.to_batches()))
        issuer = issuer or Issuer()
        running = self.running.of_ticket(task.statement, task.share.part, task.sql, issuer, task.began)
        running.watches = reads_activity(task.sql)
        # What it found when it was planned is good for its rows, too.
        with self.running.working(running, issuer), looking_since(running.started):
            self._wait_for_room(running, issuer)
            with self.running.turn(running, issuer):
                begin = partial(self._begun, running, task, access, temporary_of(task, session))
                schema, batches = self._in_time(running, begin)
        return self._send(running, task.share.part, issuer, schema, batches)

    def _wait_for_room(self, running: RunningStatement, issuer: Issuer) -> None:
        """Wait until so little is held for the clients of an issuer that another stream may begin."""
        if not running.watches:
            self.running.open_streams.wait_for_room(running.cancellation, issuer.holder)

    def _send(
        self,
        running: RunningStatement,
        part: int,
        issuer: Issuer,
        schema: pa.Schema,
        batches: Generator[pa.RecordBatch],
    ) -> BatchStream:
        """Stream the rows of one part of a statement, as they are read."""
        streamed = self.running.stream(running, part, issuer, batches)
        opened = self.running.open_streams.open(
            streamed, running.ahead, running.cancellation, peer=issuer.connection, holder=issuer.holder
        )
        return BatchStream(schema, streamed, opened)

    def _check_reader(self, task: Task, access: Access, temporary: Temporary) -> None:
        """Refuse the report of a statement to a caller who may not run that statement."""
        access = access.with_temporary_tables(temporary.names)
        check_privileges(parse(task.sql, task.db_schema), access, temporary.over(self.root.guard_with(access)))

    def _begun(
        self, running: RunningStatement, task: Task, access: Access, temporary: Temporary
    ) -> tuple[pa.Schema, Generator[pa.RecordBatch]]:
        holds: list[SnapshotLease] = []
        answered = self._redeem(running, task, holds, access, temporary)
        return answered.schema, self._stream_held(answered, holds)

    def _stream_held(self, answered: Answer, holds: list[SnapshotLease]) -> Generator[pa.RecordBatch]:
        """Yield the rows of a statement, and hold the leases of their snapshots until the last one was read."""
        try:
            yield from answered.batches()
            self._answering.keep(answered)
        finally:
            holds.clear()

    def _redeem(
        self, running: RunningStatement, task: Task, holds: list[SnapshotLease], access: Access, temporary: Temporary
    ) -> Answer:
        """Answer a task, over snapshots that `holds` keeps."""
        access = access.with_temporary_tables(temporary.names)
        statement = check_privileges(
            parse(task.sql, task.db_schema), access, temporary.over(self.root.guard_with(access))
        )
        if not isinstance(statement, RowsStatement):
            raise SqlError("the statement returns no rows")
        running.at(State.PLANNING)
        running.limit(task.execution.statement_timeout)
        context = self.sessions.of_task(task, running, access, temporary, holds)
        session, answered = self._answering.answer(statement, context, task.branch, task.parameters)
        running.snapshots = {name: reading.version for name, reading in session.named.readings.items()}
        return answered

    def query(self, sql: str, parameters: pa.RecordBatch | None = None) -> pa.Table:
        """Run a query and return all its rows at once; for small results within the server."""
        planned = self.plan(sql, parameters) if isinstance(parse(sql), MaintenanceStatement) else None
        return self.run(Task(sql=sql, parameters=parameters) if planned is None else planned.tasks[0]).read_all()

    def _run_change(
        self, running: RunningStatement, statement: Statement, parameters: pa.RecordBatch | None, scope: Scope
    ) -> int | pa.Table:
        check_parameters(running.sql, parameters, is_query=False)
        match statement:
            case SessionStatement():
                begun = partial(self._transaction, scope)
                return statement.run(Server(self.running, self.clients, self.peers, running.cancellation, scope, begun))
            case ChangeStatement():
                with self._turn(running, scope) as (transaction, _):
                    running.at(State.RUNNING)
                    change = partial(self._change, running, statement, parameters, scope, transaction)
                    return self._in_transaction(running, transaction, change) if statement.is_cancellable else change()
        raise TypeError(f"{statement.label} is of no kind of statement")

    def _in_transaction(
        self, running: RunningStatement, transaction: SqlTransaction | None, change: Callable[[], T]
    ) -> T:
        """Run a change in time; a transaction that holds half of one that was given up can only be rolled back."""
        try:
            return self._in_time(running, change)
        except (Cancelled, StatementTimeout) as exc:
            if transaction is not None and self.root.store.is_remote:
                transaction.give_up(exc, running.cancellation)
            raise

    def _change(
        self,
        running: RunningStatement,
        statement: ChangeStatement,
        parameters: pa.RecordBatch | None,
        scope: Scope,
        transaction: SqlTransaction | None,
    ) -> int | pa.Table:
        return statement.execute(self._changes(running, scope, transaction, parameters))

    def _changes(
        self,
        running: RunningStatement,
        scope: Scope,
        transaction: SqlTransaction | None,
        parameters: pa.RecordBatch | None = None,
    ) -> Changes:
        """Return the context in which a changing statement is executed."""
        return Changes(
            root=self.sessions.visible_root(scope),
            new_session=self.sessions.within(scope, running),
            parameters=parameters,
            cancellation=running.cancellation,
            transaction=transaction,
            serializable=scope.session is not None and scope.session.is_serializable,
            access=scope.access,
            temporary=scope.own_tables,
            shared=partial(shared_ingests, scope),
            watch=StatementWatch(running),
        )

    def ingest(
        self,
        name: TableName,
        reader: pa.RecordBatchReader,
        *,
        create_missing: bool,
        existing: IfExists,
        options: IngestOptions = APPENDED,
        scope: Scope = ALONE,
        temporary: bool = False,
    ) -> int:
        """Store a stream of rows in one commit, or in the transaction, and return their number.

        Those of a `temporary` table are there at once, whatever becomes of the transaction.
        """
        receiver = Receiver(iter(reader), idle_seconds=self.limits.ingest_idle_timeout)

        def work() -> int:
            if options.part is not None:
                return self._ingest_part(name, reader.schema, receiver, options.part, scope)
            with (
                self.running.enter(StatementKind.INGEST, f"INGEST INTO {name}", scope.issuer) as running,
                self._turn(running, scope) as (transaction, turn),
            ):
                batches = running.count_received(receiver.batches(running.cancellation), turn)
                root = self.sessions.visible_root(scope)
                store = partial(
                    ingest.ingest,
                    temporary_root(scope.own_tables, name, root) if temporary else root,
                    name,
                    pa.RecordBatchReader.from_batches(reader.schema, batches),
                    create_missing=create_missing,
                    existing=existing,
                    options=options,
                    transaction=None if temporary else transaction,
                    cancellation=running.cancellation,
                    access=UNLIMITED if temporary else scope.access,
                    on_create=partial(record_ingest, str(name), running.subject),
                )
                return self._in_transaction(running, transaction, store)

        return receiver.run(work)

    def _ingest_part(
        self, name: TableName, columns: pa.Schema, receiver: Receiver, part: SharedPart, scope: Scope
    ) -> int:
        """Store the rows of a part of a shared ingest, beside those of others: the transaction waits for none of them."""
        root = self.sessions.visible_root(scope)
        policy = scope.access.rows([Privilege.INSERT], root.governing_table(name))
        with self.running.enter(StatementKind.INGEST, f"INGEST INTO {name}", scope.issuer) as running:
            running.limit(scope.execution.statement_timeout)
            with self._transaction(scope) as transaction:
                ingests = shared_ingests(scope)
                found = ingest.PartOfIngest.begin(transaction or root, name, columns, part, ingests, policy=policy)

            def check() -> None:
                running.cancellation.check()
                if scope.transaction is not None:
                    # The one that makes the table is in use meanwhile.
                    self.clients.own(scope.principal, scope.transaction)

            with self.running.turn(running, scope.issuer) as turn:
                batches = running.count_received(receiver.batches(running.cancellation), turn)
                return self._in_time(running, partial(found.store, batches, check))

    def schemas(self, access: Access = UNLIMITED) -> list[tuple[str, str]]:
        """Return every schema with its catalog."""
        with listing():
            return [(CATALOG, name) for name in self.root.guard_with(access).schemas()]

    def tables(self, access: Access = UNLIMITED, temporary: Temporary = NO_TABLES) -> list[TableName]:
        """Return the names of all tables."""
        with looking_since():
            return temporary.over(self.root.guard_with(access)).tables()

    def views(self, access: Access = UNLIMITED) -> list[TableName]:
        """Return the names of all views."""
        return [view.name for view in self.root.guard_with(access).views()]

    def columns_of_view(self, name: TableName, access: Access = UNLIMITED) -> pa.Schema:
        """Return the columns of a view, as it was made."""
        view = self.root.guard_with(access).view(name)
        if view is None:
            raise NotFound(f"no view {name.name!r}")
        return view.columns

    def schema_of(
        self, name: TableName, access: Access = UNLIMITED, temporary: Temporary = NO_TABLES, at: str | None = None
    ) -> pa.Schema:
        """Return the columns of a table as a client sees them, with what is said of them; at a version, tag or branch."""
        return self._visible_columns(name, access, temporary, at).commented

    def primary_key(self, name: TableName, access: Access, temporary: Temporary) -> tuple[str, tuple[str, ...]] | None:
        """Return the name and the columns of the primary key of a table; None without one."""
        columns = self._visible_columns(name, access, temporary).primary_key
        return (primary_key_name(name.name), columns) if columns else None

    def partitioned_tables(self, access: Access = UNLIMITED) -> set[TableName]:
        """Return the names of the tables with partitions."""
        with listing():
            return {name for name, is_partitioned in self.root.guard_with(access).kinds().items() if is_partitioned}

    def declare(self, name: TableName, access: Access = UNLIMITED) -> str:
        """Return where another engine is to write a new plain table."""
        return self.root.guard_with(access).declare(name)

    def places(self, name: TableName, access: Access = UNLIMITED) -> list[TablePlace]:
        """Return the places of all partition tables of a table, or its own; `Refused` without SELECT on all rows and columns."""
        root = self.root.guard_with(access)

        def listed(table: Table) -> list[TablePlace]:
            access.check_all_rows(Privilege.SELECT, root.governing_table(name))
            snapshot = table.snapshot()
            if not snapshot.is_partitioned:
                return [TablePlace(object_id="", uri=table.store.uri, version=snapshot.version)]
            return [
                TablePlace(
                    object_id=partition_table.object_id,
                    uri=table.store.child(
                        place_of_files(
                            partition_table.location,
                            partition_table.pin if isinstance(partition_table.pin, BranchVersion) else None,
                        )
                    ).uri,
                    version=getattr(partition_table.pin, "version", None),
                )
                for partition_table in snapshot.all_tables()
            ]

        return root.read(name, listed)

    def _visible_columns(
        self, name: TableName, access: Access, temporary: Temporary, at: str | None = None
    ) -> NamespaceSchema:
        """Return the columns of a table that a principal may know of."""
        root = temporary.over(self.root.guard_with(access))
        on_branch, _, version = (at or "").rpartition("@")
        if on_branch:
            name, at = TableName(name.db_schema, f"{name.name}@{on_branch}"), version
        point: int | str | None = int(at) if at is not None and at.isdecimal() else at
        branch = TableName(name.db_schema, f"{name.name}@{at}")
        if isinstance(point, str) and root.has(branch):
            name, point = branch, None
        with listing():
            schema: NamespaceSchema = root.read(name, lambda table: table.snapshot(point).schema)
            return access.with_temporary_tables(temporary.names).visible_schema(schema, root.governing_table(name))

    @contextmanager
    def _turn(self, running: RunningStatement, scope: Scope) -> Iterator[tuple[SqlTransaction | None, AdmissionSlot]]:
        """Enter the transaction of a statement, then wait for an admission slot; waiting for the transaction occupies no slot."""
        running.limit(scope.execution.statement_timeout)
        with self._transaction(scope) as transaction, self.running.turn(running, scope.issuer) as turn:
            yield transaction, turn

    @contextmanager
    def _transaction(self, scope: Scope) -> Iterator[SqlTransaction | None]:
        """Lock the open transaction of a statement while it runs; yield None if the statement has its own."""
        if scope.transaction is None:
            yield None
            return
        with self.clients.own(scope.principal, scope.transaction).statement() as transaction:
            transaction.guard(scope.access)
            transaction.know(scope.temporary.root, scope.temporary.names)
            yield transaction
