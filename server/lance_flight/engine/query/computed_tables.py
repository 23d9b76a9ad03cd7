"""Tables that are computed when DataFusion reads them, restricted to the columns that it selects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lance_flight.engine.query.provider import Compute, Projection, arrow_filter, projected


class ComputedTable(pads.Dataset):
    """Table in lanes, each of which is computed when it is read."""

    def __init__(self, schema: pa.Schema, lanes: Sequence[Compute]) -> None:
        self._schema = schema
        self._lanes = lanes

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> Projection:
        return Projection(projected(self._schema, columns))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Lane]:
        return (Lane(self._schema, compute) for compute in self._lanes)


@dataclass(frozen=True, slots=True)
class Lane:
    """Subset of the rows of a computed table, in the role of a dataset's fragment."""

    table: pa.Schema
    compute: Compute

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _LaneScanner:
        return _LaneScanner(self, projected(self.table, columns), filter)


@dataclass(frozen=True, slots=True)
class _LaneScanner:
    lane: Lane
    projected_schema: pa.Schema
    filter: pc.Expression | None

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows for which the filter is TRUE; it may use columns beyond those that are returned."""
        names = self.projected_schema.names
        condition, columns = (None, ()) if self.filter is None else arrow_filter(self.filter, self.lane.table)
        for batch in self.lane.compute(list(dict.fromkeys([*names, *columns]))):
            kept = batch if condition is None else batch.filter(condition)
            yield kept.select(names)
