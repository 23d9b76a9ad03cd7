"""`dataset` opens a table; `Dataset` is the table at one version, with a filter and columns, for Arrow, pandas, Polars and DuckDB.

Its view is one of a root, read without a server, or of a server, which prunes, filters and applies its policies.
"""

from __future__ import annotations

import csv
import importlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from lance_flight.catalog.manifests.snapshot import FixedPin, Snapshot
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.leases import SnapshotLease, leases
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables import partitions
from lance_flight.catalog.tables.sources import PinnedTable, TablePart, divide_rows, row_counts
from lance_flight.engine.query.scan_planning import PlannedScan, plan_scan
from lance_flight.engine.translation.evaluation import check_condition
from lance_flight.errors import InvalidInput, NotFound, Unsupported
from lance_flight.model.schema import is_blob
from lance_flight.planning.arrow_expression import RowFilter

from lance_flight_client.dataset.conditions import RowCondition
from lance_flight_client.dataset.loading import BUFFER_ROWS, Loader, LoaderLayout, RowOrder, check_numeric
from lance_flight_client.dataset.portions import Fragment, Selection, TablePiece, TablePortion, View, store_of
from lance_flight_client.errors import ServerError
from lance_flight_client.flight import (
    FlightQuery,
    ServerAccess,
    ServerPlan,
    certificates,
    endpoints,
    raise_server_errors,
    table_clauses,
    table_select,
)

if TYPE_CHECKING:
    from lance_flight_client.dataset.torch_loader import TorchLoader


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


