"""The commands that maintain a root: those of the table of operations, and backups: made, listed, compared with their checksums, and restored."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance_flight.catalog.backup.backup_format import (
    BEGUN_FILE,
    FILES,
    StoredBackup,
    backup_at,
    backups_in,
    ids_in,
    is_whole,
    read_backup,
)
from lance_flight.catalog.backup.restoring import check_backup, restore
from lance_flight.catalog.backup.saving import BackupReport, BackupRules, backup
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.config import storage_from_environment
from lance_flight.engine.operations import DOING, OperationWork
from lance_flight.errors import LanceFlightError
from lance_flight.model.operations import OPERATIONS, add_arguments, given_arguments

from lance_flight_client.cli.arguments import add_root
from lance_flight_client.cli.inspecting import existing_root, parse_name
from lance_flight_client.output import align_table
from lance_flight_client.terminal import Meter, TableMeter, readable


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the operation of a command takes."""
    name = command.prog.rpartition(" ")[2]
    operation = OPERATIONS[name]
    command.description, command.epilog = operation.means, operation.epilog or None
    add_root(command)
    of_all = " (default: every one of the root)"
    is_needed = any(argument.is_positional for argument in operation.arguments)
    means = "partitioned table, [schema.]name" + ("" if is_needed else of_all)
    command.add_argument("table", metavar="TABLE", nargs=None if is_needed else "?", help=means)
    defaults = {field.name: field.default for field in dataclasses.fields(DOING[name].rules)}
    add_arguments(command, operation.arguments, defaults)


def run(options: argparse.Namespace) -> int:
    """Maintain one table, or all; continue after a failure, and return the exit status."""
    operation, does = OPERATIONS[options.command], DOING[options.command]
    rules = does.rules_of(given_arguments(options, operation.arguments))
    root, only = Root(existing_root(options.root)), None if options.table is None else parse_name(options.table)
    instead = does.instead(root, only, rules, OperationWork(agrees=_agrees))
    if instead is not None:
        _print("", instead.lines)
        return 0 if instead.is_sound else 1
    maintain = partial(_maintain, options.command, rules)
    if only is not None:
        return 0 if maintain(only, root.table(only)) else 1
    status = 0
    for name in root.tables():
        try:
            table = root.table(name)
            if (table.is_partitioned or not operation.only_partitioned) and not maintain(name, table):
                status = 1
        except LanceFlightError as exc:
            print(f"lance-flight: {_format_name(name)}: [{exc.code}] {exc}", file=sys.stderr)
            status = 1
    if status == 0:
        _print("", does.finish(root, rules))
    return status


def _maintain(command: str, rules: Any, name: TableName, table: Table) -> bool:
    """Maintain a table, print the report, and return whether the table is in order."""
    shown = _format_name(name)
    meter = TableMeter(f"{command} {shown}")
    work = OperationWork(
        progress=meter, add_rows=meter.add_rows, place=place_of, agrees=lambda lines, yes: _agrees(lines, yes, shown)
    )
    try:
        report = DOING[command].run(table, rules, work)
    finally:
        meter.close()
    _print(f"{shown}: ", report.lines)
    return report.is_sound


def _agrees(lines: Iterable[str], yes: bool, name: str = "") -> bool:  # noqa: FBT001 - as `OperationWork.agrees`
    """Show lines and ask whether to go on, unless the answer is yes; where the input is no terminal the answer is no."""
    start = f"{name}: " if name else ""
    _print(start, lines)
    if not yes and not sys.stdin.isatty():
        print(f"{start}expected --yes, or an answer at a terminal")
        return False
    return yes or input(f"{start}go on? [y/N] ").strip().lower() in {"y", "yes"}


def _print(start: str, lines: Iterable[str]) -> None:
    """Print lines; those that are indented belong to the one before."""
    for line in lines:
        print(line if line.startswith(" ") else start + line)


def _format_name(name: TableName) -> str:
    return name.name if name.db_schema == PUBLIC else str(name)


def back_up(options: argparse.Namespace) -> int:
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
    _print_backup(report)
    return 0


def place_of(text: str) -> Store:
    """Open the store of a place that may not exist; options of an object store come from the environment, as for `serve`."""
    if "://" not in text:
        return Store(str(Path(text).resolve()))
    return Store(text.rstrip("/"), storage_from_environment(os.environ))


def _print_backup(report: BackupReport) -> None:
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


def list_backups(options: argparse.Namespace) -> int:
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


def verify_backups(options: argparse.Namespace) -> int:
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


def restore_backup(options: argparse.Namespace) -> int:
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
