"""Reads: of a root without a server, pruned and pinned by the driver, and through a server, one task for each endpoint.

The rows are those that the server would give: the same planning, the same scan of merged and adapted tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Evolution
from lance_flight.catalog.manifests.snapshot import FixedPin, Snapshot
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import PartitionedNamespace, Table
from lance_flight.catalog.tables.sources import divide_rows, row_counts
from lance_flight.engine.translation.evaluation import check_condition
from lance_flight.engine.writes.column_changes import ColumnChanges
from lance_flight.errors import Conflict, InvalidInput, NotFound, Unsupported
from lance_flight.lru_cache import LruCache
from pyarrow import flight
from pyspark.sql.types import StructType

from lance_flight_client.dataset.conditions import RowCondition
from lance_flight_client.dataset.portions import TablePiece, balance_tasks, store_of, tasks_for
from lance_flight_client.dataset.views import PrunedTables, check_columns, prune_tables, resolve_pins
from lance_flight_client.flight import (
    FlightQuery,
    ServerAccess,
    ServerEndpoint,
    ServerPlan,
    certificates,
    endpoints,
    raise_server_errors,
    statement,
    table_select,
)
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.portions import DirectPortion, PlannedSnapshot
from lance_flight_client.spark.types import carried_batch, carried_schema, spark_schema

_FOUND = LruCache[tuple[object, ...], PrunedTables](16)
"""Pruned versions, whose partition tables all have fixed versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectPlan:
    """A read of a table at one version (`source.ReadPlan`); `committed_at` tells it from one that was made again since.

    `resolved` are the versions of those partition tables that have no fixed one, by object id.
    """

    options: ReadOptions
    table: TableName
    version: int
    committed_at: datetime
    resolved: Mapping[str, FixedPin]
    source: pa.Schema
    ids: Mapping[str, int]
    evolution: Evolution | None = None
    """The change of columns of a write that is read for; `source` has the columns after it."""

    @property
    def wanted(self) -> pa.Schema:
        """The columns that are read, as the table has them."""
        names = self.options.columns
        return self.source if names is None else pa.schema([self.source.field(name) for name in names])

    @property
    def schema(self) -> StructType:
        return spark_schema(self.wanted)

    def portions(self) -> list[DirectPortion]:
        return self.portions_of(self.plan_tables())

    def portions_of(self, found: PrunedTables) -> list[DirectPortion]:
        """Return the tasks that read the tables that were found."""
        counts = row_counts([piece.part.table for piece in found.pieces])
        tasks = tasks_for(sum(counts), self.options.partitions)
        share = -(-sum(counts) // tasks)
        parts = [
            (replace(piece, part=part), rows_of_part)
            for piece, rows in zip(found.pieces, counts, strict=True)
            for part, rows_of_part in divide_rows(piece.part.table, rows, share)
        ]
        return [self.portion(found, task) for task in balance_tasks(parts, tasks) or [[]]]

    def portion(self, found: PrunedTables, pieces: Sequence[TablePiece]) -> DirectPortion:
        """The task that reads some of the tables that were found."""
        return DirectPortion(
            name=self.table.name,
            planned=self.planned,
            source=self.source,
            ids=self.ids,
            schema=self.wanted,
            filters=found.filters,
            condition=None if found.condition is None else RowCondition.over(found.condition, self.source.names),
            pieces=pieces,
        )

    def plan_tables(self) -> PrunedTables:
        """Plan the read, once for each filter of a version: Spark asks for its predicates, its statistics and its tasks apart."""
        table, snapshot = self.open_table()
        filter, store = self.options.filter, self.planned.root
        key = (
            store.uri,
            tuple(sorted(store.storage_options.items())),
            self.table,
            self.version,
            self.committed_at,
            filter,
        )
        is_of_version = not self.resolved and self.evolution is None
        found = _FOUND.get(key) if is_of_version else None
        if found is None:
            found = prune_tables(table, snapshot, filter, self.resolved)
        if is_of_version:
            _FOUND.put(key, found)
        return found

    def open_table(self) -> tuple[Table, Snapshot]:
        """Return the table and the version that is read; errors as of `open_planned`."""
        return open_planned(self.planned)

    @property
    def planned(self) -> PlannedSnapshot:
        """The version that is read."""
        root = store_of(self.options.root or "", self.options.storage)
        return PlannedSnapshot(root, self.table, self.version, self.committed_at, self.evolution)

    def evolved(self, changes: ColumnChanges) -> DirectPlan | None:
        """Return this read with the columns that a write is going to change; None where they are changed before it (`ColumnChanges.plan`)."""
        table, snapshot = self.open_table()
        if not isinstance(table, PartitionedNamespace) or self.evolution is not None:
            return None
        evolution = changes.plan(table, snapshot)
        if evolution is None:
            return None
        schema = evolution.after
        return replace(self, evolution=evolution, source=schema.plain, ids=schema.ids)


def open_planned(planned: PlannedSnapshot) -> tuple[Table, Snapshot]:
    """Open the version that a read was planned at; `Conflict` where the table was made again since, or the version has expired."""
    name, version = planned.table.name, planned.version
    table = Root(planned.root).table(planned.table)
    try:
        snapshot = table.snapshot(version)
    except NotFound as exc:
        raise Conflict(
            f"table {name!r} has no version {version} any more, at which this read was planned: the table was dropped and made again,"
            " or the version has expired; load it again"
        ) from exc
    if snapshot.committed_at != planned.committed_at:
        raise Conflict(f"table {name!r} was dropped and made again since this read was planned; load it again")
    if planned.evolution is not None:
        snapshot = planned.evolution.on(table.store, snapshot).shown_on(snapshot)
    return table, snapshot


def plan_direct(options: ReadOptions) -> DirectPlan:
    """Choose the version that is read, and check that the filter and the columns fit it."""
    if options.table is None:
        raise AssertionError(options)
    name = TableName(*options.table)
    table = Root(store_of(options.root or "", options.storage)).table(name)
    planned = _plan_directly(options, name, table)
    check_columns(options.columns, planned.source)
    carried_schema(planned.wanted)
    if options.filter is not None:
        check_condition(options.filter, planned.source)
    return planned


def _plan_directly(options: ReadOptions, name: TableName, table: Table) -> DirectPlan:
    if table.branch is not None and options.filter is not None:
        raise Unsupported(f"{name.name!r} is a branch, and read directly without a filter; read it through a server")
    snapshot = _snapshot(options, name, table)
    return DirectPlan(
        options=options,
        table=name,
        version=snapshot.version,
        committed_at=snapshot.committed_at,
        resolved=resolve_pins(table, snapshot),
        source=snapshot.schema.plain,
        ids=snapshot.schema.ids,
    )


def _snapshot(options: ReadOptions, name: TableName, table: Table) -> Snapshot:
    try:
        return table.snapshot(options.at)
    except NotFound as exc:
        if options.snapshot is None:
            raise
        # A version may also be one of those that a table is made in.
        raise NotFound(
            f"table {name.name!r} has no version {options.snapshot}; those that there are stand in its metadata table 'snapshots'"
        ) from exc


ENDPOINTS = 16
"""Default maximum of the tasks of a read; a small read has fewer."""


def access_of(options: ReadOptions) -> ServerAccess:
    """Return the server and the credentials of the options; `InvalidInput` for a file of certificates that cannot be read."""
    roots = None if options.tls_roots is None else certificates(options.tls_roots)
    return ServerAccess(
        uri=options.uri or "",
        username=options.username,
        password=options.password,
        token=options.token,
        tls_roots=roots,
    )


@dataclass(frozen=True, slots=True)
class FlightPortion:
    """Endpoint for one task."""

    endpoint: ServerEndpoint

    @property
    def schema(self) -> pa.Schema:
        return self.endpoint.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows (`source.Portion`)."""
        carried = carried_schema(self.schema)
        return (carried_batch(batch, carried) for batch in self.endpoint.batches())


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightPlan:
    """The answer to a query (`source.ReadPlan`); `sql` asks for the same versions of tables again, where it can say them."""

    query: FlightQuery
    answer: ServerPlan

    @property
    def schema(self) -> StructType:
        return spark_schema(self.answer.schema)

    def portions(self) -> list[FlightPortion]:
        return [FlightPortion(endpoint) for endpoint in endpoints(self.query, self.answer)]


def plan_through_server(options: ReadOptions) -> FlightPlan:
    """Have the server plan the read; `ServerError` is what it says instead."""
    access = access_of(options)
    query = FlightQuery(access=access, sql=table_query(options, options.at), asked=options.partitions or ENDPOINTS)
    with closing(access.connect(access.uri)) as client, raise_server_errors(access):
        if options.query is not None:
            _check_query(client, query)
        answer = query.planned_by(client)
        if options.partitions is None and answer.rows is not None and tasks_for(answer.rows, None) < ENDPOINTS:
            # A task costs something before its first row.
            query = replace(query, asked=tasks_for(answer.rows, None))
            # A query of one endpoint is not counted.
            answer = replace(query.planned_by(client), rows=answer.rows)
    if options.table is not None:
        query = replace(query, sql=table_query(options, answer.versions[0]))
    carried_schema(answer.schema)
    return FlightPlan(query=query, answer=answer)


def table_query(options: ReadOptions, at: int | str | datetime | None) -> str:
    """Return the query of the options, for their table at a point of its history.

    >>> table_query(ReadOptions.parse({"uri": "grpc://h:1", "table": "t", "columns": "a"}), 3)
    'SELECT "a" FROM "public"."t@3"'
    """
    if options.table is None:
        return options.query or ""
    return table_select(options.table.db_schema, options.table.name, at, options.columns, options.filter)


def _check_query(client: flight.FlightClient, query: FlightQuery) -> None:
    """Refuse a statement that returns no rows before it is run: asking for its endpoints would run it."""
    schema = client.get_schema(statement(query.sql), query.access.call(client)).schema
    if not schema.names:
        raise InvalidInput(f"query {query.sql!r} returns no rows; expected one that does")
