"""Maintenance of a table by the executors of Spark: the same work as that of `lance-flight compact` and its like, in tasks.

Executors read and write files that are not visible yet; the driver makes each part of the work visible in one commit. Other writers, and a
server on the same root, go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.maintenance.compaction import CompactionReport, CompactionRules
from lance_flight.catalog.maintenance.compaction import compact as compact_in
from lance_flight.catalog.maintenance.indexing import IndexingReport
from lance_flight.catalog.maintenance.indexing import create_index as create_index_in
from lance_flight.catalog.maintenance.rewriting import RewritingReport, RewritingRules
from lance_flight.catalog.maintenance.rewriting import rewrite as rewrite_in
from lance_flight.catalog.maintenance.verification import VerificationReport
from lance_flight.catalog.maintenance.verification import verify as verify_in
from lance_flight.catalog.manifests.indices import IndexRules
from lance_flight.catalog.namespace import partitioned
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.query.scan_planning import tables_where
from lance_flight.engine.writes.column_changes import backfill as backfill_in
from lance_flight.engine.writes.computed_columns import PythonFunction, SqlExpression
from lance_flight.engine.writes.definitions import arrow_type
from lance_flight.errors import InvalidInput
from lance_flight.model.index_kinds import OptionValue

from lance_flight_client.dataset.roots import store_of
from lance_flight_client.spark.executors import Executors
from lance_flight_client.spark.writing.options import WriteOptions
from lance_flight_client.spark.writing.writer import evaluated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REWRITING = RewritingRules(tables=1024, rows=64 << 20, rows_per_piece=1 << 20)


@dataclass(frozen=True, slots=True)
class Backfilled:
    """A new column with its values: the version that has it."""

    column: str
    snapshot: int

    def __str__(self) -> str:
        return f"column {self.column} added, snapshot {self.snapshot}"


def compact(
    spark: SparkSession,
    root: str,
    table: str,
    *,
    target_rows: int | None = None,
    storage: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> CompactionReport:
    """Write small files, and files with deleted rows, anew; the rows stay the same.

    A file of `target_rows` (1,048,576) is large enough. A partition table that is changed meanwhile stays as it is.
    """
    rules = CompactionRules() if target_rows is None else CompactionRules(target_rows=target_rows)
    found = _Table.of(root, table, storage)
    return compact_in(found.namespace, rules, progress, run=Executors(spark, f"compact {found.name.name}"))


def rewrite(
    spark: SparkSession,
    root: str,
    table: str,
    *,
    where: str | None = None,
    storage: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> RewritingReport:
    """Move rows that lie under older partition specs to the current one, up to 64 M rows in each commit.

    With `where`, an SQL condition over the columns, only tables that may hold such rows. Who changes the same tables makes it
    start that part again; a run that is stopped has done a part, and the next one goes on with the rest.
    """
    found = _Table.of(root, table, storage)
    namespace = partitioned(found.namespace)
    choose = None if where is None else tables_where(namespace, where)
    run = Executors(spark, f"rewrite {found.name.name}")
    return rewrite_in(namespace, evaluated, choose, REWRITING, progress, run=run)


def verify(
    spark: SparkSession,
    root: str,
    table: str,
    *,
    snapshot: int | None = None,
    storage: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> VerificationReport:
    """Read every row of a snapshot, and see whether it lies in the partition that it belongs to; counts and checksums."""
    found = _Table.of(root, table, storage)
    at = found.namespace.snapshot(snapshot)
    return verify_in(found.namespace, evaluated, at, progress, run=Executors(spark, f"verify {found.name.name}"))


def backfill(
    spark: SparkSession,
    root: str,
    table: str,
    column: str,
    values: str | Callable[[pa.RecordBatch], pa.Array],
    *,
    data_type: str | None = None,
    columns: Sequence[str] | None = None,
    storage: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Backfilled:
    """Add a column with its values, in one commit: of an SQL expression (DataFusion's SQL), or of a function.

    A function takes batches of `columns` (none: all) and returns as many values each, the same whenever it is called. `data_type` is SQL's
    name of the type; an expression has one by itself.
    """
    found = _Table.of(root, table, storage)
    if isinstance(values, str):
        if columns is not None:
            raise InvalidInput(f"columns are given: {', '.join(columns)}; an expression names those that it needs")
        made: SqlExpression | PythonFunction = SqlExpression(values)
    else:
        known = found.namespace.snapshot().schema.plain.names
        made = PythonFunction(tuple(known if columns is None else columns), values)
    version = backfill_in(
        found.root,
        found.name,
        column,
        made,
        None if data_type is None else arrow_type(data_type),
        run=Executors(spark, f"backfill {found.name.name}.{column}"),
        progress=progress,
    )
    return Backfilled(column, version)


def create_index(
    spark: SparkSession,
    root: str,
    table: str,
    column: str,
    *,
    kind: str = "btree",
    name: str | None = None,
    options: Mapping[str, OptionValue] | None = None,
    min_rows: int | None = None,
    storage: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> IndexingReport:
    """Give partition tables an index of a column, as CREATE INDEX does; what is there of it already stays as it is.

    `kind` and `options` are those of CREATE INDEX; tables with fewer than `min_rows` rows do without (None: as its kind has it).
    """
    found = _Table.of(root, table, storage)
    rules = IndexRules(column=column, kind=kind, name=name, options=options or {}, min_rows=min_rows)
    run = Executors(spark, f"index {found.name.name}.{column}")
    return create_index_in(found.namespace, rules, progress, run=run)


@dataclass(frozen=True, slots=True)
class _Table:
    root: Root
    name: TableName
    namespace: Table

    @classmethod
    def of(cls, root: str, table: str, storage: Mapping[str, str] | None) -> _Table:
        """Return the table by what options call it."""
        options = WriteOptions.of(root, table, storage or {})
        place, name = Root(store_of(options.root, options.storage)), TableName(*options.table)
        return cls(place, name, place.table(name))
