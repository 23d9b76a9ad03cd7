"""Names (`_rowid`) of the rows that a search has found: they are made for these alone, so that many tables can be searched as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from lance_flight.catalog.search.chosen_rows import Addresses, address_condition, places_of
from lance_flight.catalog.storage.addresses import OFFSET_BITS, OFFSETS, ROW_ADDRESS, TABLE_NUMBER
from lance_flight.catalog.tables.lineage import ROW_ID
from lance_flight.catalog.tables.pinned_tables import PinnedTable
from lance_flight.catalog.tables.row_names import ROW_NAME_FIELD, row_names
from lance_flight.catalog.tables.sources import Source


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
        origins = np.array([source.origins[int(each)] for each in addresses[here] >> OFFSET_BITS], np.uint64)
        own = (origins[:, 1] << np.uint64(OFFSET_BITS)) | (addresses[here] & np.uint64(OFFSETS))
        for table in np.unique(origins[:, 0]):
            mine = origins[:, 0] == table
            names[here[mine]] = _names(by_number[source.numbers[int(table)]].source, own[mine])
    return pa.array(names, ROW_NAME_FIELD.type)


def _names(source: Source, addresses: Addresses) -> Sequence[str]:
    places = pa.array(addresses, pa.uint64())
    if source.dataset.has_stable_row_ids:
        places = _ids(source, addresses)
    found: Sequence[str] = row_names(source.dataset, source.partition, places, source.named_by).to_pylist()
    return found


def _ids(source: Source, addresses: Addresses) -> pa.Array:
    """Return the stable ids of the rows at some addresses."""
    found = source.dataset.to_table(
        columns=[], filter=address_condition(addresses), with_row_id=True, with_row_address=True
    )
    return found[ROW_ID].combine_chunks().take(pa.array(places_of(addresses, found[ROW_ADDRESS].to_numpy())))
