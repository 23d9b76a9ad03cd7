"""The best rows of many tables: searches of each, of chosen rows and of files without an index, and their results.

Scores of texts are sums of float32, which differ in the last places by how a table is read: its index knows other weights of the words
than that of several tables together, and Lance adds them up in another order. So scores that differ by less than `SAME_SCORE` are one.

Lance takes a few addresses as a filter. Where there are many, more rows are asked for than are wanted, and those that
are not among them left out; if then too few remain, all rows are put in order.

Lance returns any of the rows that are worth the same as the last one, others for another count, and takes NULL inside a
vector for 0. So one row more than is wanted is asked for. Where that does not settle which rows are the best, more
and more of them are put in order by their addresses, and only those that are kept are read.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.storage.lance_columns import number_at
from lance_flight.catalog.storage.whole_files import OFFSET_BITS, OFFSETS, ROW_ADDRESS, TABLE_NUMBER
from lance_flight.catalog.tables.indices import covered_files
from lance_flight.catalog.tables.rows import ROW_ID, ROW_NAME_FIELD, have_gaps, may_have_gaps, row_names
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, Scan, Search
from lance_flight.catalog.tables.schema_adapter import physical
from lance_flight.catalog.tables.sources import PinnedTable, Source
from lance_flight.model.arrow_types import is_vector, vector_type, within

DISTANCE = pa.field("_distance", pa.float32())
SCORE = pa.field("_score", pa.float32())
ADDRESS = next(field for field in ADDRESS_FIELDS if field.name == ROW_ADDRESS)
TABLE = pa.field("_table", pa.utf8(), nullable=False)
"""The name of the table that a row lies in; of merged tables addresses do not tell."""

SAME_SCORE = 2.0**-20
"""The part of a score, about a millionth, by which another one may be less and still is the same: some units in the last place of each word."""

Scores = npt.NDArray[np.float64]


Addresses = npt.NDArray[np.uint64]
NO_ADDRESSES: Addresses = np.array([], np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowSearch(Search, ABC):
    """Search of a column of tables for the `count` best rows; a lower `result` is better where it `is_ascending`.

    A score that is less by a part of `precision` than another one is the same; with 0 scores are compared as they are. Rows that are not
    `among` some, by the numbers of their tables and in order, do not count (None: all do).
    """

    count: int
    among: Mapping[int, Addresses] | None = None
    result: pa.Field
    is_ascending: bool
    precision: float

    @property
    def results(self) -> tuple[pa.Field, ...]:
        return (self.result,)

    @property
    def is_complete(self) -> bool:
        """True if a result with fewer rows than requested has all that there are."""
        return True

    def widen(self, count: int, *, is_whole: bool) -> Self:
        """Return the same search for more rows; `is_whole` for all that there are, in their true order."""
        return replace(self, count=count)


def add_table_names(rows: pa.Table, source: Source) -> pa.Table:
    """Return rows of a source with the name of the table that each of them lies in."""
    if not source.owners:
        return rows.append_column(TABLE, pa.repeat(pa.scalar(source.name), rows.num_rows))
    fragments = rows[ADDRESS.name].to_numpy() >> OFFSET_BITS
    return rows.append_column(TABLE, pa.array([source.owners[int(number)] for number in fragments], TABLE.type))


def in_order(search: RowSearch, rows: pa.Table) -> pa.Table:
    """Return rows with the names of their tables in the order of the search, equal ones in that of tables and rows.

    What cannot be compared comes last.
    """
    scores = rows[search.result.name].to_numpy()
    if (
        np.all(scores[:-1] < scores[1:] if search.is_ascending else scores[:-1] > scores[1:])
        and not np.isnan(scores).any()
    ):
        # As Lance gives them: to sort ten rows takes as long as to look for them in a small index.
        return rows
    direction = "ascending" if search.is_ascending else "descending"
    keys = [(search.result.name, direction), (TABLE.name, "ascending"), (ADDRESS.name, "ascending")]
    return rows.take(pc.sort_indices(rows, keys))


def rank_rows(search: RowSearch, rows: pa.Table) -> pa.Table:
    """Return the first of all rows found, which have the names of their tables (`add_table_names`); scores that are the same become the best of them."""
    if search.precision:
        rows = in_order(search, rows)
        same = level_scores(rows[search.result.name].to_numpy().astype(np.float64), search.precision)
        column = pa.array(same, search.result.type)
        rows = rows.set_column(rows.schema.get_field_index(search.result.name), search.result, column)
    return in_order(search, rows).slice(0, search.count)


def level_scores(scores: Scores, precision: float) -> Scores:
    """Return scores, given from the best on, with each the best of those that it is the same as.

    What follows a score does not change it, so that the best rows are the first of a longer list.

    >>> level_scores(np.array([8.0, 7.5, 7.0, 6.5, 3.0]), precision=1 / 8).tolist()
    [8.0, 8.0, 8.0, 6.5, 3.0]
    """
    places, are_first = np.arange(len(scores)), np.zeros(len(scores), bool)
    are_first[:1] = True
    while True:
        best = scores[np.maximum.accumulate(np.where(are_first, places, 0))]
        are_less = scores < best * (1 - precision)
        if not are_less.any():
            return best
        are_first[1:] |= are_less[1:] & ~are_less[:-1]


def candidates(search: RowSearch, rows: pa.Table) -> pa.Table:
    """Return those of the rows of one table, which have its name, that may be among the best beside rows of others.

    What is found elsewhere decides which scores are the same. Of rows with one score the first are enough.
    """
    rows = in_order(search, rows)
    if not search.precision or rows.num_rows <= search.count:
        return rows.slice(0, search.count)
    scores = rows[search.result.name].to_numpy().astype(np.float64)
    places = np.arange(len(scores))
    first = np.maximum.accumulate(np.where(np.append(True, scores[1:] != scores[:-1]), places, 0))
    may_be_same = scores >= scores[search.count - 1] * (1 - search.precision)
    return rows.filter(pa.array(may_be_same & (places - first < search.count)))


def is_certain(search: RowSearch, best: pa.Table, rows: pa.Table) -> bool:
    """Return whether rows that are better than the last one `found` are enough: no row that was not found is among the best."""
    if best.num_rows < search.count or not search.precision:
        return bool(best.num_rows >= search.count)
    scores = best[search.result.name].to_numpy().astype(np.float64)
    last = np.partition(scores, -search.count)[-search.count]
    return bool(last * (1 - search.precision) > np.min(rows[search.result.name].to_numpy()))


def settle_best(search: RowSearch, rows: pa.Table, asked: int) -> pa.Table:
    """Return the rows that are certainly the best of those found for `asked`: further rows may equal the last."""
    if rows.num_rows < asked:
        return rows
    worth = rows[search.result.name].to_numpy()
    cost = worth if search.is_ascending else -worth
    last = np.max(cost)
    are_better = ~np.isnan(cost) if np.isnan(last) else cost < last
    count = int(np.count_nonzero(are_better))
    return rows.slice(0, count) if are_better[:count].all() else rows.filter(pa.array(are_better))


def read(scan: Scan, sources: Sequence[Source]) -> pa.Table:
    """Return all that a scan finds."""
    batches = [batch for batch in scan.read([lambda: sources]) if batch.num_rows]
    return pa.Table.from_batches(batches, scan.schema)


SPARE = 2
"""So many times as many rows are asked for as would be enough if those that count lay anywhere."""


def search_table(search: RowSearch, scan: Scan, source: Source) -> pa.Table:
    """Return what a search finds in a table."""
    scan = replace(scan, search=search)
    if search.among is None:
        return read(scan, [source])
    mine, rows = _addresses_in(search.among, source), source.count_rows()
    if not len(mine):
        return scan.schema.empty_table()
    asked = SPARE * search.count * rows // len(mine)
    if len(mine) <= asked:
        # Lance does not know addresses where it looks into an index of vectors that is about some files alone.
        few = search.widen(search.count, is_whole=True)
        return read(replace(scan, search=few, among=address_condition(mine)), [source])
    seen = _read_with_addresses(replace(scan, search=search.widen(asked, is_whole=False)), source)
    kept = _among(mine, seen)
    if kept.num_rows < search.count and not (search.is_complete and seen.num_rows < asked):
        kept = _among(mine, _read_with_addresses(replace(scan, search=search.widen(rows, is_whole=True)), source))
    return kept.select(scan.schema.names)


def rows_among(among: Mapping[int, Addresses] | None, scan: Scan, source: Source) -> pa.Table:
    """Return the rows that a scan without a search reads of a table, if they are among some."""
    if among is None:
        return read(scan, [source])
    mine = _addresses_in(among, source)
    if not len(mine):
        return scan.schema.empty_table()
    if SPARE * len(mine) <= source.count_rows():
        return read(replace(scan, among=address_condition(mine)), [source])
    return _among(mine, _read_with_addresses(scan, source)).select(scan.schema.names)


def _addresses_in(among: Mapping[int, Addresses], source: Source) -> Addresses:
    """Return the addresses, in order, that some rows have in a source: in that of merged tables files have other numbers."""
    if not source.tables:
        return among.get(source.number, NO_ADDRESSES)
    own = [among.get(number, NO_ADDRESSES) for number in source.numbers]
    addresses = [NO_ADDRESSES]
    for fragment, (table, number) in source.origins.items():
        first, last = np.searchsorted(own[table], [_address(number), _address(number + 1)])
        addresses.append(own[table][first:last] & np.uint64(OFFSETS) | _address(fragment))
    return np.sort(np.concatenate(addresses))


def places_of(addresses: Addresses, known: Addresses) -> npt.NDArray[np.intp]:
    """Return where each of some addresses stands among known ones, of which it is one."""
    order = np.argsort(known)
    return order[np.searchsorted(known, addresses, sorter=order)]


def _address(fragment: int) -> np.uint64:
    """Return the address of the first row of a file."""
    return np.uint64(fragment << OFFSET_BITS)


def _read_with_addresses(scan: Scan, source: Source) -> pa.Table:
    """Return what a scan reads, with addresses."""
    schema = scan.schema if ROW_ADDRESS in scan.schema.names else scan.schema.append(ADDRESS)
    return read(replace(scan, schema=schema), [source])


def _among(addresses: Addresses, rows: pa.Table) -> pa.Table:
    return rows.filter(pa.array(np.isin(rows[ROW_ADDRESS].to_numpy(), addresses)))


def address_condition(addresses: Addresses) -> str:
    """Return what says in Lance's words that a row lies at one of some addresses."""
    return f"{ROW_ADDRESS} IN ({', '.join(map(str, addresses.tolist()))})"


