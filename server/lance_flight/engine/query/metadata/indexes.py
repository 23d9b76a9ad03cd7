"""`t$indexes`: the indices of a table, and how many of its rows each covers."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pyarrow as pa

from lance_flight.catalog.manifests.indices import IndexDefinition, indices_of
from lance_flight.catalog.manifests.snapshot import PartitionTable
from lance_flight.catalog.storage.opening import map_tables
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.index_coverage import Coverage
from lance_flight.catalog.tables.schema_adapter import identified, path_within
from lance_flight.engine.query.metadata.table import MetadataTable
from lance_flight.engine.query.tables import TableView

_SCHEMA = pa.schema(
    [
        pa.field("name", pa.utf8(), nullable=False),
        pa.field("column_name", pa.utf8(), nullable=False),
        pa.field("kind", pa.utf8(), nullable=False),
        pa.field("options", pa.utf8(), nullable=False),
        pa.field("min_rows", pa.int64(), nullable=False),
        pa.field("tables", pa.int64()),
        pa.field("indexed_tables", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("indexed_rows", pa.int64()),
        pa.field("segments", pa.int64()),
    ]
)
_COUNTED = frozenset({"tables", "indexed_tables", "rows", "indexed_rows", "segments"})


def indexes_table(view: TableView) -> MetadataTable:
    """Return `t$indexes`: one row per index; counts are computed only if selected, since every table is opened for them."""
    return MetadataTable(_SCHEMA, partial(_indexes, view))


def _indexes(view: TableView, names: list[str]) -> pa.Table:
    rows = []
    for definition in indices_of(view.snapshot):
        path = view.snapshot.schema.source_paths[definition.field_id]
        if path[0] not in view.schema.names:
            continue
        row: dict[str, Any] = {
            "name": definition.name,
            "column_name": ".".join(path),
            "kind": definition.kind,
            "options": json.dumps(dict(definition.options), sort_keys=True),
            "min_rows": definition.min_rows,
        }
        if _COUNTED & set(names):
            row |= _counts(view, definition)
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _counts(view: TableView, definition: IndexDefinition) -> dict[str, int]:
    tables = view.snapshot.all_tables()
    found = map_tables(partial(_of_table, view, definition), tables, "indexes")
    return {
        "tables": len(found),
        "indexed_tables": sum(indexed > 0 for _, indexed, _ in found),
        "rows": sum(rows for rows, _, _ in found),
        "indexed_rows": sum(indexed for _, indexed, _ in found),
        "segments": sum(segments for _, _, segments in found),
    }


def _of_table(view: TableView, definition: IndexDefinition, table: PartitionTable) -> tuple[int, int, int]:
    """Return the rows of a table, those that its index covers, and the segments of the index."""
    dataset = partitions.open_table(view.store, table)
    rows = {fragment.fragment_id: fragment.count_rows() for fragment in dataset.get_fragments()}
    found = path_within(identified(dataset, view.snapshot.schema), view.snapshot.schema, definition.field_id)
    if found is None:
        return sum(rows.values()), 0, 0
    coverage = Coverage.of(dataset, definition.name, ".".join(found[0]), definition.of_kind)
    return sum(rows.values()), sum(rows[number] for number in coverage.covered), len(coverage.segments)
