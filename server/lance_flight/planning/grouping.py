"""Tables put into groups by the values of their dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.model.domains import Mask
from lance_flight.model.spec import Evaluate
from lance_flight.planning.dimensions import Dimension, Side, Tables, Uncomputable
from lance_flight.planning.partitions import DictionaryColumn

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Tables that are read together: for each side and each of its versions the rows of `SpecPartitions.values`.

    `values` are those of the dimensions: None for NULL, instants in UTC, a text where Python has no such value.
    """

    values: tuple[Any, ...]
    rows: tuple[tuple[Rows, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Groups in a fixed order, and the dimensions as EXPLAIN shows them, in the names of the first side's columns."""

    by: tuple[str, ...]
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class NotCopartitioned:
    """There are no groups; why, naming sides, fields and versions."""

    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A dimension's distinct values in ascending order, and for each table the place of its own; NULL comes last."""

    values: pa.Array
    ranks: npt.NDArray[np.int64]

    @classmethod
    def of(cls, values: pa.Array) -> Column:
        """Sort and encode values, one for each table."""
        coded = DictionaryColumn.of(values)
        order = pc.sort_indices(coded.values).to_numpy().astype(np.int64)
        places = np.empty(len(order) + 1, np.int64)
        places[order] = np.arange(len(order))
        places[-1] = len(order)
        return cls(coded.values.take(pa.array(order)), places.take(coded.codes))

    @property
    def null(self) -> Mask:
        """A mask of the tables that have NULL."""
        missing: Mask = np.equal(self.ranks, len(self.values))
        return missing

    def shown(self, rows: Rows) -> list[Any]:
        """Return the values of some tables."""
        try:
            known = self.values.to_pylist()
        except (ValueError, OverflowError):
            known = self.values.cast(pa.string()).to_pylist()  # a date outside of Python's years
        known.append(None)
        return [known[rank] for rank in self.ranks[rows].tolist()]


def columns_of(
    dimensions: Mapping[Dimension, pa.DataType], tables: Sequence[Tables], evaluate: Evaluate | None
) -> tuple[dict[Dimension, Column], list[str]]:
    """Return the columns of dimensions that are compared in these types, and why there are no more of them."""
    columns, failures = {}, []
    for dimension, kind in dimensions.items():
        try:
            columns[dimension] = Column.of(
                pa.concat_arrays([each.values(dimension, kind, evaluate) for each in tables])
            )
        except Uncomputable as exc:
            failures.append(str(exc))
    return columns, failures


def grouped(
    sides: Sequence[Side], tables: Sequence[Sequence[Tables]], columns: Sequence[Column], taken: Mask
) -> list[Group]:
    """Return the groups of those tables of each side that are `taken`, sorted by their values.

    The columns and `taken` go through the tables side by side.
    """
    places, first = _numbered(columns, np.flatnonzero(taken))
    numbers = np.full(len(taken), -1, np.int64)
    numbers[taken] = places
    values = list(zip(*(column.shown(first) for column in columns), strict=True))
    rows = [[[np.empty(0, np.int64)] * len(first) for _ in side.kept] for side in sides]
    start = 0
    for mine, some in zip(rows, tables, strict=True):
        for each in some:
            mine[each.place] = _split(each.rows, numbers[start : start + len(each)], len(first))
            start += len(each)
    members = zip(*(zip(*versions, strict=True) for versions in rows), strict=True)
    return [Group(some, which) for some, which in zip(values, members, strict=True)]


def _numbered(columns: Sequence[Column], rows: Rows) -> tuple[Rows, Rows]:
    """Return the number of each row's group, and one row of each group.

    Groups are numbered in the order of their values.
    """
    numbers, first = np.zeros(len(rows), np.int64), rows[:1]
    for column in columns:
        # Both factors are at most the number of rows, so the product fits.
        mixed = numbers * (len(column.values) + 1) + column.ranks[rows]
        _, some, numbers = np.unique(mixed, return_index=True, return_inverse=True)
        first = rows[some]
    return numbers, first


def _split(rows: Rows, numbers: Rows, count: int) -> list[Rows]:
    """Return the rows of each group, ascending."""
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(count + 1)).tolist()
    sorted_rows = rows[order]
    return [sorted_rows[start:stop] for start, stop in pairwise(bounds)]
