"""Searches by many vectors at once: Lance compares a table's rows with all of them in one scan, or looks into its index for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lance_flight.catalog.search.best_rows import with_vectors
from lance_flight.catalog.search.search_results import ranked, read
from lance_flight.catalog.search.searching import VectorSearch, best_of_source
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import Open, Source

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
        running = [pool.submit(partial(_of_table, search, vectors, scan, table, check)) for scan, table in work]
        try:
            found = [future.result() for future in running]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [ranked(search, pa.concat_tables(tables)) for tables in zip(*found, strict=True)]


def _of_table(
    search: VectorSearch, vectors: Sequence[pa.Array], scan: Scan, table: Open, check: Callable[[], None]
) -> list[pa.Table]:
    sources = table()
    found: list[pa.Table] = []
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
            found.append(ranked(each, pa.concat_tables(parts)))
    return found


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


def keys_of_rows(found: Sequence[pa.Table], keys: pa.Array) -> pa.Array:
    """Return for each row of several tables, one after another, the key of its table."""
    return keys.take(pa.array(np.repeat(np.arange(len(found)), [table.num_rows for table in found])))
