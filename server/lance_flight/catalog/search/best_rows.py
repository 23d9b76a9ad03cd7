"""The best rows of one table: as many as are wanted, those worth the same in the order of tables and rows, and all that may be worth it.

Lance returns any of the rows that are worth the same as the last one, others for another count, and takes NULL inside a
vector for 0. So one row more than is wanted is asked for. Where that does not settle which rows are the best, more
and more of them are put in order by their addresses, and only those that are kept are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.search.chosen_rows import address_condition, places_of
from lance_flight.catalog.search.search_results import (
    ADDRESS,
    TABLE,
    Order,
    candidates,
    in_order,
    is_certain,
    placed,
    read,
    settled,
)
from lance_flight.catalog.tables.scan import Scan, Search
from lance_flight.catalog.tables.sources import Source
from lance_flight.catalog.tables.vector_gaps import may_have_gaps
from lance_flight.model.arrow_types import have_gaps, is_vector, vector_type, within

MORE = 8
"""So many times as many rows are asked for where too many are worth the same, or do not count."""
READ_AT_ONCE = 256

Find: TypeAlias = Callable[[int, pa.Schema], pa.Table]
"""Function that finds so many rows of a table, with some columns."""
Keep: TypeAlias = Callable[[pa.Table], pa.Table]
"""Function that returns those of the rows found that count."""


class OrderedSearch(Search, Order, Protocol):
    """A search of one column that says which rows are better."""


def _all(rows: pa.Table) -> pa.Table:
    return rows


def best_rows(search: OrderedSearch, scan: Scan, source: Source, find: Find, keep: Keep = _all) -> pa.Table:
    """Find the rows that may be among the best, in the columns of `scan`, each with the name of its table.

    `ADDRESS` is among these columns. What `keep` leaves out, of rows of which only what they are worth is known, does not count.
    """
    asked, wanted = search.count + 1, [*scan.schema.names, TABLE.name]
    scan = with_vectors(search, scan, source)
    rows = find(asked, scan.schema)
    best = _without_gaps(search, keep(settled(search, rows, asked)))
    if rows.num_rows >= asked and not is_certain(search, best, rows):
        best = _read_in_order(search, scan, source, find, keep)
    return candidates(search, placed(best, source)).select(wanted)


def with_vectors(search: OrderedSearch, scan: Scan, source: Source) -> Scan:
    """Return the same scan of a source with the vectors that are searched among its columns, if some may have NULL inside."""
    root = search.column.partition(".")[0]
    if root in scan.schema.names or not _is_of_vectors(scan.source, search.column):
        return scan
    path = scan.searched_path(search, source)
    if path is None or not may_have_gaps(source.dataset, path):
        return scan
    return replace(scan, schema=scan.schema.append(scan.source.field(root)))


def _read_in_order(search: OrderedSearch, scan: Scan, source: Source, find: Find, keep: Keep) -> pa.Table:
    """Find more and more rows by their addresses alone, and read the first of them."""
    narrow, asked = pa.schema([search.result, ADDRESS]), search.count + 1
    at_once = max(search.count, READ_AT_ONCE)
    while True:
        asked *= MORE
        rows = find(asked, narrow)
        best = placed(keep(settled(search, rows, asked)), source)
        if rows.num_rows >= asked and not is_certain(search, best, rows):
            continue
        # Of a vector's rows more are read than are wanted, since some may have NULL inside.
        known = candidates(search, best) if search.precision else in_order(search, best)
        kept, count = [scan.schema.empty_table()], 0
        for start in range(0, known.num_rows, at_once):
            kept.append(_without_gaps(search, _at(scan, source, known.slice(start, at_once), search.result)))
            count += kept[-1].num_rows
            if count >= search.count and not search.precision:
                break
        if count >= search.count or rows.num_rows < asked:
            return pa.concat_tables(kept)


def _at(scan: Scan, source: Source, known: pa.Table, result: pa.Field) -> pa.Table:
    """Read rows whose addresses are known, and what they are worth."""
    addresses = known[ADDRESS.name].to_numpy()
    stored = pa.schema([field for field in scan.schema if field.name != result.name])
    among = replace(
        scan, schema=stored, search=None, filter=None, rest=None, filter_columns=(), among=address_condition(addresses)
    )
    rows = read(among, [source])
    places = places_of(rows[ADDRESS.name].to_numpy(), addresses)
    return rows.append_column(result, known[result.name].take(pa.array(places))).select(scan.schema.names)


def _without_gaps(search: OrderedSearch, rows: pa.Table) -> pa.Table:
    """Leave out rows whose vector has NULL inside: it is near to nothing."""
    root, *inner = search.column.split(".")
    if not _is_of_vectors(rows.schema, search.column):
        return rows
    gaps = have_gaps(pc.struct_field(rows[root], inner) if inner else rows[root])
    return rows.filter(pa.array(~gaps)) if gaps.any() else rows


def _is_of_vectors(schema: pa.Schema, column: str) -> bool:
    """Return whether a schema has a column of vectors or multivectors, or a field of them inside structs, by its dotted path."""
    root, *inner = column.split(".")
    fields = within(schema.field(root), inner) if root in schema.names else None
    return fields is not None and is_vector(vector_type(fields[-1].type))
