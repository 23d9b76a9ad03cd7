"""The commands that maintain tables, as the table of operations has them; those that ask or do more have modules of their own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from lance_flight_client.terminal import TableMeter, progress, readable

from lance_flight.catalog.backup.copying import backup_at
from lance_flight.catalog.backup.restoring import compare_with
from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.maintenance.indexing import BuildWatch, refresh_indices
from lance_flight.catalog.maintenance.rewriting import RewritingRules, rewrite
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.namespace import partitioned
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_tables
from lance_flight.cli.backup import place_of
from lance_flight.cli.inspect import existing_root, named
from lance_flight.engine.query.scan_planning import tables_where
from lance_flight.engine.sql.functions import evaluate
from lance_flight.errors import Corrupt, LanceFlightError
from lance_flight.model.operations import OPERATIONS

Maintain = Callable[[str, Table], bool]
"""Function that works on one table, given its name, and returns whether the table is in order."""
Given = Mapping[str, Any]
"""The arguments that were given, by their names."""


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the operation of a command takes."""
    name = command.prog.rpartition(" ")[2]
    command.description = OPERATIONS[name].means
    add_tables(command)
    rules = _RULES[name]() if name in _RULES else None
    for each in OPERATIONS[name].arguments:
        if each.kind is bool:
            command.add_argument(each.flag, dest=each.name, action="store_true", help=each.means)
            continue
        default = getattr(rules, each.name, None)
        shown = "" if default is None else f" (default: {default * each.per:.15g})"
        command.add_argument(
            each.flag, dest=each.name, type=each.kind, metavar=each.shown, help=each.means + shown.replace("%", "%%")
        )


def run(options: argparse.Namespace) -> int:
    """Maintain one table, or all."""
    operation = OPERATIONS[options.command]
    given = {each.name: getattr(options, each.name) for each in operation.arguments}
    scaled = {
        each.name: given[each.name] / each.per for each in operation.arguments if each.per != 1 and given[each.name]
    }
    said = {name: value for name, value in (given | scaled).items() if value is not None}
    return each_table(options, _WORK[options.command](said), only_partitioned=operation.only_partitioned)


def each_table(options: argparse.Namespace, maintain: Maintain, *, only_partitioned: bool = False) -> int:
    """Maintain the named table, all tables, or all partitioned ones; continue after a failure, and return the exit status."""
    root = Root(existing_root(options.root))
    if options.table is not None:
        name = named(options.table)
        table = root.table(name)
        return 0 if maintain(_format_name(name), table) else 1
    status = 0
    for name in root.tables():
        try:
            table = root.table(name)
            if (table.is_partitioned or not only_partitioned) and not maintain(_format_name(name), table):
                status = 1
        except LanceFlightError as exc:
            print(f"lance-flight: {_format_name(name)}: [{exc.code}] {exc}", file=sys.stderr)
            status = 1
    return status


def _format_name(name: TableName) -> str:
    return name.name if name.db_schema == PUBLIC else str(name)


def _compact(given: Given) -> Maintain:
    rules = CompactionRules(**given).checked()

    def work(name: str, table: Table) -> bool:
        print(f"{name}: {compact(table, rules, progress(f'compacting {name}'))}")
        return True

    return work


def _reindex(_: Given) -> Maintain:
    def work(name: str, table: Table) -> bool:
        meter = TableMeter(f"indexing {name}")
        try:
            reports = refresh_indices(table, meter, watch=BuildWatch(add_rows=meter.add_rows))
        finally:
            meter.close()
        for report in reports:
            print(f"{name}: {report}")
        return True

    return work


def _rewrite(given: Given) -> Maintain:
    rules = RewritingRules(**{name: value for name, value in given.items() if name != "where"}).checked()

    def work(name: str, table: Table) -> bool:
        namespace = partitioned(table)
        choose = tables_where(namespace, given["where"]) if "where" in given else None
        print(f"{name}: {rewrite(namespace, evaluate, choose, rules, progress(f'rewriting {name}'))}")
        return True

    return work


def _vacuum(given: Given) -> Maintain:
    rules = VacuumRules(**given).checked()

    def work(name: str, table: Table) -> bool:
        report = vacuum(table, rules, progress(f"vacuuming {name}"))
        expired = sum(each.amount.versions for each in report.removed if each.kind == "snapshots")
        goes, total = ("would go" if report.dry_run else "removed"), report.total
        print(
            f"{name}: {total.files:,} files with {readable(total.bytes)} {goes},"
            f" {expired:,} snapshots among them; {report.snapshots:,} snapshots stay"
        )
        if report.why_nothing:
            print(f"  nothing     {report.why_nothing}")
        for each in report.removed if report.dry_run else ():
            print(f"  {each.kind:9}  {each.name}  {each.amount.files:,} files, {readable(each.amount.bytes)}")
        for left in report.skipped:
            print(f"  left alone  {left.name}: {left.why}")
        return True

    return work


def _verify(given: Given) -> Maintain:
    against = backup_at(place_of(given["against"])) if "against" in given else None

    def work(name: str, table: Table) -> bool:
        at, shown = table.snapshot(given.get("snapshot")), progress(f"verifying {name}")
        report = verify(table, evaluate, at, shown, reads_rows=not given["data"])
        for each in report.unsound:
            print(f"{name}: {each}")
        differences = [] if against is None else compare_with(against, table.store)
        for difference in differences:
            print(f"{name}: [{Corrupt.code}] {difference}")
        said = "all sound" if report.is_sound else f"{len(report.unsound):,} not sound"
        files = f"snapshot {report.snapshot}, data files of {len(report.tables):,} tables: {said}"
        print(f"{name}: {files if given['data'] else report}")
        return report.is_sound and not differences

    return work


_WORK: Mapping[str, Callable[[Given], Maintain]] = {
    "compact": _compact,
    "reindex": _reindex,
    "rewrite": _rewrite,
    "vacuum": _vacuum,
    "verify": _verify,
}
"""What each command does with the arguments that it was given."""
_RULES: Mapping[str, Callable[[], object]] = {
    "compact": CompactionRules,
    "rewrite": RewritingRules,
    "vacuum": VacuumRules,
}
"""The rules whose defaults are those of a command's arguments."""
