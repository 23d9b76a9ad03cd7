"""Making a root of a backup."""

from __future__ import annotations

import argparse

from lance_flight.catalog.backup.copying import backup_at
from lance_flight.catalog.backup.restoring import restore

from lance_flight_client.cli.backing_up import place_of
from lance_flight_client.cli.inspecting import parse_name
from lance_flight_client.terminal import Meter, readable


def run(options: argparse.Namespace) -> int:
    """Restore a backup."""
    stored = backup_at(place_of(options.source), options.backup)
    only = None if options.table is None else parse_name(options.table)
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