MORE = 8
"""So many times as many rows are asked for where too many are worth the same, or do not count."""
READ_AT_ONCE = 256

Find: TypeAlias = Callable[[int, pa.Schema], pa.Table]
"""Function that finds so many rows of a table, with some columns."""
Keep: TypeAlias = Callable[[pa.Table], pa.Table]
"""Function that returns those of the rows found that count."""


def _all(rows: pa.Table) -> pa.Table:
    return rows


def best_rows(search: RowSearch, scan: Scan, source: Source, find: Find, keep: Keep = _all) -> pa.Table:
    """Find the rows that may be among the best, in the columns of `scan`, each with the name of its table.

    `ADDRESS` is among these columns. What `keep` leaves out, of rows of which only what they are worth is known, does not count.
    """
    asked, wanted = search.count + 1, [*scan.schema.names, TABLE.name]
    scan = with_vectors(search, scan, source)
    rows = find(asked, scan.schema)
    best = _without_gaps(search, keep(settle_best(search, rows, asked)))
    if rows.num_rows >= asked and not is_certain(search, best, rows):
        best = _read_in_order(search, scan, source, find, keep)
    return candidates(search, add_table_names(best, source)).select(wanted)


def with_vectors(search: RowSearch, scan: Scan, source: Source) -> Scan:
    """Return the same scan of a source with the vectors that are searched among its columns, if some may have NULL inside."""
    root = search.column.partition(".")[0]
    if root in scan.schema.names or not _is_of_vectors(scan.source, search.column):
        return scan
    path = scan.searched_path(search, source)
    if path is None or not may_have_gaps(source.dataset, path):
        return scan
    return replace(scan, schema=scan.schema.append(scan.source.field(root)))


