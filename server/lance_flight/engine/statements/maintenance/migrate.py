"""MIGRATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.maintenance.migration import MIGRATION_SCHEMA, migrate
from lance_flight.catalog.namespace import partitioned
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.kinds import MaintenanceStatement, MaintenanceWork
from lance_flight.engine.statements.maintenance.dry_runs import table_dry_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrate(MaintenanceStatement):
    """MIGRATE TABLE t [DRY RUN]."""

    forms = ("MIGRATE",)
    needs = (Privilege.ADMIN,)

    table: TableRef
    dry_run: bool

    @classmethod
    def read(cls, cursor: Cursor) -> Migrate:
        table, dry_run = table_dry_run(cursor)
        return cls(table=table, dry_run=dry_run)

    def work(self, table: Table, progress: Progress | None) -> MaintenanceWork:
        namespace = partitioned(table, "has no manifest to migrate")
        return MaintenanceWork(MIGRATION_SCHEMA, lambda: migrate(namespace, dry_run=self.dry_run).rows)
