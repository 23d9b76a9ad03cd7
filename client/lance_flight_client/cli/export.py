"""`lance-flight export`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib

from lance_flight_client.cli.arguments import add_server
from lance_flight_client.files.names import WRITTEN


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Write a table, or the rows of a query, to a file of another format, or to a directory of files by the values of columns. Rows are"
        " written as they come; the file has its name once it is whole."
    )
    command.epilog = (
        "Examples: lance-flight export flights -o flights.parquet --root lake;"
        ' lance-flight export "SELECT * FROM flights WHERE month = 7" -o july --format parquet --by origin,day'
    )
    command.add_argument("what", metavar="TABLE|SQL", help="table, [schema.]name, or a query")
    command.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="file to write, or with --by a new directory; also s3://…"
    )
    command.add_argument("--format", choices=WRITTEN, help="format of the files (default: by the name)")
    command.add_argument(
        "--by",
        metavar="COLUMNS",
        help="columns whose values become directories below the output: site,day (site=Oslo/day=3)",
    )
    command.add_argument("--root", metavar="ROOT", help="directory or object-store URI of the tables, without a server")
    add_server(command)


def run(options: argparse.Namespace) -> int:
    """Write rows to files."""
    return int(importlib.import_module("lance_flight_client.cli.exporting").run(options))
