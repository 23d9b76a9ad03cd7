"""The best rows of several tables: each table is searched with its own index, or without, and the best of all are kept.

Lance looks through files that no index is about row by row, so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import pyarrow as pa

from lance_flight.catalog.search import text_search
from lance_flight.catalog.search.best_rows import best_rows
from lance_flight.catalog.search.chosen_rows import Addresses, found
from lance_flight.catalog.search.search_results import DISTANCE, ranked
from lance_flight.catalog.search.text_search import TextSearch
from lance_flight.catalog.tables.scan import Open, Scan, Source


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorSearch:
    """The `count` rows whose vectors are nearest to one; `metric` None is that of the index, else l2.

    The vectors are in a column, or in a field inside structs, which has a dotted path.
    `nprobes` parts of an index are looked into, and `refine` times as many rows compared by their stored vectors. Rows that are
    not `among` some, by the numbers of their tables, do not count.
    """

    column: str
    vector: pa.Array
    count: int
    metric: str | None = None
    nprobes: int | None = None
    refine: int | None = None
    use_index: bool = True
    among: Mapping[int, Addresses] | None = None
    result: pa.Field = DISTANCE
    is_ascending: bool = True

    @property
    def root(self) -> str:
        """The column that the vectors are in: itself, or a struct with them."""
        return self.column.partition(".")[0]

    @property
    def is_merging(self) -> bool:
        """True if several tables may be searched as one."""
        return True

    @property
    def is_complete(self) -> bool:
        return not self.use_index

    def widened(self, count: int, *, is_whole: bool) -> Self:
        return replace(self, count=count, use_index=self.use_index and not is_whole)

    def arguments(self, column: str, rows: int | None) -> Mapping[str, Any]:
        nearest = {
            "column": column,
            "q": self.vector,
            "k": self.count if rows is None else max(rows, 1),
            "metric": self.metric,
            "nprobes": self.nprobes,
            "refine_factor": self.refine,
            "use_index": self.use_index and rows is None,
        }
        given = {name: value for name, value in nearest.items() if value is not None}
        return {"nearest": given, "prefilter": True, "disable_scoring_autoprojection": True}


AnySearch = VectorSearch | TextSearch


def best(
    search: AnySearch,
    work: Sequence[tuple[Scan, Open]],
    target_partitions: int,
    check: Callable[[], None] = lambda: None,
) -> pa.Table:
    """Return the best rows of one table or more, best first, equal ones in the order of tables and rows.

    `check` may end it between two.

    The columns of each scan have `search_results.ADDRESS` and a vector that is searched among them.
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
    return ranked(search, rows)


def _search_each(
    search: AnySearch, work: Sequence[tuple[Scan, Open]], pool: Executor, check: Callable[[], None]
) -> pa.Table:
    if isinstance(search, TextSearch):
        return text_search.found(search, work, pool, check)
    running = [pool.submit(partial(_of_table, search, scan, table, check)) for scan, table in work]
    return pa.concat_tables([future.result() for future in running])


def _of_table(search: VectorSearch, scan: Scan, table: Open, check: Callable[[], None]) -> pa.Table:
    check()

    def best_of(source: Source) -> pa.Table:
        def find(count: int, schema: pa.Schema) -> pa.Table:
            check()
            return found(replace(search, count=count), replace(scan, schema=schema), source)

        return best_rows(search, scan, source, find)

    return ranked(search, pa.concat_tables(map(best_of, table())))
