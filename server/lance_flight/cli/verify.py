"""`lance-flight verify`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.terminal import progress

from lance_flight.catalog.backup.copying import StoredBackup, backup_at
from lance_flight.catalog.backup.restoring import compare_with
from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_tables
from lance_flight.cli.backup import place_of
from lance_flight.cli.maintenance import each_table
from lance_flight.engine.sql.functions import evaluate
from lance_flight.errors import Corrupt


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Read every row of a snapshot, compute its partition values, and compare them with those of its partition table."
        " Prints each difference, and the row count and checksum of each table; the checksum does not change when rows are"
        " moved, compacted or copied. Data files are compared with the sizes and checksums that were recorded when they were written. The exit status is 1 if there is a difference. `repair` repairs metadata."
    )
    add_tables(command)
    command.add_argument("--snapshot", type=int, metavar="N", help="version of the table (default: the newest)")
    command.add_argument(
        "--data", action="store_true", help="check the size and the checksum of each data file, and read no rows"
    )
    command.add_argument(
        "--against",
        metavar="BACKUP",
        help="compare the files with those of a backup (a directory of backups: the newest), too",
    )


def run(options: argparse.Namespace) -> int:
    """Verify one table, or all."""
    against = None if options.against is None else backup_at(place_of(options.against))
    return each_table(options, partial(_verify, options.snapshot, options.data, against))


def _verify(snapshot: int | None, data: bool, against: StoredBackup | None, name: str, table: Table) -> bool:  # noqa: FBT001 - bound by `partial`
    report = verify(table, evaluate, table.snapshot(snapshot), progress(f"verifying {name}"), reads_rows=not data)
    for each in report.unsound:
        print(f"{name}: {each}")
    differences = [] if against is None else compare_with(against, table.store)
    for difference in differences:
        print(f"{name}: [{Corrupt.code}] {difference}")
    said = "all sound" if report.is_sound else f"{len(report.unsound):,} not sound"
    print(
        f"{name}: snapshot {report.snapshot}, data files of {len(report.tables):,} tables: {said}"
        if data
        else f"{name}: {report}"
    )
    return report.is_sound and not differences
