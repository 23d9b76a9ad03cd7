"""The four kinds of statements: what a statement says of itself, and how each kind is run.

A statement is a frozen value of a class of its own, which is listed in `registry.STATEMENTS`. The engine knows the kinds alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Access, Privilege
from lance_flight.engine.query.scope import Scope
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.runtime.statement_registry import StatementRegistry
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.parameters import parameter_schema
from lance_flight.engine.sql.references import TableRef, table_name
from lance_flight.engine.statements.changes import Changes

S = TypeVar("S", bound="Statement")
Required = tuple[Privilege, TableName]
"""A privilege that is needed on all rows of a table."""

REMOVING = (Privilege.SELECT, Privilege.DELETE)
"""Privileges for removing rows: SELECT too, since the reply counts them and the condition depends on their values."""
MAKING = (Privilege.DDL, Privilege.INSERT)
"""A table that is made with rows."""


class Statement(ABC):
    """Base of parsed statements.

    Computing with stored rows, counting them, naming their values in errors, or moving them to another name or partition
    requires SELECT on them.
    """

    __slots__ = ()

    forms: ClassVar[tuple[str, ...]]
    """The words that begin it, in each way to say it: `DROP INDEX`. In `ALTER TABLE t COMPACT` the name of a table stands at `t`.

    One without further words takes whatever other forms with its first word do not.
    """
    nests: ClassVar[bool] = False
    """True if another statement is part of this one."""
    read: ClassVar[Callable[..., Statement]]
    """The class method that reads what follows the words of a form: `read(cursor)`. What it leaves is refused.

    It is `read(cursor, table)` of a form with a table, and `read(cursor, parse)` of a statement that `nests`.
    """

    @property
    def label(self) -> str:
        """Return the name of the statement in error messages."""
        return type(self).__name__

    @abstractmethod
    def required(self, own: Collection[TableName]) -> Iterable[Required]:
        """List the privileges that it needs on all rows of tables; `own` are the temporary ones of its session, which need none.

        Tables that are read, and rows that are changed, are checked where they are opened; names that tables are given or
        lose, by the root (`catalog.names.Visibility`).
        """


class TableStatement(Statement):
    """A statement about all rows of one table."""

    __slots__ = ()

    needs: ClassVar[tuple[Privilege, ...]]
    """The privileges that it needs on them."""

    table: TableRef

    def required(self, own: Collection[TableName]) -> Iterable[Required]:
        return on(table_name(self.table), *self.needs)


def on(table: TableName, *privileges: Privilege) -> Iterator[Required]:
    """List privileges on one table."""
    return ((privilege, table) for privilege in privileges)


class Answer(Protocol):
    """Rows that a statement will return."""

    @property
    def schema(self) -> pa.Schema:
        """The exact schema of every batch."""
        ...

    @property
    def frame(self) -> DataFrame | None:
        """DataFusion's plan, where it runs the statement."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the statement."""
        ...


class RowsStatement(Statement):
    """A statement that runs when its rows are read, as often as they are."""

    __slots__ = ()

    @property
    def text(self) -> str | None:
        """The text of a query, whose plan may be kept, and which may be asked for several rows of parameters."""
        return None

    @property
    def target(self) -> tuple[TableName | None, frozenset[Privilege]]:
        """The table whose rows it wants with their addresses, and what for."""
        return None, frozenset()

    def required(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    @abstractmethod
    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        """Plan it; nothing is read yet."""


class ChangeStatement(Statement):
    """A statement that changes tables, and is run at once for a count."""

    __slots__ = ()

    def parameters(self, sql: str, changes: Changes) -> pa.Schema:
        """Return the parameters of the statement, whose text is `sql`, with their types, without running it."""
        return parameter_schema(sql, None)

    @abstractmethod
    def run(self, changes: Changes) -> int:
        """Carry it out; the number of affected rows."""


@dataclass(frozen=True, slots=True)
class MaintenanceWork:
    """Work of a maintenance statement: the function to `run`, and the `schema` of its report.

    It commits in steps of its own, and is not to be interrupted.
    """

    schema: pa.Schema
    run: Callable[[], pa.Table]


class MaintenanceStatement(TableStatement):
    """A statement that keeps a partitioned table in shape: it runs once, like a change, and returns a report as rows."""

    __slots__ = ()

    @abstractmethod
    def work(self, namespace: Table, progress: Progress | None) -> MaintenanceWork:
        """Return what it will do to its table, telling how far it is; nothing is done yet."""


@dataclass(frozen=True, slots=True)
class Server:
    """Context of a statement about the server and its sessions; `transaction` waits for that of the statement's session."""

    running: StatementRegistry
    scope: Scope
    transaction: Callable[[], AbstractContextManager[SqlTransaction | None]]


class SessionStatement(Statement):
    """A statement about the server and its sessions, and no table."""

    __slots__ = ()

    def required(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    @abstractmethod
    def run(self, server: Server) -> int:
        """Carry it out; how many things were affected."""


def permitted(statement: S, access: Access, root: Root) -> S:
    """Check the privileges of a statement as far as they are known before its tables are opened, and return the statement."""
    for privilege, table in statement.required(access.own):
        access.check_all_rows(privilege, root.governing(table))
    return statement
