"""SHOW CREATE TABLE and SHOW CREATE VIEW: the statements that make the same table or view again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lance_flight.catalog.maintenance.policies import chosen_options
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, Table, TableName
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef, quoted, table_name, text_literal
from lance_flight.engine.sql.type_names import column_type_name
from lance_flight.engine.statements.kinds import Answer, RowsStatement
from lance_flight.engine.writes import maintenance_options
from lance_flight.engine.writes.definitions import partitioning
from lance_flight.errors import NotFound
from lance_flight.model.file_versions import NEWEST
from lance_flight.model.schema import NamespaceSchema

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
        described = partial(session.access.described, table=session.root.governing(name))
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
        found = PlannedQuery.of(session, f"SELECT table_name {listed}")
        if not any(batch.num_rows for batch in found.batches()):
            raise NotFound(f"no view {name.name!r}; SHOW VIEWS lists those that there are")
        start = f"CREATE VIEW {quoted(name.db_schema, name.name)} AS "
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
    fields = tuple(each for each in snapshot.current_spec.fields if left_out.isdisjoint(each.source_ids))
    lines = [_column(field, schema) for field in schema.plain]
    if schema.primary_key:
        lines.append(f"PRIMARY KEY ({', '.join(map(quoted, schema.primary_key))})")
    clauses = [f"CREATE TABLE {quoted(name.db_schema, name.name)} (\n  " + ",\n  ".join(lines) + "\n)"]
    if snapshot.is_partitioned and fields:
        clauses.append(f"PARTITIONED BY ({partitioning(replace(snapshot.current_spec, fields=fields), schema)})")
    if schema.comment is not None:
        clauses.append(f"COMMENT {text_literal(schema.comment)}")
    options = {"stable_row_ids": "true"} if snapshot.has_stable_row_ids else {}
    options |= {"file_version": f"'{snapshot.file_version}'"} if snapshot.file_version != NEWEST else {}
    listed = [f"{option} = {value}" for option, value in options.items()]
    listed += [maintenance_options.as_sql(option, value) for option, value in chosen_options(snapshot).items()]
    if listed:
        clauses.append(f"WITH ({', '.join(listed)})")
    return "\n".join(clauses)


def _column(field: pa.Field, schema: NamespaceSchema) -> str:
    comment = schema.comments.get(field.name)
    said = "" if comment is None else f" COMMENT {text_literal(comment)}"
    null = "" if field.nullable else " NOT NULL"
    return (
        f"{quoted(field.name)} {column_type_name(schema.arrow.field(field.name))}{null}{_default(field, schema)}{said}"
    )


def _default(field: pa.Field, schema: NamespaceSchema) -> str:
    value = schema.defaults.get(field.name)
    if value is None:
        return ""
    text = str(value.cast(pa.utf8()))
    is_plain = pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)
    return f" DEFAULT {text if is_plain else text_literal(text)}"
