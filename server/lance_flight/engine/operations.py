"""Functions of the operations that maintain tables: one for the command line, SQL and Spark.

Where the `__manifest` of a table was lost, it is made anew from its partition tables, of which the newest version counts.
Nothing says any more which of them a snapshot showed: rows of partitions that were
dropped, and of commits that never ended, may come back, and tags, branches and older snapshots do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from lance_flight.catalog.backup.backup_format import backup_at
from lance_flight.catalog.backup.restoring import compare_with
from lance_flight.catalog.bulk.pieces import PieceWork
from lance_flight.catalog.commits.writer import partition_values
from lance_flight.catalog.maintenance import OperationReport
from lance_flight.catalog.maintenance.compaction import COMPACTION_SCHEMA, CompactionRules, compact
from lance_flight.catalog.maintenance.indexing import (
    INDEXING_SCHEMA,
    RefreshReport,
    create_index,
    refresh_indices,
)
from lance_flight.catalog.maintenance.rewriting import (
    MIGRATION_SCHEMA,
    REWRITING_SCHEMA,
    RewritingRules,
    migrate,
    migrate_record,
    migrate_table,
    rewrite,
)
from lance_flight.catalog.maintenance.vacuum import VACUUM_SCHEMA, VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import REPAIR_SCHEMA, VERIFICATION_SCHEMA, repair, verify
from lance_flight.catalog.manifests.manifest import has_lost_manifest
from lance_flight.catalog.plain_table import PlainTable
from lance_flight.catalog.roots.attachments import Attachment
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.lance_columns import columns_of
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.whole_files import VERSIONS
from lance_flight.catalog.table import PartitionedNamespace, Table, require_partitions
from lance_flight.catalog.tables.indices import IndexRules
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import Source
from lance_flight.engine.query.scan_planning import tables_where
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes.definitions import partition_spec
from lance_flight.engine.writes.ingest import TableProperties
from lance_flight.errors import Corrupt, InvalidInput
from lance_flight.model.naming import is_table_directory
from lance_flight.model.schema import NamespaceSchema, without_ids
from lance_flight.model.spec import Evaluate, PartitionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationWork(PieceWork):
    """Runner and observers of an operation, and the questions that it asks.

    `agrees` shows lines and asks whether rows may be given up, unless its second argument says yes; `place` opens the place of a backup.
    """

    evaluate: Evaluate = evaluate
    agrees: Callable[[Iterable[str], bool], bool] = lambda _, yes: yes
    place: Callable[[str], Store] = Store

    def count_tables(self, done: int, total: int) -> None:
        """Count tables, after a check."""
        self.check()
        if self.progress is not None:
            self.progress(done, total)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Lines of what was done to a root, and whether it is in order."""

    lines: Iterable[str]
    is_sound: bool = True


@dataclass(frozen=True, slots=True)
class Does:
    """An operation: the class of its arguments, the schema of its report, and what `run`s on a table.

    A command asks `instead` first, which does something to the root in place of the tables, or returns None; and `finish` after all tables.
    """

    rules: type[Any]
    schema: pa.Schema
    run: Callable[[Table, Any, OperationWork], OperationReport]
    instead: Callable[[Root, TableName | None, Any, OperationWork], Outcome | None] = lambda *_: None
    finish: Callable[[Root, Any], Iterable[str]] = lambda *_: ()

    def rules_of(self, given: Mapping[str, Any]) -> Any:
        """Return the arguments as one value; `InvalidInput` or `Refused` for those that may not be."""
        rules = self.rules(**given)
        return rules.check() if hasattr(rules, "check") else rules


DOING: dict[str, Does] = {}
"""What each operation does, by its name."""

R = TypeVar("R")


def _does(
    name: str, rules: type[R], schema: pa.Schema, **more: Any
) -> Callable[[Callable[[Table, R, OperationWork], OperationReport]], None]:
    def register(run: Callable[[Table, R, OperationWork], OperationReport]) -> None:
        DOING[name] = Does(rules, schema, run, **more)

    return register


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compacting(CompactionRules):
    where: str | None = None


