"""Vector searches over many tables, by one vector or by several.

Lance looks through files that no index is about row by row, so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa

from lance_flight.catalog.search import text_search
from lance_flight.catalog.search.row_ranking import (
    DISTANCE,
    RowSearch,
    addresses_in,
    best_rows,
    indexed_files,
    rank_rows,
    read,
    rows_in,
    search_table,
    with_vectors,
)
from lance_flight.catalog.search.text_search import TextSearch
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import Open, Source
from lance_flight.model.index_kinds import IndexKind

_MORE = 8
"""Times as many rows are asked for where the last ones found are equal."""
ROUNDING = 2.0**-18
"""The part of a distance by which it may differ where its vector is measured in two ways."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorSearch(RowSearch):
    """The `count` rows whose vectors are nearest to one; `metric` None is that of the index, else l2.

    The vectors are in a column, or in a field inside structs, which has a dotted path.
    `nprobes` parts of an index are looked into, `ef` candidates of a graph kept, and `refine` times as many rows compared by their stored
    vectors. Rows that are not `among` some, by the numbers of their tables, do not count, nor do those whose distance is less than `least`
    or more than `most`, nor, with `indexed_by` a kind of index, those that no such index is about.

    Where an index `bounds_exactly`, it finds all rows from `least` on that it would find in a longer list. By what it measures itself: on
    some processors Lance adds up the numbers of an index in another order than those of a table, and the last places differ.
    """

    column: str
    vector: pa.Array
    metric: str | None = None
    nprobes: int | None = None
    refine: int | None = None
    ef: int | None = None
    least: float | None = None
    most: float | None = None
    bounds_exactly: bool = False
    indexed_by: IndexKind | None = None
    use_index: bool = True
    result: pa.Field = DISTANCE
    is_ascending: bool = True
    precision: float = 0.0

    @property
    def has_many_vectors(self) -> bool:
        """True if the search is one of multivectors (MaxSim): their distance is the sum over `vector` of the nearest one of a row."""
        return self.vector is not None and pa.types.is_nested(self.vector.type)

    @property
    def may_miss_rows(self) -> bool:
        """True if an index may find fewer rows than are wanted where there are more: many vectors that it finds may be of the same row."""
        return self.has_many_vectors and self.use_index and self.refine is not None and self.indexed_by is None

    @property
    def is_merging(self) -> bool:
        """True if several tables may be searched as one."""
        return True

    @property
    def is_complete(self) -> bool:
        return not self.use_index

    def widen(self, count: int, *, is_whole: bool) -> Self:
        return replace(self, count=count, use_index=self.use_index and not is_whole)

    def arguments(self, column: str, rows: int | None) -> Mapping[str, Any]:
        use_index, count = self.use_index and rows is None, self.count if rows is None else max(rows, 1)
        is_bounded = self.least is not None and (self.bounds_exactly or not use_index)
        refine, vector = self.refine, self.vector
        if self.has_many_vectors:
            # Lance compares as many rows by their stored vectors as it finds by each vector, which is ten times `k`, however they are refined.
            count, refine = count * (refine or 1) if use_index else count, 1
            vector = [part.values.cast(pa.float32()) for part in vector]
        nearest = {
            "column": column,
            "q": vector,
            "k": count,
            "metric": self.metric,
            "nprobes": self.nprobes,
            "refine_factor": refine,
            # Lance refuses fewer candidates than it is to find.
            "ef": None if self.ef is None else max(self.ef, count * (refine or 1)),
            "distance_range": (self._distance_bound(use_index=use_index), None) if is_bounded else None,
            "use_index": use_index,
        }
        given = {name: value for name, value in nearest.items() if value is not None}
        fast = {"fast_search": True} if use_index and self.indexed_by is not None else {}
        return {"nearest": given, "prefilter": True, "disable_scoring_autoprojection": True, **fast}

    def _distance_bound(self, *, use_index: bool) -> float | None:
        """Return the least distance that Lance is asked for: a little less where it is measured again (`not_before`)."""
        if self.least is None or self.refine is None or not use_index:
            return self.least
        return self.least - ROUNDING * max(abs(self.least), 1.0)

    def not_beyond(self, rows: pa.Table) -> pa.Table:
        """Return the rows that are near enough."""
        return rows if self.most is None else _between(rows, None, self.most)

    def not_before(self, rows: pa.Table) -> pa.Table:
        """Return the rows that are far enough."""
        return rows if self.least is None else _between(rows, self.least, None)


