"""Plans of joins and aggregates in groups of planned reads: the groups, and the work of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from lance_flight.errors import NotFound
from lance_flight.planning.joins import NotCopartitioned
from pyspark.sql.types import StructType

from lance_flight_client.spark.groups.matching import Keyed, grouped
from lance_flight_client.spark.groups.work import HOW, ONE_SIDED, AggregateWork, JoinWork, chosen, outputs, schema_of
from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.types import carried_schema, spark_schema

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
    groups = grouped(sides, inner=how == "inner")
    if isinstance(groups, NotCopartitioned):
        return groups
    schemas = carried_schema(left.wanted), carried_schema(right.wanted)
    names = terms.names(left.wanted.names, right.wanted.names)
    columns = chosen(outputs(*schemas, on, how, names, is_using=terms.is_using), terms.columns)
    carried_schema(schema_of(columns))
    portions = [JoinWork(left=mine, right=theirs, on=on, how=how, outputs=columns) for mine, theirs in groups.portions]
    return GroupPlan(schema_of(columns), portions, groups.rows, groups.by)


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
