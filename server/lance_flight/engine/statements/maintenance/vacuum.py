"""VACUUM."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.maintenance.vacuum import FLOOR_HOURS, VACUUM_SCHEMA, VacuumRules, vacuum
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.kinds import MaintenanceStatement, MaintenanceWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum(MaintenanceStatement):
    """VACUUM t [RETAIN n HOURS] [DRY RUN] [FORCE]."""

    forms = ("VACUUM",)
    needs = (Privilege.ADMIN,)

    table: TableRef
    rules: VacuumRules

    @classmethod
    def read(cls, cursor: Cursor) -> Vacuum:
        table = references.table(cursor)
        hours, dry_run, force = FLOOR_HOURS, False, False
        while not cursor.done:
            if cursor.accept("RETAIN"):
                hours = float(cursor.number("a number of hours"))
                if not cursor.accept("HOUR"):
                    cursor.expect("HOURS")
            elif cursor.accept("DRY", "RUN"):
                dry_run = True
            elif cursor.accept("FORCE"):
                force = True
            else:
                raise cursor.error("RETAIN n HOURS, DRY RUN or FORCE")
        return cls(table=table, rules=VacuumRules(retain_hours=hours, dry_run=dry_run, force=force))

    def work(self, namespace: Table, progress: Progress | None) -> MaintenanceWork:
        checked = self.rules.checked()
        return MaintenanceWork(VACUUM_SCHEMA, lambda: vacuum(namespace, checked, progress=progress).rows)
