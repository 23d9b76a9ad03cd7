"""The engine: one statement in, rows or a count out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lance_flight.catalog.directory import PUBLIC, Root, TableName
from lance_flight.catalog.leases import Hold, leases
from lance_flight.engine import ingest
from lance_flight.engine.answers import Answer, answer
from lance_flight.engine.changes import change, insert_columns
from lance_flight.engine.clients import Clients, ClientSession
from lance_flight.engine.dml import row_query, table_name
from lance_flight.engine.execution import Execution
from lance_flight.engine.named_tables import Reading
from lance_flight.engine.parameters import check_parameters, parameter_schema
from lance_flight.engine.partition_fields import PartitionDef
from lance_flight.engine.partition_wise.statistics import read_tables
from lance_flight.engine.pure_scans import is_pure_scan
from lance_flight.engine.references import CATALOG
from lance_flight.engine.row_changes import Delete, Merge, Update
from lance_flight.engine.session import Session
from lance_flight.engine.settings import set_option
from lance_flight.engine.statements import Explain, Insert, RowsStatement, SetOption, parse
from lance_flight.engine.tables import Share
from lance_flight.engine.tasks import Task
from lance_flight.engine.transactions import SqlTransaction
from lance_flight.errors import SqlError

TICKET_SECONDS = 600.0
"""How long the snapshots of a plan are kept for its tickets to be redeemed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A statement that was planned and not run; `schema` is None where it returns no rows."""

    schema: pa.Schema | None
    parameters: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """A query ready to run: its exact schema, one task for each endpoint, the snapshot of each table.

    `rows` is how many the tables of a query with several endpoints have, before any filter.
    """

    schema: pa.Schema
    tasks: tuple[Task, ...]
    snapshots: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a statement belongs: the session of its client, and the transaction it is part of."""

    session: ClientSession | None = None
    transaction: bytes | None = None

    @property
    def branch(self) -> str | None:
        """The branch that the session is on."""
        return None if self.session is None else self.session.branch

    @property
    def db_schema(self) -> str:
        """Where its tables without a schema are."""
        return PUBLIC if self.session is None else self.session.db_schema

    @property
    def execution(self) -> Execution:
        """How its queries are run."""
        return Execution() if self.session is None else self.session.execution


ALONE = Scope()
"""A statement of nobody's session, and a transaction of its own."""


