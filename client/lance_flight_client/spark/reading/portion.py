"""Tasks of a direct read: the rows of a portion, in Spark's types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_flight_client.dataset.portions import TablePortion
from lance_flight_client.spark.types import carried_batch, carried_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectPortion(TablePortion):
    """Part of a read for one task."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows (`source.Portion`)."""
        return self.carried(self.scanned())

    def carried(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield those of `rows`, which have the columns of `read`, that fulfil the condition, in Spark's types."""
        carried = carried_schema(self.schema)
        return (carried_batch(batch, carried) for batch in self.chosen(rows))
