"""CREATE and DROP of tables, of views and of schemas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import NoReturn

import pyarrow as pa

from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.roots.listings import ViewDefinition
from lance_flight.engine.dialects.pivots import with_read_values
from lance_flight.engine.query.access import Privilege
from lance_flight.engine.query.information_schema import INFORMATION_SCHEMA
from lance_flight.engine.query.partition_wise import division
from lance_flight.engine.query.search.search_target import SEARCHES
from lance_flight.engine.query.session import QuerySession, parameter_schema
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import (
    SYSTEM,
    Cursor,
    TableRef,
    enclose,
    quote_parts,
    read_bracketed_options,
    table_name,
)
from lance_flight.engine.statements.kinds import (
    MAKING,
    Changes,
    ChangeStatement,
    Required,
    TableStatement,
    on,
    temporary_root,
)
from lance_flight.engine.statements.queries import query_text
from lance_flight.engine.statements.show import ShowCreateTable
from lance_flight.engine.translation import typed_calls
from lance_flight.engine.translation.hidden_columns import qualify_names
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.engine.translation.typed_calls import shown_name
from lance_flight.engine.writes import definitions, ingest
from lance_flight.engine.writes.definitions import ColumnDef, PartitionDef, arrow_schema, storable
from lance_flight.engine.writes.ingest import PLAIN, TableProperties
from lance_flight.errors import AlreadyExists, InvalidInput, NotFound, SchemaError, SqlError, Unsupported
from lance_flight.model.schema import check_field_count
from lance_flight.model.schema_changes import with_notes

_AFTER_TYPE = (
    "NOT",
    "NULL",
    "DEFAULT",
    "PRIMARY",
    "COMMENT",
    "CHECK",
    "CONSTRAINT",
    "UNIQUE",
    "REFERENCES",
    "GENERATED",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(ChangeStatement):
    """CREATE [OR REPLACE] [TEMPORARY] TABLE [IF NOT EXISTS] t, with columns, from a query (`query`) or as another one (`like`)."""

    forms = ("CREATE",)
    is_cancellable = True

    table: TableRef
    columns: tuple[ColumnDef, ...] = ()
    properties: TableProperties = PLAIN
    if_not_exists: bool = False
    replace: bool = False
    query: str | None = None
    like: TableRef | None = None
    is_temporary: bool = False
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def read(cls, cursor: Cursor) -> CreateTable:
        is_replacing = cursor.accept("OR", "REPLACE")
        is_local = cursor.accept("LOCAL")
        is_temporary = cursor.accept("TEMPORARY") or cursor.accept("TEMP")
        if is_local and not is_temporary:
            raise cursor.error("TEMPORARY")
        cursor.expect("TABLE")
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        table = references.table(cursor)
        like = _like(cursor)
        names = references.names(cursor) if _names_alone(cursor) else ()
        columns, primary_key = _columns(cursor) if cursor.peek("(") else ((), ())
        partitioned_by: tuple[PartitionDef, ...] = ()
        if cursor.accept("PARTITIONED", "BY"):
            partitioned_by = definitions.in_brackets(cursor)
        if names and not any(map(cursor.peek, ("AS", "WITH", "ON", "COMMENT"))):
            raise cursor.error(f"the type of column {names[0]!r}, or AS and a query")
        comment = cursor.string("a comment in quotes") if cursor.accept("COMMENT") else None
        given = read_notes(cursor) if cursor.accept("METADATA") else {}
        notes = {key: text for key, text in given.items() if text is not None}
        options = read_bracketed_options(cursor) if cursor.accept("WITH") else {}
        if is_temporary:
            cursor.accept("ON", "COMMIT", "PRESERVE", "ROWS")
        query = _made_from(cursor, names) if cursor.accept("AS") else None
        cursor.end()
        if is_replacing and if_not_exists:
            raise SqlError("CREATE OR REPLACE TABLE takes no IF NOT EXISTS; expected one of them")
        if [query is not None, bool(columns), like is not None].count(True) != 1:
            raise SqlError(f"CREATE TABLE {table.name} takes either columns or AS SELECT or LIKE")
        if like is not None and (partitioned_by or options or comment):
            raise SqlError(
                f"CREATE TABLE {table.name} LIKE {like.name} takes all of {like.name}; expected no more clauses"
            )
        if query is not None and comment is not None:
            raise SqlError(f"CREATE TABLE {table.name} AS takes no COMMENT; expected COMMENT ON TABLE after it")
        return cls(
            table=table,
            columns=columns,
            properties=TableProperties.with_maintenance(options, partitioned_by),
            if_not_exists=if_not_exists,
            replace=is_replacing,
            query=query,
            like=like,
            primary_key=primary_key,
            comment=comment,
            notes=notes,
            is_temporary=is_temporary,
        )

    @property
    def defined(self) -> str:
        return str(table_name(self.table))

    def required_privileges(self, own: Collection[TableName]) -> Iterable[Required]:
        if self.is_temporary:
            return ()
        return on(table_name(self.table), *(MAKING if self.query is not None else (Privilege.DDL,)))

    def parameters(self, sql: str, changes: Changes) -> pa.Schema:
        if self.query is None:
            return parameter_schema(sql)
        session = changes.new_session(changes.transaction or SqlTransaction(changes.root), None)
        session.frame(self.query)
        return parameter_schema(sql, session.wanted_types())

    def run(self, changes: Changes) -> int:
        root, transaction = changes.root, changes.transaction
        new_session = partial(changes.new_session, transaction or SqlTransaction(root), None)
        if self.is_temporary:
            root, transaction = temporary_root(changes.temporary, table_name(self.table), root), None
        making = _Making(self._as_other(new_session), root, new_session, changes, transaction)
        return sum(map(making.run, changes.bindings()))

    def _as_other(self, new_session: Callable[[], QuerySession]) -> CreateTable:
        """Return the statement with the definition of the table that this one is to be like."""
        if self.like is None:
            return self
        (definition,) = ShowCreateTable(self.like).answer(new_session(), None).batches()
        made = CreateTable.read(Cursor.over(definition.column("definition")[0].as_py().removeprefix("CREATE ")))
        return replace(
            made,
            table=self.table,
            notes={**made.notes, **self.notes},
            if_not_exists=self.if_not_exists,
            replace=self.replace,
            is_temporary=self.is_temporary,
        )


@dataclass(frozen=True, slots=True)
class _Making:
    """Creation of one table below `root`."""

    statement: CreateTable
    root: Root
    new_session: Callable[[], QuerySession]
    changes: Changes
    transaction: SqlTransaction | None

    def run(self, binding: pa.RecordBatch | None) -> int:
        """Create the table unless it exists and may exist; return the number of its rows."""
        name, tables = table_name(self.statement.table), self.transaction or self.root
        if tables.has(name):
            if self.statement.if_not_exists:
                return 0
            if not self.statement.replace:
                raise AlreadyExists(f"table {name.name!r} is there already")
        try:
            return self._make(name, binding)
        except AlreadyExists:
            # Another writer created the table first; a name without a table is a different error.
            if self.statement.if_not_exists and tables.has(name):
                return 0
            raise

    def _make(self, name: TableName, binding: pa.RecordBatch | None) -> int:
        cancellation, properties = self.changes.cancellation, self.statement.properties
        existing = IfExists.REPLACE if self.statement.replace else IfExists.FAIL
        create = partial(
            ingest.create,
            self.root,
            name,
            existing=existing,
            transaction=self.transaction,
            cancellation=cancellation,
        )
        if self.statement.query is None:
            made = self.statement
            columns = arrow_schema(made.columns, made.primary_key, made.comment)
            return create(with_notes(columns, made.notes), properties, iter(()))
        session = self.new_session()
        frame = session.frame(self.statement.query, binding)
        schema = storable(frame.schema())
        schema = pa.schema([column.with_name(shown_name(column.name)) for column in schema])
        schema = with_notes(schema, self.statement.notes)
        session.prepare(frame)
        tables = (pa.Table.from_batches([batch]) for batch in division.rows(session, frame, schema))
        return create(schema, properties, tables)


def _names_alone(cursor: Cursor) -> bool:
    """Return whether names without types come next, which are those of the columns of a query."""
    following = [token.text for token in cursor.tokens[cursor.at + 2 : cursor.at + 3]]
    return cursor.peek("(") and following in ([","], [")"])


def _made_from(cursor: Cursor, names: Sequence[str]) -> str:
    """Read `query [WITH [NO] DATA]`, whose columns get other names if there are some; without data, it gives no row."""
    words = [token.word for token in cursor.tokens]
    has_data = words[-3:] != ["WITH", "NO", "DATA"]
    clause = 0 if has_data and words[-2:] != ["WITH", "DATA"] else 2 + (not has_data)
    query = query_text(cursor, len(words) - clause)
    cursor.at += clause
    if names:
        query = f"SELECT * FROM {enclose(query)} AS made ({', '.join(map(quote_parts, names))})"  # noqa: S608 - quoted
    return query if has_data else f"SELECT * FROM {enclose(query)} AS made LIMIT 0"  # noqa: S608 - the client's own text


_CLONES = (("CLONE",), ("SHALLOW", "CLONE"), ("DEEP", "CLONE"))


def _like(cursor: Cursor) -> TableRef | None:
    """Read `LIKE t` or `(LIKE t)`; None where the table is not made like another one."""
    if any(cursor.peek(*words) for words in _CLONES):
        raise Unsupported(
            "CLONE is not offered; write CREATE TABLE t LIKE u and INSERT INTO t SELECT * FROM u, or a branch of u"
        )
    if cursor.accept("LIKE"):
        return references.table(cursor)
    if not cursor.peek("(", "LIKE"):
        return None
    cursor.at += 2
    table = references.table(cursor)
    cursor.expect(")")
    return table


def columns_of(text: str) -> pa.Schema:
    """Return the columns that a list of definitions describes, as CREATE TABLE has it between its brackets.

    >>> columns_of("id BIGINT, day DATE").names
    ['id', 'day']
    """
    return arrow_schema(CreateTable.read(Cursor.over(f"TABLE columns ({text})")).columns)


def _columns(cursor: Cursor) -> tuple[tuple[ColumnDef, ...], tuple[str, ...]]:
    """Read `(column type …, [PRIMARY KEY (column, …)])`: the definitions, and the columns of the primary key."""
    cursor.expect("(")
    columns: list[ColumnDef] = []
    keys: list[tuple[str, ...]] = []
    while not columns or cursor.accept(","):
        if columns and cursor.peek("PRIMARY", "KEY", "("):
            keys.append(primary_key(cursor))
            continue
        if columns and any(cursor.peek(*words) for words in CONSTRAINTS):
            raise _no_constraint(cursor)
        column, is_key = _column(cursor)
        columns.append(column)
        check_field_count(len(columns))
        keys += [(column.name,)] * is_key
    cursor.expect(")")
    if len(keys) > 1:
        raise SqlError(f"{len(keys)} primary keys; expected one, PRIMARY KEY (column, …) where it has several columns")
    return tuple(columns), keys[0] if keys else ()


def primary_key(cursor: Cursor) -> tuple[str, ...]:
    """Read `PRIMARY KEY (column, …) [NOT ENFORCED]`."""
    cursor.expect("PRIMARY", "KEY")
    columns = references.names(cursor)
    cursor.accept("NOT", "ENFORCED")
    return columns


def read_notes(cursor: Cursor) -> dict[str, str | None]:
    """Read `('key' = 'text', …)`: metadata that a client chooses, None for NULL."""
    texts: dict[str, str | None] = {}
    cursor.expect("(")
    while not cursor.peek(")"):
        key = cursor.string("a key in quotes")
        cursor.expect("=")
        texts[key] = None if cursor.accept("NULL") else cursor.string("a text in quotes, or NULL")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return texts


CONSTRAINTS = (("CHECK", "("), ("UNIQUE", "("), ("FOREIGN", "KEY", "("))


def _no_constraint(cursor: Cursor) -> Unsupported:
    word = cursor.tokens[cursor.at].text.upper()
    return Unsupported(
        f"{word} is not offered: rows are not compared with a condition; write PRIMARY KEY for a key that ON CONFLICT and"
        " MERGE go by, and a WHERE in the INSERT … SELECT"
    )


def _column(cursor: Cursor) -> tuple[ColumnDef, bool]:
    """Read `name type`, then NOT NULL, DEFAULT value, PRIMARY KEY and COMMENT 'text': the definition, and whether it is the key."""
    name = cursor.name("a column name")
    kind = cursor.type(",", *_AFTER_TYPE)
    if not kind:
        raise cursor.error(f"the type of column {name!r}")
    column, is_key = ColumnDef(name=name, type=kind), False
    while not (cursor.peek(",") or cursor.peek(")")):
        if cursor.accept("NOT", "NULL"):
            column = replace(column, nullable=False)
        elif cursor.accept("DEFAULT"):
            column = replace(column, default=_default(cursor))
        elif cursor.accept("PRIMARY", "KEY"):
            is_key = True
            cursor.accept("NOT", "ENFORCED")
        elif cursor.accept("COMMENT"):
            column = replace(column, comment=cursor.string("a comment in quotes"))
        elif cursor.peek("GENERATED"):
            raise Unsupported(
                "GENERATED is not offered in CREATE TABLE; write uuid() in the INSERT for a key, or ALTER TABLE t ADD COLUMN c AS (expression)"
            )
        elif any(map(cursor.peek, ("CHECK", "CONSTRAINT", "UNIQUE", "REFERENCES"))):
            raise _no_constraint(cursor)
        elif not cursor.accept("NULL"):
            raise cursor.error("NOT NULL, DEFAULT, PRIMARY KEY, COMMENT, a comma or the closing bracket")
    return column, is_key


def _default(cursor: Cursor) -> str | None:
    """Read the default of a column; None for NULL."""
    if cursor.accept("NULL"):
        return None
    value = cursor.until(",", *_AFTER_TYPE)
    if not value:
        raise cursor.error("a value")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable(TableStatement, ChangeStatement):
    """DROP TABLE [IF EXISTS] t."""

    forms = ("DROP",)
    frees_room = True
    is_cancellable = True
    needs = (Privilege.DDL,)

    table: TableRef
    if_exists: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> DropTable:
        cursor.expect("TABLE")
        if_exists = cursor.accept("IF", "EXISTS")
        table = references.table(cursor)
        return cls(table=table, if_exists=if_exists)

    def run(self, changes: Changes) -> int:
        name = table_name(self.table)
        for _ in changes.bindings():
            tables = changes.root if changes.root.is_temporary(name) else changes.tables
            if not (self.if_exists and not tables.has(name)):
                tables.drop(name, changes.cancellation.begin_commit)
        return 0


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
