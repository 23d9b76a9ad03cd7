"""The statements that maintain a table and return what they did as rows: COMPACT, REWRITE PARTITIONS, VACUUM, VERIFY, REPAIR, MIGRATE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lance_flight.catalog.bulk.piece_processes import runner_beside_queries
from lance_flight.catalog.bulk.pieces import Watch
from lance_flight.catalog.maintenance.compaction import COMPACTION_SCHEMA, compact
from lance_flight.catalog.maintenance.migration import MIGRATION_SCHEMA, migrate
from lance_flight.catalog.maintenance.repair import REPAIR_SCHEMA, repair
from lance_flight.catalog.maintenance.rewriting import REWRITING_SCHEMA, rewrite
from lance_flight.catalog.maintenance.vacuum import VACUUM_SCHEMA, VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import VERIFICATION_SCHEMA, verify
from lance_flight.catalog.namespace import partitioned
from lance_flight.catalog.table import Table
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.query.scan_planning import tables_where
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.functions import evaluate
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

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        check = _check(progress)
        run = runner_beside_queries(progress, is_remote=table.store.is_remote)
        return MaintenanceWork(COMPACTION_SCHEMA, lambda: compact(table, progress=progress, run=run, check=check).rows)

    def without_counts(self, report: pa.Table) -> pa.Table:
        lost = any(report["is_lost"].to_pylist())
        return pa.Table.from_pylist([{"is_lost": lost}] if report.num_rows else [], schema=report.schema)


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

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        namespace = partitioned(table)
        choose = None if self.where is None else tables_where(namespace, self.where)
        run = runner_beside_queries(progress, is_remote=table.store.is_remote)
        return MaintenanceWork(
            REWRITING_SCHEMA, lambda: rewrite(namespace, evaluate, choose, progress=progress, run=run).rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum(MaintenanceStatement):
    """VACUUM t [RETAIN n HOURS] [TRANSACTIONS n HOURS] [DRY RUN] [FORCE]."""

    forms = ("VACUUM",)
    needs = (Privilege.ADMIN,)

    table: TableRef
    rules: VacuumRules

    @classmethod
    def read(cls, cursor: Cursor) -> Vacuum:
        table = references.table(cursor)
        rules = VacuumRules()
        while not cursor.done:
            rules = replace(rules, **_vacuum_option(cursor))
        return cls(table=table, rules=rules)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        checked = self.rules.checked()
        check = _check(progress)

        def told(done: int, total: int) -> None:
            check()
            if progress is not None:
                progress(done, total)

        return MaintenanceWork(VACUUM_SCHEMA, lambda: vacuum(table, checked, progress=told).rows)

    def without_counts(self, report: pa.Table) -> pa.Table:
        kinds = dict.fromkeys(report["kind"].to_pylist())
        return pa.Table.from_pylist([{"kind": kind} for kind in kinds], schema=report.schema)


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

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        run = runner_beside_queries(progress, is_remote=table.store.is_remote)
        return MaintenanceWork(VERIFICATION_SCHEMA, lambda: verify(table, evaluate, progress=progress, run=run).rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(MaintenanceStatement):
    """REPAIR TABLE t [DRY RUN]."""

    forms = ("REPAIR",)
    needs = (Privilege.ADMIN, Privilege.SELECT)

    table: TableRef
    dry_run: bool

    @classmethod
    def read(cls, cursor: Cursor) -> Repair:
        table, dry_run = _table_dry_run(cursor)
        return cls(table=table, dry_run=dry_run)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        namespace = partitioned(table, "has no manifest to repair")
        return MaintenanceWork(
            REPAIR_SCHEMA, lambda: repair(namespace, dry_run=self.dry_run).rows, is_cancellable=False
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrate(MaintenanceStatement):
    """MIGRATE TABLE t [DRY RUN]."""

    forms = ("MIGRATE",)
    needs = (Privilege.ADMIN,)

    table: TableRef
    dry_run: bool

    @classmethod
    def read(cls, cursor: Cursor) -> Migrate:
        table, dry_run = _table_dry_run(cursor)
        return cls(table=table, dry_run=dry_run)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        namespace = partitioned(table, "has no manifest to migrate")
        return MaintenanceWork(
            MIGRATION_SCHEMA, lambda: migrate(namespace, dry_run=self.dry_run).rows, is_cancellable=False
        )


def _check(watch: Watch | None) -> Callable[[], None]:
    """Return what ends the work of a statement that was cancelled."""
    return (lambda: None) if watch is None else watch.check


def _vacuum_option(cursor: Cursor) -> dict[str, Any]:
    """Read an option of VACUUM, and return the rule that it sets."""
    if cursor.accept("RETAIN"):
        return {"retain_hours": _hours(cursor)}
    if cursor.accept("TRANSACTIONS"):
        return {"transaction_hours": _hours(cursor)}
    if cursor.accept("DRY", "RUN"):
        return {"dry_run": True}
    if cursor.accept("FORCE"):
        return {"force": True}
    raise cursor.error("RETAIN n HOURS, TRANSACTIONS n HOURS, DRY RUN or FORCE")


def _hours(cursor: Cursor) -> float:
    """Read `n HOURS`."""
    hours = float(cursor.number("a number of hours"))
    if not cursor.accept("HOUR"):
        cursor.expect("HOURS")
    return hours


def _table_dry_run(cursor: Cursor) -> tuple[TableRef, bool]:
    """Read `TABLE t [DRY RUN]`."""
    cursor.expect("TABLE")
    table = references.table(cursor)
    dry_run = cursor.accept("DRY", "RUN")
    return table, dry_run
