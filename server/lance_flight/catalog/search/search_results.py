"""Results of a search of one table or several: rows with their scores, best first.

Scores of texts are sums of float32, which differ in the last places by how a table is read: its index knows other weights of the words
than that of several tables together, and Lance adds them up in another order. So scores that differ by less than `SAME_SCORE` are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.storage.addresses import ROW_ADDRESS
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, Scan
from lance_flight.catalog.tables.sources import Source

DISTANCE = pa.field("_distance", pa.float32())
SCORE = pa.field("_score", pa.float32())
ADDRESS = next(field for field in ADDRESS_FIELDS if field.name == ROW_ADDRESS)
TABLE = pa.field("_table", pa.utf8(), nullable=False)
"""The name of the table that a row lies in; of merged tables addresses do not tell."""

SAME_SCORE = 2.0**-20
"""The part of a score, about a millionth, by which another one may be less and still is the same: some units in the last place of each word."""
_FRAGMENT_BITS = 32

Scores = npt.NDArray[np.float64]


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

    @property
    def precision(self) -> float:
        """The part of a score by which a lower one may differ and be the same; 0 where scores are compared as they are."""
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


def ranked(search: Order, rows: pa.Table) -> pa.Table:
    """Return the first of all rows found, which are `placed`; scores that are the same become the best of them."""
    if search.precision:
        rows = in_order(search, rows)
        same = levelled(rows[search.result.name].to_numpy().astype(np.float64), search.precision)
        column = pa.array(same, search.result.type)
        rows = rows.set_column(rows.schema.get_field_index(search.result.name), search.result, column)
    return in_order(search, rows).slice(0, search.count)


def levelled(scores: Scores, precision: float) -> Scores:
    """Return scores, given from the best on, with each the best of those that it is the same as.

    What follows a score does not change it, so that the best rows are the first of a longer list.

    >>> levelled(np.array([8.0, 7.5, 7.0, 6.5, 3.0]), precision=1 / 8).tolist()
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


def candidates(search: Order, rows: pa.Table) -> pa.Table:
    """Return those of the rows of one table, which are `placed`, that may be among the best beside rows of others.

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


def is_certain(search: Order, best: pa.Table, found: pa.Table) -> bool:
    """Return whether rows that are better than the last one `found` are enough: no row that was not found is among the best."""
    if best.num_rows < search.count or not search.precision:
        return bool(best.num_rows >= search.count)
    scores = best[search.result.name].to_numpy().astype(np.float64)
    last = np.partition(scores, -search.count)[-search.count]
    return bool(last * (1 - search.precision) > np.min(found[search.result.name].to_numpy()))


def settled(search: Order, rows: pa.Table, asked: int) -> pa.Table:
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
