"""Arguments of the commands, and the function that runs each. It is imported when its command runs, so `--help` stays light."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from lance_flight.config import DEFAULT_PORT
from lance_flight.errors import InvalidInput
from lance_flight.quantities import parse_seconds

from lance_flight_client.cli.arguments import MODES, add_dry_run, add_number, add_root, add_server
from lance_flight_client.files.names import ENDINGS, PIPE, WRITTEN

CONSOLE_PORT = 32080
OUTPUT_FORMATS = ("table", "csv", "json", "arrow", "parquet")


class Command(NamedTuple):
    """Declaration of what a command takes, and the function that runs it with its options: `module.function` of this package."""

    declare: Callable[[argparse.ArgumentParser], None]
    function: str


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what a command takes; `command` is named after it."""
    _COMMANDS[command.prog.split()[-1]].declare(command)


def run(options: argparse.Namespace) -> int:
    """Run the command that was chosen."""
    module, _, function = _COMMANDS[options.command].function.partition(".")
    return int(getattr(importlib.import_module(f"lance_flight_client.cli.{module}"), function)(options))


def _declare_demo(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Load the 336,776 flights that left New York in 2013 into ./lance-flight-demo through the service itself, run four"
        " queries, and serve the tables until Ctrl-C. A second run uses the data that is there."
    )
    command.add_argument(
        "--root", default="lance-flight-demo", metavar="DIR", help="directory of the tables (default: ./%(default)s)"
    )
    command.add_argument(
        "--port", type=int, default=DEFAULT_PORT, metavar="N", help="port to serve on (default: %(default)s)"
    )
    command.add_argument("--no-serve", action="store_true", help="use a free port and exit after the queries")


def _declare_ingest(command: argparse.ArgumentParser) -> None:
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


def _declare_export(command: argparse.ArgumentParser) -> None:
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


def _declare_sql(command: argparse.ArgumentParser) -> None:
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


def _declare_console(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Serve pages about the tables of a running server: which partitions hold what, which of them a query reads, queries and their plans,"
        " history, and activity. The printed address lets one browser in. Nothing can be changed there without --writes."
    )
    command.epilog = "Examples: lance-flight console; lance-flight console --uri lake.example.com:32010 --profile prod"
    add_server(command)
    command.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="address to listen on (default: %(default)s)"
    )
    add_number(command, "--port", CONSOLE_PORT, "port to listen on, 0 for any")
    command.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="name that browsers call it by, if another one; repeatable",
    )
    command.add_argument(
        "--https-certificate", metavar="FILE", help="certificate for browsers, PEM; needed beyond this machine"
    )
    command.add_argument("--https-key", metavar="FILE", help="private key of --https-certificate, PEM")
    command.add_argument(
        "--login", action="store_true", help="have each browser say who asks, in place of the credentials here"
    )
    command.add_argument("--writes", action="store_true", help="let statements change tables")
    add_number(command, "--max-rows", 10_000, "rows that are shown of a query")
    command.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="time for one statement (default: %(default)s)"
    )


def _declare_mcp(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Give an assistant tools over the tables of a running server, or of a directory, by the Model Context Protocol: list and describe tables, query, search,"
        " explain. Without --port it speaks over standard input and output, as the assistant starts it, with the credentials given here. With"
        " --port it serves HTTP at /mcp, and each caller has the token that it sends. Nothing can be changed without --writes."
    )
    command.epilog = "Examples: lance-flight mcp --uri lake.example.com:32010 --profile prod; lance-flight mcp --port 32090; lance-flight mcp --root lake"
    command.add_argument("--root", metavar="ROOT", help="directory or object-store URI of the tables, without a server")
    add_server(command)
    command.add_argument("--port", type=int, metavar="NUMBER", help="serve HTTP at this port, 0 for any")
    command.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="address that --port is of (default: %(default)s)"
    )
    command.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="name that clients call it by; repeatable"
    )
    command.add_argument(
        "--https-certificate", metavar="FILE", help="certificate for clients, PEM; needed beyond this machine"
    )
    command.add_argument("--https-key", metavar="FILE", help="private key of --https-certificate, PEM")
    command.add_argument("--writes", action="store_true", help="let the tool `query` change tables")
    add_number(command, "--max-rows", 200, "rows of an answer")
    add_number(command, "--max-characters", 100_000, "characters of an answer")
    command.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="time for one statement (default: %(default)s)"
    )


def _declare_hash_password(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Read a password from the terminal, or a line from standard input, and print its hash for the users file."
    )
    command.add_argument("user", metavar="USER", nargs="?", help="print the whole entry of this user")


def _declare_make_token(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print a new bearer token on standard output, and its entry of the tokens file on standard error: "
        "`lance-flight make-token etl 2>> tokens.toml > etl.token`."
    )
    command.add_argument("principal", metavar="PRINCIPAL", help="principal that the token authenticates")


def _declare_inspect(command: argparse.ArgumentParser) -> None:
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


def _declare_backup(command: argparse.ArgumentParser) -> None:
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


def _time(text: str) -> float:
    try:
        return parse_seconds(text)
    except InvalidInput as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def _declare_list_backups(command: argparse.ArgumentParser) -> None:
    command.description = (
        "List the backups in a directory or object store, oldest first: their tables, files, bytes, and which earlier backups"
        " hold files of them (those must stay as long as they do). Unfinished ones are listed as such. Nothing is checked but"
        " the manifests; `verify-backup` reads the files."
    )
    command.add_argument("target", metavar="TARGET", help="directory or object-store URI that holds backups")


def _declare_verify_backup(command: argparse.ArgumentParser) -> None:
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


def _declare_restore(command: argparse.ArgumentParser) -> None:
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


def _declare_doctor(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Look at a root as a server would: whether it can be read and written, the clock beside the storage's, free space, libraries, the key"
        " of tickets, and of each table whether it opens, its fence against stock writers, small files, and what processes that died have"
        " left. Each finding says what to do. The exit status is 1 if there is an error."
    )
    command.epilog = "Examples: lance-flight doctor lake; lance-flight doctor s3://bucket/lake"
    add_root(command)


_COMMANDS: Mapping[str, Command] = MappingProxyType(
    {
        "demo": Command(_declare_demo, "demonstrating.demonstrate"),
        "ingest": Command(_declare_ingest, "loading.load_files"),
        "export": Command(_declare_export, "exporting.export"),
        "sql": Command(_declare_sql, "running_sql.run_sql"),
        "console": Command(_declare_console, "serving_tools.serve_console"),
        "mcp": Command(_declare_mcp, "serving_tools.serve_mcp"),
        "hash-password": Command(_declare_hash_password, "credentials.hash_password"),
        "make-token": Command(_declare_make_token, "credentials.make_token"),
        "inspect": Command(_declare_inspect, "inspecting.inspect"),
        "backup": Command(_declare_backup, "maintenance.back_up"),
        "list-backups": Command(_declare_list_backups, "maintenance.list_backups"),
        "verify-backup": Command(_declare_verify_backup, "maintenance.verify_backups"),
        "restore": Command(_declare_restore, "maintenance.restore_backup"),
        "doctor": Command(_declare_doctor, "inspecting.diagnose_root"),
    }
)
