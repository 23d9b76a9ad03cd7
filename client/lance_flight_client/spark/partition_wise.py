"""Joins and aggregates of partitioned tables in Spark without a shuffle: each task does one group of partition tables.

Spark's data sources cannot say how they are partitioned, so a join of two of them sends all rows of both through the network.
Here the groups are matched by the driver before Spark plans (spec: Storage Partitioned Join), and dealt out to tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_flight.errors import InvalidInput, NotFound
from lance_flight.planning.joins import NotCopartitioned
from pyspark.sql import functions

from lance_flight_client.spark import groups, reading
from lance_flight_client.spark.groups import FUNCTIONS, JoinTerms, frame_of
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.reading import DirectPlan
from lance_flight_client.spark.source import FORMAT

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
    groups.check_how(how)
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
    found = groups.join_plan(sides[0].plan, sides[1].plan, terms)
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
    found = groups.aggregate_plan(rows.plan, keys, listed)
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
