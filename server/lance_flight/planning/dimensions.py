"""Dimensions of a scan: functions of its keys that partition values determine, and tables in groups by their values.

Spec: Storage Partitioned Join, Transform Compatibility. A finer field determines a coarser one: bucket counts that
are multiples, and the identity of a key every other transform of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import LanceFlightError
from lance_flight.model.arrow_types import contiguous
from lance_flight.model.domains import Mask
from lance_flight.model.key_types import in_type, value_type
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate, Expression, PartitionField
from lance_flight.model.transforms.transform import Transform
from lance_flight.planning.partitions import DictionaryColumn, Partitions, SpecPartitions
from lance_flight.planning.reasons import describe


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One scan of a join: what is left of its partition tables, and the columns that the keys are.

    `name` is how messages call the table. `kept` has for each version of `partitions` the ascending rows of
    `SpecPartitions.values` that are read. `keys` are the `lance:field_id` of the column that each key is: the same
    keys in the same order on every side. A key with `parts` is not the column but these of its date parts.
    """

    name: str
    schema: NamespaceSchema
    partitions: Partitions
    kept: tuple[npt.NDArray[np.int64], ...]
    keys: tuple[int, ...]
    parts: Mapping[int, frozenset[str]] = field(default_factory=dict)

    def with_keys(self, places: Sequence[int]) -> Side:
        """Return the same side by some of its keys."""
        parts = {new: self.parts[old] for new, old in enumerate(places) if old in self.parts}
        return replace(self, keys=tuple(self.keys[place] for place in places), parts=parts)

    def holds(self, dimension: Dimension) -> bool:
        """Return whether the keys say what a dimension is."""
        allowed = [self.parts.get(place) for place in dimension.places]
        return all(some is None or dimension.rule.date_part in some for some in allowed)

    def key_type(self, place: int) -> pa.DataType:
        """Return the type of the column that a key is."""
        return self.schema.paths[self.keys[place]][1].type


@dataclass(frozen=True, slots=True)
class Dimension:
    """A function of keys: what is computed from the keys at which places.

    `result` is the type of a custom expression. `field` is one that has these values, for its name and type alone.
    """

    rule: Transform | Expression
    places: tuple[int, ...]
    result: pa.DataType | None
    field: PartitionField = field(compare=False)

    @classmethod
    def of(cls, partition_field: PartitionField, places: tuple[int, ...]) -> Dimension:
        """Return what a partition field is, given the keys that its source columns are."""
        rule = (
            partition_field.rule
            if isinstance(partition_field.rule, Expression)
            else partition_field.rule.over(len(places))
        )
        return cls(rule, places, partition_field.result_type if isinstance(rule, Expression) else None, partition_field)

    def on(self, side: Side) -> PartitionField:
        """Return this function of the columns of a side."""
        return replace(self.field, source_ids=tuple(side.keys[place] for place in self.places), rule=self.rule)

    def show(self, side: Side) -> str:
        """Return the dimension as EXPLAIN shows it, in the names of a side's columns."""
        return describe(self.on(side), side.schema.source_names)

    def type(self, sides: Sequence[Side]) -> pa.DataType | None:
        """Return the type in which the values of these sides are compared.

        None where equal keys may have different ones.
        """
        kinds = [[side.key_type(place) for side in sides] for place in self.places]
        if self.rule.date_part is not None and all(self.places[0] in side.parts for side in sides):
            return pa.int64()  # the keys are its values, in whatever zone
        return self.rule.comparison_type(kinds, self.field.result_type)

    def follows_from(self, other: Dimension) -> bool:
        """Return whether this is coarser than another dimension of the same keys (a bucket), or the same."""
        return self == other or (self.places == other.places and self.rule.from_finer(other.rule) is not None)


