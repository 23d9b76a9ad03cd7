"""`t$snapshots`: the history of a table."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import dropwhile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.manifests.snapshot import PIN_COLUMNS
from lance_flight.catalog.table import Table
from lance_flight.engine.query.metadata.spec_history import is_snapshot
from lance_flight.engine.query.metadata.table import MetadataTable
from lance_flight.model.pins import Latest


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
