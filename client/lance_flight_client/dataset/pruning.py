"""Pruning of a read without a server: the tables of one snapshot that a filter leaves, at fixed versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.pinned_tables import PinnedTable, TablePart
from lance_flight.engine.query.scan_planning import PlannedScan, plan_scan
from lance_flight.errors import NotFound
from lance_flight.model.pins import FixedPin
from lance_flight.planning.row_filters import RowFilter

from lance_flight_client.dataset.portions import TablePiece


@dataclass(frozen=True, slots=True)
class PrunedTables:
    """Result of pruning a read: the filters of its tables, the condition that they do not cover, and the tables that are left.

    These stand in the order of the tables of `planned`.
    """

    filters: Sequence[RowFilter]
    condition: str | None
    pieces: Sequence[TablePiece]
    planned: PlannedScan

    @property
    def is_whole(self) -> bool:
        """Return whether every row of the tables that are left fulfils the filter."""
        return self.condition is None and all(filter.expression is None for filter in self.filters)


def prune_tables(
    table: Table, snapshot: Snapshot, filter: pc.Expression | str | None, resolved: Mapping[str, FixedPin]
) -> PrunedTables:
    """Plan a read of a snapshot; `resolved` has the versions of those partition tables without a fixed one, by object id."""
    planned = plan_scan(table, filter, snapshot=snapshot)
    top = table.store.top or table.store.uri
    filters: dict[int, RowFilter] = {id(each.filter): each.filter for each in planned.tables}
    numbers = {key: number for number, key in enumerate(filters)}
    pieces = [
        TablePiece(
            filter=numbers[id(each.filter)],
            part=TablePart(
                PinnedTable(
                    Store(each.uri, table.store.storage_options, top=top),
                    each.pin if isinstance(each.pin, FixedPin) else resolved[each.object_id],
                    context=each.context,
                )
            ),
        )
        for each in planned.tables
    ]
    return PrunedTables(tuple(filters.values()), planned.condition, pieces, planned)


def resolve_pins(table: Table, snapshot: Snapshot) -> dict[str, FixedPin]:
    """Return the versions that tables without a fixed one have now."""
    if snapshot.is_pinned:
        return {}
    floating = (each for each in snapshot.all_tables() if not isinstance(each.pin, FixedPin))
    return {each.object_id: partitions.resolve(table.store.child(each.location), each.pin) for each in floating}


def check_columns(names: Sequence[str] | None, source: pa.Schema) -> None:
    """Raise `NotFound` for a column that the table does not have."""
    for name in names or ():
        if name not in source.names:
            raise NotFound.named("column", name, source.names)
