"""ALTER TABLE … CREATE TAG, DROP TAG and ROLLBACK TO."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.catalog.roots.directory import Root, Table, TableName
from lance_flight.engine.query.policies.access import Access
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.sql.time_travel import Point, naming, read_as_of, read_point
from lance_flight.engine.statements.alterations.alteration import HistoryAlteration


@dataclass(frozen=True, slots=True)
class CreateTag(HistoryAlteration):
    """ALTER TABLE t CREATE TAG name [AS OF point]."""

    forms = ("ALTER TABLE t CREATE TAG",)

    table: TableRef
    tag: str
    at: Point | None = None

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> CreateTag:
        tag, at = _tag(cursor), read_as_of(cursor)
        return cls(table, tag, at)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        with naming(name, self.at):
            table.create_tag(self.tag, self.at)


@dataclass(frozen=True, slots=True)
class DropTag(HistoryAlteration):
    """ALTER TABLE t DROP TAG name."""

    forms = ("ALTER TABLE t DROP TAG",)

    table: TableRef
    tag: str

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> DropTag:
        return cls(table, _tag(cursor))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        table.drop_tag(self.tag)


@dataclass(frozen=True, slots=True)
class Rollback(HistoryAlteration):
    """ALTER TABLE t ROLLBACK TO point."""

    forms = ("ALTER TABLE t ROLLBACK TO",)

    table: TableRef
    at: Point

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> Rollback:
        return cls(table, read_point(cursor))

    def check_columns(self, access: Access, name: TableName) -> None:
        # The columns of a grant are those of the newest schema: an older one may have called others so.
        if access.lists_columns(name):
            access.check_all_columns(name, "ROLLBACK gives columns the names that they had")

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        with naming(name, self.at):
            table.rollback(self.at)


def _tag(cursor: Cursor) -> str:
    return cursor.word("the name of a tag")
