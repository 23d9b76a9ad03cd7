"""Target of a search: a table with what a condition leaves of it, and the rows chosen before the search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from lance_flight.catalog.manifests.indices import IndexDefinition
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.search.chosen_rows import Addresses
from lance_flight.catalog.tables.merged import MERGED_TABLES, Merged, merge
from lance_flight.catalog.tables.pinned_tables import PinnedTable
from lance_flight.catalog.tables.scan import ADDRESS_NAMES, Scan, Search
from lance_flight.catalog.tables.sources import Open, Source
from lance_flight.engine.query.named_tables import HIDDEN_COLUMNS
from lance_flight.engine.query.provider import Arrange, PlannedRead, filter_of
from lance_flight.errors import LanceFlightError, NotFound, QueryFailed, SchemaError
from lance_flight.model.arrow_types import children, within
from lance_flight.model.index_kinds import METRICS, Family, OptionValue
from lance_flight.planning.predicates import Predicate
from lance_flight.planning.pruning import Pruning


class ChosenRows:
    """Rows that fulfil a condition: their addresses in order, by the number of their table, once the statement runs."""

    def __init__(self) -> None:
        self._rows: Mapping[int, Addresses] | None = None

    @property
    def rows(self) -> Mapping[int, Addresses]:
        """Return the addresses, which are found before any search of the statement is read."""
        if self._rows is None:
            raise QueryFailed("a search is read before the rows that it looks at are known")
        return self._rows

    def keep(self, found: pa.Table) -> None:
        """Store the rows that the query has found."""
        number, address = (found[name].to_numpy() for name in ADDRESS_NAMES)
        order = np.lexsort((address, number))
        numbers, starts = np.unique(number[order], return_index=True)
        parts = np.split(address[order], starts[1:])
        self._rows = {int(each): part for each, part in zip(numbers, parts, strict=False)}


TargetKey = tuple[str, str, str | None]
"""Schema, table and condition of a target, as a statement has them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchTarget:
    """A table as a search reads it: its columns, the tables of it with their residual filters.

    If the filters cannot express which rows are searched, `chosen` holds those. `texts` are the options of its indices of texts, by column.
    `arrange` is what puts rows into random order where their order may not tell of partitions (None: it may). `indices` are all, by column. `sql_name` is what statements call it, None where its layout is hidden; it is `partitioned_by` some columns, and `is_pruned` where not all partition tables are left:
    those of the `snapshot` that `pruning` does (None: no scan is left).
    """

    name: str
    columns: pa.Schema
    ids: Mapping[str, int]
    tables: Sequence[tuple[Predicate | None, Sequence[PinnedTable]]]
    scan: PlannedRead | None
    texts: Mapping[str, Mapping[str, OptionValue]]
    report: str
    failure: Callable[[Exception], LanceFlightError]
    snapshot: Snapshot
    pruning: Pruning | None
    chosen: ChosenRows | None = None
    arrange: Arrange | None = None
    indices: Mapping[str, Sequence[IndexDefinition]] = field(default_factory=dict)
    sql_name: str | None = None
    partitioned_by: Sequence[str] = ()
    is_pruned: bool = False

    @property
    def hidden(self) -> tuple[str, ...]:
        """Return the hidden columns that the statement names, and the table shows."""
        return tuple(each.name for each in HIDDEN_COLUMNS if each in self.columns and each.name not in self.ids)

    def column(self, name: str) -> pa.Field:
        """Return a column to search; raise `NotFound` with the nearest names."""
        if name not in self.columns.names:
            raise NotFound.named("column", name, self.columns.names)
        return self.columns.field(name)

    def vectors(self, name: str) -> pa.Field:
        """Return a column of vectors to search, or a field inside structs, by its dotted path; raise `NotFound` with the nearest names."""
        root, *inner = name.split(".")
        above = self.column(root)
        for depth, _ in enumerate(inner):
            found = within(above, inner[: depth + 1])
            if found is None:
                (*_, struct) = within(above, inner[:depth]) or [above]
                known = [".".join([root, *inner[:depth], each.name]) for each in children(struct.type)]
                raise NotFound.named("field", ".".join([root, *inner[: depth + 1]]), known)
            field = found[-1]
        return field.with_name(name) if inner else above

    def vector_indices(self, name: str) -> dict[str, IndexDefinition]:
        """Return the indices of a column of vectors by their metrics: of several by one metric the last."""
        found = (each for each in self.indices.get(name, ()) if each.of_kind.family is Family.VECTOR)
        return {str(each.options.get("metric", METRICS[0])): each for each in found}

    def work(self, search: Search | None, schema: pa.Schema, *, merging: bool) -> list[tuple[Scan, Open]]:
        """Return the scans that find rows with some columns, computed ones included; None as the `search` finds all rows.

        `merging` combines many tables into one.
        """
        return [
            (self._scan(residual, search, schema), opened)
            for residual, tables in self.tables
            for opened in _open_units(tables, merging=merging)
        ]

    def _scan(self, residual: Predicate | None, search: Search | None, schema: pa.Schema) -> Scan:
        condition = filter_of(residual, None if self.scan is None else self.scan.condition, self.columns)
        return Scan(
            source=self.columns,
            schema=schema,
            filter=condition.expression,
            rest=condition.rest,
            filter_columns=condition.columns,
            pushable=condition.pushable,
            ids=self.ids,
            search=search,
        )


def check_free(target: SearchTarget, result: pa.Field) -> None:
    """Refuse a table that has a column of the name that the search gives its own."""
    if result.name in target.columns.names:
        raise SchemaError(f"table {target.name!r}", [f"column {result.name!r} is what a search calls its own"])


def _open_units(tables: Sequence[PinnedTable], *, merging: bool) -> Iterator[Open]:
    """Return the units of a search: single tables, or as many merged ones as possible."""
    alone = list(tables)
    if merging and len(tables) > 1:
        alone.clear()
        for start in range(0, len(tables), MERGED_TABLES):
            merged, others = merge(tables[start : start + MERGED_TABLES])
            alone += others
            yield from (partial(_of_merged, each) for each in merged)
    yield from (partial(_of_table, table) for table in alone)


def _of_merged(merged: Merged) -> list[Source]:
    return [merged.source]


def _of_table(table: PinnedTable) -> list[Source]:
    return [table.source]
