"""DataFusion table providers: stored tables, pruned, pinned and read in lanes (decision 20), and tables that are computed.

DataFusion asks for fragments once per scan, with the filters of that scan; each fragment is one lane, which reads its
tables one after another. These callbacks run on DataFusion's own threads and never call DataFusion (decision 25).

Any order in which partitions are read puts rows beside those with the same hidden values.

A table that is computed is so when DataFusion reads it, restricted to the columns that it selects.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.storage.store import UNREADABLE
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.tables.indices import indices_of
from lance_flight.catalog.tables.scan import BATCH_ROWS, LookedUp, Scan, Span, empty_batches, rows_within
from lance_flight.catalog.tables.sources import MERGED_TABLES, Open, PinnedTable, Source, own_source, sources
from lance_flight.engine.query.tables.measured_plans import MeasuredPlans, MeasuredTable
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.streams import HeldBytes
from lance_flight.errors import LanceFlightError, Unsupported, storage_error
from lance_flight.planning.arrow_expression import RowFilter, predicate_from_arrow, pushed_filter, row_filter
from lance_flight.planning.index_filters import IndexFilter, lance_condition
from lance_flight.planning.predicates import ALWAYS, Column, Compare, Op, Opaque, Predicate, conjuncts
from lance_flight.planning.pruning import Pruning
from lance_flight.threads import keep_worker_state

Compute: TypeAlias = Callable[[list[str]], Iterable[pa.RecordBatch]]
"""Function that computes rows anew with the named columns, and possibly further ones."""
Arrange: TypeAlias = Callable[[Iterable[pa.RecordBatch], pa.Schema, int], Iterator[pa.RecordBatch]]
"""Function that returns rows of a schema in another order, in batches of so many."""


@dataclass(slots=True)
class ScanLog:
    """Record of the scans in one run of a statement: reports for EXPLAIN, and the error that ended a scan.

    `cancellation` ends them, and `ahead` counts the bytes that are read before they are asked for. Of the plan that was made last, `scans` are those of stored tables, `prunings` their results for
    partitioned ones by `schema.name`, and `searches` the functions that compute search results, without a filter on them.
    `partitions` holds for each table, by its place and snapshot, how many partitions are scanned of how many. `measured` has what
    the plans count that EXPLAIN ANALYZE runs, and is empty otherwise.
    """

    cancellation: Cancellation = field(default_factory=Cancellation)
    partitions: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    ahead: HeldBytes = field(default_factory=HeldBytes)
    measured: list[MeasuredPlans] = field(default_factory=list)
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


@dataclass(slots=True)
class Run:
    """The run of a plan that is made once: what DataFusion holds of that plan finds the log of the run here, and holds no session.

    `began` is what `now()` returns, wherever it stands.
    """

    log: ScanLog = field(default_factory=ScanLog)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def begin(self, log: ScanLog, moment: datetime | None = None) -> None:
        """Begin the next run, at the moment of its statement."""
        self.log, self.began = log, moment or datetime.now(UTC)

    def moment(self) -> datetime:
        """Return when the run that goes on began."""
        return self.began

    def check(self) -> None:
        """Raise an error if the statement that runs now has been cancelled."""
        self.log.cancellation.check()


_RARE, _DENSE = 0.002, 0.5
"""Share of keys from which on rows of a large table are taken to be few, and of all values between the first and the last of these keys."""


@dataclass(frozen=True, slots=True)
class JoinedKeys:
    """Values of a column in the rows that find one to join with, and what `share` they are of the rows that the other side reads."""

    values: pa.Array
    share: float

    def span(self, column: str) -> Span | None:
        """Return the span of the values if few rows are likely to be within it; None otherwise."""
        if self.share > _RARE or not len(self.values) or not pa.types.is_integer(self.values.type):
            return None
        ends = pc.min_max(self.values)
        first, last = ends["min"], ends["max"]
        is_dense = len(self.values) >= _DENSE * (last.as_py() - first.as_py() + 1)
        return Span(column, first, last) if is_dense else None


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

    @property
    def scanned(self) -> MeasuredTable | None:
        """Return the table that is scanned; None where it has no name."""
        ...

    @property
    def keys(self) -> Mapping[str, JoinedKeys]:
        """Return for some columns the values of the rows that find one to join with: the others may be left out."""
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
        return Projection(project_schema(self.schema, columns))

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
        schema = project_schema(self.readable.schema, columns)
        with self.log.noting(self.readable.failure):
            rows = self._stored_batches(work, schema, batch_rows)
            if self.plan.arrange is None:
                yield from rows
                return
            for batch in self.plan.arrange(rows, schema, batch_rows):
                self.log.cancellation.check()
                yield batch

    def _stored_batches(
        self, work: Sequence[tuple[Predicate | None, Sequence[Open]]], schema: pa.Schema, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        joining, scanned = _joining(self.plan.keys, schema), self.plan.scanned
        count = None
        if self.log.measured and scanned is not None:
            count = self.log.measured[0].lane(scanned, len(self.plan.lanes) or 1, schema.names)
        for residual, tables in work:
            batches = self._scan(residual, schema, batch_rows).read(tables)
            for batch in batches if count is None else count.over(batches):
                self.log.cancellation.check()
                yield joining(batch)

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
            span=next((span for name, keys in self.plan.keys.items() if (span := keys.span(name)) is not None), None),
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
        return _LaneScanner(self, project_schema(self.planned.readable.schema, columns), batch_size)


@dataclass(frozen=True, slots=True)
class _LaneScanner:
    lane: _Lane
    projected_schema: pa.Schema
    batch_size: int

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the lane's rows, which DataFusion's workers take batch by batch."""
        keep_worker_state()
        yield from self.lane.planned.batches(self.lane.work, self.projected_schema.names, self.batch_size)


