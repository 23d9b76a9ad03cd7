"""Metadata tables: `t$tags`, and of a partitioned table `t$partitions`, `t$snapshots`, `t$branches` and more."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import dropwhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.maintenance.compaction import CompactionRules
from lance_flight.catalog.maintenance.indexing import missing_segment
from lance_flight.catalog.manifests.snapshot import PIN_COLUMNS, Latest, PartitionTable, Snapshot, SpecTables
from lance_flight.catalog.publication import Beginning
from lance_flight.catalog.storage.store import BranchRef, Store, TagRef
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.table import KeptReference, Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.indices import Coverage, IndexDefinition, indices_of
from lance_flight.catalog.tables.schema_adapter import identify_columns, path_within
from lance_flight.engine.sql.references import shown_name
from lance_flight.errors import Corrupt, NotFound
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.schema_changes import show_path
from lance_flight.model.spec import Expression, PartitionField, PartitionSpec
from lance_flight.model.type_names import column_type_name

if TYPE_CHECKING:
    # `lance-flight inspect` lists columns and partitions without the engine.
    from lance_flight.engine.query.tables.table_view import TableView


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """Table that is built when it is read; only the columns that are selected have to be correct."""

    schema: pa.Schema
    build: Callable[[list[str]], pa.Table]


COLUMNS_SCHEMA = pa.schema(
    [
        pa.field("column_name", pa.utf8(), nullable=False),
        pa.field("data_type", pa.utf8(), nullable=False),
        pa.field("is_nullable", pa.utf8(), nullable=False),
        pa.field("field_id", pa.int32()),
        pa.field("partitioning", pa.utf8()),
        pa.field("comment", pa.utf8()),
    ]
)


def columns_of_table(snapshot: Snapshot, shown: NamespaceSchema) -> pa.Table:
    """Describe the columns of a table that are shown, and the partition fields that use each of them."""
    ids = shown.ids if snapshot.is_partitioned else {}
    return describe_columns(shown.arrow, ids, _uses(snapshot), shown.comments)


def describe_columns(
    fields: Iterable[pa.Field],
    ids: Mapping[str, int] = MappingProxyType({}),
    uses: Mapping[str, str] = MappingProxyType({}),
    comments: Mapping[str, str] = MappingProxyType({}),
) -> pa.Table:
    """Describe columns, with the field ids, the partitionings and the comments of some of their names."""
    rows = [
        {
            "column_name": field.name,
            "data_type": column_type_name(field),
            "is_nullable": "YES" if field.nullable else "NO",
            "field_id": ids.get(field.name),
            "partitioning": uses.get(field.name),
            "comment": comments.get(field.name),
        }
        for field in fields
    ]
    return pa.Table.from_pylist(rows, schema=COLUMNS_SCHEMA)


def _uses(snapshot: Snapshot) -> dict[str, str]:
    """Map each column to the fields of the current partition spec that are computed from it."""
    uses: dict[str, list[str]] = {}
    for field in snapshot.current_spec.fields:
        for number in field.source_ids:
            path = snapshot.schema.source_paths.get(number)
            if path is not None:
                inside = f" of {show_path(path)}" if len(path) > 1 else ""
                uses.setdefault(path[0], []).append(f"{field.field_id}: {field.rule.type}{inside}")
    return {name: ", ".join(listed) for name, listed in uses.items()}


def files_table(view: TableView) -> MetadataTable:
    """Return `t$files`: one row per data file of each partition table."""
    schema = pa.schema(
        [
            pa.field("object_id", pa.utf8(), nullable=False),
            pa.field("fragment_id", pa.int64(), nullable=False),
            pa.field("path", pa.utf8(), nullable=False),
            pa.field("rows", pa.int64()),
            pa.field("deleted_rows", pa.int64()),
            pa.field("bytes", pa.int64()),
            pa.field("file_version", pa.utf8()),
        ]
    )

    def build(_: list[str]) -> pa.Table:
        rows = []
        for table in view.snapshot.all_tables():
            store = view.store.child(table.location)
            pin = partitions.resolve(store, table.pin)
            dataset = partitions.open_at(store, pin)
            places = partitions.places_of_data(dataset, table.location, pin)
            for fragment in dataset.get_fragments():
                rows += [
                    {
                        "object_id": table.object_id,
                        "fragment_id": fragment.fragment_id,
                        "path": f"{places[file.base_id]}/{file.path}",
                        "rows": fragment.physical_rows,
                        "deleted_rows": fragment.num_deletions,
                        "bytes": file.file_size_bytes,
                        "file_version": f"{file.file_major_version}.{file.file_minor_version}",
                    }
                    for file in fragment.metadata.files
                ]
        return pa.Table.from_pylist(rows, schema=schema)

    return MetadataTable(schema, build)


_INDEXES = pa.schema(
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
    return MetadataTable(_INDEXES, partial(_indexes, view))


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
    return pa.Table.from_pylist(rows, schema=_INDEXES)


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
    counts = map_tables(partial(_of_table, view, definition, is_stale_asked), tables, "indexes")
    return {
        "tables": len(counts),
        "indexed_tables": sum(counted.indexed > 0 for counted in counts),
        "rows": sum(counted.rows for counted in counts),
        "indexed_rows": sum(counted.indexed for counted in counts),
        "segments": sum(counted.segments for counted in counts),
        "stale_tables": sum(counted.stale > 0 for counted in counts),
        "stale_rows": sum(counted.stale for counted in counts),
        "deleted_rows": sum(counted.deleted for counted in counts),
        "advice": _advice(view, definition, counts),
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
    path = path_within(identify_columns(dataset, view.snapshot.schema), view.snapshot.schema, definition.field_id)
    if path is None:
        return _TableCounts(rows=total)
    coverage = Coverage.of(dataset, definition.name, ".".join(path[0]), definition.of_kind)
    missing = sum(rows[number] for number in coverage.missing)
    is_stale = (
        is_stale_asked and missing and missing_segment(view.store, view.snapshot, definition, None, table) is not None
    )
    deleted = sum(fragment.num_deletions for fragment in fragments if fragment.fragment_id in coverage.covered)
    return _TableCounts(
        rows=total,
        indexed=sum(rows[number] for number in coverage.covered),
        segments=len(coverage.segments),
        stale=missing if is_stale else 0,
        deleted=deleted,
        is_compacted=CompactionRules().counts_deleted(deleted, total + deleted),
    )


def _advice(view: TableView, definition: IndexDefinition, counts: Sequence[_TableCounts]) -> str | None:
    """Return the statement that brings an index up to date, with the reason as a comment; None if none would."""
    table = shown_name(view.name, view.key.partition(".")[0])
    deleted = [counted.deleted for counted in counts if counted.is_compacted]
    stale = [counted.stale for counted in counts if counted.stale]
    if deleted:
        return f"ALTER TABLE {table} COMPACT -- deleted, and in the index: {_count(deleted)}"
    if stale:
        return f"REINDEX TABLE {table} INDEX {shown_name(definition.name)} -- not in the index: {_count(stale)}"
    return None


def _count(rows: Sequence[int]) -> str:
    """Return how many rows of how many tables there are, given those of each table."""
    total, tables = sum(rows), len(rows)
    return f"{total:,} row{'s' if total != 1 else ''} of {tables:,} table{'s' if tables != 1 else ''}"


def tags_table(table: Table) -> MetadataTable:
    """Return `t$tags`: one row per tag of a table, with its name, the version that it refers to, and how long it is kept."""
    schema = pa.schema(
        [
            pa.field("name", pa.utf8(), nullable=False),
            pa.field("version", pa.int64(), nullable=False),
            pa.field("branch", pa.utf8()),
            *_RETAINED,
        ]
    )

    def build(_: list[str]) -> pa.Table:
        kept = [(each.ref, each) for each in table.references()]
        rows = [{**asdict(ref), **_retained(each)} for ref, each in kept if isinstance(ref, TagRef)]
        return pa.Table.from_pylist(rows, schema=schema)

    return MetadataTable(schema, build)


_RETAINED = (pa.field("retain_hours", pa.float64()), pa.field("expires_at", pa.timestamp("us", "UTC")))


def _retained(reference: KeptReference) -> dict[str, object]:
    if reference.retain is None or reference.ends is None:
        return {}
    return {"retain_hours": reference.retain / 3600, "expires_at": datetime.fromtimestamp(reference.ends, UTC)}


def branches_table(table: Table) -> MetadataTable:
    """Return `t$branches`: a row per branch, with its name, the main branch's version that it begins at, its newest version, and how long it is kept."""
    schema = pa.schema(
        [
            pa.field("name", pa.utf8(), nullable=False),
            pa.field("forked_at", pa.int64(), nullable=False),
            pa.field("version", pa.int64(), nullable=False),
            *_RETAINED,
        ]
    )

    def build(_: list[str]) -> pa.Table:
        rows = []
        for reference in table.references():
            if isinstance(reference.ref, BranchRef):
                tip = table.on_branch(reference.ref.name).snapshot()
                begins = Beginning.of(reference.ref, tip).version
                rows.append(
                    {
                        "name": reference.ref.name,
                        "forked_at": begins,
                        "version": tip.version,
                        **_retained(reference),
                    }
                )
        return pa.Table.from_pylist(rows, schema=schema)

    return MetadataTable(schema, build)


