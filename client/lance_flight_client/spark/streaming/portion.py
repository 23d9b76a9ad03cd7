"""Tasks of a stream: a task reads the rows that were added, and returns them in Spark's types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from lance_flight.catalog.history.additions import Added
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.errors import DataError

from lance_flight_client.spark.reading.portion import DirectPortion


@dataclass(frozen=True, slots=True)
class StreamPortion:
    """Part of a batch for one task, read by the `rules` of the stream; `required` are columns that Spark takes for NOT NULL."""

    rules: DirectPortion
    added: Sequence[Added] = field(repr=False)
    required: tuple[pa.Field, ...] = ()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows (`source.Portion`); `DataError` for a NULL in a required column."""
        for batch in self.rules.carried(batch for added in self.added for batch in self._read(added)):
            for each in self.required:
                self._check(batch.column(each.name), each, each.name)
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
            for name, inner in zip((each.name for each in required.type), inside.flatten(), strict=True):
                self._check(inner, required.type.field(name), f"{path}.{name}")

    def _read(self, added: Added) -> Iterator[pa.RecordBatch]:
        try:
            yield from added.read(self.rules.read, self.rules.ids)
        except UNREADABLE as exc:
            raise added.table.store.reading_error(self.rules.name, exc) from exc
