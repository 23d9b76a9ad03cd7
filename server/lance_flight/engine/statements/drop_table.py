"""DROP TABLE."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef, table_name
from lance_flight.engine.statements.changes import Changes
from lance_flight.engine.statements.kinds import ChangeStatement, TableStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable(TableStatement, ChangeStatement):
    """DROP TABLE [IF EXISTS] t."""

    forms = ("DROP",)
    frees_room = True
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
                tables.drop(name)
        return 0
