"""DataFusion table providers: a `pyarrow.dataset.Dataset` that prunes, pins and fans out (decision 20).

DataFusion asks for fragments once per scan, with the filters of that scan; each fragment is one lane, which reads its
tables one after another. These callbacks run on DataFusion's own threads and never call DataFusion (decision 25).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.catalog.tables.batch_sizes import BATCH_ROWS, rows_within
from lance_flight.catalog.tables.scan import LookedUp, Scan
from lance_flight.catalog.tables.sources import Open
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.open_streams import HeldBytes
from lance_flight.errors import LanceFlightError, Unsupported
from lance_flight.planning.arrow_expression import RowFilter, predicate_from_arrow, row_filter, with_sql_meaning
from lance_flight.planning.index_filters import IndexFilter, lance_condition
from lance_flight.planning.predicates import ALWAYS, Opaque, Predicate, conjuncts
from lance_flight.planning.pruning import Pruning
from lance_flight.thread_states import keep_worker_state

Compute: TypeAlias = Callable[[list[str]], Iterable[pa.RecordBatch]]
"""Function that computes rows anew with the named columns, and possibly further ones."""
Arrange: TypeAlias = Callable[[Iterable[pa.RecordBatch], pa.Schema, int], Iterator[pa.RecordBatch]]
"""Function that returns rows of a schema in another order, in batches of so many."""


@dataclass(slots=True)
class ScanLog:
    """Record of the scans in one run of a statement: reports for EXPLAIN, and the error that ended a scan.

    `cancellation` ends them, and `ahead` counts the bytes that are read before they are asked for. Of the plan that was made last, `scans` are those of stored tables, `prunings` their results for
    partitioned ones by `schema.name`, and `searches` the functions that compute search results, without a filter on them.
    `partitions` holds for each table, by its place and snapshot, how many partitions are scanned of how many.
    """

    cancellation: Cancellation = field(default_factory=Cancellation)
    partitions: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    ahead: HeldBytes = field(default_factory=HeldBytes)
    reports: list[Callable[[], str]] = field(default_factory=list)
    is_explained: bool = False
    scans: list[PlannedRead] = field(default_factory=list)
    searches: list[Compute] = field(default_factory=list)
    prunings: dict[str, list[Pruning]] = field(default_factory=dict)
    tables_read: int = 0
    error: LanceFlightError | None = None

    def begin_plan(self) -> None:
        """Clear the scans of the last plan, since another one is made."""
        self.reports.clear()
        self.scans.clear()
        self.searches.clear()
        self.prunings.clear()

    @contextmanager
    def noting(self, failure: Callable[[Exception], LanceFlightError]) -> Iterator[None]:
        """Record the error that ends a scan, translated by `failure`: DataFusion passes on nothing but its message."""
        try:
            yield
        except (LanceFlightError, *UNREADABLE) as exc:
            self.error = failure(exc)
            raise self.error from exc


class ScanPlan(Protocol):
    """Plan of one scan: groups of tables that need the same filter, distributed over lanes."""

    @property
    def lanes(self) -> Sequence[Sequence[tuple[Predicate | None, Sequence[Open]]]]:
        """Return for each lane its (residual filter, tables) pairs; a residual of None filters nothing."""
        ...

    @property
    def index_filter(self) -> IndexFilter | None:
        """Return what indices answer of the conditions above the scan; None if nothing."""
        ...

    @property
    def arrange(self) -> Arrange | None:
        """Return what changes the order of the rows of a lane; None for the order in which they lie."""
        ...


class Readable(Protocol):
    """Source of a provider: a schema, and the planning of scans."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table."""
        ...

    @property
    def ids(self) -> dict[str, int]:
        """Return the field ids of the columns by name; empty if columns are identified by name alone."""
        ...

    def plan(self, predicate: Predicate) -> ScanPlan:
        """Plan a scan of the tables that may have rows where `predicate` is TRUE."""
        ...

    def failure(self, exc: Exception) -> LanceFlightError:
        """Translate an exception that ended a scan, or its planning."""
        ...


