"""Removal of rows: by their addresses, by whole tables, or because new rows take the place of their partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_flight.catalog.commits.partition_lookup import held
from lance_flight.catalog.commits.table_updates import Removal, TableUpdate
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot
from lance_flight.catalog.storage.addresses import OFFSET_BITS, OFFSETS
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_cache import opened_tables
from lance_flight.catalog.tables import partitions
from lance_flight.model.arrow_types import concatenated
from lance_flight.model.pins import FixedPin
from lance_flight.model.spec import Evaluate


def rows_removed(root: Store, snapshot: Snapshot, gone: Mapping[PartitionTable, np.ndarray]) -> list[TableUpdate]:
    """Return one edit for each table that takes the rows at these addresses (fragment << 32 | offset) away."""
    edits = []
    for table, addresses in gone.items():
        # Deletion files are written where the version will lie that they are for.
        dataset = partitions.open_at(root.child(table.location), _base(root, snapshot, table), opened_tables.open)
        edits.append(edit_of(root, snapshot, table, Removal.of(dataset, by_fragment(addresses))))
    return edits


def all_removed(root: Store, snapshot: Snapshot, tables: Iterable[PartitionTable]) -> list[TableUpdate]:
    """Return one edit for each table that takes all its rows away; none for a table that has none."""
    opened = ((table, partitions.open_table(root, table)) for table in tables)
    edits = [edit_of(root, snapshot, table, Removal.everything(dataset)) for table, dataset in opened]
    return [edit for edit in edits if edit.removal is not None and edit.removal.removed]


def replaced(root: Store, snapshot: Snapshot, written: Sequence[TableUpdate], evaluate: Evaluate) -> list[TableUpdate]:
    """Return what makes room for newly written rows, which are marked so: everything else that falls into their partitions.

    Tables of the current spec go as a whole. Those of older ones are read, and lose the rows whose values under the
    current spec are among the new ones.
    """
    if not written:
        return []
    for edit in written:
        edit.replaces = True
    wanted = concatenated([edit.values for edit in written])
    found = held(root, snapshot, wanted, evaluate)
    return [*all_removed(root, snapshot, found.whole), *rows_removed(root, snapshot, found.partly)]


def dropped(root: Store, snapshot: Snapshot, values: pa.Table, evaluate: Evaluate) -> list[TableUpdate]:
    """Return an edit for each table with rows of some partition values, columns of a part of the current spec's fields.

    Tables that hold no others go away; from those of other specs that do, the rows are taken.
    """
    found = held(root, snapshot, values, evaluate)
    emptied = [table for table, gone in found.partly.items() if len(gone) == _count(root, table)]
    partly = {table: gone for table, gone in found.partly.items() if table not in emptied}
    drops = [table_dropped(root, snapshot, table) for table in (*found.whole, *emptied)]
    return [*drops, *rows_removed(root, snapshot, partly)]


def by_fragment(addresses: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """Yield the row offsets within each fragment."""
    ordered = np.sort(addresses)
    for number in np.unique(ordered >> OFFSET_BITS):
        start, end = np.searchsorted(ordered, [number << OFFSET_BITS, (number + 1) << OFFSET_BITS])
        yield int(number), (ordered[start:end] & OFFSETS).tolist()


def combined(edits: Iterable[TableUpdate]) -> list[TableUpdate]:
    """Return one edit for each table: what goes from it and what comes to it are one version."""
    by_id: dict[str, TableUpdate] = {}
    for edit in edits:
        first = by_id.setdefault(edit.object_id, edit)
        if first is not edit:
            first.fragments += edit.fragments
            first.files += edit.files
            first.rows += edit.rows
            first.removal = first.removal or edit.removal
            first.replaces |= edit.replaces
    return list(by_id.values())


def edit_of(root: Store, snapshot: Snapshot, table: PartitionTable, removal: Removal | None = None) -> TableUpdate:
    """Return an edit of an existing table; data files are still to be added to it."""
    place = partitions.place_of_files(table.location, _base(root, snapshot, table))
    return _edit(snapshot, table, place, removal)


def table_dropped(root: Store, snapshot: Snapshot, table: PartitionTable) -> TableUpdate:
    """Return an edit that takes a table away with all its rows."""
    # Nothing is written for it, so that no branch of the table has to be there.
    return _edit(snapshot, table, table.location, Removal(rows=_count(root, table)), drops=True)


def _edit(
    snapshot: Snapshot, table: PartitionTable, place: str, removal: Removal | None, *, drops: bool = False
) -> TableUpdate:
    spec = snapshot.spec(table.spec_id)
    return TableUpdate(
        spec=spec,
        schema=snapshot.schema.table,
        values=snapshot.row(table.object_id).select([field.column for field in spec.fields]),
        object_id=table.object_id,
        location=table.location,
        place=place,
        table=table,
        removal=removal,
        drops=drops,
    )


def _count(root: Store, table: PartitionTable) -> int:
    return int(partitions.open_table(root, table).count_rows())


def _base(root: Store, snapshot: Snapshot, table: PartitionTable) -> FixedPin:
    return partitions.base_of(root.child(table.location), table.pin, snapshot.table_branch)
