"""INSERT."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.tables import rows
from lance_flight.engine.query.parameter_types import parameter_schema
from lance_flight.engine.query.partition_wise import division
from lance_flight.engine.query.policies.access import OVERWRITING, Privilege
from lance_flight.engine.query.policies.restrictions import RowPolicy
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.long_values import LONG, pieces
from lance_flight.engine.sql.parameters import column_types, row_of_parameters
from lance_flight.engine.sql.references import TableRef, table_name
from lance_flight.engine.sql.select_lists import with_distinct_names
from lance_flight.engine.statements.changes import Changes
from lance_flight.engine.statements.kinds import ChangeStatement, Required
from lance_flight.engine.statements.queries import query_text
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.definitions import storable
from lance_flight.engine.writes.row_changes import assigned
from lance_flight.engine.writes.writable_tables import WritableTable
from lance_flight.errors import NotFound, Refused, SqlError


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(ChangeStatement):
    """INSERT INTO|OVERWRITE t [(columns)] query; `columns` None means all, by position."""

    forms = ("INSERT",)
    is_cancellable = True

    table: TableRef
    columns: tuple[str, ...] | None
    query: str
    overwrite: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> Insert:
        overwrite = cursor.accept("OVERWRITE")
        if not overwrite:
            cursor.expect("INTO")
        elif not cursor.accept("INTO"):
            cursor.accept("TABLE")
        table = references.table(cursor)
        columns: tuple[str, ...] | None = None
        if cursor.peek("(") and not cursor.peek("(", "SELECT") and not cursor.peek("(", "WITH"):
            columns = references.names(cursor)
        query = query_text(cursor)
        if len(query) < LONG:
            query = with_distinct_names(query)
        return cls(table=table, columns=columns, query=query, overwrite=overwrite)

    def required(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    def parameters(self, sql: str, changes: Changes) -> pa.Schema:
        self._policy(changes)
        session, piece = changes.new_session(changes.transaction), next(pieces(self.query)).sql
        session.frame(piece)
        return parameter_schema(
            sql, {**session.wanted_types(), **column_types(piece, self._target(changes.tables).types)}
        )

    def run(self, changes: Changes) -> int:
        return changes.together(partial(self._insert, changes))

    def _insert(self, changes: Changes, transaction: SqlTransaction) -> int:
        """Write the rows of all bindings in one commit, and return their number."""
        policy, name = self._policy(changes), table_name(self.table)
        target = self._target(transaction)
        data = self._rows(changes, transaction, target)
        table = WritableTable(transaction.table(name), transaction, policy)
        return table.overwrite(data) if self.overwrite else table.append(data)

    def _policy(self, changes: Changes) -> RowPolicy:
        """Return the row policy of the written rows; it is asked for before anything is told of the target's columns."""
        name = table_name(self.table)
        changes.tables.table(name)
        return changes.policy(OVERWRITING if self.overwrite else frozenset({Privilege.INSERT}), name)

    def _rows(self, changes: Changes, transaction: SqlTransaction, target: pa.Schema) -> Iterator[pa.Table]:
        bound = _bound_rows(self.query, changes.parameters)
        if bound is not None:
            self._check_width(bound.num_columns, target)
            yield assigned(bound.rename_columns(target.names), target)
            return
        for binding, piece in ((binding, piece) for binding in changes.bindings() for piece in pieces(self.query)):
            session = changes.new_session(transaction, None)
            frame = session.literal_rows(piece.sql) if piece.is_literal else session.frame(piece.sql, binding)
            self._check_source(session)
            source = storable(frame.schema())
            self._check_width(len(source), target)
            session.prepare(frame)
            for batch in division.rows(session, frame, source):
                yield assigned(pa.Table.from_arrays(batch.columns, names=target.names), target)

    def _check_source(self, session: QuerySession) -> None:
        """Refuse rows that are read from the target itself through masks, which would take the place of values."""
        name = session.root.governing(table_name(self.table))
        if name in session.named.masked:
            raise Refused(
                f"INSERT INTO {name.name} would store masked values of {name.name} itself; expected SELECT on its columns"  # noqa: S608 - a message
                " without masks, or other rows"
            )

    def _check_width(self, width: int, target: pa.Schema) -> None:
        if width != len(target):
            raise SqlError(
                f"INSERT INTO {self.table.name} has {width} values for {len(target)} columns"  # noqa: S608 - a message
                f" ({', '.join(target.names)})"
            )

    def _target(self, tables: Root | SqlTransaction) -> pa.Schema:
        """Return the target columns in their order; raise an error that names an unknown or a missing NOT NULL column."""
        schema = tables.read(table_name(self.table), ingest.schema_of)
        if self.columns is None:
            return schema
        for name in self.columns:
            if name not in schema.names:
                raise NotFound.named("column", name, schema.names)
        listed = pa.schema([schema.field(name) for name in self.columns])
        defaults = tables.read(table_name(self.table), ingest.defaults_of)
        rows.fit(listed, schema, what=f"INSERT INTO {self.table.name}", defaults=defaults)
        return listed


def _bound_rows(query: str, parameters: pa.RecordBatch | None) -> pa.Table | None:
    """Return all rows of parameters of `VALUES (?, ?)` at once, which nothing has to be planned for; None for any other query."""
    places = row_of_parameters(query)
    if places is None or parameters is None or not parameters.num_rows:
        return None
    table = pa.Table.from_batches([parameters])
    table = table.cast(storable(table.schema))
    return pa.Table.from_arrays(
        [table.column(place) for place in places], names=[str(place) for place in range(len(places))]
    )
