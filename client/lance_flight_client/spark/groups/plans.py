"""Plans of joins and aggregates in groups of planned reads: the groups, and the work of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from lance_flight.errors import NotFound
from lance_flight.planning.joins import NotCopartitioned
from pyspark.sql.types import StructType

from lance_flight_client.spark.groups.matching import Keyed, grouped
from lance_flight_client.spark.groups.work import HOW, AggregateWork, JoinWork, chosen, outputs, schema_of
from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.types import carried_schema, spark_schema

FUNCTIONS = ("sum", "min", "max", "count", "mean")


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Plan of a join or an aggregate in groups, with the columns that it is grouped by."""

    carried: pa.Schema
    work: Sequence[Portion]
    by: tuple[str, ...]

    @property
    def schema(self) -> StructType:
        """The columns of the result, as Spark has them."""
        return spark_schema(self.carried)


@dataclass(frozen=True, slots=True)
class JoinTerms:
    """Keys and type of a join: `on` are pairs of names, which the result has once with `is_using`.

    `columns` are those that the tasks return; None: all.
    """

    on: Sequence[tuple[str, str]]
    how: str
    is_using: bool
    columns: Sequence[str] | None


def join_plan(left: DirectPlan, right: DirectPlan, terms: JoinTerms) -> GroupPlan | NotCopartitioned:
    """Plan a join, if its tables are partitioned alike by its keys."""
    on, how = terms.on, terms.how
    for side, place in ((left, 0), (right, 1)):
        check_columns([pair[place] for pair in on], side)
    sides = [Keyed(left, tuple(a for a, _ in on)), Keyed(right, tuple(b for _, b in on))]
    groups = grouped(sides, inner=how == "inner")
    if isinstance(groups, NotCopartitioned):
        return groups
    schemas = carried_schema(left.wanted), carried_schema(right.wanted)
    columns = chosen(outputs(*schemas, on, how, is_using=terms.is_using), terms.columns)
    carried_schema(schema_of(columns))
    portions = [JoinWork(left=mine, right=theirs, on=on, how=how, outputs=columns) for mine, theirs in groups.portions]
    return GroupPlan(schema_of(columns), portions, groups.by)


def aggregate_plan(
    rows: DirectPlan, keys: Sequence[str], named: Sequence[tuple[str, str, str]]
) -> GroupPlan | NotCopartitioned:
    """Plan a GROUP BY, if the keys decide the partition; `named` are the name, the column and the function of each aggregate."""
    aggregates = [(column, function) for _, column, function in named]
    check_columns([*keys, *(column for column, _ in aggregates)], rows)
    groups = grouped([Keyed(rows, tuple(keys))], inner=False)
    if isinstance(groups, NotCopartitioned):
        return groups
    carried = carried_schema(rows.wanted)
    results = [pa.field(name, _result(carried.field(column).type, function)) for name, column, function in named]
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
