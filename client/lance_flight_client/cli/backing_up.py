"""Copying the tables of a root to a backup."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lance_flight.catalog.backup.saving import BackupReport, BackupRules, backup
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.config_sources import storage_from_environment

from lance_flight_client.cli.inspecting import existing_root, parse_name
from lance_flight_client.terminal import Meter, readable


def run(options: argparse.Namespace) -> int:
    """Make a backup, or finish one."""
    rules = BackupRules(
        table=None if options.table is None else parse_name(options.table),
        at=options.snapshot if options.tag is None else options.tag,
        exclude=tuple(map(parse_name, options.exclude)),
        incremental=options.incremental,
        keep=options.keep,
    )
    root, target = Root(existing_root(options.root)), place_of(options.target)
    meter = Meter(f"backing up {options.root}", None, unit="files")
    try:
        report = backup(root, target, rules, meter, dry_run=options.dry_run, on_total=meter.expect)
    finally:
        meter.close()
    _print(report)
    return 0


def place_of(text: str) -> Store:
    """Open the store of a place that may not exist; options of an object store come from the environment, as for `serve`."""
    if "://" not in text:
        return Store(str(Path(text).resolve()))
    return Store(text.rstrip("/"), storage_from_environment(os.environ))


def _print(report: BackupReport) -> None:
    manifest = report.manifest
    for table in manifest.tables:
        files = [file for file in manifest.files if table.holds(file.path)]
        size = readable(sum(file.size for file in files))
        print(f"  {table.table_name}, snapshot {table.snapshot}: {len(files):,} files, {size}")
    for line in manifest.not_kept:
        print(f"  not kept: {line}")
    what = "would copy" if report.dry_run else "copied"
    resumed = " (went on with what an earlier run had begun)" if report.resumed else ""
    print(
        f"backup {manifest.id}: {len(manifest.files):,} files with {readable(manifest.size)}, {what} {report.copied_files:,} with"
        f" {readable(report.copied_bytes)}{resumed}"
    )
    for backup_id in report.removed:
        print(f"backup {backup_id}: {'would be removed' if report.dry_run else 'removed'}")
