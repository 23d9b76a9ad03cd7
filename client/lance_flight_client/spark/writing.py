"""Writes: planned before the tasks run, carried out by tasks in invisible files, and committed at once by the driver.

Spark commits in a process of its own on the driver's machine, and passes nothing back from there.

Each task casts its rows by name and splits them by the snapshot's spec, as the server does.

Rows that cannot be stored are refused by their columns here.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Evolution, Replaces, SharedWrite, WrittenFiles
from lance_flight.catalog.commits.once import CommitToken, Once, checked_id, named_commit
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.catalog.tables import rows
from lance_flight.engine.writes.definitions import (
    PartitionDef,
    check_partitioning,
    column_problems,
    parse_partition_by,
    partition_spec,
    show_partitioning,
    storable,
)
from lance_flight.errors import AlreadyCommitted, AlreadyExists, NotFound, SchemaError
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lance_flight_client.dataset.portions import store_of
from lance_flight_client.spark.options import WriteOptions
from lance_flight_client.spark.types import arrow_schema, match_columns

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The version that a write made, its rows, and how many partitions they went into.

    `version` is None where the `commit_id` had been committed before, and nothing was written.
    """

    version: int | None = None
    rows: int = 0
    partitions: int = 0

    @classmethod
    def read(cls, path: Path) -> Report | None:
        """Return the report that a write has left, or None."""
        return cls(**json.loads(path.read_text())) if path.exists() else None

    def leave(self, path: str) -> None:
        """Write the report; what is committed stays so, whether that succeeds or not."""
        try:
            Path(path).write_text(json.dumps(asdict(self)))
        except OSError as exc:
            log.warning("the report of a write, %s, was not made: %s", self, exc)


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """Files that a task wrote."""

    parts: WrittenFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One write of one DataFrame as all of its tasks know it: `names` are what the table calls the columns, in their order.

    `read` are the object ids of the tables whose place its rows take (`Replaces.READ`).
    """

    shared: SharedWrite
    names: Sequence[str]
    replaces: Replaces
    read: Sequence[str] = ()

    def write(self, batches: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Do the work of a task."""
        # What was taken from the iterator is gone: a task that fails is run again by Spark, from its first row on.
        tables = (pa.Table.from_batches([batch]).rename_columns(list(self.names)) for batch in batches)
        return self.shared.write(tables, evaluate_expression)

    def commit(self, written: WrittenFiles, once: Once | None) -> int:
        """Commit what the tasks wrote; the version. Errors as of `SharedWrite.commit`."""
        return self.shared.commit(written, evaluate_expression, replaces=self.replaces, read=self.read, once=once)


class TableWriter(DataSourceArrowWriter):
    """One write of one DataFrame; copies of it run in every task, and on the driver at the end.

    `report` is where the driver says what came of it.
    """

    def __init__(
        self,
        planned: PlannedWrite,
        *,
        commit_id: str | None = None,
        source: str | None = None,
        report: str | None = None,
    ) -> None:
        self._planned = planned
        self._commit_id = commit_id
        self._source = source
        self._report = report

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(self._planned.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        written = tuple(part for message in messages if message is not None for part in cast("Written", message).parts)
        count = sum(part.rows for part in written)
        once = None if self._commit_id is None else CommitToken.now(self._commit_id, count, self._source)
        try:
            version = self._planned.commit(written, once)
            report = Report(version=version, rows=count, partitions=len({part.object_id for part in written}))
        except AlreadyCommitted as exc:
            # Another run of the job was faster than this one.
            log.warning("%s; nothing was written", exc)
            report = Report()
        if self._report is not None:
            report.leave(self._report)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if all(message is not None for message in messages):
            # Every task was done, so that a commit was begun: it has cleaned up itself, or its outcome is not known.
            return
        self._planned.shared.discard(
            part for message in messages if message is not None for part in cast("Written", message).parts
        )


class NothingToWrite(DataSourceArrowWriter):
    """A write that was committed before: rows are left where they are."""

    def __init__(self, known: CommitToken, report: str | None = None) -> None:
        self._known = known
        self._report = report

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        log.warning("%s; nothing was written", self._known)
        if self._report is not None:
            Report().leave(self._report)


def evaluate_expression(expression: str, columns: Sequence[pa.Array], result_type: pa.DataType) -> pa.Array:
    """Return a custom partition expression (`model.spec.Evaluate`), computed by DataFusion.

    It is loaded where a table has such an expression: every worker of Spark would take twice as long to start with it.
    """
    return importlib.import_module("lance_flight.engine.translation.evaluation").evaluate(
        expression, columns, result_type
    )


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
    table = target.create()
    known = None if commit_id is None else named_commit(table.snapshot(), commit_id)
    if known is not None:
        known.check_source(options.commit_source)
        return NothingToWrite(known, options.report)
    return TableWriter(
        target.plan_write(table, options),
        commit_id=commit_id,
        source=options.commit_source,
        report=options.report,
    )


def planned_write(options: WriteOptions, schema: StructType) -> PlannedWrite:
    """Return a write that begins now; errors as of `new_writer`."""
    target = _Target.of(options, schema)
    return target.plan_write(target.create(), options)


def write_to(
    table: Table,
    name: str,
    schema: StructType,
    replaces: Replaces = Replaces.NOTHING,
    *,
    on: Snapshot | None = None,
    evolution: Evolution | None = None,
) -> PlannedWrite:
    """Return a write to a table that is open, on top of a snapshot and of a change of its columns; `SchemaError` where the columns do not fit."""
    base = table.begin().base if on is None else on
    names = _names(name, arrow_schema(schema), base)
    return PlannedWrite(shared=SharedWrite.of(table, base, evolution), names=names, replaces=replaces)


def make_table(options: WriteOptions, schema: StructType) -> None:
    """Make the table of a write where it is missing; errors as of `new_writer`."""
    _Target.of(options, schema).create()


def planned_table(options: WriteOptions, schema: StructType) -> WriteTarget:
    """The table of a write, checked against its columns, and not made; errors as of `new_writer`."""
    target = _Target.of(options, schema)
    if target.is_missing:
        fields, spec = target.definition()
        return WriteTarget(version=None, partitioning=show_partitioning(spec, fields))
    snapshot = target.find().snapshot()
    _names(target.name.name, target.columns, snapshot)
    return WriteTarget(version=snapshot.version, partitioning=show_partitioning(snapshot.current_spec, snapshot.schema))


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

    def create(self) -> Table:
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
        return self.find()

    def find(self) -> Table:
        """Return the table, if rows can be written to it."""
        try:
            table = self.root.table(self.name)
        except NotFound as exc:
            raise NotFound(f"{exc}; to make it, say how it is partitioned by the option 'partition_by'") from exc
        check_partitioning(self.name.name, table, self.definitions)
        return table

    def plan_write(self, table: Table, options: WriteOptions) -> PlannedWrite:
        """Return a write to the table, which begins now."""
        return PlannedWrite(
            shared=SharedWrite.begin(table, options.snapshot),
            names=_names(self.name.name, self.columns, table.snapshot()),
            replaces=Replaces.NOTHING if options.replaces is None else Replaces(options.replaces),
        )


def _names(table: str, columns: pa.Schema, snapshot: Snapshot) -> list[str]:
    """Return what a table calls the columns; `SchemaError` where they do not fit it."""
    names = match_columns(columns.names, snapshot.schema.plain.names)
    renamed = pa.schema([field.with_name(called) for field, called in zip(columns, names, strict=True)])
    rows.fit(renamed, snapshot.schema.plain, what=f"rows for table {table!r}", defaults=snapshot.schema.defaults)
    return names
