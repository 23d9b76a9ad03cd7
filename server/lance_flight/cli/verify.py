"""`lance-flight verify`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.progress import progress

from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_tables
from lance_flight.cli.maintenance import each_table
from lance_flight.engine.sql.functions import evaluate


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Read every row of a snapshot, compute its partition values, and compare them with those of its partition table."
        " Prints each difference, and the row count and checksum of each table; the checksum does not change when rows are"
        " moved, compacted or copied. The exit status is 1 if there is a difference. `repair` repairs metadata."
    )
    add_tables(command)
    command.add_argument("--snapshot", type=int, metavar="N", help="version of the table (default: the newest)")


def run(options: argparse.Namespace) -> int:
    """Verify one table, or all."""
    return each_table(options, partial(_verify, options.snapshot))


def _verify(snapshot: int | None, name: str, namespace: Table) -> bool:
    report = verify(namespace, evaluate, namespace.snapshot(snapshot), progress(f"verifying {name}"))
    for table in report.unsound:
        print(f"{name}: {table}")
    print(f"{name}: {report}")
    return report.is_sound
