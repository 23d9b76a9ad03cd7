"""`lance-flight ingest`: its arguments. What loads files is imported when it runs."""

from __future__ import annotations

import argparse
import importlib

from lance_flight_client.cli.arguments import add_dry_run, add_server
from lance_flight_client.cli.load_modes import MODES
from lance_flight_client.files.names import ENDINGS, PIPE


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Load files into a table in one commit: Parquet, CSV, JSON, Arrow, ORC, Excel. A directory stands for the files below it, whose"
        " own directories (month=3) become columns. The table is made where it is missing. Nothing is visible before all of it is."
    )
    command.epilog = (
        'Examples: lance-flight ingest flights.csv --table flights --root lake --partition-by "month(time_hour), origin";'
        " lance-flight ingest 's3://bucket/2026/*.parquet' --table events --mode append --uri grpc://host:32010;"
        " zcat rows.csv.gz | lance-flight ingest - --format csv --table rows --root lake"
    )
    command.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help=f"file, directory, glob or object-store URI; iceberg:PATH, delta:PATH (with @VERSION); {PIPE} is a pipe",
    )
    command.add_argument("--table", required=True, metavar="NAME", help="table to load into, [schema.]name")
    command.add_argument("--root", metavar="ROOT", help="directory or object-store URI of the tables, without a server")
    add_server(command)
    command.add_argument(
        "--partition-by", metavar="FIELDS", help='partition fields of a table that is made: "month(at), bucket(16, id)"'
    )
    command.add_argument(
        "--mode",
        choices=sorted(MODES),
        default="create",
        help="create: refuse a table that is there; append: add rows; overwrite: replace the partitions that get rows;"
        " overwrite-table: replace all rows; replace: make the table anew (default: %(default)s)",
    )
    command.add_argument(
        "--commit-id", metavar="ID", help="name of this load: it is stored once, however often the command is run"
    )
    command.add_argument("--format", choices=sorted(ENDINGS), help="format of the files (default: by their names)")
    command.add_argument(
        "--types", metavar="COLUMNS", help='types of some columns of CSV or JSON: "id BIGINT, day DATE"'
    )
    form = command.add_argument_group(
        "form of CSV and Excel", "guessed from the beginning of a file where it is not said"
    )
    form.add_argument("--delimiter", metavar="CHAR", help="between the values of a row")
    form.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the first line has names; without, columns are f0, f1, …",
    )
    form.add_argument("--encoding", metavar="NAME", help="encoding of the text, also of JSON, such as latin-1")
    form.add_argument("--decimal", choices=(".", ","), help="decimal sign; the other one may group thousands")
    form.add_argument("--date-format", metavar="FORMAT", help="format of days or moments, as of strftime: %%d/%%m/%%Y")
    form.add_argument("--sheet", metavar="NAME", help="sheet of an Excel workbook (default: the first one)")
    form.add_argument("--skip", type=int, metavar="N", help="lines before the names or the first row")
    form.add_argument(
        "--ignore-errors", action="store_true", help="leave out rows with a wrong value, and say how many"
    )
    form.add_argument("--rejects", metavar="FILE", help="do so, and write those rows to a file of CSV")
    form.add_argument(
        "--null",
        action="append",
        default=[],
        metavar="TEXT",
        help="text that is NULL in CSV, in columns of text as well",
    )
    command.add_argument(
        "--suggest",
        action="store_true",
        help="read the files, show how many tables some partition fields (and those of --partition-by) would make and of"
        " what size, and store nothing",
    )
    command.add_argument("--yes", action="store_true", help="do not ask whether guessed types are right")
    add_dry_run(command)


def run(options: argparse.Namespace) -> int:
    """Load files into a table, or show what would be loaded."""
    return int(importlib.import_module("lance_flight_client.cli.file_loading").load_files(options))
