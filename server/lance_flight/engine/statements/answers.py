"""Statements that return rows: each becomes an answer, which knows its schema before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import Root, Table, TableName
from lance_flight.engine.query.explain import EXPLAIN_SCHEMA, explain
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.query.session import Session
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.references import CATALOG, quoted
from lance_flight.engine.statements.parsing import (
    Describe,
    DescribeNamespace,
    Explain,
    Query,
    RowsStatement,
    ShowMetadata,
    ShowTables,
)
from lance_flight.engine.writes.dml import row_query, table_name
from lance_flight.engine.writes.merge_keys import matched_rows
from lance_flight.engine.writes.partition_changes import partitioned
from lance_flight.engine.writes.privileges import changing
from lance_flight.engine.writes.row_changes import Merge
from lance_flight.model.schema_changes import dotted

TABLES_SCHEMA = pa.schema(
    [
        pa.field("table_schema", pa.utf8(), nullable=False),
        pa.field("table_name", pa.utf8(), nullable=False),
        pa.field("partitioned", pa.bool_(), nullable=False),
    ]
)
DESCRIBE_SCHEMA = pa.schema(
    [
        pa.field("column_name", pa.utf8(), nullable=False),
        pa.field("data_type", pa.utf8(), nullable=False),
        pa.field("is_nullable", pa.utf8(), nullable=False),
        pa.field("field_id", pa.int32()),
        pa.field("partitioning", pa.utf8()),
    ]
)

PROPERTIES_SCHEMA = pa.schema(
    [pa.field("property", pa.utf8(), nullable=False), pa.field("value", pa.utf8(), nullable=False)]
)


class Answer(Protocol):
    """Rows that a statement will return."""

    @property
    def schema(self) -> pa.Schema:
        """The exact schema of every batch."""
        ...

    @property
    def frame(self) -> DataFrame | None:
        """DataFusion's plan, where it runs the statement."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the statement."""
        ...


@dataclass(frozen=True, slots=True)
class ExplainAnswer:
    """The plan of a query, and how each of its scans was pruned."""

    session: Session
    frame: DataFrame
    analyze: bool
    schema: pa.Schema = EXPLAIN_SCHEMA

    def batches(self) -> Iterator[pa.RecordBatch]:
        self.session.prepare(self.frame)
        yield from explain(self.session, self.frame, analyze=self.analyze).to_batches()


@dataclass(frozen=True, slots=True)
class TablesAnswer:
    """SHOW TABLES."""

    tables: Root | SqlTransaction
    schema: pa.Schema = TABLES_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        listed = [
            {"table_schema": name.db_schema, "table_name": name.name, "partitioned": partitioned}
            for name, partitioned in sorted(self.tables.kinds().items())
        ]
        yield from pa.Table.from_pylist(listed, schema=self.schema).to_batches()


@dataclass(frozen=True, slots=True)
class DescribeAnswer:
    """DESCRIBE: the columns of a table, and the partition fields that each of them feeds."""

    tables: Root | SqlTransaction
    table: TableName
    schema: pa.Schema = DESCRIBE_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        fields, ids, uses = self.tables.read(self.table, _columns)
        described = [
            {
                "column_name": field.name,
                "data_type": str(field.type),
                "is_nullable": "YES" if field.nullable else "NO",
                "field_id": ids.get(field.name),
                "partitioning": uses.get(field.name),
            }
            for field in fields
        ]
        yield from pa.Table.from_pylist(described, schema=self.schema).to_batches()


@dataclass(frozen=True, slots=True)
class PropertiesAnswer:
    """DESCRIBE NAMESPACE: the runtime properties of a table, or of a namespace below it (spec: Appendix E)."""

    tables: Root | SqlTransaction
    table: TableName
    path: tuple[str, ...]
    schema: pa.Schema = PROPERTIES_SCHEMA
    frame: None = None

    @classmethod
    def of(cls, tables: Root | SqlTransaction, statement: DescribeNamespace, db_schema: str) -> PropertiesAnswer:
        """The longest table name that the parts begin with counts: a schema and a table, or a table of `db_schema`."""
        parts = statement.parts
        if parts[0] == CATALOG and len(parts) > 1 and not tables.has(TableName(db_schema, CATALOG)):
            parts = parts[1:]
        if len(parts) > 1 and tables.has(TableName(*parts[:2])):
            return cls(tables, TableName(*parts[:2]), (*parts[2:], *statement.path))
        return cls(tables, TableName(db_schema, parts[0]), (*parts[1:], *statement.path))

    def batches(self) -> Iterator[pa.RecordBatch]:
        found = self.tables.read(self.table, lambda table: partitioned(table, self.table).describe(self.path))
        listed = [{"property": name, "value": value} for name, value in found.items()]
        yield from pa.Table.from_pylist(listed, schema=self.schema).to_batches()


def answer(session: Session, statement: RowsStatement, parameters: pa.RecordBatch | None = None) -> Answer:
    """Plan a statement; nothing is read yet."""
    match statement:
        case Query(sql):
            return PlannedQuery.of(session, sql, parameters)
        case Explain(_, analyze, change) if change is not None:
            frame = session.frame(row_query(session, change, table_name(change.target.table)).sql, parameters)
            if isinstance(change, Merge):
                session.narrow(matched_rows(session, change, frame))
            return ExplainAnswer(session, frame, analyze)
        case Explain(sql, analyze):
            return ExplainAnswer(session, session.frame(sql, parameters), analyze)
        case ShowMetadata():
            return PlannedQuery.of(session, _metadata_query(statement), parameters)
        case ShowTables():
            return TablesAnswer(session.tables)
        case Describe(reference):
            session.tables.table(table_name(reference))
            return DescribeAnswer(session.tables, table_name(reference))
        case DescribeNamespace():
            described = PropertiesAnswer.of(session.tables, statement, session.db_schema)
            session.tables.table(described.table)
            session.access.check_all_rows(Privilege.SELECT, session.root.governing(described.table))
            return described


def target_of(statement: RowsStatement) -> tuple[TableName | None, frozenset[Privilege]]:
    """The table whose rows a statement wants with their addresses, and what for: the one of a change that is explained."""
    explained = statement.change if isinstance(statement, Explain) else None
    return (None, frozenset()) if explained is None else (table_name(explained.target.table), changing(explained))


def _metadata_query(statement: ShowMetadata) -> str:
    name, where = table_name(statement.table), statement.where
    listed = quoted(name.db_schema, f"{name.name}${statement.metadata}")
    return f"SELECT * FROM {listed}" + (f" WHERE {where}" if where is not None else "")  # noqa: S608 - quoted above


def _columns(table: Table) -> tuple[pa.Schema, Mapping[str, int], Mapping[str, str]]:
    """The columns of a table, their field ids, and the partition fields that they feed."""
    if isinstance(table, PartitionedNamespace):
        snapshot = table.snapshot()
        return snapshot.schema.plain, snapshot.schema.ids, _uses(snapshot)
    return table.open().schema, {}, {}


def _uses(snapshot: Snapshot) -> dict[str, str]:
    """For each column the partition fields of the current spec that are computed from it."""
    uses: dict[str, list[str]] = {}
    for field in snapshot.current_spec.fields:
        for number in field.source_ids:
            path = snapshot.schema.source_paths.get(number)
            if path is not None:
                inside = f" of {dotted(path)}" if len(path) > 1 else ""
                uses.setdefault(path[0], []).append(f"{field.field_id}: {field.rule.type}{inside}")
    return {name: ", ".join(listed) for name, listed in uses.items()}
