"""Rows into tables: created on demand, checked against the schema first, stored in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum

import pyarrow as pa

from lance_flight.catalog import rows
from lance_flight.catalog.directory import Root, Table, TableName
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.plain import PlainTable, write_plain
from lance_flight.catalog.store import Store
from lance_flight.engine.cancellation import Cancellation
from lance_flight.engine.definitions import check_partitioning, column_problems, partition_spec, storable
from lance_flight.engine.functions import evaluate
from lance_flight.engine.partition_fields import PartitionDef
from lance_flight.engine.policies.access import UNLIMITED, Access, Privilege
from lance_flight.engine.policies.rows import EVERY_ROW, RowPolicy
from lance_flight.engine.table_properties import PLAIN, TableProperties
from lance_flight.engine.transactions import SqlTransaction, autocommit
from lance_flight.engine.writable_tables import writable
from lance_flight.errors import AlreadyExists, SchemaError
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec


class Existing(Enum):
    """What to do with a table that is there already."""

    FAIL = "fail"
    APPEND = "append"
    REPLACE = "replace"


def schema_of(table: Table) -> pa.Schema:
    """The columns of a table as a client sees them."""
    if isinstance(table, PartitionedNamespace):
        return table.snapshot().schema.plain
    return pa.schema([field.remove_metadata() for field in table.open().schema])


def defaults_of(table: Table) -> Mapping[str, pa.Scalar]:
    """What columns of a table hold where a row says nothing of them."""
    return table.snapshot().schema.defaults if isinstance(table, PartitionedNamespace) else rows.NO_DEFAULTS


def create(
    root: Root,
    name: TableName,
    schema: pa.Schema,
    properties: TableProperties,
    data: Iterable[pa.Table],
    *,
    existing: Existing = Existing.FAIL,
    transaction: SqlTransaction | None = None,
    cancellation: Cancellation | None = None,
    policy: RowPolicy = EVERY_ROW,
) -> int:
    """A new table with these rows; it is there whole, or not at all, from the commit of its `transaction` on.

    `existing` says what becomes of the rows where another table has taken the name by the time they are stored.
    """
    fields, spec = _defined(name, schema, properties.partitioned_by)
    stable_row_ids = properties.stable_row_ids

    def build(place: Store) -> int:
        if spec is None:
            count = write_plain(place, schema, data, stable_row_ids=stable_row_ids)
        else:
            made = PartitionedNamespace.create(place, fields, spec, stable_row_ids=stable_row_ids)
            count = made.append(data, evaluate, operation="create with")
        # What comes next moves the table to its place.
        if cancellation is not None:
            cancellation.begin_commit()
        return count

    if transaction is not None:
        draft = root.draft(name, build, partitioned=spec is not None, replace=existing is Existing.REPLACE)
        transaction.create(draft)
        return draft.count

    def join(place: Store) -> int:
        mine = PlainTable(place) if spec is None else PartitionedNamespace.open(place)
        rows.fit(schema_of(mine), root.read(name, schema_of), what=f"rows for table {name.name!r}")
        return _append(root, root.table(name), mine.rows(), policy, Cancellation())

    return root.create(
        name,
        build,
        partitioned=spec is not None,
        replace=existing is Existing.REPLACE,
        beaten=join if existing is Existing.APPEND else None,
    )


def ingest(
    root: Root,
    name: TableName,
    reader: pa.RecordBatchReader,
    *,
    create_missing: bool,
    existing: Existing,
    properties: TableProperties = PLAIN,
    transaction: SqlTransaction | None = None,
    cancellation: Cancellation | None = None,
    access: Access = UNLIMITED,
) -> int:
    """Store a stream of rows under `name` in one commit and return how many they were; `access` says which may be."""
    tables, cancellation = transaction or root, cancellation or Cancellation()
    there = tables.has(name)
    policy = access.rows([Privilege.INSERT], name)
    if there and existing is Existing.FAIL:
        raise AlreadyExists(f"table {name.name!r} is there already; expected an ingest that appends or replaces")
    data = _tables(reader)
    if existing is Existing.REPLACE if there else create_missing:
        schema = storable(reader.schema)
        return create(
            root,
            name,
            schema,
            properties,
            data,
            existing=existing,
            transaction=transaction,
            cancellation=cancellation,
            policy=policy,
        )
    tables.read(name, lambda table: check_partitioning(name.name, table, properties.partitioned_by))
    what, defaults = f"rows for table {name.name!r}", tables.read(name, defaults_of)
    rows.fit(reader.schema, tables.read(name, schema_of), what=what, defaults=defaults)
    if transaction is None:
        return _append(root, root.table(name), data, policy, cancellation)
    count = writable(transaction.table(name), transaction, policy).append(data)
    with cancellation.committing():
        transaction.stage()
    return count


def _defined(
    name: TableName, schema: pa.Schema, partitioned_by: Sequence[PartitionDef]
) -> tuple[NamespaceSchema, PartitionSpec | None]:
    """The columns and the spec of a new table; None where it is not partitioned."""
    problems = column_problems(schema)
    if problems:
        raise SchemaError(f"table {name.name!r}", problems)
    fields = NamespaceSchema.assign(schema)
    return fields, partition_spec(fields, partitioned_by) if partitioned_by else None


def _append(root: Root, table: Table, data: Iterable[pa.Table], policy: RowPolicy, cancellation: Cancellation) -> int:
    """More rows for a table, in one commit; they can be read once, so it is never run again."""
    return autocommit(root, lambda transaction: writable(table, transaction, policy).append(data), cancellation, runs=1)


def _tables(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    for batch in reader:
        yield pa.Table.from_batches([batch])
