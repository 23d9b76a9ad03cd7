"""ALTER TABLE … SET (option = value, …): how a table is maintained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_flight.catalog.maintenance.policies import PolicyValue, set_policy
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.sql import with_options
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.alterations.alteration import HistoryAlteration
from lance_flight.engine.writes import maintenance_options


@dataclass(frozen=True, slots=True)
class SetOptions(HistoryAlteration):
    """ALTER TABLE t SET (compact_files = 8, retain = '7d', …): options of its maintenance policy; DEFAULT takes one back."""

    forms = ("ALTER TABLE t SET",)

    table: TableRef
    options: Mapping[str, PolicyValue | None]

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> SetOptions:
        return cls(table, maintenance_options.parse_options(with_options.in_brackets(cursor)))

    def alter(self, root: Root, name: TableName, table: Table) -> None:
        set_policy(table, self.options)
