"""Portions of a read: values that other processes can take, which open partition tables at their pinned versions and return rows."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.catalog.storage.lance_columns import open_blobs
from lance_flight.catalog.storage.store import UNREADABLE, Store
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, Scan
from lance_flight.catalog.tables.schema_adapter import physical
from lance_flight.catalog.tables.sources import MERGED_TABLES, Open, Source, TablePart, sources
from lance_flight.errors import InvalidInput
from lance_flight.model.schema import is_blob
from lance_flight.planning.arrow_expression import RowFilter

if TYPE_CHECKING:
    # Its engine is imported by the readers alone that are given a condition.
    from lance_flight_client.dataset.conditions import RowCondition


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePiece:
    """A table, or a part of one, and the number of the filter of its rows."""

    filter: int
    part: TablePart


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePortion:
    """Part of a read: `source` are all columns of the table, `schema` those that are read.

    Rows are kept that the filter of their table leaves, and for which the `condition` is TRUE. Whole tables are read several at a time where
    they are to be merged: Lance opens blobs as files in a table by itself alone.
    """

    name: str
    source: pa.Schema
    ids: Mapping[str, int]
    schema: pa.Schema
    filters: Sequence[RowFilter] = field(repr=False)
    condition: RowCondition | None
    pieces: Sequence[TablePiece] = field(repr=False)
    is_merged: bool = True

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in the columns of `schema`."""
        return self.filter_rows(self.scan())

    def count_rows(self) -> int:
        """Count the rows: from metadata alone where no filter is left."""
        return sum(batch.num_rows for batch in replace(self, schema=pa.schema([])).rows())

    @property
    def is_whole(self) -> bool:
        """Return whether the rows are all those of whole tables."""
        filters = (self.filters[piece.filter].expression for piece in self.pieces)
        return (
            self.condition is None
            and all(each is None for each in filters)
            and all(piece.part.of == 1 for piece in self.pieces)
        )

    def filter_rows(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield those of `rows`, which have the columns of `read`, that fulfil the condition, in the columns of `schema`."""
        for batch in rows:
            chosen = batch if self.condition is None else self.condition.filter(batch)
            yield chosen.select(self.schema.names)

    @property
    def read(self) -> pa.Schema:
        """The columns that are read."""
        needed = () if self.condition is None else self.condition.columns
        return pa.schema([self.source.field(name) for name in dict.fromkeys([*self.schema.names, *needed])])

    def scan(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the filters leave, in the columns of `read`."""
        for number, filter in enumerate(self.filters):
            pieces = [piece for piece in self.pieces if piece.filter == number]
            try:
                yield from self._scan(filter).read(self._opens([piece.part for piece in pieces]))
            except UNREADABLE as exc:
                raise pieces[0].part.table.store.reading_error(self.name, exc) from exc

    def take_blobs(self, column: str, indices: Sequence[int]) -> list[BinaryIO | None]:
        """Return the blobs of a column of `source` as files, of the rows at some places in `rows()`."""
        wanted = np.asarray(indices, np.int64)
        blobs: dict[int, BinaryIO | None] = {}
        first, last = 0, int(wanted.max(initial=-1))
        for filter, sources_of in self._sources():
            if first > last:
                break
            for source in sources_of():
                addresses = self._addresses(filter, source, last + 1 - first)
                (mine,) = np.nonzero((wanted >= first) & (wanted < first + len(addresses)))
                rows = addresses[wanted[mine] - first].tolist()
                blobs |= zip(mine.tolist(), _open_blobs(source, column, self.ids.get(column), rows), strict=True)
                first += len(addresses)
        missing = next((number for place, number in enumerate(wanted.tolist()) if place not in blobs), None)
        if missing is not None:
            raise InvalidInput(
                f"indices has {missing}; expected places among the {first} rows of {self.name!r} from 0 on"
            )
        return [blobs[place] for place in range(len(wanted))]

    def _sources(self) -> Iterator[tuple[RowFilter, Open]]:
        for number, filter in enumerate(self.filters):
            pieces = [piece for piece in self.pieces if piece.filter == number]
            for opened in self._opens([piece.part for piece in pieces]):
                yield filter, opened

    def _opens(self, parts: Sequence[TablePart]) -> Iterator[Open]:
        """Return how tables are opened: parts by themselves, whole ones merged."""
        alone = [part for part in parts if part.of > 1 or not self.is_merged]
        yield from (part.sources for part in alone)
        whole = [part.table for part in parts if part.of == 1 and self.is_merged]
        for start in range(0, len(whole), MERGED_TABLES):
            yield partial(sources, whole[start : start + MERGED_TABLES])

    def _addresses(self, filter: RowFilter, source: Source, most: int) -> np.ndarray:
        """Return Lance's addresses of the first rows of a source that are read, at least `most` of them if there are."""
        address = ADDRESS_FIELDS[1]
        read = pa.schema([*replace(self, schema=pa.schema([])).read, address])
        chosen = replace(self, schema=pa.schema([address]))
        columns, count = [], 0
        for batch in chosen.filter_rows(replace(self._scan(filter), schema=read).read([lambda: [source]])):
            columns.append(batch.column(0).to_numpy())
            count += batch.num_rows
            if count >= most:
                break
        return np.concatenate([np.empty(0, np.uint64), *columns])

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


def _open_blobs(source: Source, column: str, number: int | None, addresses: Sequence[int]) -> list[BinaryIO | None]:
    """Return the blobs of some rows of a source; a table that lacks the column has none."""
    there = physical(source.columns, column, number)
    if there is None or not addresses:
        return [None] * len(addresses)
    if not is_blob(there):
        raise InvalidInput(
            f"column {column!r} of {source.name!r} is {there.type}, not a blob; read it with to_batches()"
        )
    return open_blobs(source.dataset, there.name, addresses)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows and columns that are read (None: all): a condition in SQL or of pyarrow, and names."""

    filter: str | pc.Expression | None = None
    columns: Sequence[str] | None = None


def store_of(root: str, storage: Mapping[str, str]) -> Store:
    """Return the place of a root; `InvalidInput` for a directory that this machine does not have."""
    if "://" in root:
        return Store(root.rstrip("/"), dict(storage))
    path = Path(root).expanduser().resolve()
    if not path.is_dir():
        raise InvalidInput(f"root {root!r} is no directory here; expected one, or an object-store URI")
    return Store(str(path), dict(storage))


class Fragment(Protocol):
    """Part of a dataset; it is pickled, and read in any process that reaches the root or the server."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    @property
    def rows(self) -> int | None:
        """Most rows that it has: those that are stored, of which the filter may leave fewer (None: not known)."""
        ...

    def count_rows(self) -> int:
        """Return how many rows the filter leaves."""
        ...

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        ...

    def to_table(self) -> pa.Table:
        """Return the rows."""
        ...


class View(Protocol):
    """Source of a dataset: a root, or a server."""

    @property
    def name(self) -> str:
        """The table, with its schema."""
        ...

    @property
    def version(self) -> int:
        """The version that is read."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read."""
        ...

    def count_rows(self) -> int:
        """Return how many rows the filter leaves."""
        ...

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and keep their snapshot until the last one."""
        ...

    def take_blobs(self, column: str, indices: Sequence[int]) -> list[BinaryIO | None]:
        """Return the blobs of some rows as files, by their places among the rows."""
        ...

    def fragments(self, rows: int) -> Sequence[Fragment]:
        """Return parts of about so many rows at most, always the same ones in the same order."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


T = TypeVar("T")

ROWS_PER_TASK = 1_000_000


def tasks_for(rows: int, most: int | None) -> int:
    """Return how many tasks read so many rows: `most`, where it is given.

    >>> tasks_for(0, None), tasks_for(2_500_000, None), tasks_for(2_500_000, 8)
    (1, 3, 8)
    """
    return max(1, -(-rows // ROWS_PER_TASK)) if most is None else most


def balance_tasks(pieces: Sequence[tuple[T, int]], tasks: int) -> list[list[T]]:
    """Pieces and their weights, dealt out to at most `tasks`, the heaviest first; no task without a piece.

    >>> balance_tasks([("a", 1), ("b", 5), ("c", 2), ("d", 2)], 2)
    [['b'], ['c', 'd', 'a']]
    """
    dealt: list[list[T]] = [[] for _ in range(tasks)]
    loads = [(0, task) for task in range(tasks)]
    for piece, weight in sorted(pieces, key=lambda pair: -pair[1]):
        load, task = loads[0]
        dealt[task].append(piece)
        # What is empty counts too: a table costs something before its first row.
        heapq.heapreplace(loads, (load + max(weight, 1), task))
    return [task for task in dealt if task]
