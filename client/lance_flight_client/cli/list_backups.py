"""`lance-flight list-backups`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "List the backups in a directory or object store, oldest first: their tables, files, bytes, and which earlier backups"
        " hold files of them (those must stay as long as they do). Unfinished ones are listed as such. Nothing is checked but"
        " the manifests; `verify-backup` reads the files."
    )
    command.add_argument("target", metavar="TARGET", help="directory or object-store URI that holds backups")


def run(options: argparse.Namespace) -> int:
    """Print a line for each backup; the exit status is 1 if the manifest of one cannot be read."""
    return int(importlib.import_module("lance_flight_client.cli.listing_backups").run(options))
