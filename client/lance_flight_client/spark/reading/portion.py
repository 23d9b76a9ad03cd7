"""Tasks of a direct read: the rows of a portion, in Spark's types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
from lance_flight.catalog.roots.table_name import TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.errors import LanceFlightError

from lance_flight_client.dataset.portions import TablePortion
from lance_flight_client.spark.source import imported
from lance_flight_client.spark.types import carried_batch, carried_schema


@dataclass(frozen=True, slots=True)
class PlannedSnapshot:
    """The version of a table that a read was planned at; `committed_at` tells it from one that was made again since."""

    root: Store
    table: TableName
    version: int
    committed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectPortion(TablePortion):
    """Part of a read for one task."""

    planned: PlannedSnapshot = field(repr=False)

    def scanned(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the filters leave; errors as of `direct.open_planned` if the table has gone meanwhile."""
        try:
            # A class with slots is made twice, and super() finds the first one.
            yield from TablePortion.scanned(self)
        except LanceFlightError:
            # Whether it is the same table costs a read of its manifest, so it is asked where its files are missing alone.
            imported("reading.direct").open_planned(self.planned)
            raise

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows (`source.Portion`)."""
        return self.carried(self.scanned())

    def carried(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield those of `rows`, which have the columns of `read`, that fulfil the condition, in Spark's types."""
        carried = carried_schema(self.schema)
        return (carried_batch(batch, carried) for batch in self.chosen(rows))
