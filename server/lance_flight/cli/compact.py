"""`lance-flight compact`."""

from __future__ import annotations

import argparse
from functools import partial

from lance_flight.catalog.maintenance.compaction import CompactionRules, compact
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.cli.maintenance import each_table, progress


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
    done = [table for table in report.tables if not table.is_lost]
    lost = len(report.tables) - len(done)
    before, after = sum(table.files_before for table in done), sum(table.files_after for table in done)
    print(
        f"{name}: {len(done):,} of {report.table_count:,} partition tables compacted, {before:,} files into {after:,}"
        + (f"; {lost:,} left to others who changed them meanwhile" if lost else "")
    )
    return True
