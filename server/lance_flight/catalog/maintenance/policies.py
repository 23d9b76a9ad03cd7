"""Maintenance policies: what a table's properties ask of the maintenance that a server does by itself.

What was chosen stands in a note of the guard row, so that it changes in one commit and follows the table wherever it goes; the rest are defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from lance_flight.catalog.maintenance.vacuum import FLOOR_HOURS, HOUR, TRANSACTION_HOURS
from lance_flight.catalog.manifests.evolution import Evolution
from lance_flight.catalog.manifests.guard_notes import notes_of
from lance_flight.catalog.manifests.new_partitions import guard_row
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.table import Table

POLICY = "lance_flight:maintenance"
"""The key of the note: each option that was chosen, by its name; times in seconds."""

PolicyValue = bool | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """Thresholds of one table: each option that ALTER TABLE … SET takes, with its default.

    A partition table is compacted when it has more than `compact_files` files more than its rows need, or more than the part
    `compact_deleted` of its rows deleted; indices are brought up to date when more than the part `reindex_missing` of the rows is in no
    segment of one; snapshots go `retain` seconds after another one has replaced them, and with them what was written `transactions` seconds
    ago and never committed. Without `maintenance` nothing is done.
    """

    maintenance: bool = True
    compact_files: int = 8
    compact_deleted: float = 0.1
    reindex_missing: float = 0.1
    retain: float = FLOOR_HOURS * HOUR
    transactions: float = TRANSACTION_HOURS * HOUR


DEFAULTS = MaintenancePolicy()


def chosen_options(snapshot: Snapshot) -> Mapping[str, PolicyValue]:
    """Return the options that were chosen for a table, in the order of the policy; those of newer releases are left out."""
    note = notes_of(guard_row(snapshot)).get(POLICY)
    found = note if isinstance(note, dict) else {}
    known = (each.name for each in fields(MaintenancePolicy) if isinstance(found.get(each.name), bool | int | float))
    return MappingProxyType({name: found[name] for name in known})


def policy_of(snapshot: Snapshot) -> MaintenancePolicy:
    """Return the policy of a table as a snapshot has it."""
    found: Mapping[str, Any] = chosen_options(snapshot)
    return replace(DEFAULTS, **found)


def set_policy(table: Table, changes: Mapping[str, PolicyValue | None]) -> int:
    """Set options of a table's policy in one commit (None: back to the default), and return the version that has them."""
    table.refuse_on_branch("be given a maintenance policy")

    def change(snapshot: Snapshot) -> Evolution | None:
        before = notes_of(guard_row(snapshot)).get(POLICY)
        known = before if isinstance(before, dict) else {}
        after = {name: value for name, value in {**known, **changes}.items() if value is not None}
        if after == known:
            return None
        return Evolution(operation=f"set {', '.join(changes)}", notes={POLICY: after})

    return table.evolve(change)
