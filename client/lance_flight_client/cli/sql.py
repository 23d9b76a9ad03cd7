"""`lance-flight sql`: its arguments. What it does is imported when it runs."""

from __future__ import annotations

import argparse
import importlib

from lance_flight_client.cli.arguments import add_number, add_server

OUTPUT_FORMATS = ("table", "csv", "json", "arrow", "parquet")


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Run SQL statements, separated by semicolons, on a running server, and print their results. The first that fails ends the command"
        " with status 1. Without SQL they are read from a pipe; on a terminal there is a prompt, with history and completion."
    )
    command.epilog = (
        'Examples: lance-flight sql; lance-flight sql "SELECT 1" --uri localhost:32010; lance-flight sql -f report.sql --format csv > report.csv;'
        ' lance-flight sql "SELECT * FROM flights" -o flights.parquet'
    )
    given = command.add_mutually_exclusive_group()
    given.add_argument(
        "statement",
        metavar="SQL",
        nargs="?",
        help='for example "SELECT origin, count(*) FROM flights GROUP BY origin"',
    )
    given.add_argument("-c", "--command", dest="text", metavar="SQL", help="the same, as psql has it")
    given.add_argument("-f", "--file", metavar="FILE", help="file of statements")
    add_server(command)
    command.add_argument(
        "--format", choices=OUTPUT_FORMATS, help="output format (default: table, or that of the name of --output)"
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the rows of the one query to a file: .parquet, .csv, .arrow, .jsonl; also s3://…",
    )
    add_number(command, "--max-rows", 100, "number of rows that a table prints; 0 prints all")


def run(options: argparse.Namespace) -> int:
    """Run statements one after another, and print their results; on a terminal, without any, ask for them."""
    return int(importlib.import_module("lance_flight_client.cli.running_sql").run(options))
