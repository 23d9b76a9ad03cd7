"""The metadata tables of a table: `t$tags`, and of a partitioned one `t$partitions`, `t$snapshots`, `t$branches` and more."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import dropwhile
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog import partitions
from lance_flight.catalog.directory import Table
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.plain import PlainTable
from lance_flight.catalog.snapshot import PIN_COLUMNS, PartitionTable, SpecTables
from lance_flight.engine.index_table import INDEXES_SCHEMA, indexes
from lance_flight.engine.spec_history import beginnings, is_snapshot
from lance_flight.engine.tables import PartitionedView
from lance_flight.errors import Corrupt, NotFound
from lance_flight.model.pins import Latest
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionField, PartitionSpec

OPENERS = 8
_SIZES = (
    ("rows", pa.int64()),
    ("bytes", pa.int64()),
    ("files", pa.int64()),
    ("last_change", pa.timestamp("us", "UTC")),
)
_Sizes = tuple[int | None, int | None, int | None, datetime | None]
_SPECS_SCHEMA = pa.schema(
    [
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("field_id", pa.utf8(), nullable=False),
        pa.field("source_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("source_columns", pa.list_(pa.utf8()), nullable=False),
        pa.field("transform", pa.utf8()),
        pa.field("expression", pa.utf8()),
        pa.field("result_type", pa.utf8(), nullable=False),
        pa.field("is_current", pa.bool_(), nullable=False),
        pa.field("snapshot", pa.int64()),
        pa.field("committed_at", pa.timestamp("us", "UTC")),
        pa.field("operation", pa.utf8()),
        pa.field("tables", pa.int64()),
        pa.field("rows", pa.int64()),
    ]
)
_FIXED_COLUMNS = frozenset({"spec_id", "object_id", "location", *PIN_COLUMNS, *(name for name, _ in _SIZES)})


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """A table that is built when it is read; only the columns that are asked for have to be right."""

    schema: pa.Schema
    build: Callable[[list[str]], pa.Table]


def partitions_table(view: PartitionedView) -> MetadataTable:
    """One row per partition table: its spec version, its values, its pin, its size, when its version was written."""
    specs = view.snapshot.specs
    values = {_shown(field): field for spec in specs for field in spec.fields}
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
            tables = [table for tables in view.snapshot.tables for table in tables.tables()]
            sizes = _sizes(view, tables)
            for place, (name, kind) in enumerate(_SIZES):
                at = schema.get_field_index(name)
                table = table.set_column(at, schema.field(at), pa.array([size[place] for size in sizes], kind))
        return table

    return MetadataTable(schema, build)


def files_table(view: PartitionedView) -> MetadataTable:
    """One row per data file of each partition table."""
    schema = pa.schema(
        [
            pa.field("object_id", pa.utf8(), nullable=False),
            pa.field("fragment_id", pa.int64(), nullable=False),
            pa.field("path", pa.utf8(), nullable=False),
            pa.field("rows", pa.int64()),
            pa.field("deleted_rows", pa.int64()),
            pa.field("bytes", pa.int64()),
        ]
    )

    def build(_: list[str]) -> pa.Table:
        rows = []
        for tables in view.snapshot.tables:
            for table in tables.tables():
                dataset = partitions.open_at(view.store.child(table.location), table.pin)
                for fragment in dataset.get_fragments():
                    rows += [
                        {
                            "object_id": table.object_id,
                            "fragment_id": fragment.fragment_id,
                            "path": f"{table.location}/data/{file.path}",
                            "rows": fragment.physical_rows,
                            "deleted_rows": fragment.num_deletions,
                            "bytes": file.file_size_bytes,
                        }
                        for file in fragment.metadata.files
                    ]
        return pa.Table.from_pylist(rows, schema=schema)

    return MetadataTable(schema, build)


def snapshots_table(namespace: PartitionedNamespace) -> MetadataTable:
    """One row per snapshot: when it was committed, by what, and which tables it touched."""
    schema = pa.schema(
        [
            pa.field("version", pa.int64(), nullable=False),
            pa.field("committed_at", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("operation", pa.utf8()),
            pa.field("tables_added", pa.int64()),
            pa.field("tables_changed", pa.int64()),
            pa.field("tables_removed", pa.int64()),
        ]
    )

    def build(names: list[str]) -> pa.Table:
        operations = namespace.manifest.operations()
        # A namespace is made in several commits, and once it is one it stays one.
        history = dropwhile(lambda entry: not is_snapshot(namespace, entry[0]), namespace.manifest.history())
        counted = bool({"tables_added", "tables_changed", "tables_removed"} & set(names))
        rows: list[dict[str, Any]] = []
        before: dict[str, Any] = {}
        for version, committed_at in history:
            row: dict[str, Any] = {
                "version": version,
                "committed_at": committed_at,
                "operation": operations.get(version, "metadata"),
            }
            if counted:
                now = _pins(namespace, version)
                row |= _difference(before, now)
                before = now
            rows.append(row)
        return pa.Table.from_pylist(rows, schema=schema)

    return MetadataTable(schema, build)


def specs_table(namespace: PartitionedNamespace, view: PartitionedView) -> MetadataTable:
    """One row per partition field of each spec version: what it computes, what brought the spec, what lies under it."""
    snapshot = view.snapshot

    def build(names: list[str]) -> pa.Table:
        found: dict[int, dict[str, Any]] = {
            spec.id: {"is_current": spec == snapshot.current_spec} for spec in snapshot.specs
        }
        if {"snapshot", "committed_at", "operation"} & set(names):
            for number, beginning in beginnings(namespace, snapshot).items():
                found[number] |= beginning
        if {"tables", "rows"} & set(names):
            for tables in snapshot.tables:
                found[tables.spec.id] |= {"tables": len(tables), "rows": _rows(view, tables)}
        rows = [row | found[spec.id] for spec in snapshot.specs for row in _fields(spec, snapshot.schema)]
        return pa.Table.from_pylist(rows, schema=_SPECS_SCHEMA)

    return MetadataTable(_SPECS_SCHEMA, build)


def _fields(spec: PartitionSpec, schema: NamespaceSchema) -> Iterator[dict[str, Any]]:
    """The partition fields of a spec: what each of them computes."""
    for position, field in enumerate(spec.fields):
        rule = field.rule
        transform = None if isinstance(rule, Expression) else json.dumps({"type": rule.type, **rule.arguments})
        yield {
            "spec_id": spec.id,
            "position": position,
            "field_id": field.field_id,
            "source_ids": list(field.source_ids),
            "source_columns": [
                schema.paths[number][0] if number in schema.paths else None for number in field.source_ids
            ],
            "transform": transform,
            "expression": rule.sql if isinstance(rule, Expression) else None,
            "result_type": str(field.result_type),
        }


def tags_table(table: Table) -> MetadataTable:
    """One row per tag of a table: its name, and the version that it refers to."""
    schema = pa.schema(
        [
            pa.field("name", pa.utf8(), nullable=False),
            pa.field("version", pa.int64(), nullable=False),
            pa.field("branch", pa.utf8()),
        ]
    )
    return MetadataTable(schema, lambda _: pa.Table.from_pylist([asdict(tag) for tag in table.tags], schema=schema))


def branches_table(namespace: PartitionedNamespace) -> MetadataTable:
    """One row per branch: its name, the version of the main branch that it begins with, and its own newest one."""
    schema = pa.schema(
        [
            pa.field("name", pa.utf8(), nullable=False),
            pa.field("forked_at", pa.int64(), nullable=False),
            pa.field("version", pa.int64(), nullable=False),
        ]
    )

    def build(_: list[str]) -> pa.Table:
        rows = [
            {
                "name": branch.name,
                "forked_at": branch.forked_at,
                "version": int(namespace.on_branch(branch.name).manifest.open().version),
            }
            for branch in namespace.branches
        ]
        return pa.Table.from_pylist(rows, schema=schema)

    return MetadataTable(schema, build)


METADATA_TABLES: Mapping[str, Callable[[PartitionedNamespace, PartitionedView], MetadataTable]] = MappingProxyType(
    {
        "partitions": lambda _, view: partitions_table(view),
        "snapshots": lambda namespace, _: snapshots_table(namespace),
        "specs": specs_table,
        "files": lambda _, view: files_table(view),
        "indexes": lambda _, view: MetadataTable(INDEXES_SCHEMA, partial(indexes, view)),
        "tags": lambda namespace, _: tags_table(namespace),
        "branches": lambda namespace, _: branches_table(namespace),
    }
)
OF_EVERYBODY = frozenset({"snapshots", "specs"})
"""Those that tell of changes to all rows; the others speak of the partition tables of a view, or of names."""
PLAIN_METADATA_TABLES: Mapping[str, Callable[[PlainTable], MetadataTable]] = MappingProxyType({"tags": tags_table})


def _shown(field: PartitionField) -> str:
    """The column of a partition field in `t$partitions`: its id, unless a column there has that name already."""
    return field.column if field.field_id in _FIXED_COLUMNS else field.field_id


def _partition_rows(tables: SpecTables, schema: pa.Schema) -> pa.Table:
    known = {_shown(field): tables.values[field.column] for field in tables.spec.fields}
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


def _rows(view: PartitionedView, tables: SpecTables) -> int | None:
    """The rows of all tables of a spec; None where one of them cannot be read."""
    counted = [rows for rows, *_ in _sizes(view, tables.tables()) if rows is not None]
    return sum(counted) if len(counted) == len(tables) else None


def _sizes(view: PartitionedView, tables: list[PartitionTable]) -> list[_Sizes]:
    """The columns of `_SIZES` for each table, from the metadata of its version; NULL for one that cannot be read."""

    def size(table: PartitionTable) -> _Sizes:
        try:
            dataset = partitions.open_at(view.store.child(table.location), table.pin)
        except (NotFound, Corrupt):
            return None, None, None, None
        rows, size_in_bytes, _ = partitions.dataset_summary(dataset)
        version = dataset.get_version()
        files = int(version["metadata"]["total_data_files"])
        return rows, size_in_bytes, files, version["timestamp"].astimezone(UTC)

    with ThreadPoolExecutor(OPENERS) as pool:
        return list(pool.map(size, tables))


def _pins(namespace: PartitionedNamespace, version: int) -> dict[str, Any]:
    """The pin of each partition table in one version."""
    rows = namespace.manifest.rows_at(version)
    tables = rows.filter(pc.equal(rows["object_type"], "table"))
    pins = zip(*(tables[name].to_pylist() for name in PIN_COLUMNS if name in tables.column_names), strict=True)
    return dict(zip(tables["object_id"].to_pylist(), pins or [Latest().columns] * len(tables), strict=True))


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, int]:
    return {
        "tables_added": len(now.keys() - before.keys()),
        "tables_changed": sum(now[name] != before[name] for name in now.keys() & before.keys()),
        "tables_removed": len(before.keys() - now.keys()),
    }
