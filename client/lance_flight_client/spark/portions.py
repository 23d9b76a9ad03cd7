"""Portions as Spark's tasks read them, from a table or from what a stream of it added, in Spark's types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from lance_flight.catalog.history import Added
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.errors import DataError, LanceFlightError
from lance_flight.model.naming import TableName

from lance_flight_client.dataset.portions import TablePortion
from lance_flight_client.spark.source import import_planner
from lance_flight_client.spark.types import carried_batch, carried_schema

if TYPE_CHECKING:
    from lance_flight.catalog.bulk.shared_writes import Evolution


@dataclass(frozen=True, slots=True)
class PlannedSnapshot:
    """The version of a table that a read was planned at; `committed_at` tells it from one that was made again since.

    With an `evolution` it is read with the columns that a write is going to change.
    """

    root: Store
    table: TableName
    version: int
    committed_at: datetime
    evolution: Evolution | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectPortion(TablePortion):
    """Part of a read for one task."""

    planned: PlannedSnapshot = field(repr=False)

    def scan(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the filters leave; errors as of `direct.open_planned` if the table has gone meanwhile."""
        try:
            # A class with slots is made twice, and super() finds the first one.
            yield from TablePortion.scan(self)
        except LanceFlightError:
            # Whether it is the same table costs a read of its manifest, so it is asked where its files are missing alone.
            import_planner("reading").open_planned(self.planned)
            raise

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows (`source.Portion`)."""
        return self.select_rows(self.scan())

    def select_rows(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield those of `rows`, which have the columns of `read`, that fulfil the condition, in Spark's types."""
        carried = carried_schema(self.schema)
        return (carried_batch(batch, carried) for batch in self.filter_rows(rows))


@dataclass(frozen=True, slots=True)
class StreamPortion:
    """Part of a batch for one task, read by the `rules` of the stream; `required` are columns that Spark takes for NOT NULL."""

    rules: DirectPortion
    added: Sequence[Added] = field(repr=False)
    required: tuple[pa.Field, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows (`source.Portion`); `DataError` for a NULL in a required column."""
        for batch in self.rules.select_rows(batch for added in self.added for batch in self._read(added)):
            for column in self.required:
                self._check(batch.column(column.name), column, column.name)
            yield batch

    def _check(self, values: pa.Array, required: pa.Field, path: str) -> None:
        if values.null_count and not required.nullable:
            raise DataError(
                f"column {path!r} of table {self.rules.name!r} is NOT NULL, and NULL in rows that were added when it was not; expected a"
                ' stream that starts later, or readStream.format("lance_flight"), which reads them as NULL'
            )
        if pa.types.is_struct(values.type):
            # A field inside a struct that is NULL has no value.
            inside = values.drop_null()
            for name, inner in zip((column.name for column in required.type), inside.flatten(), strict=True):
                self._check(inner, required.type.field(name), f"{path}.{name}")

    def _read(self, added: Added) -> Iterator[pa.RecordBatch]:
        try:
            yield from added.read(self.rules.read, self.rules.ids)
        except UNREADABLE as exc:
            raise added.table.store.reading_error(self.rules.name, exc) from exc
