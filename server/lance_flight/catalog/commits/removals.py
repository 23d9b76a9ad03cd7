"""Removals of rows and partitions by a commit, and the lookup of the partitions that rows lie in.

The values are a table with the columns of one or more fields of the current spec. What a table of another spec holds is told by its own values where they
decide it, and by reading it where they do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_flight.catalog.commits.transaction import Removal, TableUpdate
from lance_flight.catalog.commits.writer import partition_values
from lance_flight.catalog.manifests.snapshot import FixedPin, PartitionTable, Snapshot, SpecTables
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.storage.table_versions import kept_tables
from lance_flight.catalog.storage.whole_files import OFFSET_BITS, OFFSETS, ROW_ADDRESS
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import source_of
from lance_flight.model.arrow_types import concatenate_tables
from lance_flight.model.hashing import match
from lance_flight.model.spec import Evaluate, PartitionField


@dataclass(frozen=True, slots=True)
class Held:
    """Tables whose rows all have the values, and addresses (fragment << 32 | offset) of such rows in further tables."""

    whole: tuple[PartitionTable, ...]
    partly: dict[PartitionTable, np.ndarray]


def held(root: Store, snapshot: Snapshot, wanted: pa.Table, evaluate: Evaluate) -> Held:
    """Return where the rows lie that have one of the rows of `wanted` as their values, over all spec versions."""
    fields = _fields(snapshot, wanted)
    whole: list[PartitionTable] = []
    partly: dict[PartitionTable, np.ndarray] = {}
    for tables in snapshot.tables:
        known = _known_values(tables, snapshot, fields, evaluate)
        hits = match(known, wanted.select(known.column_names)) >= 0 if known.num_columns else np.ones(len(tables), bool)
        partition_tables = tables.tables(np.flatnonzero(hits))
        if known.num_columns == len(fields):
            whole += partition_tables
            continue
        for table in partition_tables:
            addresses = _addresses(root, snapshot, table, wanted, evaluate)
            if len(addresses):
                partly[table] = addresses
    return Held(tuple(whole), partly)


def _known_values(
    tables: SpecTables, snapshot: Snapshot, fields: Sequence[PartitionField], evaluate: Evaluate
) -> pa.Table:
    """Return the values of those of `fields` that the tables' own values decide, one row for each table.

    A field of their own spec does, and so do the sources themselves, for as long as they are columns; not a doubtful one.
    """
    sure = [field for field in tables.spec.fields if field.field_id not in snapshot.doubtful_fields]
    own = {field.field_id for field in sure}
    sources = {
        field.source_ids[0]: field.column
        for field in sure
        if field.rule.keeps_value and snapshot.schema.column(field.source_ids[0]) is not None
    }
    columns = {}
    for field in fields if len(tables) else ():
        if field.field_id in own:
            columns[field.column] = tables.values[field.column]
        elif all(number in sources for number in field.source_ids):
            values = [tables.values[sources[number]].combine_chunks() for number in field.source_ids]
            columns[field.column] = field.apply(values, evaluate)
    return pa.table(columns)


def _fields(snapshot: Snapshot, wanted: pa.Table) -> list[PartitionField]:
    fields = {field.column: field for field in snapshot.current_spec.fields}
    return [fields[name] for name in wanted.column_names]


def _addresses(
    root: Store, snapshot: Snapshot, table: PartitionTable, wanted: pa.Table, evaluate: Evaluate
) -> np.ndarray:
    """Return the addresses of the rows of a table that have the values."""
    fields, schema = _fields(snapshot, wanted), snapshot.schema
    paths = schema.source_paths
    sources = dict.fromkeys(paths[n][0] for f in fields for n in f.source_ids if n in paths)
    columns = [*(schema.plain.field(name) for name in sources), pa.field(ROW_ADDRESS, pa.uint64())]
    scan = Scan(source=schema.plain, schema=pa.schema(columns), ids=schema.ids)
    addresses = []
    for batch in scan.read([lambda: [source_of(root, snapshot, table)]]):
        values = partition_values(pa.Table.from_batches([batch]), fields, paths, evaluate)
        addresses.append(batch.column(ROW_ADDRESS).to_numpy()[match(values, wanted) >= 0])
    return np.concatenate(addresses) if addresses else np.empty(0, np.uint64)


def rows_removed(root: Store, snapshot: Snapshot, gone: Mapping[PartitionTable, np.ndarray]) -> list[TableUpdate]:
    """Return one edit for each table that takes the rows at these addresses (fragment << 32 | offset) away."""
    edits = []
    for table, addresses in gone.items():
        # Deletion files are written where the version will lie that they are for.
        dataset = partitions.open_at(root.child(table.location), _base(root, snapshot, table), kept_tables.open)
        edits.append(edit_of(root, snapshot, table, Removal.of(dataset, by_fragment(addresses))))
    return edits


def all_removed(root: Store, snapshot: Snapshot, tables: Iterable[PartitionTable]) -> list[TableUpdate]:
    """Return one edit for each table that takes all its rows away; none for a table that has none."""
    opened = ((table, partitions.open_table(root, table)) for table in tables)
    edits = [edit_of(root, snapshot, table, Removal.everything(dataset)) for table, dataset in opened]
    return [edit for edit in edits if edit.removal is not None and edit.removal.removed]


def replace_rows(
    root: Store, snapshot: Snapshot, written: Sequence[TableUpdate], evaluate: Evaluate
) -> list[TableUpdate]:
    """Return what makes room for newly written rows, which are marked so: everything else that falls into their partitions.

    Tables of the current spec go as a whole. Those of older ones are read, and lose the rows whose values under the
    current spec are among the new ones.
    """
    if not written:
        return []
    for edit in written:
        edit.replaces = True
    wanted = concatenate_tables([edit.values for edit in written])
    held_rows = held(root, snapshot, wanted, evaluate)
    return [*all_removed(root, snapshot, held_rows.whole), *rows_removed(root, snapshot, held_rows.partly)]


def drop_rows(root: Store, snapshot: Snapshot, values: pa.Table, evaluate: Evaluate) -> list[TableUpdate]:
    """Return an edit for each table with rows of some partition values, columns of a part of the current spec's fields.

    Tables that hold no others go away; from those of other specs that do, the rows are taken.
    """
    held_rows = held(root, snapshot, values, evaluate)
    emptied = [table for table, gone in held_rows.partly.items() if len(gone) == _count(root, table)]
    partly = {table: gone for table, gone in held_rows.partly.items() if table not in emptied}
    drops = [table_dropped(root, snapshot, table) for table in (*held_rows.whole, *emptied)]
    return [*drops, *rows_removed(root, snapshot, partly)]


def by_fragment(addresses: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """Yield the row offsets within each fragment."""
    ordered = np.sort(addresses)
    for number in np.unique(ordered >> OFFSET_BITS):
        start, end = np.searchsorted(ordered, [number << OFFSET_BITS, (number + 1) << OFFSET_BITS])
        yield int(number), (ordered[start:end] & OFFSETS).tolist()


def combine_edits(edits: Iterable[TableUpdate]) -> list[TableUpdate]:
    """Return one edit for each table, none of those given: what goes from it and what comes to it are one version."""
    by_id: dict[str, TableUpdate] = {}
    for edit in edits:
        first = by_id.get(edit.object_id)
        if first is None:
            by_id[edit.object_id] = replace(edit, fragments=[*edit.fragments], files=[*edit.files])
        else:
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
