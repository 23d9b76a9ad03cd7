"""`lance-flight restore`."""

from __future__ import annotations

import argparse

from lance_flight_client.terminal import Meter, readable

from lance_flight.catalog.backup.copying import backup_at
from lance_flight.catalog.backup.restoring import restore
from lance_flight.cli.backup import place_of
from lance_flight.cli.inspecting import named


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Make a new root of a backup, or of one of its tables. Each file is compared with its SHA-256 while it is copied, and the"
        " root appears under its name when all of it is there: a restore that is interrupted or finds a damaged file leaves"
        " nothing to be seen. The same command goes on with one that was interrupted."
    )
    command.add_argument(
        "source", metavar="BACKUP", help="directory or object-store URI that holds backups, or one of them, TARGET/ID"
    )
    command.add_argument(
        "root", metavar="ROOT", help="directory or object-store URI of the new root, where nothing is yet"
    )
    command.add_argument("--backup", metavar="ID", help="backup to restore (default: the newest)")
    command.add_argument("--table", metavar="TABLE", help="restore this table only, [schema.]name")
    command.add_argument("--dry-run", action="store_true", help="print what would be restored, and write nothing")
    command.epilog = (
        "Examples: lance-flight restore /backups/lake lake-again; lance-flight restore s3://bucket/lake lake-again --backup"
        " 20260301T020000.000000Z-1f3c --table flights. Afterwards `lance-flight verify ROOT` checks the rows."
    )


def run(options: argparse.Namespace) -> int:
    """Restore a backup."""
    stored = backup_at(place_of(options.source), options.backup)
    only = None if options.table is None else named(options.table)
    meter = Meter(f"restoring {stored.manifest.id}", stored.manifest.size if only is None else None, unit="files")
    try:
        report = restore(stored, place_of(options.root), only, meter, dry_run=options.dry_run)
    finally:
        meter.close()
    for table in report.manifest.tables:
        print(f"  {table.table_name}, snapshot {table.snapshot} of {table.committed_at}")
    what = "would be restored" if report.dry_run else "is restored"
    print(
        f"{options.root} {what} from backup {report.manifest.id}: {len(report.manifest.files):,} files with"
        f" {readable(report.manifest.size)}, {report.copied_files:,} of them copied by this run"
    )
    return 0
