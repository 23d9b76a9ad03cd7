"""`lance-flight backup`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lance_flight_client.terminal import Meter, readable

from lance_flight.catalog.backup.saving import BackupReport, BackupRules, backup
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.cli.arguments import add_root
from lance_flight.cli.inspecting import existing_root, named
from lance_flight.config_sources import storage_from_environment
from lance_flight.errors import InvalidInput
from lance_flight.quantities import parse_seconds


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Copy the tables of a root, each at one snapshot, to a new backup in TARGET, with the SHA-256 of every file. Servers may"
        " go on reading, writing and vacuuming meanwhile. A backup that was interrupted is no backup yet; the same command goes"
        " on with it. Older snapshots, unpublished branches and the key of tickets are not part of a backup."
    )
    add_root(command)
    command.add_argument(
        "target", metavar="TARGET", help="directory or object-store URI that holds backups; made if it is not there"
    )
    command.add_argument(
        "--table", metavar="TABLE", help="back up this table only, [schema.]name (default: the whole root)"
    )
    moment = command.add_mutually_exclusive_group()
    moment.add_argument("--snapshot", type=int, metavar="N", help="version of --table (default: the newest)")
    moment.add_argument("--tag", metavar="NAME", help="tag of a snapshot of --table")
    command.add_argument(
        "--exclude",
        metavar="TABLE",
        action="append",
        default=[],
        help="leave out this table; may be given several times",
    )
    command.add_argument(
        "--incremental",
        action="store_true",
        help="copy only files that no earlier backup in TARGET has; those backups are needed to restore this one",
    )
    command.add_argument(
        "--keep",
        metavar="TIME",
        type=_time,
        help="afterwards remove what the same command made that is older (14d), but for files that younger ones need; an incremental backup needs none that is older",
    )
    command.add_argument("--dry-run", action="store_true", help="print what would be copied, and write nothing")
    command.epilog = (
        "Examples: lance-flight backup lake /backups/lake; lance-flight backup lake s3://bucket/lake --incremental --keep 14d;"
        " lance-flight backup lake /backups/lake --table flights --tag published. `list-backups` lists what is in TARGET,"
        " `verify-backup` reads it all and compares the checksums, `restore` makes a root of it. Object stores are reached by"
        " LANCE_FLIGHT_STORAGE_OPTIONS."
    )


def run(options: argparse.Namespace) -> int:
    """Make a backup, or finish one."""
    rules = BackupRules(
        table=None if options.table is None else named(options.table),
        at=options.snapshot if options.tag is None else options.tag,
        exclude=tuple(map(named, options.exclude)),
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


def _time(text: str) -> float:
    try:
        return parse_seconds(text)
    except InvalidInput as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


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
