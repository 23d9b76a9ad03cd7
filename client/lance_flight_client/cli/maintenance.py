"""The commands of the operations that maintain tables, made of the table of operations."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.operations import DOING, OperationWork
from lance_flight.errors import LanceFlightError
from lance_flight.model.operations import OPERATIONS, add_arguments, given_arguments

from lance_flight_client.cli.arguments import add_root
from lance_flight_client.cli.backups import place_of
from lance_flight_client.cli.inspecting import existing_root, parse_name
from lance_flight_client.terminal import TableMeter


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the operation of a command takes."""
    name = command.prog.rpartition(" ")[2]
    operation = OPERATIONS[name]
    command.description, command.epilog = operation.means, operation.epilog or None
    add_root(command)
    of_all = " (default: every one of the root)"
    is_needed = any(argument.is_positional for argument in operation.arguments)
    means = "partitioned table, [schema.]name" + ("" if is_needed else of_all)
    command.add_argument("table", metavar="TABLE", nargs=None if is_needed else "?", help=means)
    defaults = {field.name: field.default for field in dataclasses.fields(DOING[name].rules)}
    add_arguments(command, operation.arguments, defaults)


def run(options: argparse.Namespace) -> int:
    """Maintain one table, or all; continue after a failure, and return the exit status."""
    operation, does = OPERATIONS[options.command], DOING[options.command]
    rules = does.rules_of(given_arguments(options, operation.arguments))
    root, only = Root(existing_root(options.root)), None if options.table is None else parse_name(options.table)
    instead = does.instead(root, only, rules, OperationWork(agrees=_agrees))
    if instead is not None:
        _print("", instead.lines)
        return 0 if instead.is_sound else 1
    maintain = partial(_maintain, options.command, rules)
    if only is not None:
        return 0 if maintain(only, root.table(only)) else 1
    status = 0
    for name in root.tables():
        try:
            table = root.table(name)
            if (table.is_partitioned or not operation.only_partitioned) and not maintain(name, table):
                status = 1
        except LanceFlightError as exc:
            print(f"lance-flight: {_format_name(name)}: [{exc.code}] {exc}", file=sys.stderr)
            status = 1
    if status == 0:
        _print("", does.finish(root, rules))
    return status


def _maintain(command: str, rules: Any, name: TableName, table: Table) -> bool:
    """Maintain a table, print the report, and return whether the table is in order."""
    shown = _format_name(name)
    meter = TableMeter(f"{command} {shown}")
    work = OperationWork(
        progress=meter, add_rows=meter.add_rows, place=place_of, agrees=lambda lines, yes: _agrees(lines, yes, shown)
    )
    try:
        report = DOING[command].run(table, rules, work)
    finally:
        meter.close()
    _print(f"{shown}: ", report.lines)
    return report.is_sound


def _agrees(lines: Iterable[str], yes: bool, name: str = "") -> bool:  # noqa: FBT001 - as `OperationWork.agrees`
    """Show lines and ask whether to go on, unless the answer is yes; where the input is no terminal the answer is no."""
    start = f"{name}: " if name else ""
    _print(start, lines)
    if not yes and not sys.stdin.isatty():
        print(f"{start}expected --yes, or an answer at a terminal")
        return False
    return yes or input(f"{start}go on? [y/N] ").strip().lower() in {"y", "yes"}


def _print(start: str, lines: Iterable[str]) -> None:
    """Print lines; those that are indented belong to the one before."""
    for line in lines:
        print(line if line.startswith(" ") else start + line)


def _format_name(name: TableName) -> str:
    return name.name if name.db_schema == PUBLIC else str(name)
