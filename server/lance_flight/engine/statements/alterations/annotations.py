"""COMMENT ON, and ALTER TABLE … ADD and DROP PRIMARY KEY."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.alterations.alteration import HistoryAlteration
from lance_flight.engine.statements.create_table import primary_key
from lance_flight.engine.writes.column_changes import annotate
from lance_flight.model.schema_changes import CommentOn, SetPrimaryKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentStatement(HistoryAlteration):
    """COMMENT ON TABLE t IS 'text', COMMENT ON COLUMN t.c IS 'text'; NULL removes the comment."""

    forms = ("COMMENT ON TABLE", "COMMENT ON COLUMN")

    table: TableRef
    column: str | None
    text: str | None

    @classmethod
    def read(cls, cursor: Cursor) -> CommentStatement:
        if cursor.last == "COLUMN":
            table, column = references.column(cursor)
        else:
            table, column = references.table(cursor), None
        cursor.expect("IS")
        text = None if cursor.accept("NULL") else cursor.string("a comment in quotes, or NULL")
        return cls(table=table, column=column, text=text)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        about = "table" if self.column is None else f"column {self.column}"
        annotate(table, CommentOn(self.column, self.text), operation=f"comment on {about}")


@dataclass(frozen=True, slots=True)
class AddPrimaryKey(HistoryAlteration):
    """ALTER TABLE t ADD [CONSTRAINT name] PRIMARY KEY (column, …) [NOT ENFORCED]."""

    forms = ("ALTER TABLE t ADD PRIMARY KEY", "ALTER TABLE t ADD CONSTRAINT")

    table: TableRef
    columns: tuple[str, ...]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> AddPrimaryKey:
        if cursor.last == "KEY":
            cursor.at -= 2
        else:
            cursor.name("the name of the constraint")
        return cls(table, primary_key(cursor))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        annotate(table, SetPrimaryKey(self.columns), operation=f"add primary key {', '.join(self.columns)}")


@dataclass(frozen=True, slots=True)
class DropPrimaryKey(HistoryAlteration):
    """ALTER TABLE t DROP PRIMARY KEY."""

    forms = ("ALTER TABLE t DROP PRIMARY KEY",)

    table: TableRef

    @classmethod
    def read(cls, _: Cursor, table: TableRef) -> DropPrimaryKey:
        return cls(table)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        annotate(table, SetPrimaryKey(()), operation="drop primary key")
