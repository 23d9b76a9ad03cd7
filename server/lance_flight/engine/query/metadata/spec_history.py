"""Finds the snapshot that introduced each partition spec, by bisection: spec numbers only grow."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.table import Table
from lance_flight.errors import Corrupt, NotFound

FIRST_VERSION = 1


def beginnings(table: Table, until: Snapshot) -> dict[int, dict[str, Any]]:
    """Map each spec of a snapshot to the first version that had it, with the time and the operation of that commit.

    Nothing for a spec that is older than the history that is left.
    """
    history = [entry for entry in table.log.history() if entry[0] <= until.version]
    found: dict[int, dict[str, Any]] = {}
    for spec in until.specs:
        place = bisect_left(history, spec.id, key=lambda entry: _newest_spec(table, entry[0]))
        version, committed_at = history[place]
        if place or version == FIRST_VERSION:
            operation = table.log.operations(version - 1, version).get(version, "metadata")
            found[spec.id] = {"snapshot": version, "committed_at": committed_at, "operation": operation}
    return found


def is_snapshot(table: Table, version: int) -> bool:
    """Return whether a version of the `__manifest` was a partitioned namespace already; a broken one counts."""
    try:
        table.snapshot(version)
    except NotFound:
        return False
    except Corrupt:
        return True
    return True


def _newest_spec(table: Table, version: int) -> int:
    try:
        return table.snapshot(version).current_spec.id
    except (NotFound, Corrupt):
        return 0
