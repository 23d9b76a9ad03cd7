"""Vector searches in place of scans whose rows are sorted by a distance with a limit.

The plan above a scan stays as it is: it computes the distances of the rows that the search finds, sorts and counts them, and applies
the filters of the scan once more. So a search decides which rows are looked at, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, Expr, SessionContext

from lance_flight.catalog.manifests.indices import IndexDefinition, indices_of
from lance_flight.catalog.search.search_results import DISTANCE
from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.catalog.tables.batch_sizes import BATCH_ROWS
from lance_flight.catalog.tables.lineage import ROW_ID
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS
from lance_flight.engine.query.named_tables import HIDDEN_COLUMNS
from lance_flight.engine.query.partition_wise.plan_rebuilding import named, rebuilt, selected
from lance_flight.engine.query.partition_wise.plans import ColumnReference, Node, table_key
from lance_flight.engine.query.provider import Provider, ScanLog
from lance_flight.engine.query.search.advice import advice
from lance_flight.engine.query.search.distance_ranges import Wanted
from lance_flight.engine.query.search.ordered_scans import NoSearch, OrderedScan
from lance_flight.engine.query.search.running import SearchRun
from lance_flight.engine.query.search.search_target import SearchTarget
from lance_flight.engine.query.search.statement_searches import Planner
from lance_flight.engine.query.search.table import SearchResult, SearchTable
from lance_flight.engine.query.search.targets import target_of_rows
from lance_flight.engine.query.search.vectors import column_of_vectors, converted_vector
from lance_flight.engine.query.tables import TableView
from lance_flight.engine.runtime.query_options import QueryOptions
from lance_flight.engine.sql.vector_functions import vector_of
from lance_flight.errors import InvalidInput, SqlError, Unsupported
from lance_flight.model.index_kinds import METRICS, Family, fitting_metric

T = TypeVar("T")

EXACTLY = "SET exact_search = 'on' compares every vector"
_COSINE = "cosine"
_EXACT_KIND = "ivf_flat"
_COMPARED = 4
"""So many times as many rows of an index of codes are compared by their stored vectors."""
_MOST_FOUND, _MORE = 80_000, 8
"""Most rows that a search finds before all rows are read, and so many times as many are asked for where those found are too few."""


class ScanPlanner(Planner, Protocol):
    """Interface that the searches of a plan use of its statement (`session.QuerySession`)."""

    datafusion: SessionContext
    execution: QueryOptions

    def planned(self, plan: Callable[[], T]) -> T:
        """Run a planning function."""
        ...

    def rows_of(self, rows: pads.Dataset) -> DataFrame:
        """Return the rows of a dataset that is read by this run alone."""
        ...

    def literal_rows(self, sql: str) -> DataFrame:
        """Plan a VALUES list of plain literals."""
        ...


def searched(
    planner: ScanPlanner, root: Node, found: Sequence[OrderedScan | NoSearch], *, ask: bool
) -> tuple[DataFrame | None, tuple[str, ...]]:
    """Return a plan with searches in place of the scans that they answer, None if there are none, and why others are not.

    Vectors that are subqueries are read first, if it may `ask` them.
    """
    tables: dict[Node, SearchTable] = {}
    reasons: list[str] = []
    for each in found:
        if isinstance(each, NoSearch):
            reasons.append(f"no search: {each.reason}")
        elif isinstance(each.vector, Expr) and not ask:
            reasons.append("the vector is read first, when it is run")
        else:
            try:
                tables[each.scan] = _table(planner, each)
            except (Unsupported, SqlError, InvalidInput) as exc:
                reasons.append(f"no search: {exc}")
    if not tables:
        return None, tuple(reasons)
    try:
        return planner.planned(partial(_with_tables, planner, root, tables)), tuple(reasons)
    except Unsupported as exc:
        return None, (*reasons, f"no search: {exc}")


class _OrderedRows(SearchTable):
    """The rows that a search finds, more and more of them until all that are wanted are among them.

    Where these are too few, as where some have no vector, they are all rows of the scan.
    """

    def __init__(
        self,
        found: SearchResult,
        log: ScanLog,
        wanted: Wanted,
        find: Callable[[int, list[str]], pa.Table],
        scan: Callable[[list[str]], Iterator[pa.RecordBatch]],
    ) -> None:
        super().__init__(found, log)
        self._wanted = wanted
        self._find = find
        self._scan = scan

    def _rows(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        with self._log.noting(self._found.failure):
            rows = self._enough(names)
            yield from self._scan(names) if rows is None else rows.select(names).to_batches()

    def _enough(self, names: list[str]) -> pa.Table | None:
        """Return rows with all that are wanted; None where a search does not find these."""
        count = self._wanted.first_count
        while count <= _MOST_FOUND:
            rows = self._find(count, [*names, DISTANCE.name])
            if self._wanted.is_met(rows[DISTANCE.name].to_numpy()):
                return rows
            if rows.num_rows < count:
                return rows if self._wanted.is_bounded else None
            count *= _MORE
        return None


def _table(planner: ScanPlanner, ordered: OrderedScan) -> SearchTable:
    """Plan the search for the rows of a scan; raise `Unsupported` or `SqlError` if there is none."""
    view = planner.scanned.get(table_key(ordered.scan.variant, planner.db_schema))
    if view is None:
        raise Unsupported("the rows that are sorted are not those of a stored table")
    if not set(view.extra_columns) <= set(HIDDEN_COLUMNS):
        raise Unsupported("the rows that are sorted have columns that are made for each read")
    if DISTANCE.name in view.schema.names:
        raise Unsupported(f"column {DISTANCE.name!r} is what a search calls its own")
    field = column_of_vectors(view.schema.field(ordered.column))
    metric = fitting_metric(field, ordered.distance.metric)
    vector = converted_vector(field, _value(planner, ordered.vector), "the vector")
    if metric == _COSINE and not np.any(vector.to_numpy(zero_copy_only=False)):
        raise Unsupported("the vector is zero, and has no angle to others")
    length = float(np.linalg.norm(vector.to_numpy(zero_copy_only=False).astype(np.float64)))
    wanted = Wanted.of(ordered.distance, ordered.count, length, ordered.within, is_tied=ordered.is_tied)
    index = None if planner.execution.exact_search else _index(view, ordered.column, metric)
    used = index if index is not None and (wanted.least is None or index.kind == _EXACT_KIND) else None
    # What is compared with a bound, or with a further key, must be the distance itself.
    is_exact = (wanted.within.is_everything and not wanted.is_tied) or used is None or used.of_kind.stores_vectors
    search = VectorSearch(
        column=ordered.column,
        vector=vector,
        count=ordered.count,
        metric=metric,
        refine=None if is_exact else _COMPARED,
        least=wanted.least,
        bounds_exactly=True,
        use_index=used is not None,
    )
    rows = planner.datafusion.create_dataframe_from_logical_plan(ordered.rows.plan)
    target = target_of_rows(planner, view, rows, partial(_addresses, planner, ordered) if ordered.conditions else None)
    run = SearchRun(planner.log, planner.target_partitions, target, is_merging=True)
    report = _report(search, target, index, planner.execution)
    if ordered.is_tied:
        report = f"{report}\n  and rows as near as the last of them, which further keys sort"
    found = SearchResult(
        schema=view.schema,
        find=partial(run.best, search),
        report=report,
        failure=target.failure,
        advise=partial(advice, search, target, takes_arguments=False),
    )
    find = partial(_best_of_count, run, search)
    return _OrderedRows(found, planner.log, wanted, find, partial(_every_row, planner.log, target))


def _best_of_count(run: SearchRun, search: VectorSearch, count: int, names: list[str]) -> pa.Table:
    return run.best(replace(search, count=count), names)


def _value(planner: ScanPlanner, vector: pa.Scalar | Expr) -> object:
    """Return the numbers of a vector; read it if it is a subquery."""
    if isinstance(vector, Expr):
        frame = planner.planned(lambda: planner.literal_rows("VALUES (1)").select(vector.alias("value")))
        (vector,) = [value for batch in planner.stream(frame) for value in batch.column(0)]
    value = vector.as_py()
    if value is None:
        raise Unsupported("the vector is NULL, and so are all distances from it")
    return vector_of(value) if isinstance(value, str) else value


def _index(view: TableView, column: str, metric: str) -> IndexDefinition | None:
    """Return the index of a column's vectors by a metric; None if there is none."""
    names = view.snapshot.schema.source_names
    for index in indices_of(view.snapshot):
        is_of_metric = str(index.options.get("metric", METRICS[0])) == metric
        if index.of_kind.family is Family.VECTOR and names[index.field_id] == column and is_of_metric:
            return index
    return None