@_does("compact", _Compacting, COMPACTION_SCHEMA)
def _compact(table: Table, rules: _Compacting, work: OperationWork) -> OperationReport:
    if rules.where is None:
        return compact(table, rules, work)
    namespace = require_partitions(table)
    chosen = tables_where(namespace, rules.where)(namespace.snapshot())
    return compact(namespace, rules, work, among=[each.object_id for each in chosen])


@_does("create-index", IndexRules, INDEXING_SCHEMA)
def _create_index(table: Table, rules: IndexRules, work: OperationWork) -> OperationReport:
    return create_index(table, rules, work)


@dataclass(frozen=True, slots=True)
class _Reindexing:
    index: str | None = None


@_does("reindex", _Reindexing, INDEXING_SCHEMA)
def _reindex(table: Table, rules: _Reindexing, work: OperationWork) -> OperationReport:
    if rules.index is not None:
        return create_index(table, rules.index, work)
    return RefreshReport(refresh_indices(table, work))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rewriting(RewritingRules):
    where: str | None = None


@_does("rewrite", _Rewriting, REWRITING_SCHEMA)
def _rewrite(table: Table, rules: _Rewriting, work: OperationWork) -> OperationReport:
    namespace = require_partitions(table)
    choose = None if rules.where is None else tables_where(namespace, rules.where)
    return rewrite(namespace, work.evaluate, choose, rules, work)


@_does("vacuum", VacuumRules, VACUUM_SCHEMA)
def _vacuum(table: Table, rules: VacuumRules, work: OperationWork) -> OperationReport:
    return vacuum(table, rules, work.count_tables)


@dataclass(frozen=True, slots=True)
class _Verifying:
    snapshot: int | None = None
    data: bool = False
    against: str | None = None


@_does("verify", _Verifying, VERIFICATION_SCHEMA)
def _verify(table: Table, rules: _Verifying, work: OperationWork) -> OperationReport:
    backup = None if rules.against is None else backup_at(work.place(rules.against))
    at, reads_rows = table.snapshot(rules.snapshot), not rules.data
    report = verify(table, work.evaluate, at, work, reads_rows=reads_rows)
    return report if backup is None else replace(report, differences=tuple(compare_with(backup, table.store)))


@dataclass(frozen=True, slots=True)
class _Repairing:
    """Arguments of a repair; where `apply` is None, as in SQL, it mends what costs no rows."""

    dry_run: bool = False
    apply: bool | None = None
    yes: bool = False
    partition_by: str | None = None


def _rebuild(root: Root, name: TableName | None, rules: _Repairing, work: OperationWork) -> Outcome | None:
    """Make the `__manifest` of one table anew."""
    if rules.partition_by is None:
        return None
    if name is None:
        raise InvalidInput("--partition-by is for one table; expected its name after the root")
    lost = LostManifest.of(root, name)
    lines = (
        f"{name.name}: {len(lost.tables):,} partition tables with {lost.rows:,} rows; those of partitions that were dropped, and of commits"
        " that never ended, come back with them; tags, branches and older snapshots are lost"
    )
    if not rules.apply:
        return Outcome([lines, f"{name.name}: nothing was changed; --apply makes the __manifest anew"], is_sound=False)
    if not work.agrees([lines], rules.yes):
        return Outcome([f"{name.name}: nothing was changed"], is_sound=False)
    return Outcome([f"{name.name}: made anew with {lost.rebuild(rules.partition_by):,} rows"])


@_does("repair", _Repairing, REPAIR_SCHEMA, instead=_rebuild)
def _repair(table: Table, rules: _Repairing, work: OperationWork) -> OperationReport:
    if rules.apply is None:
        return repair(table, dry_run=rules.dry_run)
    report = repair(table)
    if not (rules.apply and report.findings) or (
        report.gives_up and not work.agrees(report.lines[: len(report.findings)], rules.yes)
    ):
        return report
    return repair(table, dry_run=False, go_back=True)


@dataclass(frozen=True, slots=True)
class _Migrating:
    register: bool = False
    dry_run: bool = False


