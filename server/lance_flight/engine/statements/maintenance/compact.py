"""ALTER TABLE … COMPACT."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.maintenance.compaction import COMPACTION_SCHEMA, compact
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.kinds import MaintenanceStatement, MaintenanceWork


@dataclass(frozen=True, slots=True)
class Compact(MaintenanceStatement):
    """ALTER TABLE t COMPACT."""

    forms = ("ALTER TABLE t COMPACT",)
    needs = (Privilege.ADMIN,)

    table: TableRef

    @classmethod
    def read(cls, _: Cursor, table: TableRef) -> Compact:
        return cls(table)

    def work(self, namespace: Table, progress: Progress | None) -> MaintenanceWork:
        return MaintenanceWork(COMPACTION_SCHEMA, lambda: compact(namespace, progress=progress).rows)
