"""TRUNCATE."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_flight.catalog.roots.directory import Table, TableName
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.query.policies.rows import RowPolicy
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef, table_name
from lance_flight.engine.statements.changes import Changes
from lance_flight.engine.statements.kinds import REMOVING, TableStatement
from lance_flight.engine.statements.row_changes import TargetChange
from lance_flight.engine.writes.writable_tables import WritableTable


@dataclass(frozen=True, slots=True)
class Truncate(TableStatement, TargetChange):
    """TRUNCATE [TABLE] t."""

    forms = ("TRUNCATE",)
    frees_room = True
    needs = REMOVING

    table: TableRef

    @property
    def defined(self) -> None:
        return None

    @classmethod
    def read(cls, cursor: Cursor) -> Truncate:
        cursor.accept("TABLE")
        table = references.table(cursor)
        return cls(table)

    @property
    def target_name(self) -> TableName:
        return table_name(self.table)

    @property
    def writing(self) -> frozenset[Privilege]:
        return frozenset()

    def change(
        self,
        table: Table,
        transaction: SqlTransaction,
        changes: Changes,
        policy: RowPolicy,
        parameters: pa.RecordBatch | None,
    ) -> int:
        return WritableTable(table, transaction).truncate()
