"""`lance-flight migrate`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.terminal import progress

from lance_flight.catalog.maintenance.migration import compact, migrate, migrate_record, migrate_table
from lance_flight.catalog.namespace import partitioned
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_dry_run, add_tables
from lance_flight.cli.inspect import existing_root, named
from lance_flight.cli.maintenance import each_table
from lance_flight.engine.sql.functions import evaluate
from lance_flight.model.operations import OPERATIONS


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = OPERATIONS["migrate"].means
    command.epilog = (
        "Examples: lance-flight migrate lake --dry-run; lance-flight migrate lake; lance-flight doctor lake"
    )
    add_tables(command)
    command.add_argument(
        "--register",
        action="store_true",
        help="instead, register the plain tables of the root (<name>.lance) in its __manifest, which is created if missing",
    )
    add_dry_run(command)


def run(options: argparse.Namespace) -> int:
    """Migrate one partitioned table, or all and the record of the root, or list plain tables with `--register`."""
    if options.register:
        _register(Root(existing_root(options.root)), options.table, dry_run=options.dry_run)
        return 0
    status = each_table(options, partial(_migrate, options.dry_run), only_partitioned=True)
    if options.table is None and status == 0:
        _record(Root(existing_root(options.root)), dry_run=options.dry_run)
    return status


def _migrate(dry_run: bool, name: str, table: Table) -> bool:  # noqa: FBT001 - bound by `partial`
    namespace = partitioned(table)
    report = migrate(namespace, dry_run=dry_run)
    if not report.moved:
        print(f"{name}: everything is in the table metadata of its __manifest")
    for prop in report.moved:
        print(f"{name}: {prop.key} {'would go' if dry_run else 'went'} from {prop.place.value} into its table metadata")
        print(f"  {compact(prop.text)}")
    for change in migrate_table(namespace, evaluate, progress(f"migrating {name}"), dry_run=dry_run):
        print(f"{name}: {'would be migrated' if dry_run else 'migrated'}: {change}", flush=True)
    return True


def _record(root: Root, *, dry_run: bool) -> None:
    versions = migrate_record(root, dry_run=dry_run)
    if versions:
        said = ", ".join(f"{name} {version}" for name, version in versions.items())
        print(f"the root: new things {'would have' if dry_run else 'have'} the formats {said}")


def _register(root: Root, only: str | None, *, dry_run: bool) -> None:
    name = None if only is None else named(only)
    if name is not None:
        root.table(name)  # `NotFound` with the nearest names
    tables = [listed for listed in root.unregistered() if name is None or listed.object_id == name.name]
    if not dry_run:
        root.register(tables)
    for listed in tables:
        print(f"{listed.object_id}: {'would be' if dry_run else 'is'} listed at {listed.location!r}")
    if not tables:
        print("nothing is to be listed")
