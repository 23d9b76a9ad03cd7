"""Joins and aggregates of partitioned tables in Spark without a shuffle: each task does one group of partition tables.

Spark's data sources cannot say how they are partitioned, so a join of two of them sends all rows of both through the network.
Here the groups are matched before Spark plans (spec: Storage Partitioned Join), and each is one input partition.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lance_flight.errors import InvalidInput, NotFound
from lance_flight.planning.joins import NotCopartitioned
from pyspark.sql import functions

from lance_flight_client.spark.groups import plans, source
from lance_flight_client.spark.groups.plans import AGGREGATE, FUNCTIONS, JOIN
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.reading import direct
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
) -> DataFrame:
    """Join two tables group by group; Spark's own join where they are not partitioned alike by `on` (the log says why).

    `left` and `right` are options of `format("lance_flight")` with `root`. `on` are names that both sides have, which the result
    has once, or pairs of names. `how` is inner, left, right, full, semi or anti. `where` (Spark SQL) and `columns` are over
    the result. Both tables stay at the versions that they have now.
    """
    plans.check_how(how)
    is_using = isinstance(on, str) or all(isinstance(each, str) for each in on)
    pairs = [(each, each) if isinstance(each, str) else tuple(each) for each in ([on] if isinstance(on, str) else on)]
    if not pairs:
        raise InvalidInput("on is empty; expected the names of columns, or pairs of names")
    sides = [_pinned(left), _pinned(right)]
    work = {"kind": JOIN, "left": sides[0], "right": sides[1], "on": pairs, "how": how, "using": is_using}
    # A condition may be over any column, and is Spark's to apply.
    work["columns"] = None if columns is None or where is not None else list(columns)
    found = plans.join_plan(work)
    if isinstance(found, NotCopartitioned):
        _log.warning("joined by Spark: %s", found.why)
        frames = [spark.read.format(FORMAT).options(**options).load() for options in sides]
        keys: Any = [a for a, _ in pairs] if is_using else [frames[0][a] == frames[1][b] for a, b in pairs]
        joined = frames[0].join(frames[1], keys, how)
    else:
        joined = _in_groups(spark, work)
    joined = joined if where is None else joined.where(where)
    return joined if columns is None else joined.select(*columns)


def partition_wise_aggregate(
    spark: SparkSession,
    table: Mapping[str, str],
    by: str | Sequence[str],
    aggregates: Mapping[str, tuple[str, str]],
) -> DataFrame:
    """Group a table by columns that decide the partition, group by group; by Spark's own GROUP BY where they do not.

    `table` are options of `format("lance_flight")` with `root`; `aggregates` are, by name, a column and one of sum, min, max,
    count and mean.
    """
    keys = [by] if isinstance(by, str) else list(by)
    for _, function in aggregates.values():
        if function not in FUNCTIONS:
            raise NotFound.named("aggregate", function, FUNCTIONS)
    rows = _pinned(table)
    listed = [(name, column, function) for name, (column, function) in aggregates.items()]
    work = {"kind": AGGREGATE, "rows": rows, "by": keys, "aggregates": listed}
    found = plans.aggregate_plan(work)
    if not isinstance(found, NotCopartitioned):
        return _in_groups(spark, work)
    _log.warning("grouped by Spark: %s", found.why)
    frame = spark.read.format(FORMAT).options(**rows).load()
    return frame.groupBy(*keys).agg(*(getattr(functions, fn)(column).alias(name) for name, column, fn in listed))


def _pinned(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a direct read with the version that the table has now."""
    parsed = ReadOptions.parse(options)
    if parsed.root is None:
        raise InvalidInput("groups are read directly; expected the option 'root'")
    version = direct.plan(parsed).version
    return {name: text for name, text in options.items() if name.lower() not in _POINTS} | {"snapshot": str(version)}


def _in_groups(spark: SparkSession, work: Mapping[str, Any]) -> DataFrame:
    spark.dataSource.register(source.LanceFlightGroups)
    return spark.read.format(source.FORMAT).option(source.WORK, json.dumps(work)).load()
