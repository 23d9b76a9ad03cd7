"""Base classes of the four kinds of statements, by the way they are executed.

A statement is a frozen value of a class of its own, which is listed in `registry.STATEMENTS`. The engine knows the kinds alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Protocol, TypeVar

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.bulk.pieces import Watch
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.query.names.statement_context import Scope
from lance_flight.engine.query.planning.parameter_types import parameter_schema
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.query.policies.access import Access, Privilege
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.peers import Peers
from lance_flight.engine.runtime.session_registry import SessionRegistry
from lance_flight.engine.runtime.statement_registry import StatementRegistry
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.references import TableRef, table_name
from lance_flight.engine.statements.changes import Changes
from lance_flight.engine.writes.ingest import defaults_of, schema_of
from lance_flight.engine.writes.returning import ReturnedRows, Returning

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
