"""Suggestions of partition fields for rows that are to be loaded: how many tables each would make, and of what size."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import types

from lance_flight.catalog.commits.writer import partition_values
from lance_flight.engine.sql.references import quote_parts
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.engine.writes.definitions import parse_partition_by, partition_spec, storable
from lance_flight.errors import LanceFlightError
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import PartitionSpec
from lance_flight.model.transforms import TRANSFORMS

MOST_TABLES = 4096
"""Tables beyond which partition fields are no longer counted: each costs a load files, and a scan of all an open."""
FEWEST_ROWS = 100_000
"""Rows of a typical table, below which more tables cost a query more than they spare it."""
_BUCKET_ROWS = 1_000_000
_MOST_BUCKETS = 64
_BARE = re.compile(r"[a-z_][a-z0-9_]*")
_CALENDAR = ("year({0})", "year({0}), month({0})", "year({0}), month({0}), day({0})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSuggestion:
    """Tables that partition fields would make of rows: their number, and the rows of the smallest, a typical and the largest.

    The number is None where there are more than `MOST_TABLES`; the sizes of buckets are expected ones.
    """

    fields: str
    tables: int | None
    smallest: int = 0
    typical: int = 0
    largest: int = 0

    @property
    def is_fit(self) -> bool:
        """Return whether there are several tables, typically of many rows."""
        return self.tables is not None and self.tables > 1 and self.typical >= FEWEST_ROWS


@dataclass(slots=True)
class _Counted:
    """Partition fields, and how many rows each of their values has so far."""

    fields: str
    spec: PartitionSpec
    counts: pa.Table | None = field(default=None, repr=False)
    is_over: bool = False

    def add(self, rows: pa.Table, schema: NamespaceSchema) -> None:
        values = partition_values(rows, self.spec.fields, schema.source_paths, evaluate)
        names = [f"f{place}" for place in range(values.num_columns)]
        counted = _sum_groups(pa.table([*values.columns, pa.repeat(1, rows.num_rows)], names=[*names, "rows"]))
        self.counts = counted if self.counts is None else _sum_groups(pa.concat_tables([self.counts, counted]))
        self.is_over = self.counts.num_rows > MOST_TABLES

    @property
    def rules(self) -> frozenset[str]:
        """The fields, each as text."""
        return frozenset(str(field.derivation) for field in self.spec.fields)

    @property
    def tables(self) -> int:
        """The number of values so far."""
        return 0 if self.counts is None else self.counts.num_rows

    def suggestion(self) -> PartitionSuggestion:
        if self.is_over or self.counts is None:
            return PartitionSuggestion(fields=self.fields, tables=None if self.is_over else 0)
        rows = sorted(self.counts["rows"].to_pylist())
        return PartitionSuggestion(
            fields=self.fields, tables=len(rows), smallest=rows[0], typical=rows[len(rows) // 2], largest=rows[-1]
        )


def suggestions(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], given: str | None = None
) -> list[PartitionSuggestion]:
    """Count the rows of candidate partition fields, and return the best first: those with most tables of enough rows.

    Candidates are parts of the first dates and times, columns, both together, and buckets of columns with many values;
    `given` are further ones, as of PARTITIONED BY. Memory is that of `MOST_TABLES` values for each.
    """
    stored = NamespaceSchema.assign(storable(schema))
    candidates = [_Counted(text, spec) for text, spec in _candidates(stored, given)]
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        table = pa.Table.from_batches([batch]).cast(stored.plain)
        for dimension in candidates:
            if not dimension.is_over:
                dimension.add(table, stored)
    counted = [
        dimension
        for dimension in candidates
        if dimension.fields == given or not (dimension.is_over or _repeats(dimension, candidates))
    ]
    partition_suggestions = [dimension.suggestion() for dimension in counted]
    buckets = [
        _buckets(dimension.fields, rows)
        for dimension in candidates
        if dimension.is_over and _has_buckets(dimension.spec, stored)
    ]
    # What a query names comes before numbers that mean nothing to it.
    return [*sorted(partition_suggestions, key=_rank), *(suggestion for suggestion in buckets if suggestion.is_fit)]


def _rank(suggestion: PartitionSuggestion) -> tuple[bool, int]:
    return not suggestion.is_fit, -(suggestion.tables or 0) if suggestion.is_fit else 0


def _repeats(one: _Counted, others: Iterable[_Counted]) -> bool:
    """Return whether a part of some fields makes the same tables."""
    return any(other.rules < one.rules and other.tables == one.tables for other in others)


def _candidates(schema: NamespaceSchema, given: str | None) -> Iterable[tuple[str, PartitionSpec]]:
    texts = [] if given is None else [given]
    columns = [_name(field.name) for field in schema.plain if not types.is_floating(field.type)]
    times = [_name(field.name) for field in schema.plain if types.is_date(field.type) or types.is_timestamp(field.type)]
    calendars = [transform.format(name) for name in times for transform in _CALENDAR]
    texts += [*calendars, *columns]
    texts += [
        f"{calendar}, {name}" for calendar in calendars[: len(_CALENDAR)] for name in columns if name not in times
    ]
    for text in dict.fromkeys(texts):
        try:
            yield text, partition_spec(schema, parse_partition_by(text))
        except LanceFlightError:
            if text == given:
                raise


def _name(column: str) -> str:
    return column if _BARE.fullmatch(column) and column not in TRANSFORMS else quote_parts(column)


def _has_buckets(spec: PartitionSpec, schema: NamespaceSchema) -> bool:
    """Return whether fields are one column, and no date or time, whose parts say more."""
    kinds = [kind for field in spec.fields for kind in field.source_types(schema)]
    return len(kinds) == 1 and not types.is_temporal(kinds[0])


def _buckets(column: str, rows: int) -> PartitionSuggestion:
    number = 1
    while number < _MOST_BUCKETS and rows // (number * 2) >= _BUCKET_ROWS:
        number *= 2
    each = rows // number
    return PartitionSuggestion(
        fields=f"bucket({number}, {column})", tables=number, smallest=each, typical=each, largest=each
    )


def _sum_groups(counts: pa.Table) -> pa.Table:
    names = counts.column_names[:-1]
    summed = counts.group_by(names, use_threads=False).aggregate([("rows", "sum")])
    return summed.select([*names, "rows_sum"]).rename_columns([*names, "rows"])
