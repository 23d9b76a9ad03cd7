"""DESCRIBE: the columns of a table, and the properties of a namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import require_partitions
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import CATALOG, TableRef, table_name
from lance_flight.engine.statements.kinds import Answer, RowsStatement
from lance_flight.engine.statements.queries import begins_query, query_text
from lance_flight.model.naming import SEPARATOR
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.schema_changes import show_path
from lance_flight.model.type_names import column_type_name

DESCRIBE_SCHEMA = pa.schema(
    [
        pa.field("column_name", pa.utf8(), nullable=False),
        pa.field("data_type", pa.utf8(), nullable=False),
        pa.field("is_nullable", pa.utf8(), nullable=False),
        pa.field("field_id", pa.int32()),
        pa.field("partitioning", pa.utf8()),
        pa.field("comment", pa.utf8()),
    ]
)
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
    schema: pa.Schema = DESCRIBE_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        snapshot = self.tables.read(self.table, lambda table: table.snapshot())
        shown = self.described(snapshot.schema)
        yield from _describe_columns(
            shown.arrow, shown.ids if snapshot.is_partitioned else {}, _uses(snapshot), shown.comments
        )


@dataclass(frozen=True, slots=True)
class _ColumnsOfView:
    """Answer with the columns of a view, or of a query."""

    columns: pa.Schema
    schema: pa.Schema = DESCRIBE_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from _describe_columns(self.columns, {}, {}, {})


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


def _describe_columns(
    fields: Iterable[pa.Field], ids: Mapping[str, int], uses: Mapping[str, str], comments: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows about columns, by their names' field ids, partitionings and comments."""
    rows = [
        {
            "column_name": field.name,
            "data_type": column_type_name(field),
            "is_nullable": "YES" if field.nullable else "NO",
            "field_id": ids.get(field.name),
            "partitioning": uses.get(field.name),
            "comment": comments.get(field.name),
        }
        for field in fields
    ]
    yield from pa.Table.from_pylist(rows, schema=DESCRIBE_SCHEMA).to_batches()


def _uses(snapshot: Snapshot) -> dict[str, str]:
    """Map each column to the fields of the current partition spec that are computed from it."""
    uses: dict[str, list[str]] = {}
    for field in snapshot.current_spec.fields:
        for number in field.source_ids:
            path = snapshot.schema.source_paths.get(number)
            if path is not None:
                inside = f" of {show_path(path)}" if len(path) > 1 else ""
                uses.setdefault(path[0], []).append(f"{field.field_id}: {field.rule.type}{inside}")
    return {name: ", ".join(listed) for name, listed in uses.items()}
