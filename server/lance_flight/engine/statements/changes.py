"""Context in which a statement that changes data or tables is executed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import Watch
from lance_flight.catalog.bulk.shared_ingests import SharedIngests
from lance_flight.catalog.roots.directory import Root, TableName, TemporaryTables
from lance_flight.engine.query.names.statement_context import Scope
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.query.policies.access import UNLIMITED, Access, Privilege
from lance_flight.engine.query.policies.restrictions import RowPolicy
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.transactions import SqlTransaction, autocommit
from lance_flight.engine.writes.returning import ReturnedRows
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
