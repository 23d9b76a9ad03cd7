"""`lance-flight reindex`."""

from __future__ import annotations

import argparse

from lance_flight_client.terminal import TableMeter

from lance_flight.catalog.maintenance.indexing import BuildWatch, refresh_indices
from lance_flight.catalog.table import Table
from lance_flight.cli.arguments import add_tables
from lance_flight.cli.maintenance import each_table


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    command.description = (
        "Add the rows to each index that were written since it was built, as REINDEX does. `compact` includes it."
    )
    add_tables(command)


def run(options: argparse.Namespace) -> int:
    """Extend the indices of one table, or of all, to their newest rows."""
    return each_table(options, _refresh)


def _refresh(name: str, namespace: Table) -> bool:
    meter = TableMeter(f"indexing {name}")
    try:
        reports = refresh_indices(namespace, meter, watch=BuildWatch(add_rows=meter.add_rows))
    finally:
        meter.close()
    for report in reports:
        print(f"{name}: {report}")
    return True
