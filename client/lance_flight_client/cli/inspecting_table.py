"""One table of a root in detail, as text. Only a condition needs the engine, which is imported for it."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.query.tables.metadata_tables import columns_of_table, partitions_table
from lance_flight.errors import InvalidInput

from lance_flight_client.output import align_table
from lance_flight_client.partition_map import partition_map
from lance_flight_client.terminal import counted

if TYPE_CHECKING:
    from lance_flight.engine.query.scan_planning import PlannedScan


def show(root: Root, name: TableName, options: argparse.Namespace) -> None:
    """Print a table, its partitions as a picture, or what a condition leaves of them."""
    table, limit = root.table(name), options.max_rows or None
    if (options.map or options.where is not None) and not table.is_partitioned:
        raise InvalidInput(f"table {name.name!r} is not partitioned: a query reads it whole")
    planned = None if options.where is None else _plan(table, options.where)
    if options.map:
        _draw(table, planned)
    elif planned is not None:
        _explain(planned, limit)
    else:
        _show(table, name, limit)


def _show(table: Table, name: TableName, limit: int | None) -> None:
    print(f"table {name}")
    snapshot = table.snapshot()
    print(f"snapshot {snapshot.version}, committed {snapshot.committed_at:%Y-%m-%d %H:%M:%S} UTC")
    if table.is_partitioned:
        print("\nspecs")
        for spec in snapshot.specs:
            print(f"  v{spec.id} {spec.to_text()}")
    print("\nschema")
    print(_format_table(columns_of_table(snapshot, snapshot.schema), None))
    if table.is_partitioned:
        partitions = _partitions(table, snapshot)
        rows = sum(value or 0 for value in partitions["rows"].to_pylist())
        print(f"\n{counted(partitions.num_rows, 'partition')}, {counted(rows)}")
        print(_format_table(partitions.drop_columns(["location"]), limit))
    else:
        print(f"\n{counted(table.log.open(snapshot.version).count_rows())}")


def _partitions(table: Table, snapshot: Snapshot) -> pa.Table:
    listed = partitions_table(snapshot, table.store)
    return listed.build(listed.schema.names)


def _plan(table: Table, where: str) -> PlannedScan:
    planned: PlannedScan = importlib.import_module("lance_flight.engine.query.scan_planning").plan_scan(table, where)
    return planned


def _explain(planned: PlannedScan, limit: int | None) -> None:
    print(planned)
    rows = {
        "spec": [table.spec_id for table in planned.tables],
        "object_id": [table.object_id for table in planned.tables],
        "pin": [str(table.pin) for table in planned.tables],
        "residual filter": [None if table.residual is None else str(table.residual) for table in planned.tables],
    }
    print(align_table(pa.table(rows), limit))


def _draw(table: Table, planned: PlannedScan | None) -> None:
    read = None if planned is None else {table.object_id for table in planned.tables}
    if planned is not None:
        print(planned, end="\n\n")
    snapshot = table.snapshot() if planned is None else planned.snapshot
    partitions = _partitions(table, snapshot)
    for spec in snapshot.specs:
        chosen = partitions.filter(pc.equal(partitions["spec_id"], spec.id))
        columns = {field.field_id for field in spec.fields}
        others = {field.field_id for partition_spec in snapshot.specs for field in partition_spec.fields} - columns
        if not chosen.num_rows:
            continue
        rows = sum(count or 0 for count in chosen["rows"].to_pylist())
        marks = "the higher, the more rows" + ("" if read is None else "; a dot is not read")
        print(f"v{spec.id}: {counted(chosen.num_rows, 'partition')}, {counted(rows)} ({marks})\n")
        print(partition_map(chosen.drop_columns(sorted(others)), read))


def _format_table(table: pa.Table, limit: int | None) -> str:
    return "\n".join(f"  {line}" for line in align_table(table, limit).splitlines())
