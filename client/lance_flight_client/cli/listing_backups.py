"""The backups of a directory or object store as text."""

from __future__ import annotations

import argparse
import sys

import pyarrow as pa
from lance_flight.catalog.backup.copying import BEGUN_FILE, FILES, ids_in, is_whole, read_backup
from lance_flight.errors import LanceFlightError

from lance_flight_client.cli.backing_up import place_of
from lance_flight_client.output import align_table
from lance_flight_client.terminal import readable


def run(options: argparse.Namespace) -> int:
    """Print a line for each backup; the exit status is 1 if the manifest of one cannot be read."""
    target = place_of(options.target)
    rows, status = [], 0
    for backup_id in ids_in(target):
        row = dict.fromkeys(("backup", "tables", "files", "size", "needs"), "")
        rows.append(row)
        row["backup"] = backup_id
        try:
            if not is_whole(target, backup_id):
                place = target.child(backup_id)
                is_over = FILES in place.directories() and BEGUN_FILE not in place.files()
                row["tables"] = "(files of others)" if is_over else "(unfinished)"
                continue
            manifest = read_backup(target, backup_id).manifest
        except LanceFlightError as exc:
            print(f"lance-flight: {backup_id}: [{exc.code}] {exc}", file=sys.stderr)
            row["tables"], status = "(damaged)", 1
            continue
        row["tables"] = ", ".join(f"{table.table_name}@{table.snapshot}" for table in manifest.tables)
        row["files"], row["size"] = f"{len(manifest.files):,}", readable(manifest.size)
        row["needs"] = ", ".join(manifest.needs)
    print(align_table(pa.Table.from_pylist(rows), None) if rows else f"there is no backup in {options.target}")
    return status
