"""Lookup of the rows of some partition values: whole tables that hold nothing else, and rows of further tables.

The values are a table with the columns of one or more fields of the current spec. What a table of another spec holds is told by its own values where they
decide it, and by reading it where they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_flight.catalog.commits.writer import partition_values
from lance_flight.catalog.manifests.snapshot import PartitionTable, Snapshot, SpecTables
from lance_flight.catalog.storage.addresses import ROW_ADDRESS
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.tables.pinned_tables import source_of
from lance_flight.catalog.tables.scan import Scan
from lance_flight.model.grouping import match
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
        found = tables.tables(np.flatnonzero(hits))
        if known.num_columns == len(fields):
            whole += found
            continue
        for table in found:
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
    found = []
    for batch in scan.read([lambda: [source_of(root, snapshot, table)]]):
        values = partition_values(pa.Table.from_batches([batch]), fields, paths, evaluate)
        found.append(batch.column(ROW_ADDRESS).to_numpy()[match(values, wanted) >= 0])
    return np.concatenate(found) if found else np.empty(0, np.uint64)
