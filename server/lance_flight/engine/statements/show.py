"""SHOW: rows of `information_schema` and of metadata tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.backend_values import SettingValue
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.runtime.client_sessions import Session
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef, enclosed, quoted, table_name, text_literal
from lance_flight.engine.statements import settings
from lance_flight.engine.statements.kinds import Answer, RowsStatement
from lance_flight.errors import NotFound

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
    """SHOW ALL: the settings of the session with their values."""

    forms = ("SHOW ALL",)

    @classmethod
    def read(cls, _: Cursor) -> ShowSettings:
        return cls()

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        context = session.context
        known = Session(
            isolation=context.isolation,
            branch=session.root.branch,
            db_schema=session.db_schema,
            execution=session.execution,
            reads_only=context.access.reads_only,
        )
        return _Settings(known)


@dataclass(frozen=True, slots=True)
class _Settings:
    """Answer with the settings of a session, in the form that SET takes."""

    session: Session
    schema: pa.Schema = _SETTINGS_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        shown = {name: _as_set(value) for name, value in settings.options(self.session).items()}
        columns = [pa.array(each, pa.utf8()) for each in (shown, shown.values())]
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
        condition = f"SELECT 1 FROM {quoted(name.db_schema, name.name)} WHERE {enclosed(self.read_by)}"  # noqa: S608 - planned, never run
        read = self.read_by if self.is_query else condition
        return _ReadPartitions(session, session.frame(read, parameters), f"{name.db_schema}.{name.name}")

    def _query(self) -> str:
        name = table_name(self.table)
        listed = quoted(name.db_schema, f"{name.name}${self.metadata}")
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
        self.session.plan(self.query)
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
