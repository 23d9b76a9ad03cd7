"""The command `python -m lance_flight_client.spark`: parse, build, run.

Nothing heavy is imported before a command is chosen: `--help` answers at once, and without Java.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lance_flight.config import SECRET, WITH_PASSWORD
from lance_flight.errors import InvalidInput, LanceFlightError
from lance_flight.model.operations import OPERATIONS, Operation, add_arguments

from lance_flight_client.errors import JobFailed
from lance_flight_client.spark.job import (
    COUNT,
    EXPRESSIONS,
    NAMES,
    PAIRS,
    PATHS,
    SETTINGS,
    SWITCH,
    Setting,
    SettingType,
)

PROGRAM = "python -m lance_flight_client.spark"


OF_TABLES = (*(name for name, operation in OPERATIONS.items() if operation.examples), "backfill")
"""Commands that maintain a table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0, or 1 with one line on standard error."""
    options = parser().parse_args(arguments)
    command = importlib.import_module(f"{__name__}.{options.module}")
    try:
        return int(command.run(options))
    except (LanceFlightError, JobFailed) as exc:
        print(f"lance-flight: [{exc.code}] {exc}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def parser() -> argparse.ArgumentParser:
    """Return the argument parser, with every command and its arguments."""
    top = _describe_program(
        argparse.ArgumentParser(prog=PROGRAM),
        "Use Lance Partitioned Namespaces in Spark's SQL, load files into them, and maintain them.",
        "sql lake",
        "ingest flights.toml",
        'ingest --source "in/*.parquet" --root lake --table sales --partition-by "month(at)"',
        "compact lake sales",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _sql(commands.add_parser("sql", help="start Spark's SQL shell with a catalog over a root or a server"))
    _settings(commands.add_parser("settings", help="print the settings of a session with such a catalog"))
    _ingest(commands.add_parser("ingest", help="load Parquet, CSV or JSON files into a table, in one commit"))
    for name, operation in OPERATIONS.items():
        if operation.examples:
            _operation(commands.add_parser(name, help=operation.summary), operation)
    _backfill(commands.add_parser("backfill", help="add a column with the values of an SQL expression"))
    return top


def _describe_program(command: argparse.ArgumentParser, says: str, *examples: str) -> argparse.ArgumentParser:
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.description = says
    command.epilog = "\n".join(["examples:", *(f"  {PROGRAM} {example}" for example in examples)])
    return command


def _sql(command: argparse.ArgumentParser) -> None:
    _describe_program(
        command,
        "Start spark-sql, the SQL shell of the installed PySpark, with the tables of a root or a server as the catalog `lake`.\n"
        "Flags of this command stand before LAKE, those of spark-sql after it.",
        "sql lake",
        'sql lake -e "SHOW TABLES IN lake.public"',
        "sql --options-file lake.options grpc+tls://host:32010 -f report.sql --master 'local[4]'",
    )
    _catalog(command)
    command.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of spark-sql")


def _settings(command: argparse.ArgumentParser) -> None:
    _describe_program(
        command,
        "Print settings of Spark, one in a line, for --properties-file of spark-sql, spark-shell, pyspark and spark-submit.",
        "settings lake > lake.conf",
    )
    _catalog(command)


def _catalog(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of a catalog."""
    command.set_defaults(module="sql")
    command.add_argument(
        "lake", metavar="LAKE", help="a directory, an object-store URI, or a server (grpc://host:port)"
    )
    command.add_argument("--catalog", metavar="NAME", default="lake", help="the catalog's name (default: lake)")
    command.add_argument(
        "--option",
        metavar=PAIRS.metavar,
        action="append",
        default=[],
        help="an option of the catalog (storage.aws_region=…); a server's token or password comes from LANCE_FLIGHT_TOKEN or LANCE_FLIGHT_PASSWORD",
    )
    command.add_argument(
        "--options-file", metavar="FILE", help="more options of the catalog, KEY=VALUE in each line; secrets, too"
    )


