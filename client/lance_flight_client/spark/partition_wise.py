"""Joins and aggregates of partitioned tables in Spark without a shuffle: each task does one group of partition tables.

Spark's data sources cannot say how they are partitioned, so a join of two of them sends all rows of both through the network.
Here the groups are matched and planned by the driver before Spark plans (spec: Storage Partitioned Join), and dealt out to tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_flight.errors import InvalidInput, NotFound
from lance_flight.planning.joins import NotCopartitioned
from pyspark.sql import functions

from lance_flight_client.spark import reading
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.reading import DirectPlan
from lance_flight_client.spark.source import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

import pickle
from collections.abc import Iterable, Iterator
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.catalog.tables.sources import row_counts
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.model.hashing import common_type
from lance_flight.planning.joins import match
from pyspark.sql.types import StructType

from lance_flight_client.dataset.portions import balance_tasks, tasks_for
from lance_flight_client.spark.portions import DirectPortion
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.types import carried_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_log = logging.getLogger(__name__)
_POINTS = ("snapshot", "tag", "time")


def partition_wise_join(
    spark: SparkSession,
    left: Mapping[str, str],
    right: Mapping[str, str],
    on: str | Sequence[str] | Sequence[tuple[str, str]],
    how: str = "inner",
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    suffixes: tuple[str, str] | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Join two tables group by group; Spark's own join where they are not partitioned alike by `on` (the log says why).

    `left` and `right` are options of `format("lance_flight")` with `root`. `on` are names that both sides have, which the result
    has once, or pairs of names. `how` is inner, left, right, full, semi or anti. `where` (Spark SQL) and `columns` are over
    the result. `suffixes` are added to the names of columns that both sides have, `("_left", "_right")` for example; without them such
    names are refused. Both tables stay at the versions that they have now. The groups are dealt out to at most `tasks` tasks by their
    rows, each of which joins one after another (None: as many as run at once, or more where a task would have over a million rows).
    """
    check_how(how)
    is_using = isinstance(on, str) or all(isinstance(column, str) for column in on)
    named = [on] if isinstance(on, str) else on
    pairs = [(column, column) if isinstance(column, str) else (column[0], column[1]) for column in named]
    if not pairs:
        raise InvalidInput("on is empty; expected the names of columns, or pairs of names")
    if suffixes is not None and (len(suffixes) != 2 or suffixes[0].lower() == suffixes[1].lower()):  # noqa: PLR2004 - the sides
        raise InvalidInput(f"suffixes is {suffixes!r}; expected two that differ, one for each side")
    sides = [_Pinned.of(left), _Pinned.of(right)]
    # A condition may be over any column, and is Spark's to apply.
    returned = None if columns is None or where is not None else list(columns)
    terms = JoinTerms(pairs, how, is_using, returned, suffixes)
    found = join_plan(sides[0].plan, sides[1].plan, terms)
    if isinstance(found, NotCopartitioned):
        _log.warning("joined by Spark: %s", found.why)
        joined = _joined_by_spark(spark, sides, terms)
    else:
        joined = frame_of(spark, found, _check_parts(tasks))
    joined = joined if where is None else joined.where(where)
    return joined if columns is None else joined.select(*columns)


def _joined_by_spark(spark: SparkSession, sides: Sequence[_Pinned], terms: JoinTerms) -> DataFrame:
    """Return the same join as Spark does it, whatever the partitions."""
    names = terms.names(*(side.plan.wanted.names for side in sides))
    left, right = (side.load(spark).toDF(*mine.values()) for side, mine in zip(sides, names, strict=True))
    if terms.is_using:
        return left.join(right, [a for a, _ in terms.on], terms.how)
    return left.join(right, [left[names[0][a]] == right[names[1][b]] for a, b in terms.on], terms.how)


