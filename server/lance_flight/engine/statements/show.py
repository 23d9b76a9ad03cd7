"""SHOW and DESCRIBE: rows of `information_schema` and of metadata tables, and the statements that make a table or view again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.backend_values import SettingValue
from lance_flight.catalog.maintenance.survey import chosen_options
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, Table, TableName
from lance_flight.catalog.table import require_partitions
from lance_flight.engine.query.access import Privilege
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.tables.metadata_tables import COLUMNS_SCHEMA, columns_of_table, describe_columns
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import CATALOG, Cursor, TableRef, enclose, quote_parts, table_name, text_literal
from lance_flight.engine.statements import sessions
from lance_flight.engine.statements.kinds import Answer, RowsStatement
from lance_flight.engine.statements.queries import begins_query, query_text
from lance_flight.engine.writes import definitions
from lance_flight.engine.writes.change_clauses import default_text
from lance_flight.engine.writes.definitions import show_partitioning
from lance_flight.errors import NotFound
from lance_flight.model.file_versions import NEWEST
from lance_flight.model.naming import SEPARATOR
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.type_names import column_type_name

_SETTINGS_SCHEMA = pa.schema([pa.field(name, pa.utf8(), nullable=False) for name in ("name", "value")])
_READ_SCHEMA = pa.schema([pa.field("object_id", pa.utf8(), nullable=False)])
_LISTINGS = MappingProxyType(
    {
        "CATALOGS": ("catalog_name", "SELECT DISTINCT catalog_name FROM information_schema.schemata"),
        "SCHEMAS": ("schema_name", "SELECT schema_name FROM information_schema.schemata"),
        "TABLES": ("table_name", "SELECT table_schema, table_name, partitioned FROM information_schema.tables"),
        "VIEWS": ("table_name", "SELECT table_schema, table_name FROM information_schema.views"),
        "FUNCTIONS": (
            "routine_name",
            (
                "SELECT DISTINCT routine_name AS function_name, function_type, description, syntax_example"
                " FROM information_schema.routines"
            ),
        ),
    }
)
"""Column that LIKE is about, and the query, of each listing."""


@dataclass(frozen=True, slots=True)
class ShowListing(RowsStatement):
    """SHOW CATALOGS | SCHEMAS | TABLES | VIEWS | FUNCTIONS [FROM schema] [LIKE 'pattern']: rows of `information_schema`."""

    forms = ("SHOW CATALOGS", "SHOW SCHEMAS", "SHOW TABLES", "SHOW VIEWS", "SHOW FUNCTIONS")

    what: str
    db_schema: str | None = None
    pattern: str | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> ShowListing:
        what, db_schema = cursor.last, None
        if what in ("TABLES", "VIEWS") and (cursor.accept("FROM") or cursor.accept("IN")):
            db_schema = references.schema(cursor)
        elif what == "SCHEMAS" and (cursor.accept("FROM") or cursor.accept("IN")):
            references.catalog(cursor)
        return cls(what, db_schema, _pattern(cursor))

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        if self.db_schema is not None and self.db_schema not in session.root.schemas():
            raise NotFound.named("schema", self.db_schema, session.root.schemas())
        named, query = _LISTINGS[self.what]
        given = {f"{named} LIKE": self.pattern, "table_schema =": self.db_schema}
        conditions = [f"{what} {text_literal(value)}" for what, value in given.items() if value is not None]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return PlannedQuery.of(session, f"{query}{where} ORDER BY 1, {named}", parameters)


@dataclass(frozen=True, slots=True)
class ShowColumns(RowsStatement):
    """SHOW COLUMNS FROM t [LIKE 'pattern']: the rows of `information_schema.columns` about one table."""

    forms = ("SHOW COLUMNS",)

    table: TableRef
    pattern: str | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> ShowColumns:
        if not (cursor.accept("FROM") or cursor.accept("IN")):
            raise cursor.error("FROM")
        return cls(references.table(cursor), _pattern(cursor))

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        name = table_name(self.table)
        if session.tables.has(name) or session.root.view(name) is None:
            session.tables.table(name)
        like = "" if self.pattern is None else f" AND column_name LIKE {text_literal(self.pattern)}"
        query = (
            "SELECT table_catalog, table_schema, table_name, column_name, data_type, is_nullable, column_comment"  # noqa: S608 - quoted
            f" FROM information_schema.columns WHERE table_schema = {text_literal(name.db_schema)}"
            f" AND table_name = {text_literal(name.name)}{like} ORDER BY ordinal_position"
        )
        return PlannedQuery.of(session, query, parameters)


@dataclass(frozen=True, slots=True)
class ShowSettings(RowsStatement):
    """SHOW ALL, SHOW setting: the settings of the session, or one of them, with their values."""

    forms = ("SHOW ALL", "SHOW")

    setting: str | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> ShowSettings:
        if cursor.last == "ALL":
            return cls()
        if not any(map(cursor.peek, sessions.options(Session()))):
            raise cursor.error(
                "CATALOGS, SCHEMAS, TABLES, VIEWS, FUNCTIONS, COLUMNS, CREATE TABLE, CREATE VIEW, PARTITIONS, INDEXES, ALL"
                " or the name of a setting"
            )
        return cls(cursor.name("the name of a setting"))

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        context = session.context
        known = Session(
            isolation=context.isolation,
            branch=session.root.branch,
            db_schema=session.db_schema,
            execution=session.execution,
            reads_only=context.access.reads_only,
        )
        return _Settings(known, self.setting)


@dataclass(frozen=True, slots=True)
class _Settings:
    """Answer with the settings of a session, or one of them, in the form that SET takes."""

    session: Session
    setting: str | None
    schema: pa.Schema = _SETTINGS_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        known = sessions.options(self.session).items()
        shown = {name: _as_set(value) for name, value in known if self.setting in (None, name)}
        columns = [pa.array(value, pa.utf8()) for value in (shown, shown.values())]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _as_set(value: SettingValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


@dataclass(frozen=True, slots=True)
class ShowMetadata(RowsStatement):
    """SHOW PARTITIONS t, SHOW INDEXES FROM t: the rows of a metadata table of t, [WHERE condition over its columns].

    SHOW PARTITIONS t READ BY condition gives the `object_id` of each partition table that a query with this WHERE reads,
    and … READ BY QUERY SELECT … of each that this query reads.
    """

    forms = ("SHOW PARTITIONS", "SHOW INDEXES")

    table: TableRef
    metadata: str
    where: str | None = None
    read_by: str | None = None
    """The condition, or with `is_query` the whole query."""
    is_query: bool = False

    @classmethod
    def read(cls, cursor: Cursor) -> ShowMetadata:
        metadata = cursor.last.lower()
        cursor.accept("FROM")
        table = references.table(cursor)
        if metadata == "partitions" and cursor.accept("READ", "BY"):
            # A column may be called `query`, but no condition goes on by these words.
            is_query = any(cursor.peek("QUERY", word) for word in ("SELECT", "WITH", "FROM"))
            if is_query:
                cursor.expect("QUERY")
            if cursor.done:
                raise cursor.error("a condition")
            return cls(table, metadata, read_by=cursor.rest(), is_query=is_query)
        where = cursor.rest() if cursor.accept("WHERE") else None
        return cls(table, metadata, where)

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        if self.read_by is None:
            return PlannedQuery.of(session, self._query(), parameters)
        # A table without partitions is refused by its name here.
        session.frame(f"{self._query()} LIMIT 0")
        name = table_name(self.table)
        condition = f"SELECT 1 FROM {quote_parts(name.db_schema, name.name)} WHERE {enclose(self.read_by)}"  # noqa: S608 - planned, never run
        read = self.read_by if self.is_query else condition
        return _ReadPartitions(session, session.frame(read, parameters), f"{name.db_schema}.{name.name}")

    def _query(self) -> str:
        name = table_name(self.table)
        listed = quote_parts(name.db_schema, f"{name.name}${self.metadata}")
        return f"SELECT * FROM {listed}" + (f" WHERE {self.where}" if self.where is not None else "")  # noqa: S608 - quoted above


@dataclass(frozen=True, slots=True)
class _ReadPartitions:
    """Answer with the partition tables that the scans of a planned query read of one table."""

    session: QuerySession
    query: DataFrame
    table: str
    schema: pa.Schema = _READ_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        self.session.prepare(self.query)
        self.session.optimiser.plan(self.query)
        view = self.session.views.get(self.table)
        # Without a scan, DataFusion knows that no row fulfils the condition, or the query is not about the table.
        prunings = [] if view is None else self.session.log.prunings.get(view.key, [])
        for place, tables in enumerate(view.snapshot.tables if view is not None and prunings else ()):
            kept = sorted({row for pruning in prunings for row in pruning.versions[place].kept})
            ids = tables.rows["object_id"].combine_chunks().take(pa.array(kept, pa.int64()))
            yield pa.RecordBatch.from_arrays([ids], schema=self.schema)


def _pattern(cursor: Cursor) -> str | None:
    """Read `[LIKE 'pattern']`."""
    return cursor.string("a pattern in quotes") if cursor.accept("LIKE") else None


_SCHEMA = pa.schema(
    [
        pa.field(name, pa.utf8(), nullable=False)
        for name in ("table_catalog", "table_schema", "table_name", "definition")
    ]
)


@dataclass(frozen=True, slots=True)
class ShowCreateTable(RowsStatement):
    """SHOW CREATE TABLE t."""

    forms = ("SHOW CREATE TABLE",)

    table: TableRef

    @classmethod
    def read(cls, cursor: Cursor) -> ShowCreateTable:
        return cls(references.table(cursor))

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        session.tables.table(table_name(self.table))
        name = table_name(self.table)
        described = partial(session.access.visible_schema, table=session.root.governing_table(name))
        return _Definition(session.tables, name, described)


@dataclass(frozen=True, slots=True)
class ShowCreateView(RowsStatement):
    """SHOW CREATE VIEW v."""

    forms = ("SHOW CREATE VIEW",)

    view: TableRef

    @classmethod
    def read(cls, cursor: Cursor) -> ShowCreateView:
        return cls(references.table(cursor))

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        name = table_name(self.view)
        condition = f"table_schema = {text_literal(name.db_schema)} AND table_name = {text_literal(name.name)}"
        listed = f"FROM information_schema.views WHERE {condition}"
        planned_query = PlannedQuery.of(session, f"SELECT table_name {listed}")
        if not any(batch.num_rows for batch in planned_query.batches()):
            raise NotFound(f"no view {name.name!r}; SHOW VIEWS lists those that there are")
        start = f"CREATE VIEW {quote_parts(name.db_schema, name.name)} AS "
        query = (
            f"SELECT table_catalog, table_schema, table_name, {text_literal(start)} || view_definition AS definition"
            f" {listed}"
        )
        return PlannedQuery.of(session, query)


@dataclass(frozen=True, slots=True)
class _Definition:
    """Answer with the definition of one table."""

    tables: Root | SqlTransaction
    table: TableName
    described: Callable[[NamespaceSchema], NamespaceSchema]
    schema: pa.Schema = _SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        definition = self.tables.read(self.table, self._definition)
        row = [references.CATALOG, self.table.db_schema, self.table.name, definition]
        yield pa.RecordBatch.from_arrays([pa.array([value], pa.utf8()) for value in row], schema=self.schema)

    def _definition(self, table: Table) -> str:
        snapshot = table.snapshot()
        return definition_of(self.table, snapshot, self.described(snapshot.schema))


def definition_of(name: TableName, snapshot: Snapshot, schema: NamespaceSchema) -> str:
    """Return the CREATE TABLE that makes a table of the same columns and partition fields, without its history and rows.

    `schema` are those of its columns that are shown; partition fields of others are left out.
    """
    left_out = snapshot.schema.sources.keys() - schema.sources.keys()
    fields = tuple(field for field in snapshot.current_spec.fields if left_out.isdisjoint(field.source_ids))
    lines = [_column(field, schema) for field in schema.plain]
    if schema.primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(map(quote_parts, schema.primary_key))})")
    clauses = [f"CREATE TABLE {quote_parts(name.db_schema, name.name)} (\n  " + ",\n  ".join(lines) + "\n)"]
    if snapshot.is_partitioned and fields:
        clauses.append(f"PARTITIONED BY ({show_partitioning(replace(snapshot.current_spec, fields=fields), schema)})")
    if schema.comment is not None:
        clauses.append(f"COMMENT {text_literal(schema.comment)}")
    if schema.notes:
        pairs = [f"{text_literal(key)} = {text_literal(text)}" for key, text in schema.notes.items()]
        clauses.append(f"METADATA ({', '.join(pairs)})")
    options = {"stable_row_ids": "true"} if snapshot.has_stable_row_ids else {}
    options |= {"file_version": f"'{snapshot.file_version}'"} if snapshot.file_version != NEWEST else {}
    listed = [f"{option} = {value}" for option, value in options.items()]
    listed += [definitions.option_as_sql(option, value) for option, value in chosen_options(snapshot).items()]
    if listed:
        clauses.append(f"WITH ({', '.join(listed)})")
    return "\n".join(clauses)


def _column(field: pa.Field, schema: NamespaceSchema) -> str:
    comment = schema.comments.get(field.name)
    comment_text = "" if comment is None else f" COMMENT {text_literal(comment)}"
    null = "" if field.nullable else " NOT NULL"
    default = default_text(schema, field.name)
    default_clause = "" if default is None else f" DEFAULT {default}"
    return f"{quote_parts(field.name)} {column_type_name(schema.arrow.field(field.name))}{null}{default_clause}{comment_text}"


PROPERTIES_SCHEMA = pa.schema(
    [pa.field("property", pa.utf8(), nullable=False), pa.field("value", pa.utf8(), nullable=False)]
)


@dataclass(frozen=True, slots=True)
class Describe(RowsStatement):
    """DESCRIBE [TABLE] t, DESC [TABLE] t."""

    forms = ("DESCRIBE", "DESC")

    table: TableRef

    @classmethod
    def read(cls, cursor: Cursor) -> Describe | DescribeQuery:
        if begins_query(cursor):
            return DescribeQuery(query_text(cursor))
        cursor.accept("TABLE")
        table = references.table(cursor)
        return cls(table)

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        name = table_name(self.table)
        view = None if session.tables.has(name) else session.root.view(name)
        if view is not None:
            return _ColumnsOfView(view.columns)
        session.tables.table(name)
        return _Columns(
            session.tables, name, partial(session.access.visible_schema, table=session.root.governing_table(name))
        )


@dataclass(frozen=True, slots=True)
class DescribeQuery(RowsStatement):
    """DESCRIBE query: the columns of its rows, which are not read."""

    forms = ()

    query: str

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        return _ColumnsOfView(pa.schema(session.frame(self.query, parameters).schema()))


@dataclass(frozen=True, slots=True)
class DescribeNamespace(RowsStatement):
    """DESCRIBE NAMESPACE t[.v1[.name …]] ['v1$name…']: `parts` begin with the table, `path` is what the text says."""

    forms = ("DESCRIBE NAMESPACE", "DESC NAMESPACE")

    parts: tuple[str, ...]
    path: tuple[str, ...] = ()

    @classmethod
    def read(cls, cursor: Cursor) -> DescribeNamespace | Describe | DescribeQuery:
        if cursor.done or cursor.peek("."):
            # A table, or a schema, that is called namespace.
            cursor.at -= 1
            return Describe.read(cursor)
        parts = [cursor.name("a table name")]
        while cursor.accept("."):
            parts.append(cursor.name("the name of a namespace"))
        path = () if cursor.done else tuple(cursor.string("the path of a namespace, 'v1$…'").split(SEPARATOR))
        return cls(tuple(parts), path)

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        listed = ".".join(self.parts)
        if not self.path and session.root.has_namespace(listed):
            return _PropertiesOfSchema(session.root, listed)
        described = self._properties(session.tables, session.db_schema)
        session.tables.table(described.table)
        session.access.check_all_rows(Privilege.SELECT, session.root.governing_table(described.table))
        return described

    def _properties(self, tables: Root | SqlTransaction, db_schema: str) -> _Properties:
        """Resolve the longest prefix that names a table: a schema and a table, or a table of `db_schema`."""
        parts = self.parts
        if parts[0] == CATALOG and len(parts) > 1 and not tables.has(TableName(db_schema, CATALOG)):
            parts = parts[1:]
        if len(parts) > 1 and tables.has(TableName(*parts[:2])):
            return _Properties(tables, TableName(*parts[:2]), (*parts[2:], *self.path))
        return _Properties(tables, TableName(db_schema, parts[0]), (*parts[1:], *self.path))


@dataclass(frozen=True, slots=True)
class _Columns:
    """Answer with the columns of a table, and the partition fields that use each of them."""

    tables: Root | SqlTransaction
    table: TableName
    described: Callable[[NamespaceSchema], NamespaceSchema]
    schema: pa.Schema = COLUMNS_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        snapshot = self.tables.read(self.table, lambda table: table.snapshot())
        shown = self.described(snapshot.schema)
        yield from columns_of_table(snapshot, shown).to_batches()


@dataclass(frozen=True, slots=True)
class _ColumnsOfView:
    """Answer with the columns of a view, or of a query."""

    columns: pa.Schema
    schema: pa.Schema = COLUMNS_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from describe_columns(self.columns).to_batches()


@dataclass(frozen=True, slots=True)
class _Properties:
    """Answer with the runtime properties of a table, or of a namespace below it (spec: Appendix E)."""

    tables: Root | SqlTransaction
    table: TableName
    path: tuple[str, ...]
    schema: pa.Schema = PROPERTIES_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        properties = self.tables.read(self.table, lambda table: require_partitions(table).describe(self.path))
        listed = [{"property": name, "value": value} for name, value in properties.items()]
        yield from pa.Table.from_pylist(listed, schema=self.schema).to_batches()


@dataclass(frozen=True, slots=True)
class _PropertiesOfSchema:
    """Answer with the properties of a namespace that the root's `__manifest` lists."""

    root: Root
    db_schema: str
    schema: pa.Schema = PROPERTIES_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        listed = [{"property": name, "value": value} for name, value in self.root.properties(self.db_schema).items()]
        yield from pa.Table.from_pylist(listed, schema=self.schema).to_batches()
