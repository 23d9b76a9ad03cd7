"""Writes before any task runs: the table is looked at, and made where it is missing.

Rows that cannot be stored are refused by their columns here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces, SharedWrite
from lance_flight.catalog.commits.commit_tokens import checked_id, named_commit
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import rows
from lance_flight.engine.writes.definitions import (
    check_partitioning,
    column_problems,
    partition_spec,
    partitioning,
    storable,
)
from lance_flight.engine.writes.partition_fields import PartitionDef, parse_partition_by
from lance_flight.errors import AlreadyExists, NotFound, SchemaError
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec
from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import StructType

from lance_flight_client.dataset.roots import store_of
from lance_flight_client.spark.names import matched
from lance_flight_client.spark.writing.options import WriteOptions
from lance_flight_client.spark.writing.stored_types import arrow_schema
from lance_flight_client.spark.writing.writer import NothingToWrite, PlannedWrite, TableWriter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The table that a write goes to: its version (None where it has to be made), and how it is partitioned."""

    version: int | None
    partitioning: str


def new_writer(options: WriteOptions, schema: StructType) -> DataSourceArrowWriter:
    """Return the writer of a DataFrame with these columns; the table is made where it is missing.

    `SchemaError` names every column that cannot be stored, `NotFound` a table that is not there and cannot be made.
    """
    commit_id = None if options.commit_id is None else checked_id(options.commit_id)
    target = _Target.of(options, schema)
    table = target.made()
    known = None if commit_id is None else named_commit(table.snapshot(), commit_id)
    if known is not None:
        return NothingToWrite(known, options.report)
    return TableWriter(target.planned(table, options), commit_id=commit_id, report=options.report)


def planned_write(options: WriteOptions, schema: StructType) -> PlannedWrite:
    """Return a write that begins now; errors as of `new_writer`."""
    target = _Target.of(options, schema)
    return target.planned(target.made(), options)


def write_to(table: Table, name: str, schema: StructType, replaces: Replaces = Replaces.NOTHING) -> PlannedWrite:
    """Return a write to a table that is open, which begins now; `SchemaError` where the columns do not fit it."""
    names = _names(name, arrow_schema(schema), table.snapshot())
    return PlannedWrite(shared=SharedWrite.begin(table), names=names, replaces=replaces)


def make_table(options: WriteOptions, schema: StructType) -> None:
    """Make the table of a write where it is missing; errors as of `new_writer`."""
    _Target.of(options, schema).made()


def planned_table(options: WriteOptions, schema: StructType) -> WriteTarget:
    """The table of a write, checked against its columns, and not made; errors as of `new_writer`."""
    target = _Target.of(options, schema)
    if target.is_missing:
        fields, spec = target.definition()
        return WriteTarget(version=None, partitioning=partitioning(spec, fields))
    snapshot = target.found().snapshot()
    _names(target.name.name, target.columns, snapshot)
    return WriteTarget(version=snapshot.version, partitioning=partitioning(snapshot.current_spec, snapshot.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Target of rows with these columns, and the partitioning of a table that is made for them."""

    root: Root
    name: TableName
    columns: pa.Schema
    definitions: Sequence[PartitionDef]
    stable_row_ids: bool
    file_version: str | None

    @classmethod
    def of(cls, options: WriteOptions, schema: StructType) -> _Target:
        return cls(
            root=Root(store_of(options.root, options.storage)),
            name=TableName(*options.table),
            columns=arrow_schema(schema),
            definitions=() if options.partition_by is None else parse_partition_by(options.partition_by),
            stable_row_ids=options.stable_row_ids,
            file_version=options.file_version,
        )

    @property
    def is_missing(self) -> bool:
        """True if there is no table yet, and one can be made."""
        return bool(self.definitions) and not self.root.has(self.name)

    def definition(self) -> tuple[NamespaceSchema, PartitionSpec]:
        """Return the table that would be made."""
        problems = column_problems(self.columns, self.file_version)
        if problems:
            raise SchemaError(f"table {self.name.name!r}", problems)
        fields = NamespaceSchema.assign(storable(self.columns))
        return fields, partition_spec(fields, self.definitions)

    def made(self) -> Table:
        """Return the table, and make it first where it is missing."""
        if self.is_missing:
            fields, spec = self.definition()

            def build(place: Store) -> int:
                PartitionedNamespace.create(
                    place, fields, spec, stable_row_ids=self.stable_row_ids, file_version=self.file_version
                )
                return 0

            try:
                self.root.create(self.name, build, partitioned=True)
            except AlreadyExists:
                log.info("table %s was made by another writer", self.name)
        return self.found()

    def found(self) -> Table:
        """Return the table, if rows can be written to it."""
        try:
            table = self.root.table(self.name)
        except NotFound as exc:
            raise NotFound(f"{exc}; to make it, say how it is partitioned by the option 'partition_by'") from exc
        check_partitioning(self.name.name, table, self.definitions)
        return table

    def planned(self, table: Table, options: WriteOptions) -> PlannedWrite:
        """Return a write to the table, which begins now."""
        return PlannedWrite(
            shared=SharedWrite.begin(table, options.snapshot),
            names=_names(self.name.name, self.columns, table.snapshot()),
            replaces=Replaces.NOTHING if options.replaces is None else Replaces(options.replaces),
        )


def _names(table: str, columns: pa.Schema, snapshot: Snapshot) -> list[str]:
    """Return what a table calls the columns; `SchemaError` where they do not fit it."""
    names = matched(columns.names, snapshot.schema.plain.names)
    renamed = pa.schema([field.with_name(called) for field, called in zip(columns, names, strict=True)])
    rows.fit(renamed, snapshot.schema.plain, what=f"rows for table {table!r}", defaults=snapshot.schema.defaults)
    return names