class Provider(pads.Dataset):
    """Dataset of a readable table for DataFusion; the source is replaceable, so that a plan can run on another snapshot."""

    def __init__(self, readable: Readable, log: ScanLog) -> None:
        self.readable = readable
        self._log = log

    def read(self, readable: Readable, log: ScanLog) -> None:
        """Replace the source by another table of the same columns."""
        self.readable, self._log = readable, log

    @contextmanager
    def reading(self, readable: Readable) -> Iterator[None]:
        """Replace the source within the block by another table of the same columns."""
        before, self.readable = self.readable, readable
        try:
            yield
        finally:
            self.readable = before

    @property
    def schema(self) -> pa.Schema:
        return self.readable.schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> Projection:
        return Projection(projected(self.schema, columns))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[_Lane]:
        predicate = ALWAYS if filter is None else _read(filter)
        readable, log = self.readable, self._log
        with log.noting(readable.failure):
            log.cancellation.check()
            plan = readable.plan(predicate)
        planned = PlannedRead(readable, plan, filter, log)
        log.scans.append(planned)
        return iter([_Lane(planned, lane) for lane in plan.lanes or [[]]])


@dataclass(frozen=True, slots=True)
class Projection:
    """Minimal scanner that DataFusion inspects during planning: the schema of the columns it selects."""

    projected_schema: pa.Schema


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """One planned scan: its source, its lanes, and the filter that DataFusion pushed into it."""

    readable: Readable
    plan: ScanPlan
    condition: pc.Expression | None
    log: ScanLog

    def batches(
        self,
        work: Sequence[tuple[Predicate | None, Sequence[Open]]],
        columns: Sequence[str] | None,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some tables, with these columns (None: all)."""
        schema = projected(self.readable.schema, columns)
        with self.log.noting(self.readable.failure):
            rows = self._stored_batches(work, schema, batch_rows)
            yield from rows if self.plan.arrange is None else self.plan.arrange(rows, schema, batch_rows)

    def _stored_batches(
        self, work: Sequence[tuple[Predicate | None, Sequence[Open]]], schema: pa.Schema, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        for residual, tables in work:
            for batch in self._scan(residual, schema, batch_rows).read(tables):
                self.log.cancellation.check()
                yield batch

    def _scan(self, residual: Predicate | None, schema: pa.Schema, batch_rows: int) -> Scan:
        source = self.readable.schema
        condition = filter_of(residual, self.condition, source)
        return Scan(
            source=source,
            schema=schema,
            filter=condition.expression,
            rest=condition.rest,
            filter_columns=condition.columns,
            pushable=condition.pushable,
            ids=self.readable.ids,
            batch_rows=rows_within(schema, batch_rows),
            looked_up=_looked_up(self.plan.index_filter, residual),
        )


@dataclass(frozen=True, slots=True)
class _Lane:
    """One scan partition of DataFusion's plan: tables that are read one after another."""

    planned: PlannedRead
    work: Sequence[tuple[Predicate | None, Sequence[Open]]]

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> _LaneScanner:
        return _LaneScanner(self, projected(self.planned.readable.schema, columns), batch_size)


@dataclass(frozen=True, slots=True)
class _LaneScanner:
    lane: _Lane
    projected_schema: pa.Schema
    batch_size: int

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the lane's rows, which DataFusion's workers take batch by batch."""
        keep_worker_state()
        yield from self.lane.planned.batches(self.lane.work, self.projected_schema.names, self.batch_size)


def arrow_filter(filter: pc.Expression, source: pa.Schema) -> tuple[pc.Expression | None, tuple[str, ...]]:
    """Return a pushed filter for Arrow, with floats compared as in SQL, and the columns of `source` that it uses."""
    condition = filter_of(_read(filter), filter, source)
    return condition.rest, condition.columns


def _read(filter: pc.Expression) -> Predicate:
    """Translate a pushed filter to a predicate; one nested too deeply becomes `Opaque`: it prunes nothing but still filters."""
    try:
        return predicate_from_arrow(filter)
    except RecursionError:
        return Opaque("the filter", "it is nested too deeply")


def filter_of(residual: Predicate | None, pushed: pc.Expression | None, source: pa.Schema) -> RowFilter:
    """Return the residual as a row filter, or DataFusion's whole filter if the residual cannot be expressed."""
    try:
        return row_filter(residual)
    except Unsupported:
        whole = None if pushed is None else with_sql_meaning(pushed, source)
        return RowFilter(expression=whole, rest=whole, columns=tuple(source.names), pushable=False)


def _looked_up(index_filter: IndexFilter | None, residual: Predicate | None) -> LookedUp | None:
    """Return what Lance is told where indices answer: their filter, and as much of the residual as its SQL can say."""
    if index_filter is None:
        return None
    parts = [] if residual is None else conjuncts(residual)
    said = [each for part in parts if (each := lance_condition(part)) is not None]
    return LookedUp(
        condition=" AND ".join([index_filter.condition, *said]),
        columns=index_filter.columns,
        is_whole=len(said) == len(parts),
    )


def projected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Select some columns of a schema, None: all."""
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])
