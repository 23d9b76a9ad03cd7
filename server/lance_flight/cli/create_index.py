"""`lance-flight create-index`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.index_arguments import add_index_arguments
from lance_flight_client.terminal import TableMeter

from lance_flight.catalog.maintenance.indexing import BuildWatch, create_index
from lance_flight.catalog.manifests.indices import IndexRules
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_root
from lance_flight.cli.maintenance import each_table


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Create an index of a column in the partition tables, as CREATE INDEX does, in several commits. Readers and writers"
        " continue. Ctrl-C, or a kill, leaves the partition tables indexed that were done, and the same command does the others."
    )
    add_root(command)
    command.add_argument("table", metavar="TABLE", help="partitioned table, [schema.]name")
    add_index_arguments(command, "kind of index, as in CREATE INDEX: btree, bitmap, inverted, ivf_pq, …")


def run(options: argparse.Namespace) -> int:
    """Create an index on one table, or continue an incomplete one."""
    rules = IndexRules(
        column=options.column,
        kind=options.kind,
        name=options.name,
        options=options.options,
        min_rows=options.min_rows,
    )
    return each_table(options, partial(_create, rules))


def _create(rules: IndexRules, name: str, namespace: Table) -> bool:
    meter = TableMeter(f"indexing {name}.{rules.column}")
    try:
        report = create_index(namespace, rules, meter, watch=BuildWatch(add_rows=meter.add_rows))
    finally:
        meter.close()
    print(f"{name}: {report}")
    return True
