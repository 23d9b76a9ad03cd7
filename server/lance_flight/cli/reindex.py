"""`lance-flight reindex`."""

from __future__ import annotations

import argparse

from lance_flight_client.progress import progress

from lance_flight.catalog.maintenance.indexing import refresh_indices
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.cli.maintenance import each_table


def run(options: argparse.Namespace) -> int:
    """Bring the indices of one table up to date, or those of all."""
    return each_table(options, _refresh)


def _refresh(name: str, namespace: PartitionedNamespace) -> bool:
    for report in refresh_indices(namespace, progress(f"indexing {name}")):
        print(f"{name}: {report}")
    return True
