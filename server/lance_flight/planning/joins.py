"""Matching of partition tables of scans that are joined, group by group, or the reasons why not; and tables in the order of a column.

Spec: Storage Partitioned Join, Transform Compatibility, Appendix F. The dimensions of a scan are functions of its keys that partition values
determine. A finer field determines a coarser one: bucket counts that are multiples, and the identity of a key every other transform of it.
Rows whose keys are equal always lie in tables of one group; where that cannot be had, the reason is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice, pairwise, product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import DataType, types

from lance_flight.errors import LanceFlightError
from lance_flight.model.arrow_types import contiguous
from lance_flight.model.domains import Mask
from lance_flight.model.hashing import common_type, in_type, value_type
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate, Expression, PartitionField
from lance_flight.model.transforms import Nulls, Transform
from lance_flight.model.zones import zone_of
from lance_flight.planning.partitions import UNITS, DictionaryColumn, Partitions, SpecPartitions
from lance_flight.planning.pruning import describe


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


MAX_REASONS = 4


def why_incomparable(sides: Sequence[Side]) -> str | None:
    """Return why the keys of these sides cannot be compared; None: they can."""
    if not all(side.keys for side in sides):
        return "there are no keys"
    for side in sides:
        removed = [number for number in side.keys if side.schema.column(number) is None]
        if removed:
            return f"{side.name} has no column with the id {removed[0]}"
    for place in range(len(sides[0].keys)):
        for side in sides:
            if common_type([side.key_type(place)]) is None:
                return f"{_key(side, place)}, which is not compared"
        for one, other in combinations(sides, 2):
            if common_type([one.key_type(place), other.key_type(place)]) is None:
                return f"{_key(one, place)} and {_key(other, place)}: these are not compared without loss"
    return None


def why_apart(tables: Sequence[Tables]) -> str:
    """Return why these tables determine nothing in common."""
    bare = [side for side in tables if not side.fields]
    reasons = map(_without_fields, bare) if bare else _differences(tables)
    return "; ".join(islice(reasons, MAX_REASONS))


def _without_fields(tables: Tables) -> str:
    side = tables.side
    names = side.schema.source_names
    keys = ", ".join(dict.fromkeys(names[number] for number in side.keys))
    near = [field for field in tables.version.spec.fields if set(field.source_ids) & set(side.keys)]
    notes = [
        f"{describe(field, names)}: {obstacle(field, side) or 'the parts of the date do not say it'}" for field in near
    ]
    return f"{tables.label} has no partition field of {keys} alone" + "".join(f" ({note})" for note in notes[:1])


def _differences(tables: Sequence[Tables]) -> Iterator[str]:
    alone = True
    for one, other in combinations(tables, 2):
        if not common([one, other]):
            alone = False
            yield _difference(one, other)
    for dimension in dict.fromkeys(own for some in tables for own in some.fields) if alone else ():
        having, missing = ([some for some in tables if some.determines(dimension) is has] for has in (True, False))
        if missing:
            yield f"{missing[0].label} does not determine {_of(dimension, having[0])}"


def _difference(one: Tables, other: Tables) -> str:
    """Return why no field of one says what a field of the other does."""
    pairs = [(a, b) for a in one.fields for b in other.fields]
    a, b = min(pairs, key=lambda pair: _distance(*pair))
    return f"{_of(a, one)} and {_of(b, other)}: {_contrast(a, b)}"


def _distance(a: Dimension, b: Dimension) -> tuple[bool, bool, bool]:
    """Return how far from one another two fields are, for the pair that is worth a word."""
    return not set(a.places) & set(b.places), a.rule.family != b.rule.family, a.places != b.places


def _contrast(a: Dimension, b: Dimension) -> str:
    if not set(a.places) & set(b.places):
        return "these are of different keys"
    if a == b:
        return f"their columns are of different {'types' if a.rule.date_part is None else 'zones'}"
    if a.rule.family != b.rule.family:
        return "neither determines the other"
    if a.rule.date_part in UNITS and b.rule.date_part in UNITS:
        coarse, fine = sorted((a.rule, b.rule), key=lambda rule: [*UNITS].index(str(rule.date_part)))
        return f"{fine.type} alone does not determine a {coarse.type}"
    if a.places != b.places:
        return "their keys stand in another order" if set(a.places) == set(b.places) else "neither determines the other"
    return a.rule.contrast


def _of(dimension: Dimension, tables: Tables) -> str:
    return f"{dimension.show(tables.side)} of {tables.label}"


def _key(side: Side, place: int) -> str:
    return f"{side.schema.paths[side.keys[place]][0]} of {side.name} is {side.key_type(place)}"


__all__ = ["Group", "Groups", "NotCopartitioned", "Side", "in_order", "match"]

MAX_PAIRS = 16
"""So many combinations of one version of each side are matched on their own."""


def match(sides: Sequence[Side], evaluate: Evaluate | None, *, inner: bool) -> Groups | NotCopartitioned:
    """Return the groups of the tables of all sides: any two rows of different sides with equal keys are in one.

    Every table is in exactly one group; these are sorted by their values, NULL last. For one side alone, rows with
    equal keys are in one group. Keys that cannot be compared without loss are left out.

    With `inner` (all joins are inner, and by `=`) groups that no row can come of are left out: those without a table of
    each side, and those of keys that are NULL. Where the versions of a side have nothing in common, inner joins are
    also matched version by version: then `by` names the dimensions of each combination, whose groups follow one
    another, and a table is in groups of several.
    """
    comparable = _comparable(sides)
    if isinstance(comparable, NotCopartitioned):
        return comparable
    sides = comparable
    tables = [Tables.of(side) for side in sides]
    if not any(tables) or (inner and not all(tables)):
        return Groups((), ())
    groups = _match_groups(sides, tables, evaluate, inner=inner)
    if isinstance(groups, Groups) or not inner or len(sides) == 1 or all(len(some) == 1 for some in tables):
        return groups
    if prod(map(len, tables)) > MAX_PAIRS:
        return NotCopartitioned(f"{groups.why}; and their versions make more than {MAX_PAIRS} combinations")
    return _by_version(sides, tables, evaluate)


def _comparable(sides: Sequence[Side]) -> Sequence[Side] | NotCopartitioned:
    """Return the sides with the comparable ones of their keys.

    The remaining keys say nothing of where equal ones lie.
    """
    places = range(len(sides[0].keys))
    whys = [why_incomparable([side.with_keys([place]) for side in sides]) for place in places]
    usable = [place for place in places if whys[place] is None]
    if not usable:
        return NotCopartitioned("; ".join(dict.fromkeys(filter(None, whys))) or "there are no keys")
    return [side.with_keys(usable) for side in sides]


def _by_version(
    sides: Sequence[Side], tables: Sequence[Sequence[Tables]], evaluate: Evaluate | None
) -> Groups | NotCopartitioned:
    by: list[str] = []
    groups: list[Group] = []
    for some in product(*tables):
        matched = _match_groups(sides, [[side] for side in some], evaluate, inner=True)
        if isinstance(matched, NotCopartitioned):
            return matched
        by.append(f"{' with '.join(side.label for side in some)}: {', '.join(matched.by)}")
        groups += matched.groups
    return Groups(tuple(by), tuple(groups))


def _match_groups(
    sides: Sequence[Side], tables: Sequence[Sequence[Tables]], evaluate: Evaluate | None, *, inner: bool
) -> Groups | NotCopartitioned:
    every = [side for some in tables for side in some]
    dimensions = common(every)
    unsure = {
        dimension: why for dimension in dimensions if (why := _why_unsure(dimension, sides[0], evaluate)) is not None
    }
    sure = {dimension: kind for dimension, kind in dimensions.items() if dimension not in unsure}
    columns, failures = columns_of(sure, every, evaluate)
    failures = [*failures, *unsure.values()]
    if not columns:
        return NotCopartitioned("; ".join(failures) or why_apart(every))
    groups = group_tables(sides, tables, [*columns.values()], _matchable(columns, inner=inner))
    if inner:
        groups = [group for group in groups if all(any(map(len, versions)) for versions in group.rows)]
    return Groups(tuple(dimension.show(sides[0]) for dimension in columns), tuple(groups))


def _why_unsure(dimension: Dimension, side: Side, evaluate: Evaluate | None) -> str | None:
    """Return why equal keys may have different values of an expression: not deterministic, or unknown here."""
    if evaluate is None or not isinstance(dimension.rule, Expression):
        return None
    field = dimension.on(side)
    try:
        evaluate(
            dimension.rule.sql, [pa.nulls(0, side.key_type(place)) for place in dimension.places], field.result_type
        )
    except (LanceFlightError, pa.ArrowException) as exc:
        return f"{dimension.show(side)} of {side.name} cannot be computed: {exc}"
    return None


def _matchable(columns: Mapping[Dimension, Column], *, inner: bool) -> Mask:
    """Return the tables with a row that may find another.

    A transform gives NULL for NULL alone, an expression for anything.
    """
    taken = np.ones(len(next(iter(columns.values())).ranks), np.bool_)
    for dimension, column in columns.items():
        if inner and dimension.rule.nulls is not Nulls.UNKNOWN:
            taken &= ~column.null
    return taken


def in_order(side: Side, *, descending: bool, nulls_first: bool) -> Groups | NotCopartitioned:
    """Return the tables of a side in groups, every key in one of which is before every key in the next.

    The groups follow from the key's identity, from its year and what comes with it in the calendar (month, day, hour),
    or from its truncation: whatever all versions determine. NULL's group is the first or the last. Texts are in the
    order of their UTF-8 bytes. Floats are refused: NaN and the two zeros have no order that everybody shares.
    """
    if len(side.keys) != 1:
        return NotCopartitioned(f"an order of {side.name} by {len(side.keys)} keys; expected one")
    why = why_incomparable([side]) or _why_unordered(side)
    tables = Tables.of(side)
    if why is not None:
        return NotCopartitioned(why)
    if not tables:
        return Groups((), ())
    dimensions = common(tables)
    if not dimensions:
        return NotCopartitioned(why_apart(tables))
    run = _ascending([*dimensions], side.key_type(0))
    if not run:
        shown = ", ".join(dimension.show(side) for dimension in dimensions)
        return NotCopartitioned(f"{shown} of {side.name} does not follow the order of {_name(side)}")
    columns, failures = columns_of({dimension: dimensions[dimension] for dimension in run}, tables, None)
    if failures:
        return NotCopartitioned("; ".join(failures))
    groups = group_tables([side], [tables], [*columns.values()], np.ones(sum(map(len, tables)), np.bool_))
    null = [group for group in groups if group.values[0] is None]
    known = [group for group in groups if group.values[0] is not None]
    known = known[::-1] if descending else known
    return Groups(
        tuple(dimension.show(side) for dimension in columns), tuple(null + known if nulls_first else known + null)
    )


def _ascending(dimensions: Sequence[Dimension], kind: DataType) -> list[Dimension]:
    """Return the finest dimensions that, taken together, never fall while a key of this type rises."""
    same = [dimension for dimension in dimensions if dimension.rule.keeps_value]
    if same:
        return same[:1]
    by_part = {dimension.rule.date_part: dimension for dimension in dimensions}
    run = []
    zone = zone_of(kind)
    for part, seconds in UNITS.items():
        # Where clocks are set back from one day, or hour, to the one before, its rows lie on both sides of the other's.
        if part not in by_part or zone is None or not zone.keeps_order(seconds):
            break
        run.append(by_part[part])
    return run or [dimension for dimension in dimensions if dimension.rule.monotonic][:1]


def _why_unordered(side: Side) -> str | None:
    kind = side.key_type(0)
    if types.is_floating(value_type(kind)):
        return f"{_name(side)} of {side.name} is {kind}: NaN has no one place in its order"
    return None


def _name(side: Side) -> str:
    name: str = side.schema.paths[side.keys[0]][0]
    return name
