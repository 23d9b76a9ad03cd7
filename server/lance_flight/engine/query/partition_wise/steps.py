"""Steps of running groups: each group by itself, or small neighbours merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lance_flight.engine.query.tables import TableView
from lance_flight.planning.dimensions import Group

FIRST_ROWS = 10
"""Size of the first groups of a query for the first rows, as a multiple of these rows: most may be filtered."""


def joined(groups: Sequence[Group], views: Sequence[TableView], enough: int) -> tuple[Group, ...]:
    """Merge neighbouring groups until they have `enough` rows; groups stay separate if they share a table."""
    return _steps(groups, views, enough, growing=1)


def growing(groups: Sequence[Group], views: Sequence[TableView], fetch: int) -> tuple[Group, ...]:
    """Return steps for the first rows of ordered groups: the first one small, each further one twice as large."""
    return _steps(groups, views, max(fetch, 1) * FIRST_ROWS, growing=2)


def _steps(groups: Sequence[Group], views: Sequence[TableView], enough: int, *, growing: int) -> tuple[Group, ...]:
    sizes = _sizes(groups, views) if enough > 0 and groups else None
    if sizes is None:
        return tuple(groups)
    return tuple(_together([groups[place] for place in places]) for places in _runs(sizes, enough, growing))


def _sizes(groups: Sequence[Group], views: Sequence[TableView]) -> npt.NDArray[np.int64] | None:
    """Return the number of rows in the tables of each group; None if a table is in several groups."""
    sizes = np.zeros(len(groups), np.int64)
    for side, view in enumerate(views):
        versions = range(len(groups[0].rows[side]))
        tables = [[group.rows[side][version] for group in groups] for version in versions]
        whole = [np.concatenate(some) for some in tables]
        unique = [np.unique(some) for some in whole]
        if sum(map(len, unique)) < sum(map(len, whole)):
            return None
        for version, counts in enumerate(view.row_counts(tuple(unique))):
            rows = counts[np.searchsorted(unique[version], whole[version])]
            ends = np.cumsum([0, *map(len, tables[version])])
            sizes += [int(rows[start:stop].sum()) for start, stop in pairwise(ends)]
    return sizes


def _runs(sizes: npt.NDArray[np.int64], enough: int, growing: int) -> Iterator[list[int]]:
    """Yield neighbours whose sizes together are enough."""
    begun: list[int] = []
    rows = 0
    for place, size in enumerate(sizes):
        begun.append(place)
        rows += int(size)
        if rows >= enough:
            yield begun
            begun, rows, enough = [], 0, enough * growing
    if begun:
        yield begun


def _together(groups: Sequence[Group]) -> Group:
    if len(groups) == 1:
        return groups[0]
    rows = tuple(
        tuple(np.sort(np.concatenate(versions)) for versions in zip(*sides, strict=True))
        for sides in zip(*(group.rows for group in groups), strict=True)
    )
    return Group((), rows)