class Engine:
    """Runs SQL over one root. Safe to share among threads.

    `ways` is the number of lanes of a scan; `memory_limit` bounds, in bytes, what one statement may hold.
    """

    def __init__(self, root: Root, *, ways: int, memory_limit: int | None = None) -> None:
        self.root = root
        self._ways = ways
        self._memory_limit = memory_limit
        self.clients = Clients(root)

    def describe(self, sql: str, scope: Scope = ALONE) -> Description:
        """The result schema and the parameters of a statement, none of which is run."""
        statement, root = parse(sql, scope.db_schema), self.root.on_branch(scope.branch)
        session_of = self._sessions(root, scope)
        with self._transaction(scope) as transaction:
            match statement:
                case _ if isinstance(statement, RowsStatement):
                    answered = answer(session_of(transaction, _target(statement)), statement)
                    return Description(schema=answered.schema, parameters=parameter_schema(sql, answered.frame))
                case Insert():
                    frame = session_of(transaction).frame(statement.query)
                    target = insert_columns(transaction or root, statement)
                    return Description(schema=None, parameters=parameter_schema(sql, frame, target))
                case Update() | Delete() | Merge():
                    name = table_name(statement.target.table)
                    session = session_of(transaction or SqlTransaction(root), name)
                    frame = session.frame(row_query(session, statement, name).sql)
                    return Description(schema=None, parameters=parameter_schema(sql, frame))
                case _:
                    return Description(schema=None, parameters=parameter_schema(sql, None))

    def plan(
        self,
        sql: str,
        parameters: pa.RecordBatch | None = None,
        *,
        endpoints: int = 1,
        scope: Scope = ALONE,
    ) -> QueryPlan | None:
        """Plan a statement that returns rows; None for one that does not."""
        statement = parse(sql, scope.db_schema)
        if not isinstance(statement, RowsStatement):
            return None
        check_parameters(sql, parameters, is_query=True)
        holds: list[Hold] = []
        root = self.root.on_branch(scope.branch)
        with self._transaction(scope) as transaction:
            session = self._sessions(root, scope)(transaction, _target(statement), holds=holds)
            answered = answer(session, statement, parameters)
            if answered.frame is not None:
                session.resolve_pins(answered.frame)
            shares = _shares(session, answered, endpoints) if endpoints > 1 else 1
            rows = _rows(session) if shares > 1 else None
        leases.keep(holds, TICKET_SECONDS)
        holds.clear()
        readings = dict(session.named.readings)
        tasks = (
            Task(
                sql=sql,
                parameters=parameters,
                readings=readings,
                share=Share(n, shares),
                transaction=scope.transaction,
                branch=scope.branch,
                db_schema=scope.db_schema,
                execution=scope.execution,
            )
            for n in range(shares)
        )
        snapshots = {name: reading.version for name, reading in readings.items()}
        return QueryPlan(schema=answered.schema, tasks=tuple(tasks), snapshots=snapshots, rows=rows)

    def run(self, task: Task) -> pa.RecordBatchReader:
        """The rows of one task, in exactly the schema of its plan."""
        statement = parse(task.sql, task.db_schema)
        if not isinstance(statement, RowsStatement):
            raise SqlError("the statement returns no rows")
        # Its snapshots are fixed: the rows stream beside whatever the transaction does next.
        transaction = None if task.transaction is None else self.clients.transaction(task.transaction).sql
        holds: list[Hold] = []
        root = self.root.on_branch(task.branch)
        session = self._session(
            root,
            transaction,
            _target(statement),
            readings=task.readings,
            share=task.share,
            holds=holds,
            execution=task.execution,
            db_schema=task.db_schema,
        )
        answered = answer(session, statement, task.parameters)
        return pa.RecordBatchReader.from_batches(answered.schema, _held(answered.batches(), holds))

    def query(self, sql: str, parameters: pa.RecordBatch | None = None) -> pa.Table:
        """All rows of a query at once; for small results within the server."""
        return self.run(Task(sql=sql, parameters=parameters)).read_all()

    def update(
        self,
        sql: str,
        parameters: pa.RecordBatch | None = None,
        scope: Scope = ALONE,
    ) -> int:
        """Run a statement that returns no rows, once for each row of `parameters`; the number of affected rows."""
        statement = parse(sql, scope.db_schema)
        if isinstance(statement, RowsStatement):
            raise SqlError("the statement returns rows; run it as a query")
        check_parameters(sql, parameters, is_query=False)
        with self._transaction(scope) as transaction:
            root = self.root.on_branch(scope.branch)
            if isinstance(statement, SetOption):
                return set_option(statement, scope.session, transaction)
            bindings = [None] if parameters is None else [parameters.slice(i, 1) for i in range(parameters.num_rows)]
            serializable = scope.session is not None and scope.session.is_serializable
            return change(
                root,
                statement,
                self._sessions(root, scope),
                bindings,
                transaction=transaction,
                serializable=serializable,
            )

    def ingest(
        self,
        name: TableName,
        reader: pa.RecordBatchReader,
        *,
        create_missing: bool,
        existing: ingest.Existing,
        partitioned_by: Sequence[PartitionDef] = (),
        scope: Scope = ALONE,
    ) -> int:
        """Store a stream of rows in one commit, or in the transaction, and return how many they were."""
        with self._transaction(scope) as transaction:
            return ingest.ingest(
                self.root.on_branch(scope.branch),
                name,
                reader,
                create_missing=create_missing,
                existing=existing,
                partitioned_by=partitioned_by,
                transaction=transaction,
            )

    def tables(self) -> Iterator[tuple[str, TableName]]:
        """Every table with its catalog."""
        return ((CATALOG, name) for name in self.root.tables())

    def schema_of(self, name: TableName) -> pa.Schema:
        """The columns of a table as a client sees them."""
        return self.root.read(name, ingest.schema_of)

    @contextmanager
    def _transaction(self, scope: Scope) -> Iterator[SqlTransaction | None]:
        """The transaction that a statement belongs to, its own while it runs; None for one by itself."""
        if scope.transaction is None:
            yield None
            return
        with self.clients.transaction(scope.transaction).statement() as transaction:
            yield transaction

    def _sessions(self, root: Root, scope: Scope) -> Callable[..., Session]:
        """What makes the sessions of a statement where it belongs."""
        return partial(self._session, root, execution=scope.execution, db_schema=scope.db_schema)

    def _session(
        self,
        root: Root,
        transaction: SqlTransaction | None = None,
        target: TableName | None = None,
        *,
        readings: Mapping[str, Reading] | None = None,
        share: Share | None = None,
        holds: list[Hold] | None = None,
        execution: Execution | None = None,
        db_schema: str = PUBLIC,
    ) -> Session:
        return Session(
            root,
            ways=self._ways,
            readings=readings,
            share=share,
            memory_limit=self._memory_limit,
            transaction=transaction,
            target=target,
            holds=holds if holds is not None or transaction is None else transaction.holds,
            execution=execution,
            db_schema=db_schema,
        )


def _held(batches: Iterator[pa.RecordBatch], holds: list[Hold]) -> Iterator[pa.RecordBatch]:
    """The same batches; the snapshots that they come from stay for as long as they are being read, and no longer."""
    try:
        yield from batches
    finally:
        holds.clear()


def _target(statement: RowsStatement) -> TableName | None:
    """The table whose rows a statement wants with their addresses: the one of a change that is explained."""
    explained = statement.change if isinstance(statement, Explain) else None
    return None if explained is None else table_name(explained.target.table)


def _shares(session: Session, answered: Answer, endpoints: int) -> int:
    """Into how many parts a query may be split: as many as it reads partition tables, for a pure scan of one table."""
    if answered.frame is None or not session.views or not is_pure_scan(session.optimised(answered.frame)):
        return 1
    session.prepare(answered.frame)
    session.plan(answered.frame)
    if len(session.log.scans) != 1:
        # A scalar subquery scans as well, and must see all of its table.
        return 1
    scanned = sum(view.planned[-1].scanned for view in session.views.values() if view.planned)
    return max(1, min(endpoints, scanned))


def _rows(session: Session) -> int:
    """How many rows the tables that are read have."""
    return sum(int(counts.sum()) for view in session.views.values() for counts in view.row_counts(read_tables(view)))
