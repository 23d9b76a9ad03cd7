"""INSERT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.tables import rows
from lance_flight.engine.query.access import OVERWRITING, Privilege, RowPolicy
from lance_flight.engine.query.partition_wise import division
from lance_flight.engine.query.session import QuerySession, parameter_schema
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import Cursor, TableRef, table_name
from lance_flight.engine.sql.select_lists import with_distinct_names
from lance_flight.engine.sql.tokens import LONG, Kind, TokenPlaces, pieces
from lance_flight.engine.statements.kinds import Changes, ReturningStatement
from lance_flight.engine.statements.queries import query_text
from lance_flight.engine.statements.row_changes import Upsert, read_conflict
from lance_flight.engine.translation.parameters import column_types, row_of_parameters
from lance_flight.engine.writes import ingest
from lance_flight.engine.writes.change_clauses import (
    DEFAULT_ROW,
    MIXED_TYPES,
    RETURNING,
    Returning,
    read_returning,
    with_defaults,
    with_queries,
    with_typed_texts,
)
from lance_flight.engine.writes.definitions import storable
from lance_flight.engine.writes.ingest import WritableTable
from lance_flight.engine.writes.row_changes import convert_assigned
from lance_flight.errors import NotFound, Refused, SqlError, Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(ReturningStatement):
    """INSERT INTO|OVERWRITE t [(columns) | BY NAME] query [RETURNING items]; `columns` None means all, by position, or by the names in the query.

    With ON CONFLICT, OR IGNORE or OR REPLACE it is an `Upsert`.
    """

    forms = ("INSERT",)
    is_cancellable = True

    table: TableRef
    columns: tuple[str, ...] | None
    query: str
    overwrite: bool = False
    is_by_name: bool = False
    returning: Returning | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> Insert | Upsert:
        either = next((word for word in _ON_CONFLICT if cursor.accept("OR", word)), None)
        overwrite = either is None and cursor.accept("OVERWRITE")
        table = _read_table(cursor, is_overwritten=overwrite)
        columns: tuple[str, ...] | None = None
        is_by_name = cursor.accept("BY", "NAME")
        if is_by_name:
            pass
        elif cursor.peek("(") and not cursor.peek("(", "SELECT") and not cursor.peek("(", "WITH"):
            columns = references.names(cursor)
        if columns is None and not is_by_name and cursor.accept("DEFAULT", "VALUES"):
            query = DEFAULT_ROW
        else:
            query = with_queries(cursor.queries, query_text(cursor, _end_of_query(cursor)))
        if len(query) < LONG and not is_by_name:
            query = with_distinct_names(query)
        has_conflict = cursor.peek("ON", "CONFLICT")
        if has_conflict or either is not None:
            if overwrite or is_by_name or (has_conflict and either is not None):
                raise Unsupported(
                    "ON CONFLICT goes with INSERT INTO t [(columns)] alone; write the columns, or a MERGE"
                )
            do = cursor if either is None else Cursor.over(f"ON CONFLICT DO {_ON_CONFLICT[either]}")
            upsert = read_conflict(do, table, columns, query)
            return replace(upsert, returning=read_returning(cursor, table.name))
        if overwrite and cursor.peek(RETURNING):
            raise Unsupported("INSERT OVERWRITE … RETURNING; write BEGIN, the INSERT, a SELECT of the rows, and COMMIT")
        return cls(
            table=table,
            columns=columns,
            query=query,
            overwrite=overwrite,
            is_by_name=is_by_name,
            returning=read_returning(cursor, table.name),
        )

    @property
    def target_name(self) -> TableName:
        return table_name(self.table)

    def parameters(self, sql: str, changes: Changes) -> pa.Schema:
        self._policy(changes)
        session = changes.new_session(changes.transaction)
        described = partial(changes.tables.read, self.target_name, ingest.described)
        piece = with_defaults(next(pieces(self.query)).sql, self.columns, described)
        names = session.frame(piece).schema().names if self.is_by_name else self.columns
        target = self._target(changes.tables, names)
        if not self.is_by_name:
            _planned(session, piece, None, target)
        return parameter_schema(sql, {**session.wanted_types(), **column_types(piece, target.types)})

    def apply(self, changes: Changes, transaction: SqlTransaction) -> int:
        """Write the rows of all bindings in one commit, and return their number."""
        policy = self._policy(changes)
        target = self._target(transaction, self._columns(changes, transaction))
        data = self._rows(changes, transaction, target)
        data = data if changes.returned is None else changes.returned.collect(data)
        table = WritableTable(transaction.table(self.target_name), transaction, policy)
        return table.overwrite(data) if self.overwrite else table.append(data)

    def _policy(self, changes: Changes) -> RowPolicy:
        """Return the row policy of the written rows; it is asked for before anything is told of the target's columns."""
        changes.tables.table(self.target_name)
        return changes.policy(OVERWRITING if self.overwrite else frozenset({Privilege.INSERT}), self.target_name)

    def _rows(self, changes: Changes, transaction: SqlTransaction, target: pa.Schema) -> Iterator[pa.Table]:
        bound = _bound_rows(self.query, changes.parameters)
        if bound is not None:
            self._check_width(bound.num_columns, target)
            yield convert_assigned(bound.rename_columns(target.names), target)
            return
        for binding, piece in ((binding, piece) for binding in changes.bindings() for piece in pieces(self.query)):
            session = changes.new_session(transaction, None)
            sql = with_defaults(piece.sql, self.columns, partial(transaction.read, self.target_name, ingest.described))
            frame = session.literal_rows(sql) if piece.is_literal else _planned(session, sql, binding, target)
            self._check_source(session)
            source = storable(frame.schema())
            self._check_width(len(source), target)
            session.prepare(frame)
            for batch in division.rows(session, frame, source):
                yield convert_assigned(pa.Table.from_arrays(batch.columns, names=target.names), target)

    def _check_source(self, session: QuerySession) -> None:
        """Refuse rows that are read from the target itself through masks, which would take the place of values."""
        name = session.root.governing_table(self.target_name)
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

    def _columns(self, changes: Changes, transaction: SqlTransaction) -> Sequence[str] | None:
        """Return the names of the columns that are written, None for all."""
        if not self.is_by_name:
            return self.columns
        return [*changes.new_session(transaction, None).frame(next(pieces(self.query)).sql).schema().names]

    def _target(self, tables: Root | SqlTransaction, columns: Sequence[str] | None) -> pa.Schema:
        """Return the target columns in their order; raise an error that names an unknown or a missing NOT NULL column."""
        schema = tables.read(self.target_name, ingest.schema_of)
        if columns is None:
            return schema
        for name in columns:
            if name not in schema.names:
                raise NotFound.named("column", name, schema.names)
        listed = pa.schema([schema.field(name) for name in columns])
        defaults = tables.read(self.target_name, ingest.defaults_of)
        rows.fit(listed, schema, what=f"INSERT INTO {self.table.name}", defaults=defaults)
        return listed


