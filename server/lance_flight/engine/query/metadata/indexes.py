"""`t$indexes`: the indices of a table, how many of its rows each covers, what is stale, and the statement that would help."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from lance_flight.catalog.maintenance.compaction import CompactionRules
from lance_flight.catalog.maintenance.indexing import missing_segment
from lance_flight.catalog.manifests.indices import IndexDefinition, indices_of
from lance_flight.catalog.manifests.snapshot import PartitionTable
from lance_flight.catalog.storage.opening import map_tables
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.index_coverage import Coverage
from lance_flight.catalog.tables.schema_adapter import identified, path_within
from lance_flight.engine.query.metadata.table import MetadataTable
from lance_flight.engine.query.tables import TableView
from lance_flight.engine.sql.references import shown_name

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
        pa.field("stale_tables", pa.int64()),
        pa.field("stale_rows", pa.int64()),
        pa.field("deleted_rows", pa.int64()),
        pa.field("advice", pa.utf8()),
    ]
)
_STALE = frozenset({"stale_tables", "stale_rows", "advice"})
_COUNTED = frozenset({"tables", "indexed_tables", "rows", "indexed_rows", "segments", "deleted_rows", *_STALE})


def indexes_table(view: TableView) -> MetadataTable:
    """Return `t$indexes`: one row per index; counts are computed only if selected, since every table is opened for them.

    There are none where the layout is hidden: they tell how many partitions there are, and how many rows lie in large ones.
    """
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
        if _COUNTED & set(names) and not view.hides_layout:
            row |= _counts(view, definition, is_stale_asked=bool(_STALE & set(names)))
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableCounts:
    """Rows of one table, of them those that its index covers, its segments, and rows that these have and that are deleted.

    `stale` are the rows that REINDEX would cover, and `is_compacted` says that COMPACT would drop the deleted ones.
    """

    rows: int
    indexed: int = 0
    segments: int = 0
    stale: int = 0
    deleted: int = 0
    is_compacted: bool = False


def _counts(view: TableView, definition: IndexDefinition, *, is_stale_asked: bool) -> dict[str, Any]:
    tables = view.snapshot.all_tables()
    found = map_tables(partial(_of_table, view, definition, is_stale_asked), tables, "indexes")
    return {
        "tables": len(found),
        "indexed_tables": sum(each.indexed > 0 for each in found),
        "rows": sum(each.rows for each in found),
        "indexed_rows": sum(each.indexed for each in found),
        "segments": sum(each.segments for each in found),
        "stale_tables": sum(each.stale > 0 for each in found),
        "stale_rows": sum(each.stale for each in found),
        "deleted_rows": sum(each.deleted for each in found),
        "advice": _advice(view, definition, found),
    }


def _of_table(
    view: TableView,
    definition: IndexDefinition,
    is_stale_asked: bool,  # noqa: FBT001 - bound, and called with a table
    table: PartitionTable,
) -> _TableCounts:
    dataset = partitions.open_table(view.store, table)
    fragments = dataset.get_fragments()
    rows = {fragment.fragment_id: fragment.count_rows() for fragment in fragments}
    total = sum(rows.values())
    found = path_within(identified(dataset, view.snapshot.schema), view.snapshot.schema, definition.field_id)
    if found is None:
        return _TableCounts(rows=total)
    coverage = Coverage.of(dataset, definition.name, ".".join(found[0]), definition.of_kind)
    missing = sum(rows[number] for number in coverage.missing)
    is_stale = (
        is_stale_asked and missing and missing_segment(view.store, view.snapshot, definition, None, table) is not None
    )
    deleted = sum(each.num_deletions for each in fragments if each.fragment_id in coverage.covered)
    return _TableCounts(
        rows=total,
        indexed=sum(rows[number] for number in coverage.covered),
        segments=len(coverage.segments),
        stale=missing if is_stale else 0,
        deleted=deleted,
        is_compacted=CompactionRules().counts_deleted(deleted, total + deleted),
    )


def _advice(view: TableView, definition: IndexDefinition, found: Sequence[_TableCounts]) -> str | None:
    """Return the statement that brings an index up to date, with the reason as a comment; None if none would."""
    table = shown_name(view.name, view.key.partition(".")[0])
    deleted = [each.deleted for each in found if each.is_compacted]
    stale = [each.stale for each in found if each.stale]
    if deleted:
        return f"ALTER TABLE {table} COMPACT -- deleted, and in the index: {_count(deleted)}"
    if stale:
        return f"REINDEX TABLE {table} INDEX {shown_name(definition.name)} -- not in the index: {_count(stale)}"
    return None


def _count(rows: Sequence[int]) -> str:
    """Return how many rows of how many tables there are, given those of each table."""
    total, tables = sum(rows), len(rows)
    return f"{total:,} row{'s' if total != 1 else ''} of {tables:,} table{'s' if tables != 1 else ''}"
