"""`lance-flight inspect`: its arguments. What reads a root is imported when it runs."""

from __future__ import annotations

import argparse
import importlib

from lance_flight_client.cli.arguments import add_number, add_root


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "List the tables of a root, or show one table: its partition specs, schema with field ids, partitions, pins and rows."
        " No server is needed."
    )
    add_root(command)
    command.add_argument("table", metavar="TABLE", nargs="?", help="table to show, [schema.]name")
    command.add_argument(
        "--where", metavar="CONDITION", help="show which partition tables a query with this WHERE clause reads, and why"
    )
    command.add_argument(
        "--map", action="store_true", help="draw the partitions and their rows; with --where, those that it reads"
    )
    command.epilog = (
        "Examples: lance-flight inspect lake; lance-flight inspect lake flights --map;"
        """ lance-flight inspect lake flights --map --where "origin = 'JFK'\""""
    )
    add_number(command, "--max-rows", 50, "number of partitions that are listed; 0 lists all")


def run(options: argparse.Namespace) -> int:
    """Print the tables of a root, or one of them in detail."""
    return int(importlib.import_module("lance_flight_client.cli.inspecting").inspect(options))
