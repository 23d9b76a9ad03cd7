"""Rows of files on their way into a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from lance_flight.errors import DataError, InvalidInput

from lance_flight_client.files.sources import RowSource
from lance_flight_client.terminal import Meter


@dataclass(slots=True)
class FileStream:
    """Rows of files, with the types of a schema, that something else passes on; a meter shows how many."""

    source: RowSource
    schema: pa.Schema
    doing: str
    _failures: list[DataError | OSError] = field(default_factory=list)

    @contextmanager
    def reader(self, hint: str) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows; an error of reading them is raised in place of one that names only who passed them on.

        `hint` says what helps where types were guessed.
        """
        meter = Meter(self.doing, self.source.size)
        try:
            yield pa.RecordBatchReader.from_batches(self.schema, self._rows(meter))
        except Exception:
            if self._failures:
                raise self._explain(hint) from None
            raise
        finally:
            meter.close()

    def _rows(self, meter: Meter) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.source.batches(self.schema, meter)
        except (DataError, OSError) as exc:
            self._failures.append(exc)
            raise

    def _explain(self, hint: str) -> DataError | InvalidInput:
        failure = self._failures[0]
        if isinstance(failure, OSError):
            return InvalidInput(f"the files cannot be read: {failure}; nothing was loaded")
        return DataError(f"{failure}{f'; {hint}' if self.source.guesses else ''}; nothing was loaded")