def _ingest(command: argparse.ArgumentParser) -> None:
    _describe_program(
        command,
        "Read files, and make all their rows visible in one commit. A job file says what is to be done, in the sections\n"
        "[source], [target], [write] and [spark]; flags overrule it, or stand alone. Whoever gives a commit id may run the\n"
        "same job again: what was committed before is not written twice.",
        "ingest flights.toml",
        'ingest flights.toml --source "in/2014/*.csv" --commit-id "flights 2014"',
        'ingest --source in/events.json --root lake --table events --partition-by "day(at)" --dry-run',
    )
    command.set_defaults(module="ingest")
    command.add_argument("job", metavar="JOB", nargs="?", help="TOML file with any of the settings below")
    for setting in SETTINGS:
        shown = f"{setting.key}: {setting.means}"
        command.add_argument(setting.flag, dest=setting.key, default=None, help=shown, **_argument(setting.kind))
    command.add_argument("--dry-run", action="store_true", help="say what would be done, and write nothing")


_ARGUMENTS: Mapping[SettingType, Mapping[str, Any]] = MappingProxyType(
    {
        SWITCH: {"action": argparse.BooleanOptionalAction},
        COUNT: {"type": int, "metavar": COUNT.metavar},
        PATHS: {"action": "append", "metavar": PATHS.metavar},
        NAMES: {"action": "append", "metavar": NAMES.metavar},
        EXPRESSIONS: {"action": "append", "metavar": EXPRESSIONS.metavar},
        PAIRS: {"action": "append", "metavar": PAIRS.metavar},
    }
)


def _argument(kind: SettingType) -> Mapping[str, Any]:
    return _ARGUMENTS.get(kind, {"metavar": kind.metavar})


def _add_table_arguments(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the table, and of the connections to it and to Spark."""
    command.set_defaults(module="maintain")
    command.add_argument("root", metavar="ROOT", help="directory or object-store URI")
    command.add_argument("table", metavar="TABLE", help="partitioned table ([schema.]name)")
    for setting in SETTINGS:
        if setting.kind == PAIRS and setting.key in ("target.storage", "spark"):
            command.add_argument(setting.flag, dest=setting.key, help=setting.means, **_argument(setting.kind))


def _operation(command: argparse.ArgumentParser, operation: Operation) -> None:
    """Declare an operation as the table of operations has it; the tasks of Spark do its work."""
    _describe_program(command, textwrap.fill(operation.means, 120), *operation.examples)
    _add_table_arguments(command)
    add_arguments(command, operation.of_jobs)


def _backfill(command: argparse.ArgumentParser) -> None:
    _describe_program(
        command,
        "Add a column with its values, in one commit: those of an SQL expression (DataFusion's SQL) over the other columns.",
        'backfill lake flights speed "distance / (air_time / 60)"',
        'backfill lake flights late "dep_delay > 15" --type BOOLEAN',
    )
    _add_table_arguments(command)
    command.add_argument("column", metavar="COLUMN", help="the column that is added")
    command.add_argument("expression", metavar="SQL", help="its value, over the columns of the same row")
    command.add_argument(
        "--type", dest="data_type", metavar="TYPE", help="its type, as in SQL; that of the expression without"
    )


def value_of_flag(options: argparse.Namespace, setting: Setting) -> Any:
    """Return what a flag says of a setting; None if it was not given.

    >>> from lance_flight_client.spark.job import SETTINGS
    >>> conf = next(setting for setting in SETTINGS if setting.flag == "--conf")
    >>> value_of_flag(argparse.Namespace(spark=["spark.master=local[2]"]), conf)
    {'spark.master': 'local[2]'}
    """
    value = getattr(options, setting.key)
    return value if value is None or setting.kind != PAIRS else dict(pair(setting.flag, text) for text in value)


def pair(flag: str, text: str) -> tuple[str, str]:
    """Return the name and the value of a flag `KEY=VALUE`; `InvalidInput` for anything else."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        # What is given may be a secret.
        raise InvalidInput(f"{flag} has no name and value; expected KEY=VALUE")
    if SECRET.search(name.strip()) or WITH_PASSWORD.search(value):
        raise InvalidInput(
            f"{flag} has {name.strip()!r}, and everybody on this machine sees the arguments of a process; expected it in a file"
            " (--options-file, or the job file), or in the environment (LANCE_FLIGHT_TOKEN, LANCE_FLIGHT_PASSWORD, AWS_SECRET_ACCESS_KEY …)"
        )
    return name.strip(), value
