"""Counts the rows of partition tables at their pins, from their metadata, once for each version: one never changes."""

from __future__ import annotations

from collections.abc import Sequence

from lance_flight.catalog.storage.opening import map_tables
from lance_flight.catalog.tables.pinned_tables import PinnedTable
from lance_flight.lru_cache import VersionCache
from lance_flight.model.pins import FixedPin

KEPT = 1_000_000
_counted = VersionCache[str, FixedPin, int](KEPT)


def row_counts(tables: Sequence[PinnedTable]) -> list[int]:
    """Count the live rows of each table."""
    known = [_counted.get(table.store.uri, table.pin) for table in tables]
    missing = {(table.store.uri, table.pin): table for table, count in zip(tables, known, strict=True) if count is None}
    found = dict(zip(missing, map_tables(_count, missing.values(), "row-counts"), strict=True)) if missing else {}
    for (uri, pin), count in found.items():
        _counted.put(uri, pin, count)
    return [
        found[table.store.uri, table.pin] if count is None else count[0]
        for table, count in zip(tables, known, strict=True)
    ]


def _count(table: PinnedTable) -> int:
    return int(table.open().count_rows())
