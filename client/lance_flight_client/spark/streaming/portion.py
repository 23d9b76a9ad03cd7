"""Tasks of a stream: a task reads the rows that were added, and returns them in Spark's types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from lance_flight.catalog.history.additions import Added
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.errors import QueryFailed

from lance_flight_client.spark.reading.portion import DirectPortion


@dataclass(frozen=True, slots=True)
class StreamPortion:
    """Part of a batch for one task, read by the `rules` of the stream."""

    rules: DirectPortion
    added: Sequence[Added] = field(repr=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows (`source.Portion`)."""
        return self.rules.carried(batch for added in self.added for batch in self._read(added))

    def _read(self, added: Added) -> Iterator[pa.RecordBatch]:
        try:
            yield from added.read(self.rules.read, self.rules.ids)
        except UNREADABLE as exc:
            raise QueryFailed(f"reading {self.rules.name!r} failed: {added.table.store.words(exc)}") from exc