class Dataset:
    """View of a table at one version, which vacuum keeps for as long as the dataset is open.

    It may be read any number of times, also by what takes an Arrow stream (`__arrow_c_stream__`: DuckDB, Polars). It is closed by
    `close()`, at the end of a `with`, or when nothing references it; streams and fragments of it stay good.
    """

    def __init__(self, view: View) -> None:
        self._view: View | None = view
        self._name, self._version, self._schema = view.name, view.version, view.schema

    @property
    def name(self) -> str:
        """The table, with its schema."""
        return self._name

    @property
    def version(self) -> int:
        """The version that is read: what `snapshot=` takes to read the same elsewhere."""
        return self._version

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read, in their order."""
        return self._schema

    @property
    def view(self) -> View:
        """The source; `InvalidInput` once the dataset is closed."""
        if self._view is None:
            raise InvalidInput(f"the dataset of {self._name!r} is closed; open it again")
        return self._view

    def count_rows(self) -> int:
        """Return how many rows there are, from metadata alone where the filter is about whole partitions."""
        return self.view.count_rows()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows as a stream of batches, in an order that is the same for each read of a root."""
        return self.view.to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream that any library of Arrow takes, once."""
        return pa.RecordBatchReader.from_batches(self._schema, self.to_batches())

    def scanner(self) -> pads.Scanner:
        """Return the rows as a scanner of `pyarrow.dataset`, which reads them once."""
        return pads.Scanner.from_batches(self.to_reader())

    def to_table(self) -> pa.Table:
        """Return the rows as one table in memory."""
        return pa.Table.from_batches(self.to_batches(), self._schema)

    def to_pandas(self, **options: Any) -> Any:
        """Return the rows as a `pandas.DataFrame`; `options` are those of `pyarrow.Table.to_pandas`."""
        _library("pandas")
        return self.to_table().to_pandas(**options)

    def to_polars(self) -> Any:
        """Return the rows as a `polars.DataFrame`."""
        return _library("polars").from_arrow(self.to_table())

    def take_blobs(self, column: str, indices: Sequence[int]) -> list[BinaryIO | None]:
        """Return the blobs of a column as files that read the ranges which are asked for: `seek`, `read`, `size`; None for NULL.

        `indices` are places among the rows, in the order of `to_batches()`; the column may be one that is not read there. Keep the dataset
        open until the files are read.
        """
        return self.view.take_blobs(column, indices)

    def fragments(self, rows: int = 1_000_000) -> Sequence[Fragment]:
        """Return parts that other processes may read, each of about `rows` rows at most as far as files allow.

        They are the same in the same order whenever the same version is opened with the same filter and columns.
        """
        if rows < 1:
            raise InvalidInput(f"rows is {rows}; expected how many a fragment may have, at least 1")
        return self.view.fragments(rows)

    def to_torch(
        self,
        batch_size: int,
        *,
        shuffle: str | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        workers: int = 0,
        resume: Mapping[str, Any] | None = None,
        collate: Callable[[pa.RecordBatch], Any] | None = None,
        drop_last: bool = False,
        buffer_rows: int = BUFFER_ROWS,
    ) -> TorchLoader:
        """Return an `IterableDataset` of PyTorch over the batches of one rank: dicts of tensors, or what `collate` makes of each.

        Their order is that of the files, of shuffled partitions (`shuffle="partition"`), or of rows shuffled among `buffer_rows` others
        (`"rows"`); it depends on `seed` and the epoch. Every row is in one batch of one rank. `workers` are processes that read;
        `resume` goes on after the batch that a `state()` was taken at. Filters that are left are counted first, which reads their columns.
        """
        _library("torch")
        if collate is None:
            check_numeric(self._schema)
        loader = self.loader(
            batch_size,
            shuffle=shuffle,
            seed=seed,
            rank=rank,
            world_size=world_size,
            workers=workers,
            resume=resume,
            drop_last=drop_last,
            buffer_rows=buffer_rows,
        )
        module = importlib.import_module("lance_flight_client.dataset.torch_loader")
        made: TorchLoader = module.torch_loader(loader, collate)
        return made

    def loader(
        self,
        batch_size: int,
        *,
        rank: int,
        world_size: int,
        workers: int,
        resume: Mapping[str, Any] | None = None,
        **order: Any,
    ) -> Loader:
        """Return the batches of one rank as Arrow, for what `to_torch` does with them; `order` are fields of `RowOrder`."""
        if not self._schema.names:
            raise InvalidInput("columns is empty; expected at least one")
        fragments = self.fragments()
        row_order = RowOrder(
            counts=tuple(fragment.count_rows() for fragment in fragments),
            batch_size=batch_size,
            shards=max(world_size, 1) * max(workers, 1),
            **order,
        )
        place = {"rank": rank, "world_size": world_size, "workers": workers}
        layout = LoaderLayout.of(row_order, table=self._name, version=self._version, **place)
        return Loader(fragments, row_order, layout, resume)

    def close(self) -> None:
        """Let vacuum remove the version again, once no stream or fragment of this process needs it."""
        view, self._view = self._view, None
        if view is not None:
            view.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        closed = " closed" if self._view is None else ""
        return f"<Dataset {self._name} version {self._version}{closed}: {', '.join(self._schema.names)}>"


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        raise Unsupported(f"{name} is not installed here; install it (pip install {name})") from exc


def dataset(
    root: str | Path,
    table: str,
    *,
    snapshot: int | str | datetime | None = None,
    filter: str | pc.Expression | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    tls_ca: str | Path | None = None,
) -> Dataset:
    """Open a table at one version, which stays readable for as long as the result is open.

    `root` is a directory, an object-store URI with its `storage_options`, or a server (`grpc://host:port`, `grpc+tls://…`) with a `user` and
    `password` or a `token`, and who signs its certificate (`tls_ca`, a file of PEM); `table` a name or `schema.name`, with parts that hold
    a dot in "…". `snapshot` is a version, a tag, or a moment (UTC unless it has a zone), by default the newest version.
    `filter` is SQL, or a pyarrow expression where a root is read, over any columns of the table; `columns` are those that are read, in that order.
    """
    if columns is not None:
        _check_names(columns)
    name, selection = table_name(table), Selection(filter, columns)
    given = {"user": user, "password": password, "token": token, "tls_ca": tls_ca}
    if not str(root).startswith("grpc"):
        _check_none(given, f"root {str(root)!r}", "a server, grpc://host:port")
        return Dataset(open_root(store_of(str(root), storage_options or {}), name, snapshot, selection))
    _check_none({"storage_options": storage_options}, f"server {str(root)!r}", "a root in an object store")
    roots = None if tls_ca is None else certificates(str(tls_ca))
    access = ServerAccess(uri=str(root), username=user, password=password, token=token, tls_roots=roots)
    return Dataset(open_server(access, name, snapshot, selection))


def table_name(text: str) -> TableName:
    """Parse the name of a table, which is one of `public` without a schema.

    >>> str(table_name("a.b.t")), str(table_name('"x.y"'))
    ('a.b.t', 'public.x.y')
    """
    try:
        parts = next(csv.reader([text], delimiter=".", strict=True), [])
    except csv.Error:
        parts = []
    if not parts or not all(parts):
        raise InvalidInput(
            f'table {text!r} is no name; expected name or schema.name, with parts in "…" where they hold a dot'
        )
    return TableName(".".join(parts[:-1]) or PUBLIC, parts[-1])


def _check_none(given: Mapping[str, object], what: str, expected: str) -> None:
    given_names = [name for name, value in given.items() if value is not None]
    if given_names:
        raise InvalidInput(f"{what} takes no {given_names[0]}; it is for {expected}")


def _check_names(columns: Sequence[str]) -> None:
    if isinstance(columns, str):
        raise InvalidInput(f"columns is the text {columns!r}; expected a list of names")
    repeated = sorted({name for name in columns if list(columns).count(name) > 1})
    if repeated:
        raise InvalidInput(f"columns name {repeated[0]!r} twice; expected each once")
