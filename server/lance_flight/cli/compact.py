"""`lance-flight compact`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.terminal import progress

from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_number, add_tables
from lance_flight.cli.maintenance import each_table


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Rewrite small files and files with deleted rows, and update the pins of all affected partition tables in one commit."
        " Readers and writers continue; a partition table that another writer changes first is left unchanged. `vacuum` removes"
        " the replaced files once no retained snapshot needs them."
    )
    add_tables(command)
    add_number(command, "--files", 1, "compact partition tables with more files than this")
    command.add_argument(
        "--deleted",
        type=float,
        default=10.0,
        metavar="PERCENT",
        help="compact files with a larger share of deleted rows than this, too (default: %(default)s)",
    )
    add_number(command, "--target-rows", 1 << 20, "number of rows from which a file is left as it is")
    add_number(command, "--tables-per-commit", 1024, "number of partition tables that one commit updates")


def run(options: argparse.Namespace) -> int:
    """Compact one table, or all."""
    rules = CompactionRules(
        target_rows=options.target_rows,
        files=options.files,
        deleted=options.deleted / 100,
        tables_per_commit=options.tables_per_commit,
    ).checked()
    return each_table(options, partial(_compact, rules))


def _compact(rules: CompactionRules, name: str, namespace: Table) -> bool:
    report = compact(namespace, rules, progress(f"compacting {name}"))
    print(f"{name}: {report}")
    return True