class Uncomputable(LanceFlightError):
    """A dimension cannot be computed from the partition values that determine it."""

    code = "uncomputable"


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of one spec version that a side reads; never none."""

    side: Side
    place: int

    @classmethod
    def of(cls, side: Side) -> list[Tables]:
        """Return the tables of a side, version by version."""
        return [cls(side, place) for place, rows in enumerate(side.kept) if len(rows)]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The rows of `SpecPartitions.values` that are read."""
        return self.side.kept[self.place]

    @property
    def version(self) -> SpecPartitions:
        """The version with all its tables."""
        return self.side.partitions.versions[self.place]

    @property
    def label(self) -> str:
        """The name of the version in messages."""
        alone = sum(len(rows) > 0 for rows in self.side.kept) == 1
        return self.side.name if alone else f"{self.side.name} v{self.version.spec.id}"

    @cached_property
    def fields(self) -> dict[Dimension, PartitionField]:
        """The partition fields of keys alone, by what they are."""
        by_dimension: dict[Dimension, PartitionField] = {}
        for partition_field in self.version.spec.fields:
            if obstacle(partition_field, self.side) is None:
                for dimension in _dimensions(partition_field, self.side.keys):
                    if self.side.holds(dimension):
                        by_dimension.setdefault(dimension, partition_field)
        return by_dimension

    @cached_property
    def identities(self) -> dict[int, PartitionField]:
        """The identity fields, by the place of their key."""
        return {dimension.places[0]: own for dimension, own in self.fields.items() if dimension.rule.keeps_value}

    def determines(self, dimension: Dimension) -> bool:
        """Return whether the partition values say what a row's value is."""
        finer = any(dimension.follows_from(own) for own in self.fields)
        return finer or self.identities.keys() >= set(dimension.places)

    def values(self, dimension: Dimension, kind: pa.DataType, evaluate: Evaluate | None) -> pa.Array:
        """Return the value of each table for a dimension that they determine, in a type.

        `Uncomputable` where it fails.
        """
        try:
            return in_type(self._values(dimension, evaluate), kind)
        except (LanceFlightError, pa.ArrowException) as exc:
            raise Uncomputable(f"{dimension.show(self.side)} of {self.label} cannot be computed: {exc}") from exc

    def _values(self, dimension: Dimension, evaluate: Evaluate | None) -> pa.Array:
        if dimension in self.fields:
            return self._stored_values(self.fields[dimension])
        for own, partition_field in self.fields.items():
            coarsen = dimension.rule.from_finer(own.rule) if dimension.places == own.places else None
            if coarsen is not None:
                return coarsen(self._stored_values(partition_field))
        return self._compute(dimension, evaluate)

    def _compute(self, dimension: Dimension, evaluate: Evaluate | None) -> pa.Array:
        """Compute the values from the identity of each key."""
        wanted, custom = dimension.on(self.side), isinstance(dimension.rule, Expression)
        if custom and evaluate is None:
            raise Uncomputable("there is nothing here that computes expressions")
        kinds = [self.side.key_type(place) for place in dimension.places]
        kinds = kinds if custom else [value_type(kind) for kind in kinds]
        if not isinstance(dimension.rule, Expression):
            wanted = replace(wanted, result_type=dimension.rule.result_type(kinds))
        stored = [self._stored_values(self.identities[place]) for place in dimension.places]
        columns = [values.cast(kind) for values, kind in zip(stored, kinds, strict=True)]
        return wanted.apply(columns, evaluate or _no_expression)

    def _stored_values(self, partition_field: PartitionField) -> pa.Array:
        column = self.version.values.column(partition_field.column)
        return contiguous(column.take(pa.array(self.rows)))


def common(tables: Sequence[Tables]) -> dict[Dimension, pa.DataType]:
    """Return the dimensions that all tables determine, each with the type in which its values are compared.

    Where one follows from another there is the finest alone.
    """
    sides = list(dict.fromkeys(side.side for side in tables))
    offered = dict.fromkeys(dimension for side in tables for dimension in side.fields)
    types_of = {dimension: dimension.type(sides) for dimension in offered}
    shared = [
        dimension
        for dimension, kind in types_of.items()
        if kind is not None and all(some.determines(dimension) for some in tables)
    ]
    known = {dimension.places[0] for dimension in shared if dimension.rule.keeps_value}
    return {
        dimension: types_of[dimension]
        for dimension in shared
        if dimension.rule.keeps_value
        or not (
            known >= set(dimension.places)
            or any(dimension != other and dimension.follows_from(other) for other in shared)
        )
    }


def obstacle(partition_field: PartitionField, side: Side) -> str | None:
    """Return why the values of a partition field are not to be relied on, or that it is not of keys alone."""
    if not set(partition_field.source_ids) <= set(side.keys):
        return "it is not of keys alone"
    kinds = [side.key_type(side.keys.index(number)) for number in partition_field.source_ids]
    return partition_field.rule.comparison_obstacle(kinds, partition_field.result_type)


def _dimensions(partition_field: PartitionField, keys: Sequence[int]) -> Iterator[Dimension]:
    """Return what a field is, several times where one column is several keys."""
    places = [[place for place, key in enumerate(keys) if key == number] for number in partition_field.source_ids]
    for some in product(*places):
        yield Dimension.of(partition_field, some)


def _no_expression(sql: str, columns: Sequence[pa.Array], result: pa.DataType) -> pa.Array:
    raise Uncomputable(f"there is nothing here that computes {sql}")


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

    def show(self, rows: Rows) -> list[Any]:
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
                pa.concat_arrays([side.values(dimension, kind, evaluate) for side in tables])
            )
        except Uncomputable as exc:
            failures.append(str(exc))
    return columns, failures


def group_tables(
    sides: Sequence[Side], tables: Sequence[Sequence[Tables]], columns: Sequence[Column], taken: Mask
) -> list[Group]:
    """Return the groups of those tables of each side that are `taken`, sorted by their values.

    The columns and `taken` go through the tables side by side.
    """
    places, first = _number_groups(columns, np.flatnonzero(taken))
    numbers = np.full(len(taken), -1, np.int64)
    numbers[taken] = places
    values = list(zip(*(column.show(first) for column in columns), strict=True))
    rows = [[[np.empty(0, np.int64)] * len(first) for _ in side.kept] for side in sides]
    start = 0
    for mine, some in zip(rows, tables, strict=True):
        for side in some:
            mine[side.place] = _split(side.rows, numbers[start : start + len(side)], len(first))
            start += len(side)
    members = zip(*(zip(*versions, strict=True) for versions in rows), strict=True)
    return [Group(some, which) for some, which in zip(values, members, strict=True)]


def _number_groups(columns: Sequence[Column], rows: Rows) -> tuple[Rows, Rows]:
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