def _read_in_order(search: RowSearch, scan: Scan, source: Source, find: Find, keep: Keep) -> pa.Table:
    """Find more and more rows by their addresses alone, and read the first of them."""
    narrow, asked = pa.schema([search.result, ADDRESS]), search.count + 1
    at_once = max(search.count, READ_AT_ONCE)
    while True:
        asked *= MORE
        rows = find(asked, narrow)
        best = add_table_names(keep(settle_best(search, rows, asked)), source)
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


def _without_gaps(search: RowSearch, rows: pa.Table) -> pa.Table:
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


def indexed_files(column: str, scan: Scan, source: Source) -> frozenset[int]:
    """Return the numbers of the files of a source that an index of a column of vectors covers; none without such an index.

    Lance does not tell the kind of an index of merged tables.
    """
    root, *inner = column.split(".")
    stored = physical(source.columns, root, scan.ids.get(root))
    number = None if stored is None else number_at(source.dataset.lance_schema, [stored.name, *inner])
    mine = [index for index in source.dataset.describe_indices() if list(index.fields) == [number]]
    return frozenset[int]().union(*map(covered_files, mine))


def rows_in(files: frozenset[int], rows: pa.Table) -> pa.Table:
    """Return those of some rows, given with their addresses, that lie in some files."""
    return rows.filter(pa.array(_are_in(files, rows[ADDRESS.name].to_numpy())))


