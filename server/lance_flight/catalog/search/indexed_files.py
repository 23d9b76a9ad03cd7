"""The files of a table that an index of vectors is about: what a search of indexed rows alone (`fast_search`) looks into."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lance_flight.catalog.search.chosen_rows import NO_ADDRESSES, Addresses
from lance_flight.catalog.search.search_results import ADDRESS
from lance_flight.catalog.storage.addresses import OFFSET_BITS
from lance_flight.catalog.tables.casting import physical
from lance_flight.catalog.tables.index_coverage import covered
from lance_flight.catalog.tables.scan import Scan
from lance_flight.catalog.tables.sources import Source


def indexed_files(column: str, scan: Scan, source: Source) -> frozenset[int]:
    """Return the numbers of the files of a source that an index of a column of vectors covers; none without such an index.

    Lance does not tell the kind of an index of merged tables.
    """
    root, *inner = column.split(".")
    stored, fields = physical(source.columns, root, scan.ids.get(root)), source.dataset.lance_schema.fields()
    number = None
    for name in [] if stored is None else [stored.name, *inner]:
        found = next((each for each in fields if each.name() == name), None)
        if found is None:
            return frozenset()
        number, fields = found.id(), found.children()
    mine = [index for index in source.dataset.describe_indices() if list(index.fields) == [number]]
    return frozenset[int]().union(*map(covered, mine))


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
