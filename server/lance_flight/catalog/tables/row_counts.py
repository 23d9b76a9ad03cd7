"""Counts the rows of partition tables at their pins, from their metadata, once for each version: one never changes."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from lance_flight.catalog.storage.opening import map_tables
from lance_flight.catalog.tables.pinned_tables import PinnedTable
from lance_flight.model.pins import FixedPin

KEPT = 1_000_000
_known: dict[tuple[str, FixedPin], int] = {}
_lock = Lock()


def row_counts(tables: Sequence[PinnedTable]) -> list[int]:
    """Count the live rows of each table."""
    keys = [(table.store.uri, table.pin) for table in tables]
    with _lock:
        known = {key: _known[key] for key in keys if key in _known}
    missing = {key: table for key, table in zip(keys, tables, strict=True) if key not in known}
    if missing:
        counted = map_tables(lambda table: int(table.open().count_rows()), missing.values(), "row-counts")
        found = dict(zip(missing, counted, strict=True))
        known |= found
        with _lock:
            if len(_known) + len(found) > KEPT:
                _known.clear()
            _known.update(found)
    return [known[key] for key in keys]
