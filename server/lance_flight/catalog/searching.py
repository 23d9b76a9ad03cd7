"""The best rows of several tables: each table is searched with its own index, or without, and the best of all are kept.

Lance looks through files that no index is about row by row, so that nothing is left out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance.query import FullTextQuery

from lance_flight.catalog import index_coverage
from lance_flight.catalog.disagreeing import physical
from lance_flight.catalog.scan import ADDRESS_FIELDS, Open, Scan, Source
from lance_flight.errors import Unsupported
from lance_flight.model.index_kinds import KINDS, OptionValue

DISTANCE = pa.field("_distance", pa.float32())
SCORE = pa.field("_score", pa.float32())

MOST_UNINDEXED = 200_000
_PLACE = "_place"


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
    """The `count` rows whose text matches a query best; `query` makes it for the name that a table has for the column.

    `options` are those of the index: texts without one are cut into words by the same. `is_indexed` says that indexed rows
    alone are asked for.
    """

    column: str
    query: Callable[[str], FullTextQuery]
    count: int
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    needs_index: bool = False
    is_indexed: bool = False
    result: pa.Field = SCORE
    is_ascending: bool = False

    def arguments(self, column: str, rows: int | None) -> Mapping[str, Any]:
        limit = {"limit": self.count} if rows is None else {}
        return {
            "full_text_query": self.query(column),
            "prefilter": True,
            "disable_scoring_autoprojection": True,
            "fast_search": self.is_indexed,
            **limit,
        }


AnySearch = VectorSearch | TextSearch


def best(
    search: AnySearch, work: Sequence[tuple[Scan, Open]], ways: int, check: Callable[[], None] = lambda: None
) -> pa.Table:
    """The best rows of one table or more, best first, equal ones in the order of the tables; `check` may end it between two."""
    with ThreadPoolExecutor(ways, thread_name_prefix="search") as pool:
        running = [pool.submit(partial(_of_table, search, scan, table, check)) for scan, table in work]
        try:
            found = [future.result() for future in running]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return ranked(search, pa.concat_tables(found))


def ranked(search: AnySearch, rows: pa.Table) -> pa.Table:
    """The first of some rows in the order of the search; what cannot be compared comes last."""
    worth = rows[search.result.name].combine_chunks().to_numpy(zero_copy_only=False)
    order = np.argsort(worth if search.is_ascending else -worth, kind="stable")
    return rows.take(pa.array(order[: search.count]))


def _of_table(search: AnySearch, scan: Scan, table: Open, check: Callable[[], None]) -> pa.Table:
    check()
    if isinstance(search, VectorSearch):
        return ranked(search, _read(scan, table()))
    return ranked(search, pa.concat_tables(_texts(search, scan, source) for source in table()))


def _read(scan: Scan, sources: Sequence[Source]) -> pa.Table:
    batches = [batch for batch in scan.read([lambda: sources]) if batch.num_rows]
    return pa.Table.from_batches(batches, scan.schema)


def _texts(search: TextSearch, scan: Scan, source: Source) -> pa.Table:
    """What a table has: Lance cuts texts into words by its index, and where there is none by rules of its own."""
    column = physical(source.dataset.schema, search.column, scan.ids.get(search.column))
    covered = frozenset() if column is None else index_coverage.covered(source.dataset, column.name, KINDS["inverted"])
    missing = tuple(each for each in source.dataset.get_fragments() if each.fragment_id not in covered)
    if covered and not (missing and search.needs_index):
        return _read(scan, [source])
    unindexed = _in_memory(search, scan, replace(source, fragments=missing))
    if not covered:
        return unindexed
    indexed = replace(scan, search=replace(search, is_indexed=True))
    return pa.concat_tables([_read(indexed, [source]), unindexed])


def _in_memory(search: TextSearch, scan: Scan, source: Source) -> pa.Table:
    """What files without an index have: they get one in memory."""
    names = [name for name in scan.schema.names if name != search.result.name]
    wanted = dict.fromkeys([*names, search.column])
    made = {field.name: field for field in (*scan.source, *ADDRESS_FIELDS)}
    rows = _read(replace(scan, search=None, schema=pa.schema([made[name] for name in wanted])), [source])
    if rows.num_rows > MOST_UNINDEXED:
        raise Unsupported(
            f"partition table {source.name!r} has {rows.num_rows:,} rows without a text index of column {search.column!r};"
            f" expected {MOST_UNINDEXED:,} at most: CREATE INDEX … USING inverted, or REINDEX"
        )
    texts = pa.table({search.column: rows[search.column], _PLACE: pa.array(range(rows.num_rows), pa.int64())})
    if not rows.num_rows:
        return scan.schema.empty_table()
    held = lance.write_dataset(texts, f"memory://{secrets.token_hex(8)}")
    held.create_scalar_index(search.column, "INVERTED", **{"with_position": True, **search.options})
    columns = [_PLACE, search.result.name]
    found = held.scanner(columns=columns, **search.arguments(search.column, None)).to_table()
    return rows.take(found[_PLACE]).append_column(search.result, found[search.result.name]).select(scan.schema.names)
