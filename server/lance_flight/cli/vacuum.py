"""`lance-flight vacuum`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.terminal import progress, readable

from lance_flight.catalog.maintenance.vacuum import (
    FLOOR_HOURS,
    TRANSACTION_FLOOR_HOURS,
    TRANSACTION_HOURS,
    VacuumRules,
    vacuum,
)
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_dry_run, add_tables
from lance_flight.cli.maintenance import each_table


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Remove expired snapshots, the versions and files of partition tables that no retained snapshot needs, and the files of"
        " aborted transactions. The newest snapshot, tagged snapshots, branch points and snapshots that are being read are"
        " retained."
    )
    add_tables(command)
    command.add_argument(
        "--retain",
        type=float,
        default=FLOOR_HOURS,
        metavar="HOURS",
        help="retain snapshots for this long after they were replaced (default: %(default)s; less requires --force)",
    )
    command.add_argument(
        "--transactions",
        type=float,
        default=TRANSACTION_HOURS,
        metavar="HOURS",
        help="age of uncommitted files from which their transaction counts as aborted (default: %(default)s;"
        f" less than {TRANSACTION_FLOOR_HOURS:g} requires --force)",
    )
    command.add_argument(
        "--force",
        action="store_true",
        help=f"allow --retain below {FLOOR_HOURS:g} hours, and --transactions below {TRANSACTION_FLOOR_HOURS:g}",
    )
    add_dry_run(command)


def run(options: argparse.Namespace) -> int:
    """Vacuum one table, or all."""
    rules = VacuumRules(
        retain_hours=options.retain,
        transaction_hours=options.transactions,
        force=options.force,
        dry_run=options.dry_run,
    ).checked()
    return each_table(options, partial(_vacuum, rules))


def _vacuum(rules: VacuumRules, name: str, namespace: Table) -> bool:
    report = vacuum(namespace, rules, progress(f"vacuuming {name}"))
    expired = sum(each.amount.versions for each in report.removed if each.kind == "snapshots")
    goes, total = ("would go" if report.dry_run else "removed"), report.total
    print(
        f"{name}: {total.files:,} files with {readable(total.bytes)} {goes},"
        f" {expired:,} snapshots among them; {report.snapshots:,} snapshots stay"
    )
    if report.why_nothing:
        print(f"  nothing     {report.why_nothing}")
    if report.dry_run:
        for each in report.removed:
            amount = each.amount
            print(f"  {each.kind:9}  {each.name}  {amount.files:,} files, {readable(amount.bytes)}")
    for left in report.skipped:
        print(f"  left alone  {left.name}: {left.why}")
    return True
