"""Rows on their way out of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, eq=False)
class BatchStream:
    """Batches of one schema, each made when it is asked for.

    A reader of Arrow's would hand each of them from Python to Arrow and back once more, and let go of Python's lock on both ways.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.batches