def partition_wise_aggregate(
    spark: SparkSession,
    table: Mapping[str, str],
    by: str | Sequence[str],
    aggregates: Mapping[str, tuple[str, str]],
    *,
    tasks: int | None = None,
) -> DataFrame:
    """Group a table by columns that decide the partition, group by group; by Spark's own GROUP BY where they do not.

    `table` are options of `format("lance_flight")` with `root`; `aggregates` are, by name, a column and one of sum, min, max,
    count and mean; `tasks` are those of `partition_wise_join`.
    """
    keys = [by] if isinstance(by, str) else list(by)
    for _, function in aggregates.values():
        if function not in FUNCTIONS:
            raise NotFound.named("aggregate", function, FUNCTIONS)
    rows = _Pinned.of(table)
    listed = [(name, column, function) for name, (column, function) in aggregates.items()]
    found = aggregate_plan(rows.plan, keys, listed)
    if not isinstance(found, NotCopartitioned):
        return frame_of(spark, found, _check_parts(tasks))
    _log.warning("grouped by Spark: %s", found.why)
    grouped = rows.load(spark).groupBy(*keys)
    return grouped.agg(*(getattr(functions, fn)(column).alias(name) for name, column, fn in listed))


def _check_parts(tasks: int | None) -> int | None:
    if tasks is not None and tasks < 1:
        raise InvalidInput(f"tasks is {tasks}; expected 1 or more, or None")
    return tasks


@dataclass(frozen=True, slots=True)
class _Pinned:
    """A direct read at the version that its table has now, and its options with that version."""

    plan: DirectPlan
    options: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str]) -> _Pinned:
        parsed = ReadOptions.parse(options)
        if parsed.root is None:
            raise InvalidInput("groups are read directly; expected the option 'root'")
        plan = reading.plan_direct(parsed)
        others = {name: text for name, text in options.items() if name.lower() not in _POINTS}
        return cls(plan, others | {"snapshot": str(plan.version)})

    def load(self, spark: SparkSession) -> DataFrame:
        """Return its rows as Spark reads them."""
        return spark.read.format(FORMAT).options(**self.options).load()


@dataclass(frozen=True, slots=True)
class Keyed:
    """One side: a planned read, and the columns that are its keys, in the order of the other sides'."""

    plan: DirectPlan
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grouped:
    """The portions of each group, one of each side, their rows, and what they are grouped by."""

    by: tuple[str, ...]
    portions: tuple[tuple[DirectPortion, ...], ...]
    rows: tuple[int, ...]


def group_sides(sides: Sequence[Keyed], *, inner: bool) -> Grouped | NotCopartitioned:
    """Return the groups of all sides: rows with equal keys are in one (spec: Storage Partitioned Join)."""
    floating = [
        (side, key) for side in sides for key in side.keys if pa.types.is_floating(side.plan.source.field(key).type)
    ]
    if floating:
        side, key = floating[0]
        return NotCopartitioned(
            f"{key} of {side.plan.table.name} is a float; Spark and Arrow do not agree which of those are equal"
        )
    found = [side.plan.plan_tables() for side in sides]
    scans = [pruned.planned for pruned in found]
    plain = [scan.name for scan in scans if not scan.snapshot.is_partitioned]
    if plain:
        return NotCopartitioned(f"{plain[0]} is not partitioned")
    wanted = [scan.side(side.plan.table.name, side.keys) for scan, side in zip(scans, sides, strict=True)]
    matched = match(wanted, evaluate, inner=inner)
    if isinstance(matched, NotCopartitioned):
        return matched
    places = [
        [_places(scan.kept, rows) for scan, rows in zip(scans, group.rows, strict=True)] for group in matched.groups
    ]
    portions = tuple(
        tuple(
            side.plan.portion(pruned, [pruned.pieces[place] for place in mine])
            for side, pruned, mine in zip(sides, found, of_group, strict=True)
        )
        for of_group in places
    )
    counts = [row_counts([piece.part.table for piece in pruned.pieces]) for pruned in found]
    rows = tuple(
        sum(known[place] for known, mine in zip(counts, of_group, strict=True) for place in mine) for of_group in places
    )
    return Grouped(matched.by, portions, rows)


