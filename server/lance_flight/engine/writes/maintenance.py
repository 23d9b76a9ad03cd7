"""The partition tables that a maintenance statement is about."""

from __future__ import annotations

from lance_flight.catalog.maintenance.rewriting import Choose
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.engine.query.scan_planning import plan_scan


def tables_where(namespace: PartitionedNamespace, condition: str) -> Choose:
    """Return a function that prunes a snapshot's tables by a condition; an invalid condition is refused at once."""
    plan_scan(namespace, condition)

    def choose(snapshot: Snapshot) -> list[PartitionTable]:
        planned = plan_scan(namespace, condition, snapshot=snapshot)
        return list(snapshot.tables_named([table.object_id for table in planned.tables]).values())

    return choose
