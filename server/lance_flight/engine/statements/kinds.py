"""Base classes of statements: the four kinds, by the way they are executed, and the forms of ALTER TABLE.

A statement is a frozen value of a class of its own, which is listed in `parsing.STATEMENTS`. The engine knows the kinds alone.
`Changes` is the context in which a statement that changes data or tables is executed, and `record_statement` audits it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol, TypeAlias, TypeVar

import pyarrow as pa
from datafusion import DataFrame

from lance_flight import audit
from lance_flight.audit import AuditEvent, EventKind, Subject
from lance_flight.catalog.bulk.pieces import Watch
from lance_flight.catalog.bulk.shared_writes import SharedIngests
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.manifests.snapshot import check_in_place
from lance_flight.catalog.roots.directory import Root, TableName, TemporaryTables
from lance_flight.catalog.table import Table
from lance_flight.engine.query.access import UNLIMITED, Access, Privilege, RowPolicy
from lance_flight.engine.query.session import QuerySession, parameter_schema
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.session_registry import SessionRegistry
from lance_flight.engine.runtime.statement_registry import Peers, StatementRegistry
from lance_flight.engine.runtime.transactions import SqlTransaction, autocommit
from lance_flight.engine.sql.references import TableRef, table_name
from lance_flight.engine.writes.change_clauses import ReturnedRows, Returning
from lance_flight.engine.writes.column_changes import ColumnChanges
from lance_flight.engine.writes.ingest import defaults_of, schema_of
from lance_flight.errors import Unsupported

NewSession: TypeAlias = Callable[..., QuerySession]
"""Makes the session of a statement, of its transaction; of its target and what it does to the rows there, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Context of a changing statement, executed once for each row of `parameters`, or once without any, atomically together.

    Without a `transaction` the statement is one of its own. `access` restricts the rows that may be written. What is made among `temporary`
    tables, and what drops one, takes effect at once. `watch` is told of the progress of long work. `shared` returns the shared ingests of the session.
    """

    root: Root
    new_session: NewSession
    cancellation: Cancellation
    parameters: pa.RecordBatch | None = None
    transaction: SqlTransaction | None = None
    serializable: bool = False
    access: Access = UNLIMITED
    temporary: TemporaryTables | None = None
    watch: Watch | None = None
    shared: Callable[[], SharedIngests] = SharedIngests
    returned: ReturnedRows | None = None
    """Rows that RETURNING asks for, as far as they were written."""

    def bindings(self) -> Iterator[pa.RecordBatch | None]:
        """Yield what each execution is bound with: one row of parameters, or None."""
        if self.parameters is None:
            yield None
        else:
            yield from (self.parameters.slice(place, 1) for place in range(self.parameters.num_rows))

    @property
    def tables(self) -> Root | SqlTransaction:
        """Return the tables that the statement sees."""
        return self.transaction or self.root

    def policy(self, writing: frozenset[Privilege], name: TableName) -> RowPolicy:
        """Return the row policy of writes to a table, or to a branch of one."""
        governing = self.root.governing_table(name)
        policy = self.access.rows(writing, governing)
        if Privilege.SELECT in writing:
            self.access.check_all_columns(governing, "rows are replaced as a whole")
        return policy

    def together(self, work: Callable[[SqlTransaction], int]) -> int:
        """Change rows within the transaction, and return their number."""
        if self.transaction is None:
            return autocommit(self.root, work, self.cancellation, serializable=self.serializable)
        self.transaction.check = self.cancellation.check
        count = work(self.transaction)
        self.transaction.stage(self.cancellation)
        return count

    def check_alone(self, what: str) -> None:
        """Refuse a statement inside a transaction; `what` begins the message."""
        if self.transaction is not None:
            raise Unsupported(f"{what} inside a transaction; commit first")


def shared_ingests(scope: Scope) -> SharedIngests:
    """Return the shared ingests of a session; raise `Unsupported` if it is not bound to one client."""
    if scope.session is None or scope.own_tables is None:
        raise Unsupported(
            "a shared ingest needs a session that is its client's alone: by a cookie, by the token of a Handshake, or by a"
            " connection that began with GetSqlInfo"
        )
    return scope.session.shared


def temporary_root(temporary: TemporaryTables | None, name: TableName, root: Root) -> Root:
    """Return the root in which to make a temporary table; raise `Unsupported` if the session is not bound to one client."""
    if temporary is None:
        raise Unsupported(
            f"temporary table {name.name!r} needs a session that is its client's alone: by a cookie, by the token of a"
            " Handshake, or by a connection that began with GetSqlInfo"
        )
    return temporary.root_for(name, root)


S = TypeVar("S", bound="Statement")
Required = tuple[Privilege, TableName]
"""Privilege that is needed on all rows of a table."""

REMOVING = (Privilege.SELECT, Privilege.DELETE)
"""Privileges for removing rows: SELECT too, since the reply counts them and the condition depends on their values."""
MAKING = (Privilege.DDL, Privilege.INSERT)
"""Privileges for creating a table with rows."""


class Statement(ABC):
    """Base of parsed statements.

    Computing with stored rows, counting them, naming their values in errors, or moving them to another name or partition
    requires SELECT on them.
    """

    __slots__ = ()

    forms: ClassVar[tuple[str, ...]]
    """First words of each form of the statement: `DROP INDEX`. In `ALTER TABLE t COMPACT`, `t` stands for the name of a table.

    A form of a single word matches the statements that no longer form with the same first word does.
    """
    nests: ClassVar[bool] = False
    """True if another statement is part of this one."""
    frees_room: ClassVar[bool] = False
    """True if the statement may use the reserve of the root on a full disk."""
    read: ClassVar[Callable[..., Statement]]
    """Class method that parses the rest of a form: `read(cursor)`. Tokens that it leaves are an error.

    It is `read(cursor, table)` of a form with a table, and `read(cursor, parse)` of a statement that `nests`.
    """

    @property
    def label(self) -> str:
        """Return the name of the statement in error messages."""
        return type(self).__name__

    @property
    def returns_rows(self) -> bool:
        """True if the statement has an answer of rows, or a report."""
        return False

    @property
    def defined(self) -> str | None:
        """Return the table, view or schema that the statement defines or maintains; None for one that does neither."""
        return None

    @abstractmethod
    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        """List the privileges that the statement needs on all rows of tables; `own` are its session's temporary tables, which need none.

        Tables that are read, and rows that are changed, are checked where they are opened; names that tables are given or
        lose, by the root (`catalog.roots.table_resolver.Visibility`).
        """


class TableStatement(Statement):
    """A statement about all rows of one table."""

    __slots__ = ()

    needs: ClassVar[tuple[Privilege, ...]]
    """Privileges that the statement needs on all rows of the table."""

    table: TableRef

    @property
    def defined(self) -> str | None:
        return str(table_name(self.table))

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        return on(table_name(self.table), *self.needs)


def on(table: TableName, *privileges: Privilege) -> Iterator[Required]:
    """List privileges on one table."""
    return ((privilege, table) for privilege in privileges)


class Answer(Protocol):
    """Interface of an answer: rows that a planned statement will return."""

    @property
    def schema(self) -> pa.Schema:
        """Return the exact schema of every batch."""
        ...

    @property
    def frame(self) -> DataFrame | None:
        """Return DataFusion's plan; None if DataFusion does not run the statement."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the statement and yield its rows."""
        ...