AnySearch = VectorSearch | TextSearch


def _between(rows: pa.Table, least: float | None, most: float | None) -> pa.Table:
    distances = rows[DISTANCE.name].to_numpy()
    low, high = np.float32(-np.inf if least is None else least), np.float32(np.inf if most is None else most)
    return rows.filter(pa.array((low <= distances) & (distances <= high)))


def best(
    search: AnySearch,
    work: Sequence[tuple[Scan, Open]],
    target_partitions: int,
    check: Callable[[], None] = lambda: None,
) -> pa.Table:
    """Return the best rows of one table or more, best first, equal ones in the order of tables and rows.

    `check` may end it between two.

    The columns of each scan have `search_results.ADDRESS` among them.
    """
    if isinstance(search, VectorSearch) and len(work) == 1:
        # Another thread costs as much as a fourth of the search.
        return _of_table(search, *work[0], check)
    with ThreadPoolExecutor(target_partitions, thread_name_prefix="search") as pool:
        try:
            rows = _search_each(search, work, pool, check)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return rank_rows(search, rows)


def best_of_equal(search: AnySearch, find: Callable[[AnySearch], pa.Table]) -> pa.Table:
    """Return the best of the rows that `find` returns best first; which of equal ones, and in which order, is random."""
    count = search.count
    while True:
        rows = find(replace(search, count=count))
        scores = rows[search.result.name].to_numpy()
        if rows.num_rows < count or scores[search.count - 1] < scores[-1] or scores[search.count - 1] > scores[-1]:
            break
        count *= _MORE
    # Equal scores have one place; NaN is no score, and equals itself here.
    places = np.cumsum(np.append(False, ~((scores[1:] == scores[:-1]) | np.isnan(scores[1:]))))[: len(scores)]
    order = np.lexsort((np.random.default_rng().random(len(scores)), places))
    return rows.take(pa.array(order[: search.count]))


def _search_each(
    search: AnySearch, work: Sequence[tuple[Scan, Open]], pool: Executor, check: Callable[[], None]
) -> pa.Table:
    if isinstance(search, TextSearch):
        return text_search.search_tables(search, work, pool, check)
    running = [pool.submit(partial(_of_table, search, scan, table, check)) for scan, table in work]
    return pa.concat_tables([future.result() for future in running])


def _of_table(search: VectorSearch, scan: Scan, table: Open, check: Callable[[], None]) -> pa.Table:
    check()
    tables = [best_of_source(search, scan, source, check) for source in table()]
    return tables[0] if len(tables) == 1 else rank_rows(search, pa.concat_tables(tables))


def best_of_source(
    search: VectorSearch, scan: Scan, source: Source, check: Callable[[], None], first: pa.Table | None = None
) -> pa.Table:
    """Return the best rows of one source; `first` is what Lance finds first for one row more than is wanted, where that is known."""
    files = None if search.indexed_by is None else indexed_files(search.column, scan, source)
    among = search.among if files is None else addresses_in(files, search.among, source)

    def find(count: int, schema: pa.Schema) -> pa.Table:
        check()
        if files is not None and not files:
            return schema.empty_table()
        if first is not None and count == search.count + 1:
            rows = first
        else:
            wanted, columns = replace(search, count=count, among=among), replace(scan, schema=schema)
            rows = search_table(wanted, columns, source)
            if search.may_miss_rows and rows.num_rows < count:
                rows = search_table(replace(wanted, use_index=False), columns, source)
        return search.not_beyond(rows if files is None else rows_in(files, rows))

    return best_rows(search, scan, source, find, search.not_before)


