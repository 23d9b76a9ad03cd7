"""Conditions that no filter of a scan covers: evaluated by the engine, in a module that only readers with one import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from lance_flight.engine.translation.evaluation import columns_in, compute


@dataclass(frozen=True, slots=True)
class RowCondition:
    """SQL condition over `columns`."""

    sql: str
    columns: Sequence[str]

    @classmethod
    def over(cls, sql: str, names: Sequence[str]) -> RowCondition:
        """Find which of the columns of a table the condition is over."""
        return cls(sql, columns_in(sql, names))

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows for which it is TRUE."""
        return batch.filter(compute(self.sql, batch, pa.bool_())) if batch.num_rows else batch
