"""Comparing the files of backups with their checksums."""

from __future__ import annotations

import argparse

from lance_flight.catalog.backup.copying import StoredBackup, backup_at, backups_in
from lance_flight.catalog.backup.restoring import check_backup

from lance_flight_client.cli.backing_up import place_of
from lance_flight_client.terminal import Meter, readable


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
