"""The best rows of several tables: each table is searched with its own index, or without, and the best of all are kept.

Lance looks through files that no index is about row by row, so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from lance.query import FullTextQuery

from lance_flight.catalog.scan import Open, Scan

DISTANCE = pa.field("_distance", pa.float32())
SCORE = pa.field("_score", pa.float32())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorSearch:
    """The `count` rows whose vectors are nearest to one; `metric` None is that of the index, else l2.

    `nprobes` parts of an index are looked into, and `refine` times as many rows compared by their stored vectors.
    """

    column: str
    vector: pa.Array
    count: int
    metric: str | None = None
    nprobes: int | None = None
    refine: int | None = None
    use_index: bool = True
    result: pa.Field = DISTANCE
    is_ascending: bool = True

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextSearch:
    """The `count` rows whose text matches a query best; `query` makes it for the name that a table has for the column."""

    column: str
    query: Callable[[str], FullTextQuery]
    count: int
    result: pa.Field = SCORE
    is_ascending: bool = False

    def arguments(self, column: str, rows: int | None) -> Mapping[str, Any]:
        limit = {"limit": self.count} if rows is None else {}
        return {
            "full_text_query": self.query(column),
            "prefilter": True,
            "disable_scoring_autoprojection": True,
            **limit,
        }


AnySearch = VectorSearch | TextSearch


def best(
    search: AnySearch, work: Sequence[tuple[Scan, Open]], ways: int, check: Callable[[], None] = lambda: None
) -> pa.Table:
    """The best rows of all tables, best first, equal ones in the order of the tables; `check` may end it between two tables."""
    with ThreadPoolExecutor(ways, thread_name_prefix="search") as pool:
        running = [pool.submit(partial(_of_table, search, scan, table, check)) for scan, table in work]
        try:
            found = [future.result() for future in running]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return ranked(search, pa.concat_tables(found)) if found else work_schema(work).empty_table()


def ranked(search: AnySearch, rows: pa.Table) -> pa.Table:
    """The first of some rows in the order of the search; what cannot be compared comes last."""
    worth = rows[search.result.name].combine_chunks().to_numpy(zero_copy_only=False)
    order = np.argsort(worth if search.is_ascending else -worth, kind="stable")
    return rows.take(pa.array(order[: search.count]))


def work_schema(work: Sequence[tuple[Scan, Open]]) -> pa.Schema:
    """The columns of what is found; none where nothing is searched."""
    return work[0][0].schema if work else pa.schema([])


def _of_table(search: AnySearch, scan: Scan, table: Open, check: Callable[[], None]) -> pa.Table:
    check()
    batches = [batch for batch in scan.read([table]) if batch.num_rows]
    return ranked(search, pa.Table.from_batches(batches, scan.schema))
