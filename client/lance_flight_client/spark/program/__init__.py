"""The command `python -m lance_flight_client.spark`: parse, build, run.

Nothing heavy is imported before a command is chosen: `--help` answers at once, and without Java.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lance_flight.errors import LanceFlightError

from lance_flight_client.errors import JobFailed
from lance_flight_client.spark.job import COUNT, EXPRESSIONS, PAIRS, PATHS, SETTINGS, SWITCH, Kind

PROGRAM = "python -m lance_flight_client.spark"


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
    """Every command with its arguments."""
    top = _described(
        argparse.ArgumentParser(prog=PROGRAM),
        "Load files into Lance Partitioned Namespaces with Spark.",
        "ingest flights.toml",
        'ingest --source "in/*.parquet" --root lake --table sales --partition-by "month(at)"',
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _ingest(commands.add_parser("ingest", help="load Parquet, CSV or JSON files into a table, in one commit"))
    return top


def _described(command: argparse.ArgumentParser, says: str, *examples: str) -> argparse.ArgumentParser:
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.description = says
    command.epilog = "\n".join(["examples:", *(f"  {PROGRAM} {example}" for example in examples)])
    return command


def _ingest(command: argparse.ArgumentParser) -> None:
    _described(
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


_ARGUMENTS: Mapping[Kind, Mapping[str, Any]] = MappingProxyType(
    {
        SWITCH: {"action": argparse.BooleanOptionalAction},
        COUNT: {"type": int, "metavar": COUNT.metavar},
        PATHS: {"action": "append", "metavar": PATHS.metavar},
        EXPRESSIONS: {"action": "append", "metavar": EXPRESSIONS.metavar},
        PAIRS: {"action": "append", "metavar": PAIRS.metavar},
    }
)


def _argument(kind: Kind) -> Mapping[str, Any]:
    return _ARGUMENTS.get(kind, {"metavar": kind.metavar})
