"""Searches of one statement: their targets, the rows chosen before, and the tables of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from datafusion import DataFrame

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.search.row_ranking import Addresses
from lance_flight.catalog.tables.indices import IndexDefinition
from lance_flight.catalog.tables.scan import ADDRESS_NAMES, Scan, Search
from lance_flight.catalog.tables.sources import MERGED_TABLES, Merged, Open, PinnedTable, Source, merge
from lance_flight.engine.query.named_tables import HIDDEN_COLUMNS
from lance_flight.engine.query.optimiser import Optimiser
from lance_flight.engine.query.tables.provider import Arrange, ComputedTable, Lane, PlannedRead, ScanLog, filter_of
from lance_flight.engine.query.tables.table_view import TableView
from lance_flight.engine.translation.parameters import parameter_count
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

    def keep(self, rows: pa.Table) -> None:
        """Store the rows that the query has found."""
        number, address = (rows[name].to_numpy() for name in ADDRESS_NAMES)
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
        return tuple(column.name for column in HIDDEN_COLUMNS if column in self.columns and column.name not in self.ids)

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
            vectors = within(above, inner[: depth + 1])
            if vectors is None:
                (*_, struct) = within(above, inner[:depth]) or [above]
                known = [".".join([root, *inner[:depth], child.name]) for child in children(struct.type)]
                raise NotFound.named("field", ".".join([root, *inner[: depth + 1]]), known)
            field = vectors[-1]
        return field.with_name(name) if inner else above

    def vector_indices(self, name: str) -> dict[str, IndexDefinition]:
        """Return the indices of a column of vectors by their metrics: of several by one metric the last."""
        indices = (
            definition for definition in self.indices.get(name, ()) if definition.of_kind.family is Family.VECTOR
        )
        return {str(definition.options.get("metric", METRICS[0])): definition for definition in indices}

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
            yield from (partial(_of_merged, branch) for branch in merged)
    yield from (partial(_of_table, table) for table in alone)


def _of_merged(merged: Merged) -> list[Source]:
    return [merged.source]


def _of_table(table: PinnedTable) -> list[Source]:
    return [table.source]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """The rows of a search: their `schema`, how they are found (some columns of them), and what EXPLAIN says and advises of that.

    Of its columns `*` does not show those that are `hidden`.
    """

    schema: pa.Schema
    find: Callable[[list[str]], pa.Table]
    report: str
    failure: Callable[[Exception], LanceFlightError]
    hidden: tuple[str, ...] = ()
    advise: Callable[[], Sequence[str]] = tuple

    def explain(self) -> str:
        """Return what EXPLAIN says of the search."""
        return "\n".join([self.report, *self.advise()])


class SearchTable(ComputedTable):
    """Table of the results of one call, in one lane; the search itself may use several."""

    def __init__(self, result: SearchResult, log: ScanLog) -> None:
        super().__init__(result.schema, [self._rows])
        self._found = result
        self._log = log

    def read(self, other: SearchTable) -> None:
        """Return the results of another call from here on, which has the same columns."""
        self._found, self._log = other._found, other._log

    def go_on(self, log: ScanLog) -> None:
        """Return the same results in another run, which has this log."""
        self._log = log

    @property
    def hidden(self) -> list[str]:
        """Return the columns that `*` does not show."""
        return list(self._found.hidden)

    def _rows(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        with self._log.noting(self._found.failure):
            yield from self._found.find(names).to_batches()

    def _read_outside(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows to a reader outside DataFusion, which may end its statement before the search ends."""
        yield from self._log.cancellation.run_in_thread(partial(list, self._rows(names)))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Lane]:
        self._log.reports.append(self._found.explain)
        if filter is None:
            self._log.searches.append(self._read_outside)
        return super().get_fragments(filter)


SEARCHES = "$search"
"""Schema of the tables that stand for searches, and of their inputs, within a statement."""


class StatementSearches:
    """The searches of one statement.

    `tables` stand for their calls in its text and hold the rows that are chosen for them; `targets` are those that are the same in each
    run over the same snapshots; `parameter_types` are those of the parameters within calls, by `$n`.
    """

    def __init__(self) -> None:
        self.tables: dict[str, pads.Dataset] = {}
        self.targets: dict[TargetKey, SearchTarget] = {}
        self.parameter_types: dict[str, pa.DataType] = {}
        self._text: str | None = None
        self._before: list[Callable[[], None]] = []
        self._running_before = RLock()

    def search(self, name: str) -> SearchTable | None:
        """Return the table of a search; None if the name stands for none."""
        table = self.tables.get(name)
        return table if isinstance(table, SearchTable) else None

    @property
    def are_steady(self) -> bool:
        """True if a plan that reads them may be run again: there are none, or each run can make them anew (`again`)."""
        if self._before:
            return False
        are_made_anew = self._text is not None and all(isinstance(table, SearchTable) for table in self.tables.values())
        return are_made_anew or not self.tables

    def replace(self, calls: Callable[[], str]) -> str:
        """Return the statement with tables in place of its `calls`, which put their searches into `tables`."""
        text = calls()
        if self.tables:
            self._text = None if parameter_count(text) else text
        return text

    def again(self, calls: Callable[[], str]) -> bool:
        """Make the searches of a plan that is run again; return False if its text with tables in place of `calls` is another one."""
        planned, self.tables = self.tables, {}
        if calls() != self._text:
            return False
        for name, table in planned.items():
            search_table = self.search(name)
            if search_table is None or not isinstance(table, SearchTable) or table.schema != search_table.schema:
                return False
            table.read(search_table)
        self.tables = planned
        return True

    def go_on(self, log: ScanLog) -> None:
        """Read the same searches in another run of the same statement, which has this log."""
        for table in self.tables.values():
            if isinstance(table, SearchTable):
                table.go_on(log)

    def run_before(self, step: Callable[[], None]) -> None:
        """Run a step before the statement: nothing else can run while DataFusion does."""
        self._before.append(step)

    def run_steps(self) -> None:
        """Run the steps that must precede the statement."""
        with self._running_before:
            while self._before:
                self._before.pop()()


class Planner(Protocol):
    """Interface that searches use of their statement (`session.QuerySession`)."""

    db_schema: str
    optimiser: Optimiser
    searches: StatementSearches

    @property
    def log(self) -> ScanLog:
        """Record of the scans of this run."""
        ...

    @property
    def scanned(self) -> Mapping[str, TableView]:
        """The tables whose rows are read, by `schema.name`."""
        ...

    def frame(self, sql: str, parameters: pa.RecordBatch | None = None) -> DataFrame:
        """Plan a query."""
        ...

    def wanted_types(self) -> Mapping[str, pa.DataType]:
        """Return the types that the contexts want of the parameters of the query that was planned last without values."""
        ...

    def whole(self, db_schema: str, reference: str) -> TableView | None:
        """Return a stored table all rows of which are searched; None if the name belongs to no such table."""
        ...

    def reveal(self, hidden: frozenset[str]) -> None:
        """Show these hidden columns too of the tables that are named from here on."""
        ...

    def prepare(self, frame: DataFrame) -> None:
        """Collect the predicates that prune, from the optimised plan."""
        ...

    def stream(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its batches, until the statement is cancelled."""
        ...
