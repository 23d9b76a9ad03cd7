"""CREATE and DROP of views and of schemas."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import NoReturn

import pyarrow as pa

from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.roots.listings import ViewDefinition
from lance_flight.engine.dialects.pivots import with_read_values
from lance_flight.engine.query.access import Privilege
from lance_flight.engine.query.names.information_schema import INFORMATION_SCHEMA
from lance_flight.engine.query.search.search_target import SEARCHES
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import SYSTEM, Cursor, TableRef, quote_parts, table_name
from lance_flight.engine.statements.kinds import Changes, ChangeStatement, Required, TableStatement, on
from lance_flight.engine.statements.queries import query_text
from lance_flight.engine.translation import typed_calls
from lance_flight.engine.translation.hidden_columns import qualify_names
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.engine.writes.definitions import storable
from lance_flight.errors import AlreadyExists, InvalidInput, NotFound, SchemaError, SqlError, Unsupported

_COMPUTED = frozenset([SYSTEM, INFORMATION_SCHEMA, SEARCHES])


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSchema(ChangeStatement):
    """CREATE SCHEMA [IF NOT EXISTS] s; `"a.b"` is a namespace b within a."""

    forms = ("CREATE SCHEMA",)
    is_cancellable = True

    db_schema: str
    if_not_exists: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> CreateSchema:
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        return cls(db_schema=references.schema(cursor), if_not_exists=if_not_exists)

    @property
    def defined(self) -> str:
        return self.db_schema

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    def run(self, changes: Changes) -> int:
        """Make the schema, which the root checks the privilege for."""
        changes.check_alone("CREATE SCHEMA")
        if self.db_schema in _COMPUTED:
            raise InvalidInput(f"schema name {self.db_schema!r} is that of computed tables; expected another one")
        try:
            changes.root.create_schema(self.db_schema, changes.cancellation.begin_commit)
        except AlreadyExists:
            if not self.if_not_exists or self.db_schema not in changes.root.schemas():
                raise
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSchema(ChangeStatement):
    """DROP SCHEMA [IF EXISTS] s [RESTRICT]."""

    forms = ("DROP SCHEMA",)
    is_cancellable = True
    frees_room = True

    db_schema: str
    if_exists: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> DropSchema:
        if_exists = cursor.accept("IF", "EXISTS")
        db_schema = references.schema(cursor)
        if cursor.accept("CASCADE"):
            raise SqlError(f"DROP SCHEMA {db_schema} CASCADE is not offered; expected DROP TABLE of its tables first")
        cursor.accept("RESTRICT")
        return cls(db_schema=db_schema, if_exists=if_exists)

    @property
    def defined(self) -> str:
        return self.db_schema

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        return ()

    def run(self, changes: Changes) -> int:
        """Remove the schema, which the root checks the privilege for, if nothing is in it."""
        changes.check_alone("DROP SCHEMA")
        if not (self.if_exists and self.db_schema not in changes.root.schemas()):
            changes.root.drop_schema(self.db_schema, changes.cancellation.begin_commit)
        return 0


_NO_SCHEMA = "."
"""Name that no schema has: in it only tables are found that are named with theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView(ChangeStatement):
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(column, …)] AS query."""

    forms = ("CREATE VIEW", "CREATE OR REPLACE VIEW")
    is_cancellable = True

    view: TableRef
    query: str
    columns: tuple[str, ...] = ()
    if_not_exists: bool = False
    replace: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> CreateView:
        is_replacing = any(token.word == "REPLACE" for token in cursor.tokens[: cursor.at])
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        view = references.table(cursor)
        columns = references.names(cursor) if cursor.peek("(") else ()
        cursor.expect("AS")
        query = query_text(cursor)
        if is_replacing and if_not_exists:
            raise SqlError("CREATE OR REPLACE VIEW takes no IF NOT EXISTS; expected one of them")
        return cls(view=view, query=query, columns=columns, if_not_exists=if_not_exists, replace=is_replacing)

    @property
    def defined(self) -> str:
        return str(table_name(self.view))

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        return on(table_name(self.view), Privilege.DDL)

    def run(self, changes: Changes) -> int:
        """Store the view; its query is planned first, with the privileges of its maker."""
        name = table_name(self.view)
        changes.check_alone("CREATE VIEW")
        if parameter_count(self.query):
            raise InvalidInput(
                f"view {name.name!r} has parameters, which nobody could bind; expected values in its query"
            )
        if self.if_not_exists and changes.root.view(name) is not None:
            return 0
        view = self._definition(name, changes)
        try:
            changes.root.create_view(view, replace=self.replace, begin=changes.cancellation.begin_commit)
        except AlreadyExists:
            if not self.if_not_exists or changes.root.view(name) is None:
                raise
        return 0

    def _definition(self, name: TableName, changes: Changes) -> ViewDefinition:
        with_read_values(self.query, _refuse_reading)
        session = changes.new_session()
        schema = storable(session.frame(self.query).schema())
        columns = self.columns or tuple(map(typed_calls.shown_name, schema.names))
        if len(columns) != len(schema):
            raise SqlError(f"view {name.name!r} has {len(columns)} columns for a query of {len(schema)}")
        repeated = sorted({column for column in columns if columns.count(column) > 1})
        if repeated:
            raise SchemaError(
                f"view {name.name!r}", [f"column {column!r} is there twice; expected aliases" for column in repeated]
            )
        query = qualify_names(self.query, session.db_schema)
        listed = ", ".join(map(quote_parts, columns))
        # What has no name in the query is called after its plan, which may be another one when the view is read.
        is_listed = self.columns or not all(map(str.isidentifier, columns))
        called = quote_parts(name.name) + (f" ({listed})" if is_listed else "")
        sql = f"SELECT {listed} FROM ({query}\n) AS {called}"  # noqa: S608 - quoted
        _check_names(name, session, sql)
        _check_itself(name, session)
        return ViewDefinition(
            name,
            sql,
            pa.schema([field.with_name(column) for field, column in zip(schema, columns, strict=True)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DropView(TableStatement, ChangeStatement):
    """DROP VIEW [IF EXISTS] v."""

    forms = ("DROP VIEW",)
    is_cancellable = True
    frees_room = True
    needs = (Privilege.DDL,)

    table: TableRef
    if_exists: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> DropView:
        if_exists = cursor.accept("IF", "EXISTS")
        return cls(table=references.table(cursor), if_exists=if_exists)

    def run(self, changes: Changes) -> int:
        name = table_name(self.table)
        changes.check_alone("DROP VIEW")
        try:
            changes.root.drop_view(name, changes.cancellation.begin_commit)
        except NotFound:
            if not self.if_exists or changes.root.has(name):
                raise
        return 0


def _refuse_reading(_: str) -> NoReturn:
    raise Unsupported(
        "a view has the same columns whatever its rows are: write the values of PIVOT, as in ON column IN ('a', 'b'), and the"
        " columns of UNPIVOT"
    )


def _check_names(name: TableName, session: QuerySession, sql: str) -> None:
    """Plan the stored text where no schema is the default one: every session must find the same tables."""
    try:
        QuerySession(replace(session.context, db_schema=_NO_SCHEMA)).frame(sql)
    except NotFound as exc:
        raise SqlError(
            f"view {name.name!r} names a table in a way that depends on the session ({exc}); expected schema.table there"
        ) from exc


def _check_itself(name: TableName, session: QuerySession) -> None:
    if str(name) in session.view_digests:
        raise SqlError(f"view {name.name!r} reads itself; expected a query over other tables and views")
