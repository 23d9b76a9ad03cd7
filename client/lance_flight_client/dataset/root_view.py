"""Views of tables of a root, read by this process or another without a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.leases import SnapshotLease, leases
from lance_flight.catalog.storage.store import Store
from lance_flight.catalog.table import Table
from lance_flight.catalog.tables.pinned_tables import divided
from lance_flight.catalog.tables.row_counts import row_counts
from lance_flight.engine.sql.functions import check_condition
from lance_flight.errors import InvalidInput, Unsupported
from lance_flight.model.schema import is_blob

from lance_flight_client.dataset.conditions import RowCondition
from lance_flight_client.dataset.portions import TablePiece, TablePortion
from lance_flight_client.dataset.pruning import PrunedTables, check_columns, prune_tables, resolve_pins
from lance_flight_client.dataset.selection import Selection


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
            for part, count in divided(piece.part.table, stored, rows)
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
    found = table.snapshot(snapshot)
    with table.hold(found, is_newest=snapshot is None) as lease:
        return _leased_view(name, table, found, lease, selection)


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