_ON_CONFLICT = {"IGNORE": "NOTHING", "REPLACE": "UPDATE SET *"}
"""Words after OR, and the same in ON CONFLICT DO."""


def _read_table(cursor: Cursor, *, is_overwritten: bool) -> TableRef:
    """Read `INTO [TABLE] t`, or `[INTO|TABLE] t` behind OVERWRITE."""
    if not is_overwritten:
        cursor.expect("INTO")
    elif not cursor.accept("INTO"):
        cursor.accept("TABLE")
    if not any(cursor.peek("TABLE", word) for word in ("(", "BY", "SELECT", "VALUES", "WITH", "FROM", "TABLE", ".")):
        cursor.accept("TABLE")
    return references.table(cursor)


def _end_of_query(cursor: Cursor) -> int | None:
    """Return the place of `ON CONFLICT … DO NOTHING|UPDATE` or `RETURNING …` outside of any bracket; None where the query goes on to the end."""
    at, depth = None, 0
    places = TokenPlaces(cursor.tokens)
    for place, token in enumerate(islice(cursor.tokens, cursor.at, None), cursor.at):
        if token.kind is Kind.SIGN:
            depth += (token.text in "([{") - (token.text in ")]}")
        elif depth or token.kind is not Kind.WORD:
            continue
        elif token.word == "CONFLICT" and places.word_at(place - 1) == "ON":
            at = place - 1
        elif at is not None and token.word in {"NOTHING", "UPDATE"} and places.word_at(place - 1) == "DO":
            return at
        elif (
            token.word == RETURNING
            and places.ends_operand(place - 1)
            and places.text(place + 1).upper() not in {"", ",", "FROM"}
        ):
            return place
    return None


def _planned(session: QuerySession, sql: str, binding: pa.RecordBatch | None, target: pa.Schema) -> DataFrame:
    """Plan the query of an INSERT; texts among other values of VALUES are read as values of their column."""
    try:
        return session.frame(sql, binding)
    except SqlError as exc:
        typed = with_typed_texts(sql, target.types) if MIXED_TYPES in str(exc) else sql
        if typed == sql:
            raise
        return session.frame(typed, binding)


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
