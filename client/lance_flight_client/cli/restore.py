"""`lance-flight restore`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib


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
    return int(importlib.import_module("lance_flight_client.cli.restoring_backup").run(options))