FIRST_VERSION = 1


def beginnings(table: Table, until: Snapshot) -> dict[int, dict[str, Any]]:
    """Map each spec of a snapshot to the first version that had it, with the time and the operation of that commit.

    Nothing for a spec that is older than the history that is left.
    """
    history = [entry for entry in table.log.history() if entry[0] <= until.version]
    by_spec: dict[int, dict[str, Any]] = {}
    for spec in until.specs:
        place = bisect_left(history, spec.id, key=lambda entry: _newest_spec(table, entry[0]))
        version, committed_at = history[place]
        if place or version == FIRST_VERSION:
            operation = table.log.operations(version - 1, version).get(version, "metadata")
            by_spec[spec.id] = {"snapshot": version, "committed_at": committed_at, "operation": operation}
    return by_spec


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


_SIZES = (
    ("rows", pa.int64()),
    ("bytes", pa.int64()),
    ("files", pa.int64()),
    ("last_change", pa.timestamp("us", "UTC")),
)
_Sizes = tuple[int | None, int | None, int | None, datetime | None]
_FIXED_COLUMNS = frozenset({"spec_id", "object_id", "location", *PIN_COLUMNS, *(name for name, _ in _SIZES)})


def partitions_table(snapshot: Snapshot, store: Store) -> MetadataTable:
    """Return `t$partitions`: one row per partition table, with its spec version, values, pin, size and the time of its version."""
    specs = snapshot.specs
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
        parts = [_partition_rows(tables, schema) for tables in snapshot.tables]
        table = pa.concat_tables(parts)
        if {name for name, _ in _SIZES} & set(names):
            tables = snapshot.all_tables()
            sizes = _sizes(store, tables)
            for place, (name, kind) in enumerate(_SIZES):
                at = schema.get_field_index(name)
                table = table.set_column(at, schema.field(at), pa.array([size[place] for size in sizes], kind))
        return table

    return MetadataTable(schema, build)


