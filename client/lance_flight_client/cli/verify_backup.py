"""`lance-flight verify-backup`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib


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
    return int(importlib.import_module("lance_flight_client.cli.verifying_backup").run(options))
