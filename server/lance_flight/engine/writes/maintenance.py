"""Maintenance as SQL: statements that keep a table in shape, and return what they did as rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.maintenance.compaction import COMPACTION_SCHEMA, compact
from lance_flight.catalog.maintenance.indexing import INDEXING_SCHEMA
from lance_flight.catalog.maintenance.migration import MIGRATION_SCHEMA, migrate
from lance_flight.catalog.maintenance.repair import REPAIR_SCHEMA, repair
from lance_flight.catalog.maintenance.rewriting import REWRITING_SCHEMA, Choose, rewrite
from lance_flight.catalog.maintenance.vacuum import FLOOR_HOURS, VACUUM_SCHEMA, VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import VERIFICATION_SCHEMA, verify
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.engine.query.scan_planning import plan_scan
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.functions import evaluate
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.writes.index_statements import Reindex, reindexed


@dataclass(frozen=True, slots=True)
class Compact:
    """ALTER TABLE t COMPACT."""

    table: TableRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacuum:
    """VACUUM t [RETAIN n HOURS] [DRY RUN] [FORCE]."""

    table: TableRef
    rules: VacuumRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """REPAIR TABLE t [DRY RUN]."""

    table: TableRef
    dry_run: bool


@dataclass(frozen=True, slots=True)
class RewritePartitions:
    """ALTER TABLE t REWRITE PARTITIONS [WHERE condition over its columns]."""

    table: TableRef
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrate:
    """MIGRATE TABLE t [DRY RUN]."""

    table: TableRef
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Verify:
    """VERIFY TABLE t."""

    table: TableRef


Maintenance = Compact | Vacuum | Repair | RewritePartitions | Migrate | Verify | Reindex


@dataclass(frozen=True, slots=True)
class MaintenanceWork:
    """What a maintenance statement does when it is `run`, and the `schema` of its report.

    It commits in steps of its own, and is not to be interrupted.
    """

    schema: pa.Schema
    run: Callable[[], pa.Table]


def read_altering(table: TableRef, cursor: Cursor) -> Maintenance | None:
    """Read what follows ALTER TABLE t, if it is maintenance."""
    found: Maintenance | None = None
    if cursor.accept("COMPACT"):
        found = Compact(table)
    elif cursor.accept("REWRITE", "PARTITIONS"):
        found = RewritePartitions(table, cursor.rest() if cursor.accept("WHERE") else None)
    if found is not None:
        cursor.end()
    return found


def read_vacuum(cursor: Cursor) -> Vacuum:
    """Read what follows VACUUM."""
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
    return Vacuum(table=table, rules=VacuumRules(retain_hours=hours, dry_run=dry_run, force=force))


def read_repair(cursor: Cursor) -> Repair:
    """Read what follows REPAIR."""
    table, dry_run = _table_dry_run(cursor)
    return Repair(table=table, dry_run=dry_run)


def tables_where(namespace: PartitionedNamespace, condition: str) -> Choose:
    """The tables that may hold rows for which a condition is true, as pruning finds them; a wrong one is refused now."""
    plan_scan(namespace, condition)

    def choose(snapshot: Snapshot) -> list[PartitionTable]:
        planned = plan_scan(namespace, condition, snapshot=snapshot)
        return list(snapshot.tables_named([table.object_id for table in planned.tables]).values())

    return choose


def read_verify(cursor: Cursor) -> Verify:
    """Read what follows VERIFY."""
    cursor.expect("TABLE")
    table = references.table(cursor)
    cursor.end()
    return Verify(table)


def read_migrate(cursor: Cursor) -> Migrate:
    """Read what follows MIGRATE."""
    table, dry_run = _table_dry_run(cursor)
    return Migrate(table=table, dry_run=dry_run)


def maintained(
    namespace: PartitionedNamespace, statement: Maintenance, progress: Progress | None = None
) -> MaintenanceWork:
    """What a statement will do to its table, telling how far it is; nothing is done yet."""
    match statement:
        case Compact():
            return MaintenanceWork(COMPACTION_SCHEMA, lambda: compact(namespace, progress=progress).rows)
        case Vacuum(rules=rules):
            checked = rules.checked()
            return MaintenanceWork(VACUUM_SCHEMA, lambda: vacuum(namespace, checked, progress=progress).rows)
        case RewritePartitions(where=where):
            choose = None if where is None else tables_where(namespace, where)
            return MaintenanceWork(
                REWRITING_SCHEMA, lambda: rewrite(namespace, evaluate, choose, progress=progress).rows
            )
        case Repair(dry_run=dry_run):
            return MaintenanceWork(REPAIR_SCHEMA, lambda: repair(namespace, dry_run=dry_run).rows)
        case Verify():
            return MaintenanceWork(VERIFICATION_SCHEMA, lambda: verify(namespace, evaluate, progress=progress).rows)
        case Migrate(dry_run=dry_run):
            return MaintenanceWork(MIGRATION_SCHEMA, lambda: migrate(namespace, dry_run=dry_run).rows)
        case Reindex(name=name):
            return MaintenanceWork(INDEXING_SCHEMA, lambda: reindexed(namespace, name, progress))


def _table_dry_run(cursor: Cursor) -> tuple[TableRef, bool]:
    cursor.expect("TABLE")
    table = references.table(cursor)
    dry_run = cursor.accept("DRY", "RUN")
    cursor.end()
    return table, dry_run
