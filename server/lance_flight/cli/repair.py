"""`lance-flight repair`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight.catalog.maintenance.repair import repair
from lance_flight.catalog.namespace import partitioned
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_tables
from lance_flight.cli.maintenance import each_table


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Find damage in a __manifest: partition columns that a writer without support for them dropped, rows without their"
        " table or pinned version, and partition values with several tables. Without --apply nothing is changed. The exit"
        " status is 1 if damage remains."
    )
    add_tables(command)
    command.add_argument(
        "--apply", action="store_true", help="repair what can be repaired, one commit for each kind of damage"
    )


def run(options: argparse.Namespace) -> int:
    """Report damage in one table, or all, and repair it with `--apply`."""
    return each_table(options, partial(_repair, options.apply), only_partitioned=True)


def _repair(apply: bool, name: str, table: Table) -> bool:  # noqa: FBT001 - bound by `partial`
    namespace = partitioned(table)
    report = repair(namespace, dry_run=not apply)
    if not report.findings:
        print(f"{name}: nothing is wrong")
    for finding in report.findings:
        print(
            f"{name}: {finding.kind}: {finding.name}: {finding.what}"
            + (f": {finding.mended}" if finding.mended else "")
        )
    if report.dry_run and report.findings:
        print(f"{name}: nothing was changed; --apply puts right what can be")
    return report.is_whole
