"""Relations of which a scan reads as many rows as a LIMIT needs: Spark applies the LIMIT itself to what they return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from lance_flight.catalog.tables.row_counts import row_counts
from pyspark.sql.types import StructType

from lance_flight_client.dataset.balancing import balanced, tasks_for
from lance_flight_client.dataset.portions import TablePiece
from lance_flight_client.parameters import quoted
from lance_flight_client.spark.connector.reading.relations import (
    DirectTable,
    Relation,
    RootQuery,
    ServerQuery,
    ServerTable,
)
from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.reading.portion import DirectPortion
from lance_flight_client.spark.source import Portion, ReadPlan

_FIRST_COUNTED = 8
"""Tables that are opened at first, for their rows."""


@dataclass(frozen=True, slots=True)
class LimitedTable:
    """A table of a root, of which `rows` rows are enough."""

    table: DirectTable
    rows: int

    @property
    def source(self) -> pa.Schema:
        return self.table.source

    @property
    def takes_conditions(self) -> bool:
        return False

    def decides(self, condition: str) -> bool:
        return self.table.decides(condition)

    def scan(self, columns: Sequence[str], condition: str | None) -> ReadPlan:
        return LimitedPlan(self.table.scan(columns, condition), self.rows)


@dataclass(frozen=True, slots=True)
class LimitedPlan:
    """A read of at least `rows` rows, or of all there are (`source.ReadPlan`)."""

    plan: DirectPlan
    rows: int

    @property
    def schema(self) -> StructType:
        return self.plan.schema

    def portions(self) -> Sequence[Portion]:
        found = self.plan.found()
        if not found.is_whole:
            # How many rows of a table fulfil the condition is known to those who have read them.
            return self.plan.portions()
        counted = list(_enough(found.pieces, self.rows))
        tasks = balanced(counted, tasks_for(min(self.rows, sum(rows for _, rows in counted)), None)) or [[]]
        return [LimitedPortion(self.plan.portion(found, pieces), self.rows) for pieces in tasks]


def _enough(pieces: Sequence[TablePiece], wanted: int) -> Iterator[tuple[TablePiece, int]]:
    """Yield the first tables that have so many rows together, each with its number; more are counted at each step."""
    start, step = 0, _FIRST_COUNTED
    while start < len(pieces) and wanted > 0:
        some = pieces[start : start + step]
        for piece, rows in zip(some, row_counts([each.part.table for each in some]), strict=True):
            if rows and wanted > 0:
                yield piece, rows
                wanted -= rows
        start, step = start + step, step * 2


@dataclass(frozen=True, slots=True)
class LimitedPortion:
    """The first rows of a task (`source.Portion`)."""

    portion: DirectPortion
    rows: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield no more than `rows` rows."""
        left = self.rows
        for batch in self.portion.batches():
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return


def limited(relation: Relation, rows: int) -> Relation | None:
    """Return a relation whose scans need no more than so many rows; None where they read all in any case."""
    if isinstance(relation, DirectTable):
        return LimitedTable(relation, rows)
    query = as_query(relation)
    return None if query is None else replace(query, limit=rows)


def as_query(relation: Relation) -> ServerQuery | RootQuery | None:
    """Return the relation as one that is read by its name in SQL; None for one that the tasks read from its files."""
    if isinstance(relation, ServerTable):
        return ServerQuery(
            replace(relation.options, table=None, snapshot=None, query=""), name_of(relation), relation.source
        )
    return relation if isinstance(relation, ServerQuery | RootQuery) else None


def name_of(relation: DirectTable | ServerTable) -> str:
    """Return the name of a table at its version, as SQL quotes it."""
    if isinstance(relation, DirectTable):
        table = relation.plan.table
        return f"{quoted(table.db_schema)}.{quoted(f'{table.name}@{relation.plan.version}')}"
    if relation.options.table is None:
        raise AssertionError(relation)
    schema, name = relation.options.table
    return f"{quoted(schema)}.{quoted(f'{name}@{relation.options.snapshot}')}"
