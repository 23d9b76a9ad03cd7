"""The statements that maintain a table and return what they did as rows, as the table of operations has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

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
from lance_flight.model.operations import OPERATIONS, VALUE, Operation


def _declared(operation: Operation) -> tuple[tuple[str, ...], tuple[Privilege, ...]]:
    """Return the forms of an operation's statement, and the privileges that it needs."""
    words = operation.statement.replace("{table}", "t")
    forms = (words if words.startswith("ALTER") else words.split()[0],)
    return forms, tuple(Privilege[name] for name in operation.privileges)


@dataclass(frozen=True, slots=True)
class OperationStatement(MaintenanceStatement):
    """Statement of an `operation`; `given` are the arguments that its clauses name."""

    operation: ClassVar[Operation]

    table: TableRef
    given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, cursor: Cursor, table: TableRef | None = None) -> Self:
        if table is None:
            for word in cls.operation.statement.split()[1:-1]:
                cursor.expect(word)
            table = references.table(cursor)
        given: dict[str, Any] = {}
        while cls.operation.clauses and not cursor.done:
            given |= _clause(cursor, cls.operation)
        return cls(table, given)


def _clause(cursor: Cursor, operation: Operation) -> dict[str, Any]:
    """Read a clause of an operation, and return the argument that it names."""
    said = [each for each in operation.arguments if each.clause]
    for each in said:
        before, _, unit = each.clause.partition(VALUE)
        if not cursor.accept(*before.split()):
            continue
        if each.kind is bool:
            return {each.name: True}
        if each.kind is str:
            return {each.name: cursor.rest()}
        number = cursor.number(f"a number of{unit.lower()}")
        if not cursor.accept(unit.strip().removesuffix("S")):
            cursor.expect(unit.strip())
        return {each.name: each.kind(str(number))}
    *others, last = [each.clause.replace(VALUE, "n") for each in said]
    raise cursor.error(f"{', '.join(others)} or {last}" if others else last)


@dataclass(frozen=True, slots=True)
class Compact(OperationStatement):
    """ALTER TABLE t COMPACT."""

    operation = OPERATIONS["compact"]
    forms, needs = _declared(operation)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        check = _check(progress)
        run = runner_beside_queries(progress, is_remote=table.store.is_remote)
        return MaintenanceWork(COMPACTION_SCHEMA, lambda: compact(table, progress=progress, run=run, check=check).rows)

    def without_counts(self, report: pa.Table) -> pa.Table:
        lost = any(report["is_lost"].to_pylist())
        return pa.Table.from_pylist([{"is_lost": lost}] if report.num_rows else [], schema=report.schema)


@dataclass(frozen=True, slots=True)
class RewritePartitions(OperationStatement):
    """ALTER TABLE t REWRITE PARTITIONS [WHERE condition over its columns]."""

    operation = OPERATIONS["rewrite"]
    forms, needs = _declared(operation)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        namespace = partitioned(table)
        choose = tables_where(namespace, self.given["where"]) if self.given else None
        run = runner_beside_queries(progress, is_remote=table.store.is_remote)
        return MaintenanceWork(
            REWRITING_SCHEMA, lambda: rewrite(namespace, evaluate, choose, progress=progress, run=run).rows
        )


@dataclass(frozen=True, slots=True)
class Vacuum(OperationStatement):
    """VACUUM t [RETAIN n HOURS] [TRANSACTIONS n HOURS] [DRY RUN] [FORCE]."""

    operation = OPERATIONS["vacuum"]
    forms, needs = _declared(operation)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        rules, check = VacuumRules(**self.given).checked(), _check(progress)

        def told(done: int, total: int) -> None:
            check()
            if progress is not None:
                progress(done, total)

        return MaintenanceWork(VACUUM_SCHEMA, lambda: vacuum(table, rules, progress=told).rows)

    def without_counts(self, report: pa.Table) -> pa.Table:
        kinds = dict.fromkeys(report["kind"].to_pylist())
        return pa.Table.from_pylist([{"kind": kind} for kind in kinds], schema=report.schema)


@dataclass(frozen=True, slots=True)
class Verify(OperationStatement):
    """VERIFY TABLE t."""

    operation = OPERATIONS["verify"]
    forms, needs = _declared(operation)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        run = runner_beside_queries(progress, is_remote=table.store.is_remote)
        return MaintenanceWork(VERIFICATION_SCHEMA, lambda: verify(table, evaluate, progress=progress, run=run).rows)


@dataclass(frozen=True, slots=True)
class Repair(OperationStatement):
    """REPAIR TABLE t [DRY RUN]."""

    operation = OPERATIONS["repair"]
    forms, needs = _declared(operation)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        namespace = partitioned(table, "has no manifest to repair")
        return MaintenanceWork(
            REPAIR_SCHEMA, lambda: repair(namespace, dry_run="dry_run" in self.given).rows, is_cancellable=False
        )


@dataclass(frozen=True, slots=True)
class Migrate(OperationStatement):
    """MIGRATE TABLE t [DRY RUN]."""

    operation = OPERATIONS["migrate"]
    forms, needs = _declared(operation)

    def work(self, table: Table, progress: Watch | None) -> MaintenanceWork:
        namespace = partitioned(table, "has no manifest to migrate")
        return MaintenanceWork(
            MIGRATION_SCHEMA, lambda: migrate(namespace, dry_run="dry_run" in self.given).rows, is_cancellable=False
        )


def _check(watch: Watch | None) -> Callable[[], None]:
    """Return what ends the work of a statement that was cancelled."""
    return (lambda: None) if watch is None else watch.check
