"""SHOW: lists tables, and the rows of metadata tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_flight.catalog.roots.directory import Root
from lance_flight.engine.query.planned_query import PlannedQuery
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef, quoted, table_name
from lance_flight.engine.statements.kinds import Answer, RowsStatement

TABLES_SCHEMA = pa.schema(
    [
        pa.field("table_schema", pa.utf8(), nullable=False),
        pa.field("table_name", pa.utf8(), nullable=False),
        pa.field("partitioned", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class ShowTables(RowsStatement):
    """SHOW TABLES."""

    forms = ("SHOW TABLES",)

    @classmethod
    def read(cls, _: Cursor) -> ShowTables:
        return cls()

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        return _Tables(session.tables)


@dataclass(frozen=True, slots=True)
class ShowMetadata(RowsStatement):
    """SHOW PARTITIONS t, SHOW INDEXES FROM t: the rows of a metadata table of t, [WHERE condition over its columns]."""

    forms = ("SHOW PARTITIONS", "SHOW INDEXES")

    table: TableRef
    metadata: str
    where: str | None = None

    @classmethod
    def read(cls, cursor: Cursor) -> ShowMetadata:
        metadata = cursor.last.lower()
        cursor.accept("FROM")
        table = references.table(cursor)
        where = cursor.rest() if cursor.accept("WHERE") else None
        return cls(table, metadata, where)

    def answer(self, session: QuerySession, parameters: pa.RecordBatch | None) -> Answer:
        return PlannedQuery.of(session, self._query(), parameters)

    def _query(self) -> str:
        name = table_name(self.table)
        listed = quoted(name.db_schema, f"{name.name}${self.metadata}")
        return f"SELECT * FROM {listed}" + (f" WHERE {self.where}" if self.where is not None else "")  # noqa: S608 - quoted above


@dataclass(frozen=True, slots=True)
class _Tables:
    """Answer with the rows of SHOW TABLES."""

    tables: Root | SqlTransaction
    schema: pa.Schema = TABLES_SCHEMA
    frame: None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        listed = [
            {"table_schema": name.db_schema, "table_name": name.name, "partitioned": partitioned}
            for name, partitioned in sorted(self.tables.kinds().items())
        ]
        yield from pa.Table.from_pylist(listed, schema=self.schema).to_batches()
