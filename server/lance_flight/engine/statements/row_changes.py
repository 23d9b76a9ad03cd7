"""Base classes of UPDATE, DELETE, MERGE and TRUNCATE, which change rows of one table within a transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from functools import partial
from typing import ClassVar, Self

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.roots.directory import Table, TableName
from lance_flight.engine.query.parameter_types import parameter_schema
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.query.policies.rows import RowPolicy
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.references import table_name
from lance_flight.engine.statements.changes import Changes
from lance_flight.engine.statements.kinds import ChangeStatement, Required
from lance_flight.engine.writes.row_changes import Target
from lance_flight.engine.writes.row_delta import RowDelta
from lance_flight.engine.writes.row_queries import RowQuery
from lance_flight.engine.writes.writable_tables import WritableTable
from lance_flight.errors import Unsupported


class TargetChange(ChangeStatement):
    """A statement that changes the rows of one table."""

    __slots__ = ()

    @property
    @abstractmethod
    def target_name(self) -> TableName:
        """Return the table whose rows the statement changes."""

    @property
    @abstractmethod
    def writing(self) -> frozenset[Privilege]:
        """Return the privileges that the rows it writes require."""

    @abstractmethod
    def change(
        self,
        table: Table,
        transaction: SqlTransaction,
        changes: Changes,
        policy: RowPolicy,
        parameters: pa.RecordBatch | None,
    ) -> int:
        """Run the statement once and return the number of rows inserted, changed and removed; `policy` restricts the written rows."""

    def run(self, changes: Changes) -> int:
        return changes.together(partial(self._change_each, changes))

    def _change_each(self, changes: Changes, transaction: SqlTransaction) -> int:
        """Apply the change for each binding, each to the result of the ones before it; return the number of rows."""
        policy = changes.policy(self.writing, self.target_name)
        if changes.parameters is not None and changes.parameters.num_rows > 1:
            self._check_repeated(transaction)
        count = 0
        for place, binding in enumerate(changes.bindings()):
            try:
                if place:
                    transaction.stage()
                count += self.change(transaction.table(self.target_name), transaction, changes, policy, binding)
            except Exception as exc:
                if place:
                    transaction.torn = exc
                raise
        return count

    def _check_repeated(self, transaction: SqlTransaction) -> None:
        """Refuse several rows of parameters if each would be a visible commit of its own: for a plain table that is no draft."""
        table = transaction.table(self.target_name)
        if not table.is_partitioned and not transaction.is_draft(table):
            raise Unsupported(
                f"table {self.target_name.name!r} is not partitioned: {self.label.upper()} takes one row of"
                " parameters at a time there, as several could not become visible together"
            )


class RowChange(TargetChange):
    """A statement that changes the rows that a query finds: UPDATE, DELETE, MERGE."""

    __slots__ = ()

    rewrites: ClassVar[bool] = True
    """True if the columns that the statement does not name are read and written again."""
    target: Target

    @property
    def target_name(self) -> TableName:
        return table_name(self.target.table)

    @property
    @abstractmethod
    def changing(self) -> frozenset[Privilege]:
        """Return the privileges that the existing rows it changes require."""

    @abstractmethod
    def query(self, session: QuerySession, schema: pa.Schema, *, keeps_ids: bool) -> RowQuery:
        """Build the query that finds the rows to change in a target of these columns, whose rows may keep their ids."""

    def narrow(self, session: QuerySession, frame: DataFrame) -> None:
        """Restrict what `frame`, its query, reads of the target, before it is run."""

    def required(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    def resolved(self, session: QuerySession) -> Self:
        """Return the statement with what it leaves to the definition of its target."""
        return self

    def query_in(self, session: QuerySession) -> RowQuery:
        """Build the query that finds the rows to change, in a session that has the target registered."""
        target = self.writable(session)
        return self.query(session, target.columns, keeps_ids=target.keeps_row_ids)

    def writable(self, session: QuerySession) -> WritableTable:
        """Return the target as the transaction of a session sees it; `Refused` where its rows cannot be written as they were."""
        transaction = session.transaction or SqlTransaction(session.root)
        table = transaction.table(self.target_name)
        if self.rewrites:
            what = f"{self.label.upper()} writes whole rows"
            session.access.check_all_columns(session.root.governing(self.target_name), what)
        return WritableTable(table, transaction)

    def change(
        self,
        table: Table,
        transaction: SqlTransaction,
        changes: Changes,
        policy: RowPolicy,
        parameters: pa.RecordBatch | None,
    ) -> int:
        session = changes.new_session(transaction, self.target_name, self.changing)
        statement = self.resolved(session)
        find = partial(RowDelta, session, statement, statement.query_in(session), parameters)
        return WritableTable(table, transaction, policy).change(find)

    def parameters(self, sql: str, changes: Changes) -> pa.Schema:
        session = changes.new_session(
            changes.transaction or SqlTransaction(changes.root), self.target_name, self.changing
        )
        query = self.resolved(session).query_in(session)
        session.frame(query.sql)
        return parameter_schema(sql, {**session.wanted_types(), **query.parameter_types})
