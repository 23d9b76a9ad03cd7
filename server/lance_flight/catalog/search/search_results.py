"""Results of a search of one table or several: rows with their scores, best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.storage.addresses import ROW_ADDRESS
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, Scan, Source

DISTANCE = pa.field("_distance", pa.float32())
SCORE = pa.field("_score", pa.float32())
ADDRESS = next(field for field in ADDRESS_FIELDS if field.name == ROW_ADDRESS)
TABLE = pa.field("_table", pa.utf8(), nullable=False)
"""The name of the table that a row lies in; of merged tables addresses do not tell."""

_FRAGMENT_BITS = 32


class Order(Protocol):
    """Order of a search: its number of rows, and which rows are better."""

    @property
    def count(self) -> int:
        """Number of rows wanted."""
        ...

    @property
    def result(self) -> pa.Field:
        """The column that says how good a row is."""
        ...

    @property
    def is_ascending(self) -> bool:
        """True if a lower score is better."""
        ...


def placed(rows: pa.Table, source: Source) -> pa.Table:
    """Return rows of a source with the name of the table that each of them lies in."""
    if not source.owners:
        return rows.append_column(TABLE, pa.repeat(pa.scalar(source.name), rows.num_rows))
    fragments = rows[ADDRESS.name].to_numpy() >> _FRAGMENT_BITS
    return rows.append_column(TABLE, pa.array([source.owners[int(number)] for number in fragments], TABLE.type))


def in_order(search: Order, rows: pa.Table) -> pa.Table:
    """Return rows that are `placed` in the order of the search, equal ones in that of tables and rows.

    What cannot be compared comes last.
    """
    direction = "ascending" if search.is_ascending else "descending"
    keys = [(search.result.name, direction), (TABLE.name, "ascending"), (ADDRESS.name, "ascending")]
    return rows.take(pc.sort_indices(rows, keys))


def ranked(search: Order, rows: pa.Table) -> pa.Table:
    """Return the first of some rows that are `placed`."""
    return in_order(search, rows).slice(0, search.count)


def settled(search: Order, rows: pa.Table, asked: int) -> pa.Table:
    """Return the rows that are certainly the best of those found for `asked`: further rows may equal the last."""
    if rows.num_rows < asked:
        return rows
    worth = rows[search.result.name].to_numpy()
    cost = worth if search.is_ascending else -worth
    last = np.max(cost)
    return rows.filter(pa.array(~np.isnan(cost) if np.isnan(last) else cost < last))


def read(scan: Scan, sources: Sequence[Source]) -> pa.Table:
    """Return all that a scan finds."""
    batches = [batch for batch in scan.read([lambda: sources]) if batch.num_rows]
    return pa.Table.from_batches(batches, scan.schema)
