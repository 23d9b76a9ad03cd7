"""Writes before any task runs: the table is looked at, and made where it is missing.

Rows that cannot be stored are refused by their columns here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa
from lance_flight.catalog import rows
from lance_flight.catalog.commit_ids import checked_id, named_commit
from lance_flight.catalog.directory import Root, TableName
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.plain import PlainTable
from lance_flight.catalog.shared_writes import Replaces, SharedWrite
from lance_flight.catalog.store import Store
from lance_flight.engine.definitions import check_partitioning, column_problems, partition_spec, storable
from lance_flight.engine.partition_fields import PartitionDef, parse_partition_by
from lance_flight.errors import AlreadyExists, NotFound, SchemaError, Unsupported
from lance_flight.model.schema import NamespaceSchema
from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import StructType

from lance_flight_client.spark.names import matched
from lance_flight_client.spark.roots import store_of
from lance_flight_client.spark.stored_types import arrow_schema
from lance_flight_client.spark.write_options import WriteOptions
from lance_flight_client.spark.writing import NothingToWrite, TableWriter

log = logging.getLogger(__name__)


def new_writer(options: WriteOptions, schema: StructType) -> DataSourceArrowWriter:
    """The writer of a DataFrame with these columns; the table is made where it is missing.

    `SchemaError` names every column that cannot be stored, `NotFound` a table that is not there and cannot be made.
    """
    root, name = Root(store_of(options.root, options.storage)), TableName(*options.table)
    commit_id = None if options.commit_id is None else checked_id(options.commit_id)
    columns = arrow_schema(schema)
    table = _table(root, name, columns, options.partition_by)
    snapshot = table.snapshot()
    known = None if commit_id is None else named_commit(snapshot, commit_id)
    if known is not None:
        return NothingToWrite(known)
    names = matched(columns.names, snapshot.schema.plain.names)
    renamed = pa.schema([field.with_name(called) for field, called in zip(columns, names, strict=True)])
    what = f"rows for table {name.name!r}"
    rows.fit(renamed, snapshot.schema.plain, what=what, defaults=snapshot.schema.defaults)
    replaces = Replaces.NOTHING if options.replaces is None else Replaces(options.replaces)
    return TableWriter(SharedWrite.begin(table, options.snapshot), names, replaces, commit_id)


def _table(root: Root, name: TableName, columns: pa.Schema, partition_by: str | None) -> PartitionedNamespace:
    definitions = () if partition_by is None else parse_partition_by(partition_by)
    if not root.has(name) and definitions:
        _make(root, name, columns, definitions)
    try:
        table = root.table(name)
    except NotFound as exc:
        raise NotFound(f"{exc}; to make it, say how it is partitioned by the option 'partition_by'") from exc
    check_partitioning(name.name, table, definitions)
    if isinstance(table, PlainTable):
        raise Unsupported(f"table {name.name!r} is not partitioned; Spark writes to partitioned tables alone")
    return table


def _make(root: Root, name: TableName, columns: pa.Schema, definitions: Sequence[PartitionDef]) -> None:
    """An empty table, unless somebody else makes it at the same moment."""
    problems = column_problems(columns)
    if problems:
        raise SchemaError(f"table {name.name!r}", problems)
    fields = NamespaceSchema.assign(storable(columns))
    spec = partition_spec(fields, definitions)

    def build(place: Store) -> int:
        PartitionedNamespace.create(place, fields, spec)
        return 0

    try:
        root.create(name, build, partitioned=True)
    except AlreadyExists:
        log.info("table %s was made by another writer", name)
