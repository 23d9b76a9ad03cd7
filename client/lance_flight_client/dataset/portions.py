"""Portions of a read: values that may go to other processes, which open the tables at their pins, filter, and return the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.catalog.tables.merged import MERGED_TABLES, sources
from lance_flight.catalog.tables.pinned_tables import TablePart
from lance_flight.catalog.tables.scan import Open, Scan
from lance_flight.errors import QueryFailed
from lance_flight.planning.row_filters import RowFilter

if TYPE_CHECKING:
    # Its engine is imported by the readers alone that are given a condition.
    from lance_flight_client.dataset.conditions import RowCondition


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePiece:
    """A table of a spec version, or a part of one."""

    spec_id: int
    part: TablePart


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePortion:
    """Part of a read: `source` are all columns of the table, `schema` those that are read.

    Rows are kept that the filter of their spec version leaves, and for which the `condition` is TRUE.
    """

    name: str
    source: pa.Schema
    ids: Mapping[str, int]
    schema: pa.Schema
    filters: Mapping[int, RowFilter] = field(repr=False)
    condition: RowCondition | None
    pieces: Sequence[TablePiece] = field(repr=False)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the columns of `schema`."""
        return self.chosen(self.scanned())

    def count_rows(self) -> int:
        """Count the rows: from metadata alone where no filter is left."""
        return sum(batch.num_rows for batch in replace(self, schema=pa.schema([])).rows())

    @property
    def is_whole(self) -> bool:
        """Return whether the rows are all those of whole tables."""
        filters = (self.filters[piece.spec_id].expression for piece in self.pieces)
        return (
            self.condition is None
            and all(each is None for each in filters)
            and all(piece.part.of == 1 for piece in self.pieces)
        )

    def chosen(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield those of `rows`, which have the columns of `read`, that fulfil the condition, in the columns of `schema`."""
        for batch in rows:
            chosen = batch if self.condition is None else self.condition.filter(batch)
            yield chosen.select(self.schema.names)

    @property
    def read(self) -> pa.Schema:
        """The columns that are read."""
        needed = () if self.condition is None else self.condition.columns
        return pa.schema([self.source.field(name) for name in dict.fromkeys([*self.schema.names, *needed])])

    def scanned(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the filters leave, in the columns of `read`."""
        for spec_id, filter in self.filters.items():
            pieces = [piece for piece in self.pieces if piece.spec_id == spec_id]
            try:
                yield from self._scan(filter).read(_opens([piece.part for piece in pieces]))
            except UNREADABLE as exc:
                words = pieces[0].part.table.store.words(exc)
                raise QueryFailed(f"reading {self.name!r} failed: {words}") from exc

    def _scan(self, filter: RowFilter) -> Scan:
        return Scan(
            source=self.source,
            schema=self.read,
            filter=filter.expression,
            rest=filter.rest,
            filter_columns=filter.columns,
            pushable=filter.pushable,
            ids=self.ids,
        )


def _opens(parts: Sequence[TablePart]) -> Iterator[Open]:
    """Return how tables are opened: parts by themselves, whole ones merged."""
    yield from (part.sources for part in parts if part.of > 1)
    whole = [part.table for part in parts if part.of == 1]
    for start in range(0, len(whole), MERGED_TABLES):
        yield partial(sources, whole[start : start + MERGED_TABLES])
