"""Helpers of the maintenance commands: the tables to run on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.cli.inspect import existing_root, named
from lance_flight.errors import LanceFlightError

Maintain = Callable[[str, Table], bool]
"""Function that works on one table, given its name, and returns whether the table is in order."""


def each_table(options: argparse.Namespace, maintain: Maintain, *, only_partitioned: bool = False) -> int:
    """Maintain the named table, all tables, or all partitioned ones; continue after a failure, and return the exit status."""
    root = Root(existing_root(options.root))
    if options.table is not None:
        name = named(options.table)
        table = root.table(name)
        return 0 if maintain(_format_name(name), table) else 1
    status = 0
    for name in root.tables():
        try:
            table = root.table(name)
            if (table.is_partitioned or not only_partitioned) and not maintain(_format_name(name), table):
                status = 1
        except LanceFlightError as exc:
            print(f"lance-flight: {_format_name(name)}: [{exc.code}] {exc}", file=sys.stderr)
            status = 1
    return status


def _format_name(name: TableName) -> str:
    return name.name if name.db_schema == PUBLIC else str(name)
