"""`lance-flight compact`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight_client.progress import progress

from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.cli.maintenance import each_table


def run(options: argparse.Namespace) -> int:
    """Compact one table, or all."""
    rules = CompactionRules(
        target_rows=options.target_rows,
        files=options.files,
        deleted=options.deleted / 100,
        tables_per_commit=options.tables_per_commit,
    ).checked()
    return each_table(options, partial(_compact, rules))


def _compact(rules: CompactionRules, name: str, namespace: PartitionedNamespace) -> bool:
    report = compact(namespace, rules, progress(f"compacting {name}"))
    print(f"{name}: {report}")
    return True
