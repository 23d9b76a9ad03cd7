"""`plan_scan`: which partition tables a filter leaves, for whoever reads them by other means than SQL.

Bulk pipelines and `lance-flight inspect --where` plan with it; the server's own scans use the same pruning.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from lance_flight.catalog.directory import PUBLIC, Root
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.snapshot import PartitionTable, Snapshot
from lance_flight.engine.functions import evaluate
from lance_flight.engine.session import Session
from lance_flight.engine.tables import partitions_of, report
from lance_flight.model.pins import Pin
from lance_flight.planning.arrow_expression import predicate_from_arrow
from lance_flight.planning.predicates import ALWAYS, Predicate
from lance_flight.planning.pruning import Pruning, prune


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTable:
    """One table to read: where it lies, at which pin, and what of the filter is still to be applied (None: nothing)."""

    spec_id: int
    object_id: str
    uri: str
    pin: Pin
    residual: Predicate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScan:
    """The tables to read for a filter; `str()` says how they were found and what could not be used."""

    name: str
    snapshot: Snapshot
    tables: tuple[PlannedTable, ...]
    pruning: Pruning

    def __str__(self) -> str:
        return report(self.name, self.pruning, self.snapshot.version)


def plan_scan(
    namespace: PartitionedNamespace,
    filter: pc.Expression | str | None = None,
    *,
    snapshot: Snapshot | None = None,
) -> PlannedScan:
    """Plan a read of `namespace`; `filter` is a pyarrow expression or SQL over its columns.

    >>> plan_scan(namespace, pc.field("origin") == "JFK").tables          # doctest: +SKIP
    """
    if isinstance(filter, str):
        return _planned(namespace, *_pruned_by_sql(namespace, filter, snapshot))
    at = snapshot or namespace.snapshot()
    predicate = ALWAYS if filter is None else predicate_from_arrow(filter)
    return _planned(namespace, at, prune(partitions_of(at), at.schema, predicate, evaluate))


def _pruned_by_sql(namespace: PartitionedNamespace, condition: str, at: Snapshot | None) -> tuple[Snapshot, Pruning]:
    """What a query with this WHERE reads: planned just as the server plans it."""
    session = Session(Root(namespace.store), ways=1)
    name = namespace.store.name + (f"@{at.version}" if at is not None else "")
    quoted = name.replace('"', '""')
    frame = session.frame(f'SELECT * FROM "{quoted}" WHERE {condition}')  # noqa: S608 - planned, never run
    session.prepare(frame)
    session.plan(frame)
    view = session.views[f"{PUBLIC}.{name}"]
    return view.snapshot, view.planned[-1]


def _planned(namespace: PartitionedNamespace, snapshot: Snapshot, pruning: Pruning) -> PlannedScan:
    tables = tuple(
        _table(namespace, tables.table(int(row)), version.residual)
        for tables, version in zip(snapshot.tables, pruning.versions, strict=True)
        for row in version.kept
    )
    return PlannedScan(name=namespace.store.name, snapshot=snapshot, tables=tables, pruning=pruning)


def _table(namespace: PartitionedNamespace, table: PartitionTable, residual: Predicate | None) -> PlannedTable:
    return PlannedTable(
        spec_id=table.spec_id,
        object_id=table.object_id,
        uri=namespace.store.child(table.location).uri,
        pin=table.pin,
        residual=residual,
    )
