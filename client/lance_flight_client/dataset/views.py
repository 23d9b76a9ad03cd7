"""Views of a table at one version: of a root, read without a server, and of a server, which prunes, filters and applies its policies."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Event, Thread
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.leases import SnapshotLease, leases
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.sources import PinnedTable, TablePart, divide_rows, row_counts
from lance_flight.engine.query.scan_planning import PlannedScan, plan_scan
from lance_flight.engine.translation.evaluation import check_condition
from lance_flight.errors import InvalidInput, NotFound, Unsupported
from lance_flight.model.pins import FixedPin
from lance_flight.model.schema import is_blob
from lance_flight.planning.arrow_expression import RowFilter

from lance_flight_client.dataset.conditions import RowCondition
from lance_flight_client.dataset.portions import Selection, TablePiece, TablePortion
from lance_flight_client.errors import ServerError
from lance_flight_client.flight import (
    FlightQuery,
    ServerAccess,
    ServerPlan,
    endpoints,
    raise_server_errors,
    table_clauses,
    table_select,
)


@dataclass(frozen=True, slots=True)
class PrunedTables:
    """Result of pruning a read: the filters of its tables, the condition that they do not cover, and the tables that are left.

    These stand in the order of the tables of `planned`.
    """

    filters: Sequence[RowFilter]
    condition: str | None
    pieces: Sequence[TablePiece]
    planned: PlannedScan

    @property
    def is_whole(self) -> bool:
        """Return whether every row of the tables that are left fulfils the filter."""
        return self.condition is None and all(filter.expression is None for filter in self.filters)


def prune_tables(
    table: Table, snapshot: Snapshot, filter: pc.Expression | str | None, resolved: Mapping[str, FixedPin]
) -> PrunedTables:
    """Plan a read of a snapshot; `resolved` has the versions of those partition tables without a fixed one, by object id."""
    planned = plan_scan(table, filter, snapshot=snapshot)
    top = table.store.top or table.store.uri
    filters: dict[int, RowFilter] = {id(planned_table.filter): planned_table.filter for planned_table in planned.tables}
    numbers = {key: number for number, key in enumerate(filters)}
    pieces = [
        TablePiece(
            filter=numbers[id(planned_table.filter)],
            part=TablePart(
                PinnedTable(
                    Store(planned_table.uri, table.store.storage_options, top=top),
                    planned_table.pin if isinstance(planned_table.pin, FixedPin) else resolved[planned_table.object_id],
                    context=planned_table.context,
                )
            ),
        )
        for planned_table in planned.tables
    ]
    return PrunedTables(tuple(filters.values()), planned.condition, pieces, planned)


def resolve_pins(table: Table, snapshot: Snapshot) -> dict[str, FixedPin]:
    """Return the versions that tables without a fixed one have now."""
    if snapshot.is_pinned:
        return {}
    floating = (
        partition_table for partition_table in snapshot.all_tables() if not isinstance(partition_table.pin, FixedPin)
    )
    return {
        partition_table.object_id: partitions.resolve(table.store.child(partition_table.location), partition_table.pin)
        for partition_table in floating
    }


def check_columns(names: Sequence[str] | None, source: pa.Schema) -> None:
    """Raise `NotFound` for a column that the table does not have."""
    for name in names or ():
        if name not in source.names:
            raise NotFound.named("column", name, source.names)


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """A snapshot as any process finds it, which then leases it for itself."""

    namespace: Store
    branch: str | None
    version: int
    committed_at: datetime

    def hold(self) -> SnapshotLease:
        """Keep it from being vacuumed while the result lives; `NotFound` where it is being removed already."""
        return leases.hold(self.namespace, (self.branch, self.version), self.committed_at, is_newest=False)


@dataclass(frozen=True, slots=True)
class TableFragment:
    """Some tables of a root, or a part of one (`view.Fragment`); the lease stays in this process."""

    portion: TablePortion
    rows: int
    place: SnapshotPlace
    lease: SnapshotLease | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[TableFragment], tuple[TablePortion, int, SnapshotPlace]]:
        return TableFragment, (self.portion, self.rows, self.place)

    @property
    def schema(self) -> pa.Schema:
        return self.portion.schema

    def count_rows(self) -> int:
        if self.portion.is_whole:
            return self.rows
        with self.lease or self.place.hold():
            return self.portion.count_rows()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        with self.lease or self.place.hold():
            yield from self.portion.rows()

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(self.to_batches(), self.schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class RootView:
    """A table at one version, with the tables that the filter leaves (`view.View`)."""

    name: str
    place: SnapshotPlace
    lease: SnapshotLease = field(repr=False)
    found: PrunedTables = field(repr=False)
    source: pa.Schema
    ids: Mapping[str, int] = field(repr=False)
    schema: pa.Schema
    has_blobs: bool

    @property
    def version(self) -> int:
        return self.place.version

    def count_rows(self) -> int:
        if self.found.is_whole:
            return sum(self._counts())
        with self.lease:
            return self._portion(self.found.pieces).count_rows()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        with self.lease:
            yield from self._portion(self.found.pieces).rows()

    def take_blobs(self, column: str, indices: Sequence[int]) -> list[BinaryIO | None]:
        check_columns([column], self.source)
        with self.lease:
            return self._portion(self.found.pieces).take_blobs(column, indices)

    def fragments(self, rows: int) -> Sequence[TableFragment]:
        return [
            TableFragment(self._portion([replace(piece, part=part)]), count, self.place, self.lease)
            for piece, stored in zip(self.found.pieces, self._counts(), strict=True)
            for part, count in divide_rows(piece.part.table, stored, rows)
        ]

    def close(self) -> None:
        """Leave the lease to what still references it."""

    def _counts(self) -> list[int]:
        return row_counts([piece.part.table for piece in self.found.pieces])

    def _portion(self, pieces: Sequence[TablePiece]) -> TablePortion:
        condition = self.found.condition
        return TablePortion(
            name=self.name,
            source=self.source,
            ids=self.ids,
            schema=self.schema,
            filters=self.found.filters,
            condition=None if condition is None else RowCondition.over(condition, self.source.names),
            pieces=pieces,
            is_merged=not self.has_blobs,
        )


def open_root(store: Store, name: TableName, snapshot: int | str | datetime | None, selection: Selection) -> RootView:
    """Open a table of a root: lease a version of it, check the filter and the columns, and prune."""
    table = Root(store).table(name)
    if isinstance(snapshot, datetime) and snapshot.tzinfo is None:
        snapshot = snapshot.replace(tzinfo=UTC)
    opened = table.snapshot(snapshot)
    with table.hold(opened, is_newest=snapshot is None) as lease:
        return _leased_view(name, table, opened, lease, selection)


def _leased_view(
    name: TableName, table: Table, snapshot: Snapshot, lease: SnapshotLease, selection: Selection
) -> RootView:
    source, filter, columns = snapshot.schema.plain, selection.filter, selection.columns
    check_columns(columns, source)
    _check_filter(name, table, filter, source)
    return RootView(
        name=str(name),
        place=SnapshotPlace(table.store, lease.snapshot[0], snapshot.version, snapshot.committed_at),
        lease=lease,
        found=prune_tables(table, snapshot, filter, resolve_pins(table, snapshot)),
        source=source,
        ids=snapshot.schema.ids,
        schema=source if columns is None else pa.schema([source.field(column) for column in columns]),
        has_blobs=any(map(is_blob, snapshot.schema.arrow)),
    )


def _check_filter(name: TableName, table: Table, filter: str | pc.Expression | None, source: pa.Schema) -> None:
    if isinstance(filter, str):
        if table.branch is not None:
            raise Unsupported(
                f"{name.name!r} is a branch, which is read directly without a filter in SQL;"
                " give a pyarrow expression, or read it through a server"
            )
        check_condition(filter, source)
    elif isinstance(filter, pc.Expression):
        try:
            source.empty_table().filter(filter)
        except (pa.ArrowException, TypeError) as exc:
            raise InvalidInput(
                f"filter {filter} is no condition over the columns {', '.join(source.names)}: {exc}"
            ) from exc
    elif filter is not None:
        raise InvalidInput(f"filter is {filter!r}; expected SQL or a pyarrow expression")


HEARTBEAT_SECONDS = 120
"""Pause between two questions that keep a version: a server leases what it has planned for ten minutes."""


@dataclass(frozen=True, slots=True)
class ServerFragment:
    """The rows of one partition (`portions.Fragment`), in the order of their ids."""

    query: FlightQuery
    schema: pa.Schema
    rows: int

    def count_rows(self) -> int:
        return self.rows

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return _rows(self.query)

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(self.to_batches(), self.schema)


@dataclass(frozen=True, kw_only=True)
class ServerView:
    """A table of a server at one version (`portions.View`)."""

    access: ServerAccess
    table: TableName
    version: int
    schema: pa.Schema
    filter: str | None
    _closing: Event = field(default_factory=Event, repr=False)

    @property
    def name(self) -> str:
        return str(self.table)

    def count_rows(self) -> int:
        counted = FlightQuery(access=self.access, sql=f"SELECT count(*) AS n{self._clauses()}")
        return int(_table(counted)["n"][0].as_py())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        return _rows(self._query(self.filter))

    def take_blobs(self, column: str, indices: Sequence[int]) -> list[BinaryIO | None]:
        raise Unsupported(
            f"a server opens no blobs as files; read {column!r} as a column, or open the root that the server serves"
        )

    def fragments(self, rows: int) -> Sequence[ServerFragment]:
        counted = f"SELECT _partition, count(*) AS n{self._clauses()} GROUP BY _partition ORDER BY _partition"
        counts = _table(FlightQuery(access=self.access, sql=counted)).to_pylist()
        return [
            ServerFragment(self._fragment(fragment["_partition"]), self.schema, fragment["n"]) for fragment in counts
        ]

    def keep(self) -> None:
        """Have the server keep the version until the view is closed, or nothing references it."""
        query = FlightQuery(access=self.access, sql=f"{self._query(None).sql} LIMIT 0")
        Thread(target=_keep, args=(query, self._closing), name="kept version", daemon=True).start()
        weakref.finalize(self, self._closing.set)

    def close(self) -> None:
        """Let the server remove the version."""
        self._closing.set()

    def _clauses(self) -> str:
        return table_clauses(self.table.db_schema, self.table.name, self.version, self.filter)

    def _query(self, condition: str | None) -> FlightQuery:
        sql = table_select(self.table.db_schema, self.table.name, self.version, self.schema.names, condition)
        return FlightQuery(access=self.access, sql=sql)

    def _fragment(self, partition: str | None) -> FlightQuery:
        # A plain table is one partition, which has no name.
        mine = None if partition is None else f"_partition = {_literal(partition)}"
        condition = " AND ".join(part for part in (mine, self.filter and f"({self.filter}\n)") if part) or None
        query = self._query(condition)
        # The same rows are in the same order each time, which a query does not promise.
        return FlightQuery(access=self.access, sql=f"{query.sql} ORDER BY _rowid", asked=1)


def open_server(
    access: ServerAccess, name: TableName, snapshot: int | str | datetime | None, selection: Selection
) -> ServerView:
    """Open a table of a server: the version is the one that it has planned with."""
    if selection.filter is not None and not isinstance(selection.filter, str):
        raise Unsupported(
            f"filter {selection.filter} is a pyarrow expression, which a server does not take; expected SQL"
        )
    sql = table_select(name.db_schema, name.name, snapshot, selection.columns, selection.filter)
    plan = FlightQuery(access=access, sql=sql).plan()
    if len(plan.versions) != 1:
        raise InvalidInput(f"{name.name!r} is no table with versions at the server; expected one, not a view")
    view = ServerView(access=access, table=name, version=plan.versions[0], schema=plan.schema, filter=selection.filter)
    view.keep()
    return view


def _keep(query: FlightQuery, closing: Event) -> None:
    while not closing.wait(HEARTBEAT_SECONDS):
        try:
            query.plan()
        except ServerError:
            # It may be back the next time; until then the retention of vacuum protects the version.
            continue


def _rows(query: FlightQuery) -> Iterator[pa.RecordBatch]:
    yield from _stream(query, query.plan())


def _table(query: FlightQuery) -> pa.Table:
    plan = query.plan()
    return pa.Table.from_batches(_stream(query, plan), plan.schema)


def _stream(query: FlightQuery, plan: ServerPlan) -> Iterator[pa.RecordBatch]:
    with raise_server_errors(query.access):
        for endpoint in endpoints(query, plan):
            yield from endpoint.batches()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
