"""`lance-flight verify-backup`."""

from __future__ import annotations

import argparse

from lance_flight_client.terminal import Meter, readable

from lance_flight.catalog.backup.copying import StoredBackup, backup_at, backups_in
from lance_flight.catalog.backup.restoring import check_backup
from lance_flight.cli.backup import place_of


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Read every file of a backup, and of the earlier ones that an incremental one needs, and compare it with its size and"
        " SHA-256 in the manifest. Prints each file that is missing or altered; the exit status is 1 if there is one. `verify`"
        " checks the rows of a root, such as one that was restored."
    )
    command.add_argument(
        "target", metavar="TARGET", help="directory or object-store URI that holds backups, or one of them, TARGET/ID"
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--backup", metavar="ID", help="backup to verify (default: the newest)")
    which.add_argument("--all", action="store_true", help="verify every backup in TARGET")


def run(options: argparse.Namespace) -> int:
    """Verify one backup, or all."""
    place = place_of(options.target)
    chosen = list(backups_in(place)) if options.all else [backup_at(place, options.backup)]
    sound = sum(_verify(stored) for stored in chosen)
    return 0 if sound == len(chosen) else 1


def _verify(stored: StoredBackup) -> bool:
    meter = Meter(f"verifying {stored.manifest.id}", stored.manifest.size, unit="files")
    try:
        report = check_backup(stored, meter)
    finally:
        meter.close()
    for line in report.damaged:
        print(f"{stored.manifest.id}: {line}")
    what = "sound" if report.is_sound else f"{len(report.damaged):,} of them damaged"
    print(f"{stored.manifest.id}: {report.files:,} files with {readable(report.bytes)}, {what}")
    return report.is_sound
