"""Tables that are computed when DataFusion reads them, restricted to the columns that it selects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lance_flight.engine.query.tables.provider import Compute, Projection, arrow_filter, project_schema

_Of = TypeVar("_Of")
_Source = TypeVar("_Source")

_ROWS = 1024
"""Most rows of a batch of a `RowTable`."""


class ComputedTable(pads.Dataset):
    """Table in lanes, each of which is computed when it is read.

    `narrowed` returns lanes with at least the rows that a filter lets through, in place of all `lanes`.
    """

    def __init__(
        self,
        schema: pa.Schema,
        lanes: Sequence[Compute],
        narrowed: Callable[[pc.Expression], Sequence[Compute]] | None = None,
    ) -> None:
        self._schema = schema
        self._lanes = lanes
        self._narrowed = narrowed

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> Projection:
        return Projection(project_schema(self._schema, columns))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Lane]:
        lanes = self._lanes if filter is None or self._narrowed is None else self._narrowed(filter)
        return (Lane(self._schema, compute) for compute in lanes)


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
        return _LaneScanner(self, project_schema(self.table, columns), filter)


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


@dataclass(frozen=True, slots=True)
class ComputedColumn(Generic[_Of]):
    """Column of a `RowTable`: its field, and the function that computes its value of a subject."""

    name: str
    type: pa.DataType
    value: Callable[[_Of], object]
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class RowTable(Generic[_Source, _Of]):
    """Definition of a computed table with one row for each subject that its source lists."""

    subjects: Callable[[_Source], Iterable[_Of]]
    columns: tuple[ComputedColumn[_Of], ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table."""
        return pa.schema([pa.field(column.name, column.type, column.is_nullable) for column in self.columns])

    def of(
        self,
        source: _Source,
        narrowed: Callable[[pc.Expression], _Source] | None = None,
        further: Compute | None = None,
    ) -> ComputedTable:
        """Return the table over a source, with `further` rows; `narrowed` returns the source restricted by a filter on the table's columns."""
        if narrowed is None:
            return ComputedTable(self.schema, [partial(self._rows, source), *([] if further is None else [further])])
        return ComputedTable(
            self.schema, [partial(self._rows, source)], lambda filter: [partial(self._rows, narrowed(filter))]
        )

    def table(self, source: _Source) -> pa.Table:
        """Return all rows over a source."""
        return pa.Table.from_batches(self._rows(source, self.schema.names), self.schema)

    def _rows(self, source: _Source, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the named columns, or with all of them where none is named."""
        columns = [column for column in self.columns if column.name in names] or self.columns
        schema = pa.schema([pa.field(column.name, column.type, column.is_nullable) for column in columns])
        remaining = iter(self.subjects(source))
        while subjects := list(islice(remaining, _ROWS)):
            values = [pa.array([column.value(subject) for subject in subjects], column.type) for column in columns]
            yield pa.RecordBatch.from_arrays(values, schema=schema)