_TRIED, _KEPT = 4, 0.1
"""Batches that are filtered by keys in any case, and the share of rows that is left where it goes on costing more than it spares."""


def _joining(keys: Mapping[str, JoinedKeys], schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return what leaves rows out that find none to join with, as long as these are many."""
    listed = [(schema.get_field_index(name), joined.values) for name, joined in keys.items() if name in schema.names]
    if not listed:
        return lambda batch: batch
    batches = read = left = 0

    def joining(batch: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal batches, read, left
        if batches >= _TRIED and left > _KEPT * read:
            return batch
        kept_rows = batch
        for place, values in listed:
            kept_rows = kept_rows.filter(pc.is_in(kept_rows.column(place), values))
        batches, read, left = batches + 1, read + batch.num_rows, left + kept_rows.num_rows
        return kept_rows

    return joining


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
        return row_filter(None) if pushed is None else pushed_filter(pushed, source)


def _looked_up(index_filter: IndexFilter | None, residual: Predicate | None) -> LookedUp | None:
    """Return what Lance is told where indices answer: their filter, and as much of the residual as its SQL can say."""
    if index_filter is None:
        return None
    parts = [] if residual is None else conjuncts(residual)
    conditions = [each for part in parts if (each := lance_condition(part)) is not None]
    return LookedUp(
        condition=" AND ".join([index_filter.condition, *conditions]),
        columns=index_filter.columns,
        is_whole=len(conditions) == len(parts),
    )


def project_schema(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Select some columns of a schema, None: all."""
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


Work = tuple[Predicate | None, list[Open]]
BTREE = "btree"


def deal(
    kept: Sequence[tuple[Predicate | None, list[PinnedTable]]],
    target_partitions: int,
    log: ScanLog,
    *,
    merging: bool = True,
) -> list[list[Work]]:
    """Distribute tables over `target_partitions` lanes, several merged into one scan; with fewer tables than lanes, their fragments.

    Rows of merged tables have other addresses than their own: a caller that needs those passes no `merging`.
    """
    lanes: list[list[Work]] = [[] for _ in range(target_partitions)]
    for rest, tables in kept:
        if len(tables) < target_partitions:
            log.tables_read += sum(table.partition is not None for table in tables)
            opened = _open(tables)
            for way, lane in enumerate(lanes):
                mine = [part for source in opened for part in open_part(source, way, target_partitions)]
                if mine:
                    lane.append((rest, [partial(list, mine)]))
            continue
        size = min(MERGED_TABLES, -(-len(tables) // target_partitions)) if merging else 1
        groups = [tables[start : start + size] for start in range(0, len(tables), size)]
        for way, lane in enumerate(lanes):
            lane.append((rest, [partial(_open_merged, group, log) for group in groups[way::target_partitions]]))
    return [lane for lane in lanes if any(opens for _, opens in lane)]


def _open_merged(tables: Sequence[PinnedTable], log: ScanLog) -> list[Source]:
    log.tables_read += len(tables)
    return sources(tables)


def _open(tables: Sequence[PinnedTable]) -> list[Source]:
    if len(tables) == 1:
        return [own_source(tables[0])]
    return map_tables(own_source, tables, "opener")


def open_part(source: Source, part: int, of: int) -> list[Source]:
    """Return one part of a table; an empty list if the table has fewer fragments than parts."""
    mine = source.part(part, of)
    return [mine] if mine.fragments else []


def is_lookup(predicate: Predicate, snapshot: Snapshot) -> bool:
    """Return whether the rows where `predicate` is TRUE have one value in a column with a BTREE.

    Lance looks into the segments of an index on one core, and two scans that do so at once take longer than one after the other.
    """
    equal = [part.term for part in conjuncts(predicate) if isinstance(part, Compare) and part.op is Op.EQ]
    columns = {snapshot.schema.ids.get(term.name) for term in equal if isinstance(term, Column) and not term.inside}
    return bool(columns) and any(
        definition.kind == BTREE and definition.field_id in columns for definition in indices_of(snapshot)
    )


MOST_HELD = 32 * 2**20
"""Bytes of rows that are mixed in memory; more are distributed at random over files first."""
_FILES = 32


def mix_rows(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, batch_rows: int, directory: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in an order that is random anew each time, in batches of `batch_rows`.

    Rows that are too many for memory are kept in files in a `directory` (None: the one for temporary files).
    """
    held: list[pa.RecordBatch] = []
    size = 0
    rest = iter(batches)
    for batch in rest:
        held.append(batch)
        size += batch.nbytes
        if size > MOST_HELD and len(held) > 1:
            yield from _mixed_in_files(chain(held, rest), schema, batch_rows, directory)
            return
    count = sum(batch.num_rows for batch in held)
    if not schema.names:
        yield from empty_batches(count, batch_rows)
    elif count:
        order = np.random.default_rng().permutation(count)
        yield from pa.Table.from_batches(held, schema).take(pa.array(order)).combine_chunks().to_batches(batch_rows)


def _mixed_in_files(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, batch_rows: int, directory: str | None
) -> Iterator[pa.RecordBatch]:
    """Distribute rows over files at random, and yield those of each file mixed: together, every order is as likely."""
    random = np.random.default_rng()
    with tempfile.TemporaryDirectory(prefix="lance-flight-mixed-", dir=directory) as place:
        paths = [Path(place) / str(number) for number in range(_FILES)]
        with ExitStack() as opened:
            try:
                files = [opened.enter_context(pa.ipc.new_stream(str(path), schema)) for path in paths]
                for batch in batches:
                    chosen = random.integers(_FILES, size=batch.num_rows)
                    for number in np.unique(chosen):
                        files[number].write_batch(batch.take(pa.array(np.flatnonzero(chosen == number))))
            except OSError as exc:
                raise storage_error(exc, "spill_directory") or exc from exc
        for path in paths:
            with pa.OSFile(str(path)) as stored, pa.ipc.open_stream(stored) as rows:
                yield from mix_rows(rows, schema, batch_rows, directory)
            path.unlink()


_Of = TypeVar("_Of")
_Source = TypeVar("_Source")

_ROWS = 1024
"""Most rows of a batch of a `RowTable`."""


class ComputedTable(pads.Dataset):
    """Table in lanes, each of which is computed when it is read.

    `narrowed` returns lanes with at least the rows that a filter lets through, in place of all `lanes`.
    """

    def __init__(
        self,
        schema: pa.Schema,
        lanes: Sequence[Compute],
        narrowed: Callable[[pc.Expression], Sequence[Compute]] | None = None,
    ) -> None:
        self._schema = schema
        self._lanes = lanes
        self._narrowed = narrowed

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: list[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> Projection:
        return Projection(project_schema(self._schema, columns))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Lane]:
        lanes = self._lanes if filter is None or self._narrowed is None else self._narrowed(filter)
        return (Lane(self._schema, compute) for compute in lanes)


@dataclass(frozen=True, slots=True)
class Lane:
    """Subset of the rows of a computed table, in the role of a dataset's fragment."""

    table: pa.Schema
    compute: Compute

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,
        **_: Any,
    ) -> _ComputedScanner:
        return _ComputedScanner(self, project_schema(self.table, columns), filter)


@dataclass(frozen=True, slots=True)
class _ComputedScanner:
    lane: Lane
    projected_schema: pa.Schema
    filter: pc.Expression | None

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows for which the filter is TRUE; it may use columns beyond those that are returned."""
        names = self.projected_schema.names
        condition, columns = (None, ()) if self.filter is None else arrow_filter(self.filter, self.lane.table)
        for batch in self.lane.compute(list(dict.fromkeys([*names, *columns]))):
            kept = batch if condition is None else batch.filter(condition)
            yield kept.select(names)


@dataclass(frozen=True, slots=True)
class ComputedColumn(Generic[_Of]):
    """Column of a `RowTable`: its field, and the function that computes its value of a subject."""

    name: str
    type: pa.DataType
    value: Callable[[_Of], object]
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class RowTable(Generic[_Source, _Of]):
    """Definition of a computed table with one row for each subject that its source lists."""

    subjects: Callable[[_Source], Iterable[_Of]]
    columns: tuple[ComputedColumn[_Of], ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table."""
        return pa.schema([pa.field(column.name, column.type, column.is_nullable) for column in self.columns])

    def of(
        self,
        source: _Source,
        narrowed: Callable[[pc.Expression], _Source] | None = None,
        further: Compute | None = None,
    ) -> ComputedTable:
        """Return the table over a source, with `further` rows; `narrowed` returns the source restricted by a filter on the table's columns."""
        if narrowed is None:
            return ComputedTable(self.schema, [partial(self._rows, source), *([] if further is None else [further])])
        return ComputedTable(
            self.schema, [partial(self._rows, source)], lambda filter: [partial(self._rows, narrowed(filter))]
        )

    def table(self, source: _Source) -> pa.Table:
        """Return all rows over a source."""
        return pa.Table.from_batches(self._rows(source, self.schema.names), self.schema)

    def _rows(self, source: _Source, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the named columns, or with all of them where none is named."""
        columns = [column for column in self.columns if column.name in names] or self.columns
        schema = pa.schema([pa.field(column.name, column.type, column.is_nullable) for column in columns])
        remaining = iter(self.subjects(source))
        while subjects := list(islice(remaining, _ROWS)):
            values = [pa.array([column.value(subject) for subject in subjects], column.type) for column in columns]
            yield pa.RecordBatch.from_arrays(values, schema=schema)