def row_count(view: TableView, tables: SpecTables) -> int | None:
    """Return the number of rows in all tables of a spec; None if one of them cannot be read."""
    counted = [rows for rows, *_ in _sizes(view.store, tables.tables()) if rows is not None]
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


def _sizes(store: Store, tables: list[PartitionTable]) -> list[_Sizes]:
    """Return the columns of `_SIZES` for each table, from the metadata of its version; NULL for one that cannot be read."""

    def size(table: PartitionTable) -> _Sizes:
        try:
            dataset = partitions.open_table(store, table)
        except (NotFound, Corrupt):
            return None, None, None, None
        rows, size_in_bytes, _ = partitions.dataset_summary(dataset)
        version = dataset.get_version()
        files = int(version["metadata"]["total_data_files"])
        return rows, size_in_bytes, files, version["timestamp"].astimezone(UTC)

    return map_tables(size, tables, "sizes")


def snapshots_table(table: Table) -> MetadataTable:
    """Return `t$snapshots`: one row per snapshot, with the time and operation of its commit and the numbers of tables it touched."""
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
        operations = table.log.operations()
        # A namespace is made in several commits, and once it is one it stays one.
        history = dropwhile(lambda entry: not is_snapshot(table, entry[0]), table.log.history())
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
                now = _pins(table, version)
                row |= _difference(before, now)
                before = now
            rows.append(row)
        return pa.Table.from_pylist(rows, schema=schema)

    return MetadataTable(schema, build)


def _pins(table: Table, version: int) -> dict[str, Any]:
    """Map each partition table of one version to its pin."""
    rows = table.log.rows_at(version)
    tables = rows.filter(pc.equal(rows["object_type"], "table"))
    pins = zip(*(tables[name].to_pylist() for name in PIN_COLUMNS if name in tables.column_names), strict=True)
    return dict(zip(tables["object_id"].to_pylist(), pins or [Latest().columns] * len(tables), strict=True))


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, int]:
    return {
        "tables_added": len(now.keys() - before.keys()),
        "tables_changed": sum(now[name] != before[name] for name in now.keys() & before.keys()),
        "tables_removed": len(before.keys() - now.keys()),
    }


