"""ALTER TABLE … RENAME TO."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lance_flight.catalog.roots.directory import Root, Table, TableName
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.alterations.alteration import HistoryAlteration
from lance_flight.engine.statements.kinds import MAKING, Required, on


@dataclass(frozen=True, slots=True)
class Rename(HistoryAlteration):
    """ALTER TABLE t RENAME TO name: another name within its schema."""

    forms = ("ALTER TABLE t RENAME TO",)
    needs = (Privilege.SELECT,)

    table: TableRef
    name: str

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> Rename:
        return cls(table, cursor.name("the new name of the table, without a schema"))

    def also(self, name: TableName) -> Iterable[Required]:
        return on(TableName(name.db_schema, self.name), *MAKING)

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        root.rename(name, self.name)
