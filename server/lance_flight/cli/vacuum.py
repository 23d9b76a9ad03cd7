"""`lance-flight vacuum`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.progress import progress

from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.cli.maintenance import each_table, readable


def run(options: argparse.Namespace) -> int:
    """Vacuum one table, or all."""
    rules = VacuumRules(
        retain_hours=options.retain,
        transaction_hours=options.transactions,
        force=options.force,
        dry_run=options.dry_run,
    ).checked()
    return each_table(options, partial(_vacuum, rules))


def _vacuum(rules: VacuumRules, name: str, namespace: PartitionedNamespace) -> bool:
    report = vacuum(namespace, rules, progress(f"vacuuming {name}"))
    expired = sum(each.amount.versions for each in report.removed if each.kind == "snapshots")
    goes, total = ("would go" if report.dry_run else "removed"), report.total
    print(
        f"{name}: {total.files:,} files with {readable(total.bytes)} {goes},"
        f" {expired:,} snapshots among them; {report.snapshots:,} snapshots stay"
    )
    if report.dry_run:
        for each in report.removed:
            amount = each.amount
            print(f"  {each.kind:9}  {each.name}  {amount.files:,} files, {readable(amount.bytes)}")
    for left in report.skipped:
        print(f"  left alone  {left.name}: {left.why}")
    return True
