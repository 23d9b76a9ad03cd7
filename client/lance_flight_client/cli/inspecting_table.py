"""One table of a root in detail, as text."""

from __future__ import annotations

import argparse

import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.scan_planning import PlannedScan, plan_scan
from lance_flight.errors import InvalidInput

from lance_flight_client.output import align_table
from lance_flight_client.partition_map import partition_map
from lance_flight_client.terminal import counted


def show(root: Root, table: TableName, options: argparse.Namespace) -> None:
    """Print a table, its partitions as a picture, or what a condition leaves of them."""
    engine = Engine(root, target_partitions=1)
    limit = options.max_rows or None
    if options.map:
        _draw(engine, table, options.where)
    elif options.where is not None:
        _explain(engine, table, options.where, limit)
    else:
        _show(engine, table, limit)


def _show(engine: Engine, name: TableName, limit: int | None) -> None:
    quoted = f'"{name.db_schema}"."{name.name}"'
    table = engine.root.table(name)
    print(f"table {name}")
    snapshot = table.snapshot()
    print(f"snapshot {snapshot.version}, committed {snapshot.committed_at:%Y-%m-%d %H:%M:%S} UTC")
    if table.is_partitioned:
        print("\nspecs")
        for spec in snapshot.specs:
            print(f"  v{spec.id} {spec.to_text()}")
    print("\nschema")
    print(_format_table(engine.query(f"DESCRIBE {quoted}"), None))
    if table.is_partitioned:
        partitions = engine.query(f"SHOW PARTITIONS {quoted}")
        rows = sum(value or 0 for value in partitions["rows"].to_pylist())
        print(f"\n{counted(partitions.num_rows, 'partition')}, {counted(rows)}")
        print(_format_table(partitions.drop_columns(["location"]), limit))
    else:
        print(f"\n{counted(table.log.open(snapshot.version).count_rows())}")


def _plan(engine: Engine, name: TableName, where: str) -> PlannedScan:
    table = engine.root.table(name)
    if not table.is_partitioned:
        raise InvalidInput(f"table {name.name!r} is not partitioned: a query reads it whole")
    return plan_scan(table, where)


def _explain(engine: Engine, name: TableName, where: str, limit: int | None) -> None:
    planned = _plan(engine, name, where)
    print(planned)
    rows = {
        "spec": [table.spec_id for table in planned.tables],
        "object_id": [table.object_id for table in planned.tables],
        "pin": [str(table.pin) for table in planned.tables],
        "residual filter": [None if table.residual is None else str(table.residual) for table in planned.tables],
    }
    print(align_table(pa.table(rows), limit))


def _draw(engine: Engine, name: TableName, where: str | None) -> None:
    planned = _plan(engine, name, where or "TRUE")
    read = None if where is None else {table.object_id for table in planned.tables}
    if where is not None:
        print(planned, end="\n\n")
    partitions = engine.query(f'SHOW PARTITIONS "{name.db_schema}"."{name.name}"')
    for spec in planned.snapshot.specs:
        chosen = partitions.filter(pc.equal(partitions["spec_id"], spec.id))
        columns = {field.field_id for field in spec.fields}
        others = {
            field.field_id for partition_spec in planned.snapshot.specs for field in partition_spec.fields
        } - columns
        if not chosen.num_rows:
            continue
        rows = sum(count or 0 for count in chosen["rows"].to_pylist())
        marks = "the higher, the more rows" + ("" if read is None else "; a dot is not read")
        print(f"v{spec.id}: {counted(chosen.num_rows, 'partition')}, {counted(rows)} ({marks})\n")
        print(partition_map(chosen.drop_columns(sorted(others)), read))


def _format_table(table: pa.Table, limit: int | None) -> str:
    return "\n".join(f"  {line}" for line in align_table(table, limit).splitlines())