def _report(search: VectorSearch, target: SearchTarget, index: IndexDefinition | None, execution: QueryOptions) -> str:
    """Return what EXPLAIN tells of the search."""
    what = f"search: {search.count} nearest by {search.metric} of {search.column}"
    if search.least is not None:
        what += f" from a distance of {search.least:g}"
    if search.use_index and index is not None:
        how = f"by index {index.name} ({index.kind}), approximately; {EXACTLY}"
    elif index is not None:
        how = f"every vector is compared, since index {index.name} ({index.kind}) is searched from the nearest on"
    elif execution.exact_search:
        how = "every vector is compared (exact_search)"
    else:
        how = f"every vector is compared, since no index of {search.column} is by {search.metric}"
    first = "\n  rows are found first where the conditions above the scan hold" if target.chosen is not None else ""
    return f"{what}, {how}\n{target.report}{first}"


def _every_row(log: ScanLog, target: SearchTarget, names: list[str]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([target.columns.field(name) for name in names])
    # Of merged tables a scan makes no names of rows.
    work = target.work(None, schema, merging=ROW_ID not in target.hidden)

    def stored() -> Iterator[pa.RecordBatch]:
        for scan, opened in work:
            for batch in scan.read([opened]):
                log.cancellation.check()
                yield batch

    yield from stored() if target.arrange is None else target.arrange(stored(), schema, BATCH_ROWS)


def _with_tables(planner: ScanPlanner, root: Node, tables: dict[Node, SearchTable]) -> DataFrame:
    replaced = {
        scan: selected(planner.datafusion, _filtered(planner, scan, table), scan.outputs or ())
        for scan, table in tables.items()
    }
    return rebuilt(planner.datafusion, root, replaced)


def _addresses(planner: ScanPlanner, ordered: OrderedScan, rows: Provider) -> DataFrame:
    """Return the query for the addresses of the rows that all filters leave, those of distances aside."""

    def plan() -> DataFrame:
        frame = _filtered(planner, ordered.scan, rows)
        for condition in ordered.conditions:
            frame = frame.filter(condition)
        return selected(planner.datafusion, frame, _columns(ordered.scan, [field.name for field in ADDRESS_FIELDS]))

    return planner.planned(plan)


def _filtered(planner: ScanPlanner, scan: Node, rows: pads.Dataset) -> DataFrame:
    """Return the rows of a dataset that the filters of a scan leave, its columns called as those of the scan."""
    frame = named(planner.datafusion, planner.rows_of(rows), _columns(scan, rows.schema.names))
    for each in scan.variant.filters():
        frame = frame.filter(Expr(each))
    return frame


def _columns(scan: Node, names: Sequence[str]) -> list[ColumnReference]:
    relation = tuple(part for part in scan.variant.fqn() if part)
    return [ColumnReference(relation, name) for name in names]
