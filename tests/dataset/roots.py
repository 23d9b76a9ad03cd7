"""Statements on a root, and what becomes of versions that nothing needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from lance_flight.catalog.maintenance.compaction import compact
from lance_flight.catalog.maintenance.vacuum import VacuumRules, vacuum
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace
from lance_flight.engine.engine import Engine

DOCUMENTED = (
    "CREATE TABLE readings (device BIGINT, site VARCHAR, celsius DOUBLE) PARTITIONED BY (site)",
    "INSERT INTO readings VALUES (1, 'Oslo', 12.5), (2, 'Oslo', -3), (3, 'Lima', 22)",
)
"""The table of the page."""


def overtake(root: Path) -> None:
    """All that can happen to versions of `readings` that nothing needs: the table is compacted, they age, and are vacuumed."""
    namespace = PartitionedNamespace.open(Store(str(root / "readings")))
    compact(namespace)
    for path in (root / "readings" / "__manifest").rglob("*"):
        os.utime(path, (0, 0))
    vacuum(namespace, VacuumRules(retain_hours=0, transaction_hours=0, force=True))


def run(root: Path) -> Callable[..., None]:
    """Return a function that runs statements on a root."""
    root.mkdir(exist_ok=True)
    engine = Engine(Root(Store(str(root))), target_partitions=1)

    def run_all(*statements: str) -> None:
        for statement in statements:
            engine.update(statement)

    return run_all
