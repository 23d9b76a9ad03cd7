"""Vector searches in place of scans whose rows are sorted by a distance with a limit.

The plan above a scan stays as it is: it computes the distances of the rows that the search finds, sorts and counts them, and applies
the filters of the scan once more. So a search decides which rows are looked at, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, Expr, SessionContext

from lance_flight.catalog.manifests.indices import IndexDefinition, indices_of
from lance_flight.catalog.search.search_results import DISTANCE
from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.catalog.tables.lineage import PARTITION
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS
from lance_flight.engine.query.named_tables import HIDDEN_COLUMNS
from lance_flight.engine.query.partition_wise.plan_rebuilding import named, rebuilt, selected
from lance_flight.engine.query.partition_wise.plans import ColumnReference, Node, table_key
from lance_flight.engine.query.provider import Provider, ScanLog
from lance_flight.engine.query.search.advice import advice
from lance_flight.engine.query.search.ordered_scans import NoSearch, OrderedScan
from lance_flight.engine.query.search.running import SearchRun
from lance_flight.engine.query.search.table import SearchResult, SearchTable
from lance_flight.engine.query.search.targets import Planner, SearchTarget, target_of_rows
from lance_flight.engine.query.search.vectors import column_of_vectors, converted_vector
from lance_flight.engine.query.tables import TableView
from lance_flight.engine.runtime.query_options import QueryOptions
from lance_flight.engine.sql.vector_functions import vector_of
from lance_flight.errors import InvalidInput, SqlError, Unsupported
from lance_flight.model.index_kinds import METRICS, Family, fitting_metric

T = TypeVar("T")

EXACTLY = "SET exact_search = 'on' compares every vector"
_COSINE = "cosine"


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
    """The rows that a search finds; all rows of the scan if these are too few, as where some have no vector."""

    def __init__(
        self, found: SearchResult, log: ScanLog, count: int, scan: Callable[[list[str]], Iterator[pa.RecordBatch]]
    ) -> None:
        super().__init__(found, log)
        self._count = count
        self._scan = scan

    def _rows(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        with self._log.noting(self._found.failure):
            rows = self._found.find(names)
            yield from rows.to_batches() if rows.num_rows >= self._count else self._scan(names)


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
    index = None if planner.execution.exact_search else _index(view, ordered.column, metric)
    search = VectorSearch(
        column=ordered.column, vector=vector, count=ordered.count, metric=metric, use_index=index is not None
    )
    rows = planner.datafusion.create_dataframe_from_logical_plan(ordered.rows.plan)
    target = target_of_rows(planner, view, rows, partial(_addresses, planner, ordered) if ordered.filters else None)
    # Of merged tables a scan makes no other column.
    is_merging = all(each.name == PARTITION for each in view.extra_columns)
    run = SearchRun(planner.log, planner.target_partitions, target, is_merging)
    found = SearchResult(
        schema=view.schema,
        find=partial(run.best, search),
        report=_report(search, target, index, planner.execution),
        failure=target.failure,
        advise=partial(advice, search, target, takes_arguments=False),
    )
    return _OrderedRows(
        found, planner.log, ordered.count, partial(_every_row, planner.log, target, is_merging=is_merging)
    )


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
    if index is not None:
        how = f"by index {index.name} ({index.kind}), approximately; {EXACTLY}"
    elif execution.exact_search:
        how = "every vector is compared (exact_search)"
    else:
        how = f"every vector is compared, since no index of {search.column} is by {search.metric}"
    first = "\n  rows are found first where the conditions above the scan hold" if target.chosen is not None else ""
    return f"{what}, {how}\n{target.report}{first}"


def _every_row(log: ScanLog, target: SearchTarget, names: list[str], *, is_merging: bool) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([target.columns.field(name) for name in names])
    for scan, opened in target.work(None, schema, merging=is_merging):
        for batch in scan.read([opened]):
            log.cancellation.check()
            yield batch


def _with_tables(planner: ScanPlanner, root: Node, tables: dict[Node, SearchTable]) -> DataFrame:
    replaced = {
        scan: selected(planner.datafusion, _filtered(planner, scan, table), scan.outputs or ())
        for scan, table in tables.items()
    }
    return rebuilt(planner.datafusion, root, replaced)


def _addresses(planner: ScanPlanner, ordered: OrderedScan, rows: Provider) -> DataFrame:
    """Return the query for the addresses of the rows that all filters leave."""

    def plan() -> DataFrame:
        frame = _filtered(planner, ordered.scan, rows)
        for node in reversed(ordered.filters):
            frame = frame.filter(Expr(node.variant.predicate()))
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