def addresses_in(
    files: frozenset[int], among: Mapping[int, Addresses] | None, source: Source
) -> Mapping[int, Addresses] | None:
    """Return those of the addresses of a source that lie in some files; None for all rows of a table."""
    if among is None:
        return None
    if not source.tables:
        mine = among.get(source.number, NO_ADDRESSES)
        return {source.number: mine[_are_in(files, mine)]}
    own: dict[int, set[int]] = {number: set() for number in source.numbers}
    for fragment in files & source.origins.keys():
        table, number = source.origins[fragment]
        own[source.numbers[table]].add(number)
    known = {number: among.get(number, NO_ADDRESSES) for number in own}
    return {number: mine[_are_in(frozenset(own[number]), mine)] for number, mine in known.items()}


def _are_in(files: frozenset[int], addresses: Addresses) -> np.ndarray:
    return np.isin(addresses >> np.uint64(OFFSET_BITS), np.fromiter(files, np.uint64, len(files)))


def names_of(rows: pa.Table, sources: Iterable[Source], tables: Iterable[PinnedTable]) -> pa.Array:
    """Return the names of rows that were found in some sources, which hold `tables`; `ADDRESS_FIELDS` are among the columns of the rows."""
    numbers, addresses = rows[TABLE_NUMBER].to_numpy(), rows[ROW_ADDRESS].to_numpy()
    by_number = {table.number: table for table in tables}
    names = np.full(rows.num_rows, None, object)
    for source in sources:
        here = np.flatnonzero(numbers == source.number)
        if not len(here):
            continue
        if not source.tables:
            names[here] = _names(source, addresses[here])
            continue
        # In merged tables files have other numbers than in their own.
        origins = np.array([source.origins[int(fragment)] for fragment in addresses[here] >> OFFSET_BITS], np.uint64)
        own = (origins[:, 1] << np.uint64(OFFSET_BITS)) | (addresses[here] & np.uint64(OFFSETS))
        for table in np.unique(origins[:, 0]):
            mine = origins[:, 0] == table
            names[here[mine]] = _names(by_number[source.numbers[int(table)]].source, own[mine])
    return pa.array(names, ROW_NAME_FIELD.type)


def _names(source: Source, addresses: Addresses) -> Sequence[str]:
    places = pa.array(addresses, pa.uint64())
    if source.dataset.has_stable_row_ids:
        places = _ids(source, addresses)
    names: Sequence[str] = row_names(source.dataset, source.partition, places, source.named_by).to_pylist()
    return names


def _ids(source: Source, addresses: Addresses) -> pa.Array:
    """Return the stable ids of the rows at some addresses."""
    rows = source.dataset.to_table(
        columns=[], filter=address_condition(addresses), with_row_id=True, with_row_address=True
    )
    return rows[ROW_ID].combine_chunks().take(pa.array(places_of(addresses, rows[ROW_ADDRESS].to_numpy())))
