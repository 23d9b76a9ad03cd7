"""`t$specs`: the fields of each partition spec, with its commit and its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lance_flight.catalog.table import Table
from lance_flight.engine.query.metadata.partitions import row_count
from lance_flight.engine.query.metadata.spec_history import beginnings
from lance_flight.engine.query.metadata.table import MetadataTable
from lance_flight.engine.query.tables import TableView
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionSpec

_SCHEMA = pa.schema(
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
        found: dict[int, dict[str, Any]] = {
            spec.id: {"is_current": spec == snapshot.current_spec} for spec in snapshot.specs
        }
        if {"snapshot", "committed_at", "operation"} & set(names):
            for number, beginning in beginnings(table, snapshot).items():
                found[number] |= beginning
        if {"tables", "rows"} & set(names):
            for tables in snapshot.tables:
                found[tables.spec.id] |= {"tables": len(tables), "rows": row_count(view, tables)}
        rows = [row | found[spec.id] for spec in snapshot.specs for row in _fields(spec, snapshot.schema)]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    return MetadataTable(_SCHEMA, build)


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
