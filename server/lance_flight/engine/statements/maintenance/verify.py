"""VERIFY TABLE."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.maintenance.verification import VERIFICATION_SCHEMA, verify
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.functions import evaluate
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.kinds import MaintenanceStatement, MaintenanceWork


@dataclass(frozen=True, slots=True)
class Verify(MaintenanceStatement):
    """VERIFY TABLE t."""

    forms = ("VERIFY",)
    needs = (Privilege.ADMIN, Privilege.SELECT)

    table: TableRef

    @classmethod
    def read(cls, cursor: Cursor) -> Verify:
        cursor.expect("TABLE")
        table = references.table(cursor)
        return cls(table)

    def work(self, namespace: Table, progress: Progress | None) -> MaintenanceWork:
        return MaintenanceWork(VERIFICATION_SCHEMA, lambda: verify(namespace, evaluate, progress=progress).rows)