class RowsStatement(Statement):
    """Statement that returns rows, and runs each time they are read."""

    __slots__ = ()

    @property
    def returns_rows(self) -> bool:
        return True

    @property
    def text(self) -> str | None:
        """Return the text of a query whose plan may be cached and which takes several rows of parameters; None for other statements."""
        return None

    @property
    def target(self) -> tuple[TableName | None, frozenset[Privilege]]:
        """Return the table whose rows are needed with their addresses, and the privileges used on them."""
        return None, frozenset()

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    @abstractmethod
    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        """Plan it; nothing is read yet."""


class ChangeStatement(Statement):
    """Statement that changes tables, runs at once, and returns a count.

    One that `is_cancellable` shows nothing before its only commit, which fails once it is cancelled: so its client need not wait for it.
    """

    __slots__ = ()
    is_cancellable: ClassVar[bool] = False

    def parameters(self, sql: str, changes: Changes) -> pa.Schema:
        """Return the parameters of the statement, whose text is `sql`, with their types, without running it."""
        return parameter_schema(sql)

    def answer_schema(self, changes: Changes) -> pa.Schema | None:
        """Return the columns of the answer, without running the statement; None for one without rows."""
        return None

    def execute(self, changes: Changes) -> int | pa.Table:
        """Execute the statement; return its rows, or the number of affected rows where it has none."""
        return self.run(changes)

    @abstractmethod
    def run(self, changes: Changes) -> int:
        """Execute the statement and return the number of affected rows."""


class ReturningStatement(ChangeStatement):
    """Statement that changes rows of one table, and returns them where it ends with RETURNING: as a report, since it runs once."""

    __slots__ = ()

    returning: Returning | None

    @property
    def returns_rows(self) -> bool:
        return self.returning is not None

    @property
    @abstractmethod
    def target_name(self) -> TableName:
        """Return the table whose rows the statement changes."""

    @abstractmethod
    def apply(self, changes: Changes, transaction: SqlTransaction) -> int:
        """Change rows within a transaction, which may be tried again, and return their number."""

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        return () if self.returning is None else on(self.target_name, Privilege.SELECT)

    def run(self, changes: Changes) -> int:
        return changes.together(partial(self.apply, changes))

    def execute(self, changes: Changes) -> int | pa.Table:
        returning = self.returning
        if returning is None:
            return self.run(changes)
        self.answer_schema(changes)  # refuses what cannot be computed before any file is written
        answers: list[pa.Table] = []

        def work(transaction: SqlTransaction) -> int:
            columns, defaults = (transaction.read(self.target_name, of) for of in (schema_of, defaults_of))
            returned = ReturnedRows(columns, defaults)
            count = self.apply(replace(changes, returned=returned), transaction)
            answers[:] = [returning.compute(changes.new_session(transaction, None), returned)]
            return count

        changes.together(work)
        return answers[0]

    def answer_schema(self, changes: Changes) -> pa.Schema | None:
        if self.returning is None:
            return None
        columns = changes.tables.read(self.target_name, schema_of)
        return self.returning.schema(changes.new_session(changes.transaction, None), columns)


