"""ALTER TABLE … COMPACT."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.maintenance.compaction import COMPACTION_SCHEMA, compact
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.kinds import Maintenance, MaintenanceWork, Required, on


@dataclass(frozen=True, slots=True)
class Compact(Maintenance):
    """ALTER TABLE t COMPACT."""

    forms = ("ALTER TABLE t COMPACT",)

    table: TableRef

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> Compact:
        cursor.end()
        return cls(table)

    def required(self, own: Collection[TableName]) -> Iterable[Required]:
        return on(self.table, Privilege.ADMIN)

    def work(self, namespace: PartitionedNamespace, progress: Progress | None) -> MaintenanceWork:
        return MaintenanceWork(COMPACTION_SCHEMA, lambda: compact(namespace, progress=progress).rows)
