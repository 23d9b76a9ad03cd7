"""A root as text: its tables, and findings about it, printed as they are made.

What shows one table in detail is imported for that alone.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

import pyarrow as pa
from lance_flight.catalog.maintenance.diagnosis import Level, RootFinding, diagnose
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.formats import check_restored
from lance_flight.catalog.storage.store import Store
from lance_flight.config import storage_from_environment
from lance_flight.errors import InvalidInput

from lance_flight_client.output import align_table
from lance_flight_client.terminal import draw


def inspect(options: argparse.Namespace) -> int:
    """Print the tables and views of a root, or one of them in detail."""
    root = Root(existing_root(options.root))
    if options.table is not None:
        importlib.import_module("lance_flight_client.cli.inspecting_table").show(
            root, parse_name(options.table), options
        )
        return 0
    kinds = root.kinds()
    names = sorted({*kinds, *(view.name for view in root.views())})
    columns = {
        "table_schema": [name.db_schema for name in names],
        "table_name": [name.name for name in names],
        "partitioned": [kinds.get(name, False) for name in names],
    }
    print(align_table(pa.table(columns), options.max_rows or None))
    return 0


def existing_root(root: str) -> Store:
    """Open the store of a root that must exist; options of an object store come from the environment, as for `serve`."""
    if "://" not in root and not Path(root).is_dir():
        raise InvalidInput(f"root {root!r} is not a directory")
    if "://" not in root:
        store = Store(str(Path(root).resolve()))
    else:
        store = Store(root.rstrip("/"), storage_from_environment(os.environ))
        store.check()
    check_restored(store)
    return store


def parse_name(table: str) -> TableName:
    """Parse `[schema.]name` as a table name; the schema defaults to `public`."""
    db_schema, _, name = table.rpartition(".")
    return TableName(db_schema or PUBLIC, name)


_MARKS = {Level.OK: "✓", Level.WARNING: "!", Level.ERROR: "✗"}
_COLOURS = {Level.OK: "\033[32m", Level.WARNING: "\033[33m", Level.ERROR: "\033[31m"}
_PLAIN = "\033[0m"


def diagnose_root(options: argparse.Namespace) -> int:
    """Print the findings about a root as they are made."""
    levels = set()
    for finding in diagnose(Root(existing_root(options.root))):
        levels.add(finding.level)
        show(finding)
    return 1 if Level.ERROR in levels else 0


def show(finding: RootFinding) -> None:
    """Print a finding with a mark for its level, and what to do."""
    mark = _MARKS[finding.level]
    if sys.stdout.isatty():
        draw(f"{_COLOURS[finding.level]}{mark}{_PLAIN}", sys.stdout)
        mark = ""
    advice = f"\n    {finding.advice}" if finding.advice else ""
    print(f"{mark} {finding.subject}: {finding.text}{advice}", flush=True)