@dataclass(frozen=True, slots=True)
class MaintenanceWork:
    """Work of a maintenance statement: the function to `run`, and the `schema` of the rows of its report.

    It commits in steps. Where it `is_cancellable` it ends between any two of them, and what was committed stays.
    """

    schema: pa.Schema
    run: Callable[[], OperationReport]
    is_cancellable: bool = True


class MaintenanceStatement(TableStatement):
    """Statement that maintains a partitioned table: it runs once, like a change, and returns a report as rows."""

    __slots__ = ()

    @property
    def returns_rows(self) -> bool:
        return True

    @abstractmethod
    def work(self, namespace: Table, progress: Watch | None) -> MaintenanceWork:
        """Return the work on the table, which reports its `progress`; nothing is done yet."""


@dataclass(frozen=True, slots=True)
class Server:
    """Context of a statement about the server and its sessions; `transaction` waits for that of the statement's session."""

    running: StatementRegistry
    clients: SessionRegistry
    peers: Peers
    cancellation: Cancellation
    scope: Scope
    transaction: Callable[[], AbstractContextManager[SqlTransaction | None]]


class SessionStatement(Statement):
    """Statement about the server and its sessions, without a table."""

    __slots__ = ()

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    @abstractmethod
    def run(self, server: Server) -> int:
        """Carry it out; how many things were affected."""


def check_privileges(statement: S, access: Access, root: Root) -> S:
    """Check the privileges of a statement as far as they are known before its tables are opened, and return the statement."""
    for privilege, table in statement.required_privileges(access.own):
        access.check_all_rows(privilege, root.governing_table(table))
    return statement


NOT_ALTERED = "tables are not altered"


class Alteration(TableStatement, ChangeStatement):
    """Form of ALTER TABLE t, which `needs` DDL on the table, and more if rows are read to compute or to check a column."""

    __slots__ = ()

    needs: ClassVar[tuple[Privilege, ...]] = ()
    is_cancellable = True

    @property
    def label(self) -> str:
        return "AlterTable"

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        name = table_name(self.table)
        if name not in own:
            yield from on(name, Privilege.DDL, *self.needs)
            yield from self.also(name)

    def also(self, name: TableName) -> Iterable[Required]:
        """List further privileges: those that depend on the statement's clauses, and those on other tables."""
        return ()


class HistoryAlteration(Alteration):
    """Alteration of a table's name, its columns or its history; it affects no rows."""

    __slots__ = ()

    def run(self, changes: Changes) -> int:
        changes.check_alone(NOT_ALTERED)
        root, name = self.root_of(changes), table_name(self.table)
        table = root.table(name)
        self.check_columns(changes.access, root.governing_table(name))
        check_in_place(name.name, table.snapshot().misplaced)
        changes.cancellation.begin_commit()
        self.alter(root, name, table)
        return 0

    def root_of(self, changes: Changes) -> Root:
        """Return the root in which the table is looked up."""
        return changes.root

    def check_columns(self, access: Access, name: TableName) -> None:
        """Raise `Refused` if the principal could read columns afterwards that it may not read now."""

    @abstractmethod
    def alter(self, root: Root, name: TableName, table: Table) -> None:
        """Execute the alteration."""

    def column_changes(self, root: Root, name: TableName) -> ColumnChanges | None:
        """Return what it makes of the columns of a snapshot, for a commit with rows; None where it changes something else."""
        return None


INGEST = "INGEST"


@contextmanager
def record_statement(statement: Statement, subject: Subject) -> Iterator[None]:
    """Record a statement that defines or maintains something before the block runs it, and once more with its error if that fails."""
    name = statement.defined
    if name is None or not audit.trail.is_on:
        yield
        return
    event = _definition(action_of(statement), name, subject)
    audit.record(event)
    try:
        yield
    except BaseException as error:
        audit.record(replace(event, error=audit.error_code(error), reason="the statement failed"))
        raise


def record_ingest(name: str, subject: Subject) -> None:
    """Record that an ingest makes or replaces a table."""
    audit.record(_definition(INGEST, name, subject))


def action_of(statement: Statement) -> str:
    """Return the words of a statement's class: `CREATE TABLE`, `ADD COLUMN`, `COMPACT`."""
    words = re.findall("[A-Z][a-z]+", type(statement).__name__.removesuffix("Statement"))
    return " ".join(words).upper()


def _definition(action: str, name: str, subject: Subject) -> AuditEvent:
    reason = "the policy file allows it, as far as that is known before its tables are opened"
    return AuditEvent(kind=EventKind.DDL, subject=subject, action=action, object=name, reason=reason)
