"""DESCRIBE: the columns of a table, and the properties of a namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import require_partitions
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.query.tables.metadata_tables import COLUMNS_SCHEMA, columns_of_table, describe_columns
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import CATALOG, TableRef, table_name
from lance_flight.engine.statements.kinds import Answer, RowsStatement
from lance_flight.engine.statements.queries import begins_query, query_text
from lance_flight.model.naming import SEPARATOR
from lance_flight.model.schema import NamespaceSchema

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
