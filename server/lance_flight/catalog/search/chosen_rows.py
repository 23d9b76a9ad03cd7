"""Searches of some rows of a table alone, which are known by their addresses.

Lance takes a few addresses as a filter. Where there are many, more rows are asked for than are wanted, and those that
are not among them left out; if then too few remain, all rows are put in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_flight.catalog.search.search_results import Order, read
from lance_flight.catalog.storage.addresses import OFFSET_BITS, ROW_ADDRESS
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, Scan, Search
from lance_flight.catalog.tables.sources import Source

Addresses = npt.NDArray[np.uint64]
NO_ADDRESSES: Addresses = np.array([], np.uint64)

SPARE = 2
"""So many times as many rows are asked for as would be enough if those that count lay anywhere."""
_OFFSETS = np.uint64((1 << OFFSET_BITS) - 1)
_ADDRESS = next(field for field in ADDRESS_FIELDS if field.name == ROW_ADDRESS)


class ChoosingSearch(Search, Order, Protocol):
    """A search that may be of some rows alone: their addresses by the number of their table, `among` None for all."""

    @property
    def among(self) -> Mapping[int, Addresses] | None:
        """Addresses in order."""
        ...

    @property
    def is_complete(self) -> bool:
        """True if a result with fewer rows than requested has all that there are."""
        ...

    def widened(self, count: int, *, is_whole: bool) -> Self:
        """Return the same search for more rows; `is_whole` for all that there are, in their true order."""
        ...


def found(search: ChoosingSearch, scan: Scan, source: Source) -> pa.Table:
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
        few = search.widened(search.count, is_whole=True)
        return read(replace(scan, search=few, among=address_condition(mine)), [source])
    seen = _addressed(replace(scan, search=search.widened(asked, is_whole=False)), source)
    kept = _among(mine, seen)
    if kept.num_rows < search.count and not (search.is_complete and seen.num_rows < asked):
        kept = _among(mine, _addressed(replace(scan, search=search.widened(rows, is_whole=True)), source))
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
    return _among(mine, _addressed(scan, source)).select(scan.schema.names)


def _addresses_in(among: Mapping[int, Addresses], source: Source) -> Addresses:
    """Return the addresses, in order, that some rows have in a source: in that of merged tables files have other numbers."""
    if not source.tables:
        return among.get(source.number, NO_ADDRESSES)
    own = [among.get(number, NO_ADDRESSES) for number in source.numbers]
    found = [NO_ADDRESSES]
    for fragment, (table, number) in source.origins.items():
        first, last = np.searchsorted(own[table], [_address(number), _address(number + 1)])
        found.append(own[table][first:last] & _OFFSETS | _address(fragment))
    return np.sort(np.concatenate(found))


def places_of(addresses: Addresses, known: Addresses) -> npt.NDArray[np.intp]:
    """Return where each of some addresses stands among known ones, of which it is one."""
    order = np.argsort(known)
    return order[np.searchsorted(known, addresses, sorter=order)]


def _address(fragment: int) -> np.uint64:
    """Return the address of the first row of a file."""
    return np.uint64(fragment << OFFSET_BITS)


def _addressed(scan: Scan, source: Source) -> pa.Table:
    """Return what a scan reads, with addresses."""
    schema = scan.schema if ROW_ADDRESS in scan.schema.names else scan.schema.append(_ADDRESS)
    return read(replace(scan, schema=schema), [source])


def _among(addresses: Addresses, rows: pa.Table) -> pa.Table:
    return rows.filter(pa.array(np.isin(rows[ROW_ADDRESS].to_numpy(), addresses)))


def address_condition(addresses: Addresses) -> str:
    """Return what says in Lance's words that a row lies at one of some addresses."""
    return f"{ROW_ADDRESS} IN ({', '.join(map(str, addresses.tolist()))})"
