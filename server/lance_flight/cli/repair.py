"""`lance-flight repair`."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from lance_flight.catalog.maintenance.repair import RepairReport, repair
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_tables
from lance_flight.cli.inspect import existing_root, named
from lance_flight.cli.maintenance import each_table
from lance_flight.engine.writes.rebuilding import LostManifest
from lance_flight.errors import InvalidInput
from lance_flight.model.operations import OPERATIONS


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = OPERATIONS["repair"].means
    add_tables(command)
    command.add_argument(
        "--apply", action="store_true", help="repair what can be repaired, one commit for each kind of damage"
    )
    command.add_argument(
        "--yes", action="store_true", help="give up rows that cannot be saved, as the report says, without asking"
    )
    command.add_argument(
        "--partition-by",
        metavar="FIELDS",
        help="make a lost __manifest anew from the partition tables of TABLE, which were partitioned like this: year(ts), bucket(16, id) …",
    )


def run(options: argparse.Namespace) -> int:
    """Report damage in one table, or all, and repair it with `--apply`."""
    if options.partition_by is not None:
        return _rebuild(options)
    return each_table(options, partial(_repair, options.apply, options.yes))


def _rebuild(options: argparse.Namespace) -> int:
    """Make the `__manifest` of one table anew."""
    if options.table is None:
        raise InvalidInput("--partition-by is for one table; expected its name after the root")
    lost = LostManifest.of(Root(existing_root(options.root)), named(options.table))
    print(
        f"{options.table}: {len(lost.tables):,} partition tables with {lost.rows:,} rows; those of partitions that were dropped, and of commits"
        " that never ended, come back with them; tags, branches and older snapshots are lost"
    )
    if not options.apply:
        print(f"{options.table}: nothing was changed; --apply makes the __manifest anew")
        return 1
    if not options.yes and not _agrees(options.table):
        print(f"{options.table}: nothing was changed")
        return 1
    print(f"{options.table}: made anew with {lost.rebuild(options.partition_by):,} rows")
    return 0


def _repair(apply: bool, yes: bool, name: str, table: Table) -> bool:  # noqa: FBT001 - bound by `partial`
    report = repair(table)
    if report.findings and apply:
        if any(finding.gives_up for finding in report.findings):
            _show(name, report)
            if not yes and not _agrees(name):
                print(f"{name}: nothing was changed")
                return False
        report = repair(table, dry_run=False, go_back=True)
    if not report.findings:
        print(f"{name}: nothing is wrong")
    _show(name, report)
    if report.dry_run and report.findings:
        print(f"{name}: nothing was changed; --apply puts right what can be")
    return report.is_whole


def _agrees(name: str) -> bool:
    """Ask whether to go on; where the input is no terminal the answer is no."""
    if not sys.stdin.isatty():
        print(f"{name}: expected --yes, or an answer at a terminal")
        return False
    return input(f"{name}: go on? [y/N] ").strip().lower() in {"y", "yes"}


def _show(name: str, report: RepairReport) -> None:
    for finding in report.findings:
        print(
            f"{name}: {finding.kind}: {finding.name}: {finding.what}"
            + (f": {finding.mended}" if finding.mended else "")
        )