ROWS_AT_ONCE = 16_384
"""Rows that Lance finds for several vectors at once."""
_PLACE = pa.field("query_index", pa.int32(), nullable=False)
"""Lance's column with the place of the vector that a row was found for."""


def best_of_each(
    search: VectorSearch,
    vectors: Sequence[pa.Array],
    work: Sequence[tuple[Scan, Open]],
    target_partitions: int,
    check: Callable[[], None] = lambda: None,
) -> list[pa.Table]:
    """Return for each vector what `searching.best` returns for it."""
    with ThreadPoolExecutor(target_partitions, thread_name_prefix="search") as pool:
        running = [
            pool.submit(partial(_search_table_by_all, search, vectors, scan, table, check)) for scan, table in work
        ]
        try:
            best_of_tables = [future.result() for future in running]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [rank_rows(search, pa.concat_tables(tables)) for tables in zip(*best_of_tables, strict=True)]


def _search_table_by_all(
    search: VectorSearch, vectors: Sequence[pa.Array], scan: Scan, table: Open, check: Callable[[], None]
) -> list[pa.Table]:
    sources = table()
    best: list[pa.Table] = []
    at_once = max(1, ROWS_AT_ONCE // (search.count + 1))
    for start in range(0, len(vectors), at_once):
        some = vectors[start : start + at_once]
        firsts = [list(_first(search, some, scan, source, check)) for source in sources]
        for place, vector in enumerate(some):
            each = replace(search, vector=vector)
            parts = [
                best_of_source(each, scan, source, check, first[place])
                for source, first in zip(sources, firsts, strict=True)
            ]
            best.append(rank_rows(each, pa.concat_tables(parts)))
    return best


class _NotTogether(Exception):
    """A search that Lance cannot run for many vectors at once without finding all rows for each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Batch:
    """The same search by several vectors."""

    search: VectorSearch
    vectors: Sequence[pa.Array]

    @property
    def column(self) -> str:
        return self.search.column

    @property
    def result(self) -> pa.Field:
        return self.search.result

    @property
    def results(self) -> tuple[pa.Field, ...]:
        return self.search.result, _PLACE

    def arguments(self, column: str, rows: int | None) -> Mapping[str, Any]:
        if rows is not None:
            raise _NotTogether
        given = self.search.arguments(column, None)
        return {**given, "nearest": {**given["nearest"], "q": list(self.vectors)}}


def _first(
    search: VectorSearch, vectors: Sequence[pa.Array], scan: Scan, source: Source, check: Callable[[], None]
) -> Iterator[pa.Table | None]:
    """Yield what Lance finds first for each vector, one row more than is wanted; None for what it is to be asked for by itself.

    Lance takes many vectors as float32 alone.
    """
    are_few = len(vectors) == 1 or search.among is not None or not pa.types.is_float32(vectors[0].type)
    if are_few or _PLACE.name in source.dataset.schema.names:
        yield from [None] * len(vectors)
        return
    check()
    scan = with_vectors(search, scan, source)
    batch = _Batch(search=replace(search, count=search.count + 1), vectors=vectors)
    try:
        rows = read(replace(scan, search=batch, schema=scan.schema.append(_PLACE)), [source])
    except _NotTogether:
        yield from [None] * len(vectors)
        return
    places = rows[_PLACE.name].to_numpy()
    rows = rows.select(scan.schema.names)
    for place in range(len(vectors)):
        yield rows.filter(pa.array(places == place))


def keys_of_rows(tables: Sequence[pa.Table], keys: pa.Array) -> pa.Array:
    """Return for each row of several tables, one after another, the key of its table."""
    return keys.take(pa.array(np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])))
