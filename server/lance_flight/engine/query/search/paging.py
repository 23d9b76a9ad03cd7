"""Pages of a vector search: the rows that follow a row in the list of all that the search finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.search.search_results import DISTANCE
from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.catalog.tables.lineage import ROW_ID
from lance_flight.errors import SqlError

_SPARE, _MORE = 16, 8
"""Rows beyond a page that are asked for, since some may be as near as its first one, and times as many where these are too few."""
_ULPS = 4
"""Distances of one row may differ by so many units in the last place, by which way it was found."""

Best = Callable[[VectorSearch, list[str]], pa.Table]
"""Function that returns some columns of the best rows of a search."""


@dataclass(frozen=True, slots=True)
class After:
    """The row that a page follows: its distance and its name (`_rowid`)."""

    distance: float
    row: str

    def page(self, best: Best, search: VectorSearch, names: list[str]) -> pa.Table:
        """Return some columns of the rows that follow; `SqlError` if the search does not find the row."""
        count, least = search.count + _SPARE, self._least(search)
        while True:
            asked = replace(search, count=count, least=least)
            rows = best(asked, list(dict.fromkeys([*names, DISTANCE.name, ROW_ID])))
            is_all = rows.num_rows < count
            place = pc.index(rows[ROW_ID], self.row).as_py()
            if place >= 0 and (is_all or rows.num_rows > place + search.count):
                return rows.slice(place + 1, search.count).select(names)
            is_behind = rows.num_rows > 0 and rows[DISTANCE.name][-1].as_py() > _moved(self.distance, _ULPS)
            if place < 0 and (is_all or is_behind):
                raise self._unknown()
            count *= _MORE

    def _least(self, search: VectorSearch) -> float:
        nearest = _moved(self.distance, -_ULPS)
        return nearest if search.least is None else max(nearest, search.least)

    def _unknown(self) -> SqlError:
        return SqlError(
            f"after of vector_search is row {self.row!r} at a distance of {np.float32(self.distance)}, which the search does not find; expected"
            " _distance and _rowid of a row of the page before, with the same arguments and at the same version of the table (docs@12)"
        )


def _moved(distance: float, units: int) -> float:
    """Return a float32 so many units in the last place further."""
    return float(np.float32(distance) + np.float32(units) * np.spacing(np.float32(abs(distance))))
