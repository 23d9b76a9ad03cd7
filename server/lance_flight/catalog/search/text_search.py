"""Full-text searches: of the files of a table that an index covers, and of the rest, which get one in memory.

Lance cuts texts into words by their index, and where there is none by rules of its own. It scores each part by the
statistics of that part; to be compared, words are given the weights that those of all parts together would give them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any, Protocol, Self

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceFragment
from lance.query import FullTextQuery

from lance_flight.catalog.search import chosen_rows
from lance_flight.catalog.search.best_rows import best_rows
from lance_flight.catalog.search.chosen_rows import Addresses
from lance_flight.catalog.search.search_results import SCORE, TABLE
from lance_flight.catalog.search.text_indices import IndexedTexts
from lance_flight.catalog.search.text_queries import TextQuery
from lance_flight.catalog.search.text_statistics import Statistics
from lance_flight.catalog.tables.casting import physical
from lance_flight.catalog.tables.index_coverage import covered, index_of
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, Open, Scan, Source
from lance_flight.errors import Unsupported
from lance_flight.model.index_kinds import KINDS, OptionValue

MOST_UNINDEXED = 200_000
_PLACE = "_place"
_KIND = KINDS["inverted"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextSearch:
    """The `count` rows whose text matches a query best.

    `options` are those of the index: texts without one are cut into words by the same. `is_global` says that words are worth
    what they are in all tables together. `is_indexed` says that indexed rows alone are asked for, and `asked` how, for the
    name that a table has for the column. Rows that are not `among` some, by the numbers of their tables, do not count.
    """

    column: str
    query: TextQuery
    count: int
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    is_global: bool = True
    is_indexed: bool = False
    asked: Callable[[str], FullTextQuery] | None = None
    among: Mapping[int, Addresses] | None = None
    result: pa.Field = SCORE
    is_ascending: bool = False
    is_complete: bool = True

    @property
    def is_merging(self) -> bool:
        """True if several tables may be searched as one: then they have the same statistics."""
        return self.is_global

    def widened(self, count: int, *, is_whole: bool) -> Self:
        return replace(self, count=count)

    def arguments(self, column: str, rows: int | None) -> Mapping[str, Any]:
        limit = {"limit": self.count} if rows is None else {}
        return {
            "full_text_query": (self.asked or self.query.of)(column),
            "prefilter": True,
            "disable_scoring_autoprojection": True,
            "fast_search": self.is_indexed,
            **limit,
        }


def found(search: TextSearch, work: Sequence[tuple[Scan, Open]], pool: Executor, check: Callable[[], None]) -> pa.Table:
    """Return the best rows of each table; `check` may end it between two."""
    room = _Room(MOST_UNINDEXED)

    def opened(scan: Scan, table: Open) -> list[_Part]:
        check()
        return [part for source in table() for part in _parts(search, scan, source, room)]

    def known(part: _Part) -> Statistics:
        check()
        return part.statistics()

    def best(part: _Part) -> pa.Table:
        check()
        return best_rows(search, part.scan, part.source, partial(part.find, every))

    parts = [part for each in pool.map(opened, *zip(*work, strict=True)) for part in each]
    every = None
    if search.is_global and len(parts) > 1:
        every = Statistics.together(pool.map(known, parts))
    return pa.concat_tables([work[0][0].schema.append(TABLE).empty_table(), *pool.map(best, parts)])


class _Part(Protocol):
    """Some texts of a table that are searched in one way."""

    @property
    def scan(self) -> Scan:
        """The scan that reads rows of the table."""
        ...

    @property
    def source(self) -> Source:
        """The table, or its files with these texts."""
        ...

    def statistics(self) -> Statistics:
        """Return how rare the words of the query are in them."""
        ...

    def find(self, every: Statistics | None, count: int, schema: pa.Schema) -> pa.Table:
        """Return `count` of the best rows by statistics (None: by their own), with some columns."""
        ...


def _parts(search: TextSearch, scan: Scan, source: Source, room: _Room) -> list[_Part]:
    """Return what a table has, with an index and without."""
    columns, number = source.columns, scan.ids.get(search.column)
    column = physical(columns, search.column, number)
    files = source.dataset.get_fragments()
    is_filled = number is not None and bool(source.filling(columns, [number]))
    if not files or (column is None and not is_filled):
        return []
    index = None if column is None or is_filled else index_of(source.dataset, column.name, _KIND)
    known = frozenset() if index is None else covered(index)
    missing = [file for file in files if file.fragment_id not in known]
    unindexed = [_Unindexed(search, scan, replace(source, fragments=each), room) for each in _portions(missing)]
    if index is None or column is None or len(missing) == len(files):
        return [*unindexed]
    is_more = not source.tables and len(unindexed) > 1
    if missing and not search.query.needs_index and (is_more or not search.is_global):
        return [_Mixed(search, scan, source)]
    return [_Indexed(search, scan, source, IndexedTexts.of(source.dataset, column.name, index)), *unindexed]


def _portions(files: Sequence[LanceFragment]) -> list[tuple[LanceFragment, ...]]:
    """Return files in groups that have `MOST_UNINDEXED` rows at most, as far as no file has more by itself."""
    found: list[tuple[LanceFragment, ...]] = []
    room = 0
    for file in files:
        rows = file.count_rows()
        if rows > room:
            found.append(())
            room = MOST_UNINDEXED
        found[-1] += (file,)
        room -= rows
    return found


@dataclass(frozen=True, slots=True)
class _Indexed:
    """The files of a table that its index is about."""

    search: TextSearch
    scan: Scan
    source: Source
    texts: IndexedTexts

    def statistics(self) -> Statistics:
        return self.texts.statistics(self.search.query)

    def find(self, every: Statistics | None, count: int, schema: pa.Schema) -> pa.Table:
        search, scale = replace(self.search, is_indexed=True, count=count), 1.0
        if every is not None:
            asked, scale = self.texts.asked(self.search.query, every)
            search = replace(search, asked=asked)
        found = chosen_rows.found(search, replace(self.scan, schema=schema), self.source)
        return _scaled(found, search.result, scale)


@dataclass(frozen=True, slots=True)
class _Mixed:
    """A table whose files have an index in part, as Lance searches it: by its own statistics alone."""

    search: TextSearch
    scan: Scan
    source: Source

    def statistics(self) -> Statistics:
        return Statistics()

    def find(self, every: Statistics | None, count: int, schema: pa.Schema) -> pa.Table:
        return chosen_rows.found(replace(self.search, count=count), replace(self.scan, schema=schema), self.source)


@dataclass(slots=True)
class _Unindexed:
    """Files without an index: their rows that count get one in memory, cached while there is room."""

    search: TextSearch
    scan: Scan
    source: Source
    room: _Room
    kept: _Held | None = None

    def statistics(self) -> Statistics:
        held = self._field_lengths()
        if self.room.take(held.rows.num_rows):
            self.kept = held
        return Statistics() if held.texts is None else held.texts.statistics(self.search.query)

    def find(self, every: Statistics | None, count: int, schema: pa.Schema) -> pa.Table:
        held = self.kept or self._field_lengths()
        return held.find(replace(self.search, count=count), every).select(schema.names)

    def _field_lengths(self) -> _Held:
        names = [name for name in self.scan.schema.names if name != self.search.result.name]
        wanted = dict.fromkeys([*names, self.search.column])
        made = {field.name: field for field in (*self.scan.source, *ADDRESS_FIELDS)}
        scan = replace(self.scan, search=None, schema=pa.schema([made[name] for name in wanted]))
        rows = chosen_rows.rows_among(self.search.among, scan, self.source)
        if rows.num_rows > MOST_UNINDEXED:
            raise Unsupported(
                f"partition table {self.source.name!r} has {rows.num_rows:,} rows without a text index of column"
                f" {self.search.column!r}; expected {MOST_UNINDEXED:,} at most: CREATE INDEX … USING inverted, or REINDEX"
            )
        return _Held.of(rows, self.search)


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows with an index of their texts in memory."""

    rows: pa.Table
    texts: IndexedTexts | None

    @classmethod
    def of(cls, rows: pa.Table, search: TextSearch) -> Self:
        if not rows.num_rows:
            return cls(rows, None)
        texts = pa.table({search.column: rows[search.column], _PLACE: pa.array(range(rows.num_rows), pa.int64())})
        held = lance.write_dataset(texts, f"memory://{secrets.token_hex(8)}")
        options = {**search.options, "with_position": search.query.needs_index}
        held.create_scalar_index(search.column, "INVERTED", **options)
        index = index_of(held, search.column, _KIND)
        return cls(rows, None if index is None else IndexedTexts.of(held, search.column, index, is_lasting=False))

    def find(self, search: TextSearch, every: Statistics | None) -> pa.Table:
        if self.texts is None:
            return self.rows.append_column(search.result, pa.array([], search.result.type))
        scale = 1.0
        if every is not None:
            asked, scale = self.texts.asked(search.query, every)
            search = replace(search, asked=asked)
        columns = [_PLACE, search.result.name]
        best = self.texts.dataset.scanner(columns=columns, **search.arguments(search.column, None)).to_table()
        found = self.rows.take(best[_PLACE]).append_column(search.result, best[search.result.name])
        return _scaled(found, search.result, scale)


class _Room:
    """Limit of the rows that are kept in memory at a time."""

    def __init__(self, rows: int) -> None:
        self._left = rows
        self._lock = Lock()

    def take(self, rows: int) -> bool:
        """Return whether there is room for so many more."""
        with self._lock:
            if rows > self._left:
                return False
            self._left -= rows
            return True


def _scaled(rows: pa.Table, result: pa.Field, scale: float) -> pa.Table:
    if scale == 1.0:
        return rows
    worth = pc.divide(rows[result.name], scale).cast(result.type)
    return rows.set_column(rows.schema.get_field_index(result.name), result, worth)
