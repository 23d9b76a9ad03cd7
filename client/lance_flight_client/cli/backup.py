"""`lance-flight backup`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib

from lance_flight.errors import InvalidInput
from lance_flight.quantities import parse_seconds

from lance_flight_client.cli.arguments import add_root


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
    return int(importlib.import_module("lance_flight_client.cli.backing_up").run(options))


def _time(text: str) -> float:
    try:
        return parse_seconds(text)
    except InvalidInput as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None