def _register(root: Root, name: TableName | None, rules: _Migrating, _: OperationWork) -> Outcome | None:
    """List plain tables in the `__manifest` of the root."""
    if not rules.register:
        return None
    if name is not None:
        root.table(name)  # `NotFound` with the nearest names
    tables = [listed for listed in root.list_unregistered() if name is None or listed.object_id == name.name]
    if not rules.dry_run:
        root.register(tables)
    goes = "would be" if rules.dry_run else "is"
    return Outcome(
        [f"{table.object_id}: {goes} listed at {table.location!r}" for table in tables] or ["nothing is to be listed"]
    )


def _record(root: Root, rules: _Migrating) -> Iterable[str]:
    versions = migrate_record(root, dry_run=rules.dry_run)
    changes = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        [f"the root: new things {'would have' if rules.dry_run else 'have'} the formats {changes}"] if changes else ()
    )


@_does("migrate", _Migrating, MIGRATION_SCHEMA, instead=_register, finish=_record)
def _migrate(table: Table, rules: _Migrating, work: OperationWork) -> OperationReport:
    namespace = require_partitions(table)
    report = migrate(namespace, dry_run=rules.dry_run)
    changes = migrate_table(namespace, work.evaluate, work.progress, dry_run=rules.dry_run)
    return replace(report, changes=tuple(changes))


@dataclass(frozen=True)
class LostManifest:
    """A table that has partition tables and no `__manifest`."""

    root: Root
    name: TableName
    place: Store = field(repr=False)

    @classmethod
    def of(cls, root: Root, name: TableName) -> LostManifest:
        """Return the table of a name; `InvalidInput` where its `__manifest` is there."""
        place = root.table(name).store
        if not has_lost_manifest(place):
            raise InvalidInput(f"table {name.name!r} has its __manifest; expected repair without --partition-by")
        return cls(root, name, place)

    @cached_property
    def tables(self) -> list[PlainTable]:
        """The partition tables that have rows."""
        stores = [
            self.place.child(directory) for directory in self.place.directories() if is_table_directory(directory)
        ]
        tables = [PlainTable(store) for store in stores if store.has(VERSIONS)]
        return [table for table in tables if table.open().count_rows()]

    @cached_property
    def rows(self) -> int:
        """The number of rows in them."""
        return sum(int(table.open().count_rows()) for table in self.tables)

    def rebuild(self, partitioned_by: str) -> int:
        """Make the table anew with a `__manifest`, in one step, and return its rows; the old directory goes away.

        `InvalidInput` names partition tables that do not have the same columns, `DataError` one whose rows are of several partitions,
        `AlreadyExists` one that has the values of another.
        """
        schema = NamespaceSchema.assign(self._columns())
        spec = partition_spec(schema, TableProperties.by(partitioned_by).partitioned_by)

        def build(place: Store) -> int:
            stable = all(table.open().has_stable_row_ids for table in self.tables)
            made = PartitionedNamespace.create(place, schema, spec, stable_row_ids=stable)
            for table in self.tables:
                values = _values(table, schema, spec)
                attachment = Attachment(
                    namespace=made, table=table, name=table.store.name, values=values, evaluate=evaluate
                )
                attachment.commit(trusted=False)
            return self.rows

        return self.root.create(self.name, build, partitioned=True, replace=True)

    def _columns(self) -> pa.Schema:
        if not self.tables:
            raise Corrupt(
                f"table {self.name.name!r} has no partition table with rows; expected a restore from a backup"
            )
        first, *others = ([without_ids(column) for column in columns_of(table.open())] for table in self.tables)
        for table, columns in zip(self.tables[1:], others, strict=True):
            if columns != first:
                raise InvalidInput(
                    f"partition tables {self.tables[0].store.name!r} and {table.store.name!r} have other columns; expected a restore"
                    " from a backup"
                )
        return pa.schema(first)


def _values(table: PlainTable, schema: NamespaceSchema, spec: PartitionSpec) -> pa.Table:
    """Return the partition values of the first row of a partition table."""
    scan = Scan(source=schema.plain, schema=schema.plain, ids={})
    batch = next(batch for batch in scan.read([lambda: [Source(table.open())]]) if batch.num_rows)
    row = pa.Table.from_batches([batch.slice(0, 1)])
    return partition_values(row, spec.fields, schema.source_paths, evaluate)
