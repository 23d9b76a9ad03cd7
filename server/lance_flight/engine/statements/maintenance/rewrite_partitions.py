"""ALTER TABLE … REWRITE PARTITIONS."""

from __future__ import annotations

from dataclasses import dataclass

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.maintenance.rewriting import REWRITING_SCHEMA, rewrite
from lance_flight.catalog.namespace import partitioned
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.functions import evaluate
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.kinds import MaintenanceStatement, MaintenanceWork
from lance_flight.engine.writes.maintenance import tables_where


@dataclass(frozen=True, slots=True)
class RewritePartitions(MaintenanceStatement):
    """ALTER TABLE t REWRITE PARTITIONS [WHERE condition over its columns]."""

    forms = ("ALTER TABLE t REWRITE PARTITIONS",)
    needs = (Privilege.ADMIN, Privilege.SELECT)

    table: TableRef
    where: str | None = None

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef) -> RewritePartitions:
        return cls(table, cursor.rest() if cursor.accept("WHERE") else None)

    def work(self, table: Table, progress: Progress | None) -> MaintenanceWork:
        namespace = partitioned(table)
        choose = None if self.where is None else tables_where(namespace, self.where)
        return MaintenanceWork(REWRITING_SCHEMA, lambda: rewrite(namespace, evaluate, choose, progress=progress).rows)
