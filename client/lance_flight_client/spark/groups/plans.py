"""Plans of joins and aggregates in groups, from the option of `source.py`: the groups, and the work of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from lance_flight.errors import InvalidInput, NotFound
from lance_flight.planning.joins import NotCopartitioned
from pyspark.sql.types import StructType

from lance_flight_client.spark.groups.matching import Keyed, grouped
from lance_flight_client.spark.groups.work import HOW, AggregateWork, JoinWork, chosen, outputs, schema_of
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.reading import direct
from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.types import carried_schema, spark_schema

JOIN, AGGREGATE = "join", "aggregate"
FUNCTIONS = ("sum", "min", "max", "count", "mean")


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Plan of a join or an aggregate in groups (`source.ReadPlan`), with the columns that it is grouped by."""

    carried: pa.Schema
    work: Sequence[Portion]
    by: tuple[str, ...]

    @property
    def schema(self) -> StructType:
        return spark_schema(self.carried)

    def portions(self) -> Sequence[Portion]:
        return self.work


def plan(work: Mapping[str, Any]) -> GroupPlan:
    """Plan the join or aggregate that the option describes; raise `InvalidInput` where there are no groups."""
    found = join_plan(work) if work["kind"] == JOIN else aggregate_plan(work)
    if isinstance(found, NotCopartitioned):
        raise InvalidInput(f"there are no groups: {found.why}")
    return found


def join_plan(work: Mapping[str, Any]) -> GroupPlan | NotCopartitioned:
    """Plan a join, if its tables are partitioned alike by its keys."""
    left, right = (direct.plan(ReadOptions.parse(work[side])) for side in ("left", "right"))
    on = [(str(a), str(b)) for a, b in work["on"]]
    for side, place in ((left, 0), (right, 1)):
        check_columns([pair[place] for pair in on], side)
    how = work["how"]
    sides = [Keyed(left, tuple(a for a, _ in on)), Keyed(right, tuple(b for _, b in on))]
    groups = grouped(sides, inner=how == "inner")
    if isinstance(groups, NotCopartitioned):
        return groups
    schemas = carried_schema(left.wanted), carried_schema(right.wanted)
    columns = chosen(outputs(*schemas, on, how, is_using=bool(work["using"])), work["columns"])
    carried_schema(schema_of(columns))
    portions = [JoinWork(left=mine, right=theirs, on=on, how=how, outputs=columns) for mine, theirs in groups.portions]
    return GroupPlan(schema_of(columns), portions, groups.by)


def aggregate_plan(work: Mapping[str, Any]) -> GroupPlan | NotCopartitioned:
    """Plan a GROUP BY, if the keys decide the partition."""
    rows = direct.plan(ReadOptions.parse(work["rows"]))
    keys = tuple(work["by"])
    aggregates = [(str(column), str(function)) for _, column, function in work["aggregates"]]
    check_columns([*keys, *(column for column, _ in aggregates)], rows)
    groups = grouped([Keyed(rows, keys)], inner=False)
    if isinstance(groups, NotCopartitioned):
        return groups
    carried = carried_schema(rows.wanted)
    results = [
        pa.field(name, _result(carried.field(column).type, function)) for name, column, function in work["aggregates"]
    ]
    schema = pa.schema([*map(carried.field, keys), *results])
    portions = [
        AggregateWork(rows=mine, keys=keys, aggregates=aggregates, schema=schema) for (mine,) in groups.portions
    ]
    return GroupPlan(schema, portions, groups.by)


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
