"""`lance-flight verify`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.progress import progress

from lance_flight.catalog.maintenance.verification import verify
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.cli.maintenance import each_table
from lance_flight.engine.sql.functions import evaluate


def run(options: argparse.Namespace) -> int:
    """Verify one table, or all."""
    return each_table(options, partial(_verify, options.snapshot))


def _verify(snapshot: int | None, name: str, namespace: PartitionedNamespace) -> bool:
    report = verify(namespace, evaluate, namespace.snapshot(snapshot), progress(f"verifying {name}"))
    for table in report.unsound:
        print(f"{name}: {table}")
    print(f"{name}: {report}")
    return report.is_sound
