"""Work of a task with the tables of one group: it joins them, or aggregates them, with Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.model.key_types import common_type

from lance_flight_client.spark.reading.portion import DirectPortion
from lance_flight_client.spark.types import carried_schema

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
        left = left.select([each.left for each in self.outputs if each.left is not None])
        right = right.select([each.right for each in self.outputs if each.right is not None])
        schema = schema_of(self.outputs)
        for start in range(0, pairs.num_rows, BATCH_ROWS):
            some = pairs.slice(start, BATCH_ROWS)
            mine = left.take(some[_LEFT_ROW]) if left.num_columns else left
            theirs = right.take(some[_RIGHT_ROW]) if right.num_columns else right
            columns = [_column(each, mine, theirs).combine_chunks() for each in self.outputs]
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
        return sorted(lefts, key=lambda each: keys.index(each.field.name) if each.field.name in keys else len(keys))
    merged = [Output(field=_merged(left.field(key), right.field(key), how), left=key, right=key) for key in keys]
    rights = [Output(field=field.with_name(names[1][field.name]), right=field.name) for field in right]
    return [*merged, *(each for each in [*lefts, *rights] if (each.left or each.right) not in keys)]


def schema_of(found: Sequence[Output]) -> pa.Schema:
    """Return the columns of a result."""
    return pa.schema([each.field for each in found])


def chosen(found: Sequence[Output], columns: Sequence[str] | None) -> list[Output]:
    """Return the columns of these names, where each name is that of just one column.

    All of them otherwise, or where none are named.
    """
    names = [each.field.name for each in found]
    if not columns or any(names.count(name) != 1 for name in columns):
        return list(found)
    return [each for each in found if each.field.name in columns]


def _merged(left: pa.Field, right: pa.Field, how: str) -> pa.Field:
    """Return a key of both sides as Spark has it: that of the side which is always there, or what holds both."""
    if how == "full":
        return left.with_type(common_type([left.type, right.type]))
    return right if how == "right" else left


def _table(portion: DirectPortion) -> pa.Table:
    return pa.Table.from_batches(portion.batches(), schema=carried_schema(portion.schema))