_SPECS = pa.schema(
    [
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("position", pa.int32()),
        pa.field("field_id", pa.utf8()),
        pa.field("source_ids", pa.list_(pa.int32())),
        pa.field("source_columns", pa.list_(pa.utf8())),
        pa.field("transform", pa.utf8()),
        pa.field("expression", pa.utf8()),
        pa.field("result_type", pa.utf8()),
        pa.field("is_current", pa.bool_(), nullable=False),
        pa.field("snapshot", pa.int64()),
        pa.field("committed_at", pa.timestamp("us", "UTC")),
        pa.field("operation", pa.utf8()),
        pa.field("tables", pa.int64()),
        pa.field("rows", pa.int64()),
    ]
)


def specs_table(table: Table, view: TableView) -> MetadataTable:
    """Return `t$specs`: one row per partition field of each spec version (one without fields has a row), with its transform, the spec's commit and its tables."""
    snapshot = view.snapshot

    def build(names: list[str]) -> pa.Table:
        by_number: dict[int, dict[str, Any]] = {
            spec.id: {"is_current": spec == snapshot.current_spec} for spec in snapshot.specs
        }
        if {"snapshot", "committed_at", "operation"} & set(names):
            for number, beginning in beginnings(table, snapshot).items():
                by_number[number] |= beginning
        if {"tables", "rows"} & set(names):
            for tables in snapshot.tables:
                by_number[tables.spec.id] |= {"tables": len(tables), "rows": row_count(view, tables)}
        rows = [row | by_number[spec.id] for spec in snapshot.specs for row in _fields(spec, snapshot.schema)]
        return pa.Table.from_pylist(rows, schema=_SPECS)

    return MetadataTable(_SPECS, build)


def _fields(spec: PartitionSpec, schema: NamespaceSchema) -> Iterator[dict[str, Any]]:
    """Yield a row for each partition field of a spec, with its sources, transform and type; one where it has no field."""
    if not spec.fields:
        yield {"spec_id": spec.id}
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


Build = Callable[[Table, "TableView"], MetadataTable]


class _Listed(NamedTuple):
    """A metadata table: what builds it, and two questions that each is asked.

    `tells_of_all` has changes to all rows, also those that a row policy hides; the others speak of the partition tables of a
    view, or of names. `tells_of_columns` has values of columns, or sizes that depend on them. `of_partitions` is what a plain table has not.
    """

    build: Build
    tells_of_all: bool
    tells_of_columns: bool
    of_partitions: bool


_TABLES: Mapping[str, _Listed] = MappingProxyType(
    {
        "partitions": _Listed(
            lambda _, view: partitions_table(view.snapshot, view.store),
            tells_of_all=False,
            tells_of_columns=True,
            of_partitions=True,
        ),
        "snapshots": _Listed(
            lambda table, _: snapshots_table(table), tells_of_all=True, tells_of_columns=True, of_partitions=False
        ),
        "specs": _Listed(specs_table, tells_of_all=True, tells_of_columns=True, of_partitions=True),
        "files": _Listed(
            lambda _, view: files_table(view), tells_of_all=False, tells_of_columns=True, of_partitions=False
        ),
        "indexes": _Listed(
            lambda _, view: indexes_table(view), tells_of_all=False, tells_of_columns=False, of_partitions=False
        ),
        "tags": _Listed(
            lambda table, _: tags_table(table), tells_of_all=False, tells_of_columns=False, of_partitions=False
        ),
        "branches": _Listed(
            lambda table, _: branches_table(table), tells_of_all=False, tells_of_columns=False, of_partitions=True
        ),
    }
)
METADATA_TABLES: Mapping[str, Build] = MappingProxyType(
    {name: definition.build for name, definition in _TABLES.items()}
)
OF_EVERYBODY = frozenset(name for name, definition in _TABLES.items() if definition.tells_of_all)
OF_COLUMNS = frozenset(name for name, definition in _TABLES.items() if definition.tells_of_columns)
OF_PARTITIONS = frozenset(name for name, definition in _TABLES.items() if definition.of_partitions)
LINEAGE = "lineage"
"""Metadata table of the rows themselves, each with its lineage: a view (`named_tables.py`)."""