def _places(kept: Sequence[npt.NDArray[np.int64]], rows: Sequence[npt.NDArray[np.int64]]) -> list[int]:
    """Return where tables stand among those that are left; both are numbers of tables, version by version."""
    starts = [0, *accumulate(map(len, kept))]
    return [
        start + int(place)
        for start, mine, wanted in zip(starts, kept, rows, strict=False)
        for place in np.searchsorted(mine, wanted)
    ]


BATCH_ROWS = 64 * 1024
_LEFT_ROW, _RIGHT_ROW = "left row", "right row"

HOW: Mapping[str, str] = MappingProxyType(
    {
        "inner": "inner",
        "left": "left outer",
        "right": "right outer",
        "full": "full outer",
        "semi": "left semi",
        "anti": "left anti",
    }
)
"""The types of joins, and what Arrow calls them."""
ONE_SIDED = frozenset({"semi", "anti"})
"""The types of joins that return the columns of the left side alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column of a join's result: that of one side, or a key, which is that of whichever side is there."""

    field: pa.Field
    left: str | None = None
    right: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWork:
    """One group of a join (`source.Portion`)."""

    left: DirectPortion
    right: DirectPortion
    on: Sequence[tuple[str, str]]
    how: str
    outputs: Sequence[Output]

    def batches(self) -> Iterator[pa.RecordBatch]:
        left, right = _table(self.left), _table(self.right)
        pairs = self._pairs(left, right)
        left = left.select([output.left for output in self.outputs if output.left is not None])
        right = right.select([output.right for output in self.outputs if output.right is not None])
        schema = schema_of(self.outputs)
        for start in range(0, pairs.num_rows, BATCH_ROWS):
            some = pairs.slice(start, BATCH_ROWS)
            mine = left.take(some[_LEFT_ROW]) if left.num_columns else left
            theirs = right.take(some[_RIGHT_ROW]) if right.num_columns else right
            columns = [_column(output, mine, theirs).combine_chunks() for output in self.outputs]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _pairs(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """Return the numbers of the rows that belong together, NULL where a row is alone."""
        sides = []
        kinds = [common_type([left.schema.field(a).type, right.schema.field(b).type]) for a, b in self.on]
        names = [f"k{number}" for number in range(len(self.on))]
        for table, place, row in ((left, 0, _LEFT_ROW), (right, 1, _RIGHT_ROW)):
            keys = [table[pair[place]].cast(kind) for pair, kind in zip(self.on, kinds, strict=True)]
            sides.append(pa.table([*keys, np.arange(table.num_rows)], names=[*names, row]))
        return sides[0].join(sides[1], names, join_type=HOW[self.how], use_threads=False)


def _column(output: Output, left: pa.Table, right: pa.Table) -> pa.ChunkedArray:
    match output.left, output.right:
        case str(mine), None:
            return left[mine]
        case None, str(theirs):
            return right[theirs]
        case mine, theirs:
            kind = output.field.type
            return pc.coalesce(left[mine].cast(kind), right[theirs].cast(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateWork:
    """One group of a GROUP BY (`source.Portion`): `aggregates` are columns and functions, in the order of `schema` after the keys."""

    rows: DirectPortion
    keys: Sequence[str]
    aggregates: Sequence[tuple[str, str]]
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        found = _table(self.rows).group_by(list(self.keys), use_threads=False).aggregate(list(self.aggregates))
        names = [*self.keys, *(f"{column}_{function}" for column, function in self.aggregates)]
        columns = [found[name].cast(field.type) for name, field in zip(names, self.schema, strict=True)]
        yield from pa.Table.from_arrays(columns, schema=self.schema).to_batches(BATCH_ROWS)


def outputs(
    left: pa.Schema,
    right: pa.Schema,
    on: Sequence[tuple[str, str]],
    how: str,
    names: tuple[Mapping[str, str], Mapping[str, str]],
    *,
    is_using: bool,
) -> list[Output]:
    """Return the columns of a join, as in Spark's own join: with `is_using` each key once, else those of both sides.

    `names` are the names in the result, by those of each side.
    """
    keys = [a for a, _ in on] if is_using else []
    lefts = [Output(field=field.with_name(names[0][field.name]), left=field.name) for field in left]
    if how in ONE_SIDED:
        return sorted(lefts, key=lambda item: keys.index(item.field.name) if item.field.name in keys else len(keys))
    merged = [Output(field=_merge_key(left.field(key), right.field(key), how), left=key, right=key) for key in keys]
    rights = [Output(field=field.with_name(names[1][field.name]), right=field.name) for field in right]
    return [*merged, *(output for output in [*lefts, *rights] if (output.left or output.right) not in keys)]


def schema_of(found: Sequence[Output]) -> pa.Schema:
    """Return the columns of a result."""
    return pa.schema([output.field for output in found])


def choose_outputs(found: Sequence[Output], columns: Sequence[str] | None) -> list[Output]:
    """Return the columns of these names, where each name is that of just one column.

    All of them otherwise, or where none are named.
    """
    names = [output.field.name for output in found]
    if not columns or any(names.count(name) != 1 for name in columns):
        return list(found)
    return [output for output in found if output.field.name in columns]


def _merge_key(left: pa.Field, right: pa.Field, how: str) -> pa.Field:
    """Return a key of both sides as Spark has it: that of the side which is always there, or what holds both."""
    if how == "full":
        return left.with_type(common_type([left.type, right.type]))
    return right if how == "right" else left


def _table(portion: DirectPortion) -> pa.Table:
    return pa.Table.from_batches(portion.batches(), schema=carried_schema(portion.schema))


FUNCTIONS = ("sum", "min", "max", "count", "mean")


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Plan of a join or an aggregate in groups: the work and the rows of each, and the columns that they are grouped by."""

    carried: pa.Schema
    work: Sequence[Portion]
    rows: Sequence[int]
    by: tuple[str, ...]

    @property
    def schema(self) -> StructType:
        """The columns of the result, as Spark has them."""
        return spark_schema(self.carried)


@dataclass(frozen=True, slots=True)
class JoinTerms:
    """Keys and type of a join: `on` are pairs of names, which the result has once with `is_using`.

    `columns` are those that the tasks return; None: all. `suffixes` are added to the names that both sides have.
    """

    on: Sequence[tuple[str, str]]
    how: str
    is_using: bool
    columns: Sequence[str] | None
    suffixes: tuple[str, str] | None = None

    def names(self, left: Sequence[str], right: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the names that the result has for the columns of each side, by those of its table.

        >>> JoinTerms([("k", "k")], "inner", True, None, ("_l", "_r")).names(["k", "v"], ["k", "V"])
        ({'k': 'k', 'v': 'v_l'}, {'k': 'k', 'V': 'V_r'})
        """
        keys = {a.lower() for a, _ in self.on} if self.is_using else set()
        same = {name.lower() for name in left} & {name.lower() for name in right} - keys
        suffixes = ("", "") if self.suffixes is None or self.how in ONE_SIDED else self.suffixes
        return (
            {name: name + suffixes[0] * (name.lower() in same) for name in left},
            {name: name + suffixes[1] * (name.lower() in same) for name in right},
        )


def join_plan(left: DirectPlan, right: DirectPlan, terms: JoinTerms) -> GroupPlan | NotCopartitioned:
    """Plan a join, if its tables are partitioned alike by its keys."""
    on, how = terms.on, terms.how
    for side, place in ((left, 0), (right, 1)):
        check_columns([pair[place] for pair in on], side)
    sides = [Keyed(left, tuple(a for a, _ in on)), Keyed(right, tuple(b for _, b in on))]
    groups = group_sides(sides, inner=how == "inner")
    if isinstance(groups, NotCopartitioned):
        return groups
    schemas = carried_schema(left.wanted), carried_schema(right.wanted)
    names = terms.names(left.wanted.names, right.wanted.names)
    columns = choose_outputs(outputs(*schemas, on, how, names, is_using=terms.is_using), terms.columns)
    carried_schema(schema_of(columns))
    portions = [JoinWork(left=mine, right=theirs, on=on, how=how, outputs=columns) for mine, theirs in groups.portions]
    return GroupPlan(schema_of(columns), portions, groups.rows, groups.by)


def aggregate_plan(
    rows: DirectPlan, keys: Sequence[str], named: Sequence[tuple[str, str, str]]
) -> GroupPlan | NotCopartitioned:
    """Plan a GROUP BY, if the keys decide the partition; `named` are the name, the column and the function of each aggregate."""
    aggregates = [(column, function) for _, column, function in named]
    check_columns([*keys, *(column for column, _ in aggregates)], rows)
    groups = group_sides([Keyed(rows, tuple(keys))], inner=False)
    if isinstance(groups, NotCopartitioned):
        return groups
    carried = carried_schema(rows.wanted)
    results = [pa.field(name, _result(carried.field(column).type, function)) for name, column, function in named]
    schema = pa.schema([*map(carried.field, keys), *results])
    portions = [
        AggregateWork(rows=mine, keys=keys, aggregates=aggregates, schema=schema) for (mine,) in groups.portions
    ]
    return GroupPlan(schema, portions, groups.rows, groups.by)


def check_columns(names: Sequence[str], plan: DirectPlan) -> None:
    """Refuse columns that a read does not return."""
    for name in names:
        if name not in plan.wanted.names:
            raise NotFound.named("column", name, plan.wanted.names)


def check_how(how: str) -> None:
    """Refuse a type of join that is none of Spark's."""
    if how not in HOW:
        raise NotFound.named("join type", how, HOW)


def _result(kind: pa.DataType, function: str) -> pa.DataType:
    """Return the type of an aggregate as Spark has it."""
    if function == "count":
        return pa.int64()
    if function in {"min", "max"}:
        return kind
    if function == "mean" or pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(kind.precision + 10, 38), kind.scale)
    return pa.int64()


@dataclass(frozen=True, slots=True)
class GroupTask:
    """Function of every task: the groups of all tasks, pickled by task, since one has use for its own alone."""

    works: Sequence[bytes]

    @classmethod
    def of(cls, dealt: Sequence[Sequence[Portion]]) -> GroupTask:
        """Pickle the groups of each task."""
        return cls([pickle.dumps(works) for works in dealt])

    def rows(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the tasks of these numbers, one group after another."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                works: Sequence[Portion] = pickle.loads(self.works[number])  # noqa: S301 - made by the driver
                for work in works:
                    yield from work.batches()


def frame_of(spark: SparkSession, plan: GroupPlan, tasks: int | None) -> DataFrame:
    """Return the rows of a plan, whose groups are dealt out to so many tasks (None: as many as run at once, or as their rows ask for).

    The tasks are given what the driver has planned. A data source would plan it again, in two more Python processes.
    """
    most = max(_running(spark, len(plan.work)), tasks_for(sum(plan.rows), None)) if tasks is None else tasks
    dealt = balance_tasks(list(zip(plan.work, plan.rows, strict=True)), most)
    count = max(len(dealt), 1)
    return spark.range(0, len(dealt), 1, count).mapInArrow(GroupTask.of(dealt).rows, plan.schema)


def _running(spark: SparkSession, otherwise: int) -> int:
    """Return how many tasks a cluster runs at once; what is given where a client of Spark Connect cannot know it."""
    context = getattr(spark, "_sc", None)
    return otherwise if context is None else int(context.defaultParallelism)
