"""ALTER TABLE over whole partitions, carried out."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_flight.catalog.directory import Table, TableName
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.removals import dropped
from lance_flight.engine.functions import cast, evaluate
from lance_flight.engine.partition_alterations import DropPartition, PartitionValue
from lance_flight.engine.transactions import SqlTransaction
from lance_flight.errors import NotFound, SqlError, Unsupported
from lance_flight.model.spec import PartitionField, PartitionSpec


def drop_partition(name: TableName, statement: DropPartition, transaction: SqlTransaction) -> int:
    """Take the rows of some partition values away, with the tables that hold no others; how many rows they were."""
    table = partitioned(transaction.table(name), name)
    inner = transaction.writing(table)
    edits = dropped(table.store, inner.snapshot, values_of(inner.snapshot.current_spec, statement.values), evaluate)
    rows = sum(edit.removal.rows for edit in edits if edit.removal is not None)
    if edits:
        tables = sum(edit.drops for edit in edits)
        inner.add(edits, f"drop {tables} partitions and rewrite {len(edits) - tables}, {rows} rows less")
    return rows


def partitioned(table: Table, name: TableName) -> PartitionedNamespace:
    """The table itself if it has partitions."""
    if not isinstance(table, PartitionedNamespace):
        raise Unsupported(f"table {name.name!r} is not partitioned and has no partitions")
    return table


def values_of(spec: PartitionSpec, given: Sequence[PartitionValue]) -> pa.Table:
    """One row of partition values as a statement gives them, in the order of the spec's fields."""
    fields = {field.field_id: field for field in spec.fields}
    for value in given:
        if value.field_id not in fields:
            raise NotFound.named("partition field", value.field_id, fields)
    literals = {value.field_id: value.literal for value in given}
    return pa.table({f.column: _read(f, literals[f.field_id]) for f in spec.fields if f.field_id in literals})


def _read(field: PartitionField, literal: str | bytes | None) -> pa.Array:
    if literal is None:
        return pa.nulls(1, field.result_type)
    try:
        return cast(pa.array([literal]), field.result_type)
    except SqlError as exc:
        raise SqlError(f"partition field {field.field_id!r} is {field.result_type}, not {literal!r}: {exc}") from exc
