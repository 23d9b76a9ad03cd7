"""What a task does with the tables of one group: it joins them, or aggregates them, with Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance_flight.planning.key_types import common_type

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinWork:
    """One group of a join (`source.Portion`). With `is_using` each key is one column of the result, else one of each side."""

    left: DirectPortion
    right: DirectPortion
    on: Sequence[tuple[str, str]]
    how: str
    is_using: bool
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        left, right = _table(self.left), _table(self.right)
        pairs = self._pairs(left, right)
        for start in range(0, pairs.num_rows, BATCH_ROWS):
            some = pairs.slice(start, BATCH_ROWS)
            columns = [column.combine_chunks() for column in self._columns(some, left, right)]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _pairs(self, left: pa.Table, right: pa.Table) -> pa.Table:
        """The numbers of the rows that belong together, NULL where a row is alone."""
        sides = []
        kinds = [common_type([left.schema.field(a).type, right.schema.field(b).type]) for a, b in self.on]
        names = [f"k{number}" for number in range(len(self.on))]
        for table, place, row in ((left, 0, _LEFT_ROW), (right, 1, _RIGHT_ROW)):
            keys = [table[pair[place]].cast(kind) for pair, kind in zip(self.on, kinds, strict=True)]
            sides.append(pa.table([*keys, np.arange(table.num_rows)], names=[*names, row]))
        return sides[0].join(sides[1], names, join_type=HOW[self.how], use_threads=False)

    def _columns(self, pairs: pa.Table, left: pa.Table, right: pa.Table) -> list[pa.ChunkedArray]:
        lefts = pairs[_LEFT_ROW]
        mine = left.take(lefts)
        if self.how in {"semi", "anti"}:
            found: list[pa.ChunkedArray] = [mine[name] for name in self.schema.names]
            return found
        theirs = right.take(pairs[_RIGHT_ROW])
        if not self.is_using:
            return [*mine.columns, *theirs.columns]
        keys = [a for a, _ in self.on]
        merged = [
            pc.coalesce(mine[key].cast(field.type), theirs[key].cast(field.type))
            for key, field in zip(keys, self.schema, strict=False)
        ]
        return [*merged, *mine.drop_columns(keys).columns, *theirs.drop_columns(keys).columns]


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


def joined_schema(
    left: pa.Schema, right: pa.Schema, on: Sequence[tuple[str, str]], how: str, *, is_using: bool
) -> pa.Schema:
    """The columns of a join, as Spark's own join has them."""
    keys = [a for a, _ in on] if is_using else []
    sides = [left] if how in {"semi", "anti"} else [left, right]
    merged = [_merged(left.field(key), right.field(key), how) for key in keys]
    return pa.schema([*merged, *(field for side in sides for field in side if field.name not in keys)])


def _merged(left: pa.Field, right: pa.Field, how: str) -> pa.Field:
    """A key of both sides as Spark has it: that of the side which is always there, or what holds both."""
    if how == "full":
        return left.with_type(common_type([left.type, right.type]))
    return right if how == "right" else left


def _table(portion: DirectPortion) -> pa.Table:
    return pa.Table.from_batches(portion.batches(), schema=carried_schema(portion.schema))
