"""`t$partitions`: the partition tables with their values, pins and sizes."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from lance_flight.catalog.manifests.snapshot import PIN_COLUMNS, PartitionTable, SpecTables
from lance_flight.catalog.storage.opening import map_tables
from lance_flight.catalog.tables import partitions
from lance_flight.engine.query.metadata.table import MetadataTable
from lance_flight.engine.query.tables import TableView
from lance_flight.errors import Corrupt, NotFound
from lance_flight.model.spec import PartitionField

_SIZES = (
    ("rows", pa.int64()),
    ("bytes", pa.int64()),
    ("files", pa.int64()),
    ("last_change", pa.timestamp("us", "UTC")),
)
_Sizes = tuple[int | None, int | None, int | None, datetime | None]
_FIXED_COLUMNS = frozenset({"spec_id", "object_id", "location", *PIN_COLUMNS, *(name for name, _ in _SIZES)})


def partitions_table(view: TableView) -> MetadataTable:
    """Return `t$partitions`: one row per partition table, with its spec version, values, pin, size and the time of its version."""
    specs = view.snapshot.specs
    values = {_column_name(field): field for spec in specs for field in spec.fields}
    schema = pa.schema(
        [
            pa.field("spec_id", pa.int32(), nullable=False),
            *(pa.field(name, field.result_type) for name, field in values.items()),
            pa.field("object_id", pa.utf8(), nullable=False),
            pa.field("location", pa.utf8()),
            pa.field("read_version", pa.uint64()),
            pa.field("read_branch", pa.utf8()),
            pa.field("read_tag", pa.utf8()),
            *(pa.field(name, kind) for name, kind in _SIZES),
        ]
    )

    def build(names: list[str]) -> pa.Table:
        parts = [_partition_rows(tables, schema) for tables in view.snapshot.tables]
        table = pa.concat_tables(parts)
        if {name for name, _ in _SIZES} & set(names):
            tables = view.snapshot.all_tables()
            sizes = _sizes(view, tables)
            for place, (name, kind) in enumerate(_SIZES):
                at = schema.get_field_index(name)
                table = table.set_column(at, schema.field(at), pa.array([size[place] for size in sizes], kind))
        return table

    return MetadataTable(schema, build)


def row_count(view: TableView, tables: SpecTables) -> int | None:
    """Return the number of rows in all tables of a spec; None if one of them cannot be read."""
    counted = [rows for rows, *_ in _sizes(view, tables.tables()) if rows is not None]
    return sum(counted) if len(counted) == len(tables) else None


def _column_name(field: PartitionField) -> str:
    """Return the column of a partition field in `t$partitions`: its id, or its column's name if the id is a fixed column there."""
    return field.column if field.field_id in _FIXED_COLUMNS else field.field_id


def _partition_rows(tables: SpecTables, schema: pa.Schema) -> pa.Table:
    known = {_column_name(field): tables.values[field.column] for field in tables.spec.fields}
    columns = []
    for field in schema:
        if field.name == "spec_id":
            columns.append(pa.array([tables.spec.id] * len(tables), field.type))
        elif field.name in known:
            columns.append(known[field.name])
        elif field.name in ("object_id", "location", *PIN_COLUMNS) and field.name in tables.rows.column_names:
            columns.append(tables.rows[field.name])
        else:
            columns.append(pa.nulls(len(tables), field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _sizes(view: TableView, tables: list[PartitionTable]) -> list[_Sizes]:
    """Return the columns of `_SIZES` for each table, from the metadata of its version; NULL for one that cannot be read."""

    def size(table: PartitionTable) -> _Sizes:
        try:
            dataset = partitions.open_table(view.store, table)
        except (NotFound, Corrupt):
            return None, None, None, None
        rows, size_in_bytes, _ = partitions.dataset_summary(dataset)
        version = dataset.get_version()
        files = int(version["metadata"]["total_data_files"])
        return rows, size_in_bytes, files, version["timestamp"].astimezone(UTC)

    return map_tables(size, tables, "sizes")
