"""Sorts by a distance of vectors with a limit, and the vector searches in their place.

They are found in the optimised plan: what is written as an alias, in a view or around a subquery is one form there.

The plan above a scan stays as it is: it computes the distances of the rows that the search finds, sorts and counts them, and applies
the filters of the scan once more. So a search decides which rows are looked at, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, Expr
from datafusion.expr import Filter, Projection, Sort, SubqueryAlias, TableScan

from lance_flight.catalog.search.row_ranking import DISTANCE
from lance_flight.catalog.search.searching import VectorSearch
from lance_flight.catalog.tables.indices import IndexDefinition, indices_of
from lance_flight.catalog.tables.rows import ROW_ID
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, BATCH_ROWS
from lance_flight.engine.compat.sort_keys import REPEATED
from lance_flight.engine.functions.routines import calls_of, volatile_functions
from lance_flight.engine.functions.vector_functions import DISTANCES, Distance, vector_of
from lance_flight.engine.plans.nodes import (
    ColumnKey,
    ColumnReference,
    Node,
    alias_key,
    column_key,
    expressions,
    has_subquery,
    strip_aliases,
    table_key,
)
from lance_flight.engine.query.named_tables import HIDDEN_COLUMNS
from lance_flight.engine.query.plan_rebuilding import name_columns, rebuilt, select_columns
from lance_flight.engine.query.search.arguments import MOST_ROWS, column_of_vectors, converted_vector
from lance_flight.engine.query.search.distance_ranges import DistanceRange, Wanted, conjuncts, number_of, range_of
from lance_flight.engine.query.search.running import SearchRun, advice, target_of_rows
from lance_flight.engine.query.search.search_target import Planner, SearchResult, SearchTable, SearchTarget
from lance_flight.engine.query.tables.provider import Provider, ScanLog
from lance_flight.engine.query.tables.table_view import TableView
from lance_flight.engine.runtime.session_registry import QueryOptions
from lance_flight.engine.translation.typed_calls import shown_name
from lance_flight.errors import InvalidInput, SqlError, Unsupported
from lance_flight.model.index_kinds import METRICS, Family, fitting_metric

_CALL = re.compile(rf"__(?P<word>{'|'.join(DISTANCES)})_call\d+")
_SUBQUERY = "ScalarSubquery"
_LARGEST_OFFSET = 1e3
"""So far a key may be moved from the distance, in units of it: a sum of numbers too different loses what sorts them."""


@dataclass(frozen=True, slots=True)
class OrderedScan:
    """Scan of a table whose rows are sorted by the distance of a column from a vector, of which the first `count` count.

    `conditions` are those above the scan that leave some of its rows, the distance aside, which they ask to be `within` a range;
    `rows` is the node with them all. With `is_tied` further keys sort rows of equal distance. A `vector` that is an expression is a subquery,
    to be read first.
    """

    scan: Node
    rows: Node
    conditions: tuple[Expr, ...]
    column: str
    distance: Distance
    vector: pa.Scalar | Expr
    count: int
    within: DistanceRange
    is_tied: bool


@dataclass(frozen=True, slots=True)
class NoSearch:
    """Sort by a distance that no search answers, and the reason."""

    reason: str


Found: TypeAlias = OrderedScan | NoSearch


def ordered_scans(root: Node) -> Iterator[Found]:
    """Yield the sorts by a distance of an optimised plan."""
    for node in root.walk():
        if isinstance(node.variant, Sort):
            scan = _of_sort(node)
            if scan is not None:
                yield scan


@dataclass(frozen=True, slots=True)
class _Computed:
    """Expression over the columns of a node, which is multiplied and moved above it."""

    expression: Expr
    node: Node
    scale: float = 1.0
    offset: float = 0.0

    def inside(self, expression: Expr, scale: float, offset: float) -> _Computed:
        """Return an expression of which this one is a multiple, moved by an offset."""
        return _Computed(expression, self.node, self.scale * scale, self.scale * offset + self.offset)


def _of_sort(sort: Node) -> Found | None:
    keys = sort.variant.sort_exprs()
    first = _compute(_Computed(Expr(keys[0].expr()), sort.inputs[0]))
    if first is None or _CALL.search(str(first.expression)) is None:
        return None
    call = _call(first)
    if call is None:
        return NoSearch(f"ORDER BY is not a distance itself, but {_show(first.expression)}")
    distance, operands = call
    name, count = f"{distance.name}(…)", sort.variant.get_fetch_val()
    if count is None:
        return NoSearch(f"ORDER BY {name} has no LIMIT")
    is_negated = first.scale < 0
    if (keys[0].ascending() != is_negated) != distance.is_ascending:
        ordering = "ASC" if distance.is_ascending != is_negated else "DESC"
        return NoSearch(f"ORDER BY {name} asks for the farthest rows; the nearest ones come first with {ordering}")
    if keys[0].nulls_first():
        return NoSearch(f"ORDER BY {name} begins with rows without a distance; expected NULLS LAST")
    chain = _chain(sort, first)
    if isinstance(chain, NoSearch):
        return chain
    sides = _sides(operands, first.node)
    if isinstance(sides, NoSearch):
        return sides
    if count > MOST_ROWS:
        return NoSearch(f"LIMIT and OFFSET ask for {count} rows; a search finds at most {MOST_ROWS}")
    return OrderedScan(
        scan=chain.scan,
        rows=chain.rows,
        conditions=chain.conditions,
        column=sides[0],
        vector=sides[1],
        distance=distance,
        count=count,
        within=chain.within,
        is_tied=len(keys) > 1,
    )


def _call(computed: _Computed) -> tuple[Distance, list[Expr]] | None:
    """Return the distance that an expression calls, and its arguments; None for any other expression."""
    if computed.expression.variant_name() != "ScalarFunction":
        return None
    named = _CALL.fullmatch(computed.expression.rex_call_operator())
    return None if named is None else (DISTANCES[named["word"]], computed.expression.rex_call_operands())


def _compute(wanted: _Computed) -> _Computed | None:
    """Follow the columns of an expression down to where it is computed; None above what is no projection."""
    expression, node = strip_aliases(wanted.expression), wanted.node
    inner = _within(replace(wanted, expression=expression))
    if inner is not None:
        return _compute(inner)
    key = column_key(expression)
    while key is not None:
        below = _BELOW.get(type(node.variant))
        step = None if below is None else below(node, key)
        if step is None:
            computed = replace(wanted, expression=expression, node=node)
            return computed if isinstance(node.variant, TableScan) else None
        node = node.inputs[0]
        if isinstance(step, Expr):
            return _compute(replace(wanted, expression=step, node=node))
        key = step
    return replace(wanted, expression=expression, node=node)


def _within(computed: _Computed) -> _Computed | None:
    """Return the expression of which one is the negative, a multiple, the sum with a number, or the greatest with itself; None if it is none of these."""
    expression = computed.expression
    match expression.variant_name():
        case "Negative":
            (inner,) = expression.rex_call_operands()
            return computed.inside(inner, -1.0, 0.0)
        case "BinaryExpr" if expression.rex_call_operator() in _LINEAR:
            left, right = expression.rex_call_operands()
            first, second = number_of(left), number_of(right)
            if (first is None) == (second is None):
                return None
            given = first if first is not None else second
            steps = _LINEAR[expression.rex_call_operator()](given, first is not None)
            if steps is None or steps[0] == 0 or abs(steps[1]) > _LARGEST_OFFSET * abs(steps[0]):
                return None
            return computed.inside(right if first is not None else left, *steps)
        case "ScalarFunction" if expression.rex_call_operator() == REPEATED:
            inner, *others = expression.rex_call_operands()
            return computed.inside(inner, 1.0, 0.0) if all(str(other) == str(inner) for other in others) else None
    return None


_LINEAR: Mapping[str, Callable[[Any, bool], tuple[float, float] | None]] = MappingProxyType(
    {
        "+": lambda number, _: (1.0, number),
        "-": lambda number, is_first: (-1.0, number) if is_first else (1.0, -number),
        "*": lambda number, _: (number, 0.0),
        "/": lambda number, is_first: None if is_first or number == 0 else (1 / number, 0.0),
    }
)
"""What is done to x where it is added to a number, subtracted from one … (which comes first, or not): a factor, and an offset."""


def _below_alias(node: Node, key: ColumnKey) -> ColumnKey | None:
    pairs = zip(node.outputs or (), node.inputs[0].outputs or (), strict=True)
    return next((inner.key for outer, inner in pairs if outer.key == key), None)


def _below_projection(node: Node, key: ColumnKey) -> Expr | None:
    for expression in expressions(node.variant.projections()):
        if key == (alias_key(expression) or ("", expression.schema_name())):
            return expression
    return None


_BELOW: Mapping[type[Any], Any] = MappingProxyType(
    {Filter: lambda _, key: key, SubqueryAlias: _below_alias, Projection: _below_projection}
)


@dataclass(frozen=True, slots=True)
class _Chain:
    """Scan below a sort, the topmost filter above it (or the scan), and what filters say."""

    scan: Node
    rows: Node
    conditions: tuple[Expr, ...]
    within: DistanceRange


def _chain(sort: Node, key: _Computed) -> _Chain | NoSearch:
    """Return the scan below a sort by a key, and what filters it, where nothing else decides which rows there are."""
    node, filters = sort.inputs[0], []
    while not isinstance(node.variant, TableScan):
        if isinstance(node.variant, Filter):
            filters.append(node)
        elif not isinstance(node.variant, Projection | SubqueryAlias):
            what = node.said.split(":", 1)[0].split(" ", 1)[0]
            return NoSearch(f"the rows that are sorted come from more than a table and its filters ({what})")
        node = node.inputs[0]
    if node.variant.fetch() is not None:
        return NoSearch("the rows that are sorted are limited before")
    conditions, within, rows = [], DistanceRange(), node
    for part in reversed(filters):
        if has_subquery(part):
            return NoSearch("WHERE has a subquery")
        for condition in conjuncts(Expr(part.variant.predicate())):
            distance_range = range_of(condition, partial(_value_of, part.inputs[0], key))
            if distance_range is not None:
                within = within.both(distance_range)
                continue
            obstacle = _obstacle(part.inputs[0], condition)
            if obstacle is not None:
                return NoSearch(obstacle)
            conditions.append(condition)
            rows = part
    return _Chain(node, rows, tuple(conditions), within)


def _obstacle(node: Node, condition: Expr) -> str | None:
    """Return why a condition on the rows of a node cannot choose the rows of the scan below it; None if it can."""
    text = str(condition)
    if "Subquery" in text:
        return "WHERE has a subquery"
    if _CALL.search(text):
        return "WHERE computes the distances of all rows"
    volatile = next(calls_of(shown_name(text), volatile_functions()), None)
    if volatile is not None:
        return f"WHERE calls {volatile}, which is not the same each time"
    while not isinstance(node.variant, TableScan):
        if not isinstance(node.variant, Filter) and any(name in text for name in _made_names(node)):
            return "WHERE is about columns that are computed"
        node = node.inputs[0]
    return None


def _made_names(node: Node) -> Iterator[str]:
    """Yield the names of columns that are not those of the node below, or are called otherwise there; "" of unknown ones."""
    if not isinstance(node.variant, Projection):
        yield ""
        return
    for expression in expressions(node.variant.projections()):
        if expression.variant_name() != "Column":
            yield (alias_key(expression) or ("", expression.schema_name()))[1]


def _value_of(node: Node, key: _Computed, expression: Expr) -> tuple[float, float] | None:
    """Return the factor and the offset that make an expression of the distance that a key is made of; None for another expression."""
    computed = _compute(_Computed(expression, node))
    if computed is None or _call(computed) is None or _identity(computed) != _identity(key):
        return None
    return computed.scale, computed.offset


def _identity(computed: _Computed) -> list[str]:
    """Return what tells a distance from others: its function, and where its arguments come from."""
    call = _call(computed)
    if call is None:
        return []
    sides = [_compute(_Computed(operand, computed.node)) for operand in call[1]]
    return [
        call[0].name,
        *(str(operand if side is None else side.expression) for operand, side in zip(call[1], sides, strict=True)),
    ]


def _sides(operands: list[Expr], node: Node) -> tuple[str, pa.Scalar | Expr] | NoSearch:
    """Return the column of a scan and the vector that a distance is between."""
    sides = [_compute(_Computed(operand, node)) for operand in operands]
    columns = [
        computed.expression
        for computed in sides
        if computed is not None
        and isinstance(computed.node.variant, TableScan)
        and column_key(computed.expression) is not None
    ]
    values = [operand for operand in operands if operand.variant_name() in {"Literal", _SUBQUERY}]
    if len(columns) != 1 or len(values) != 1:
        return NoSearch("the distance is not one of a column from a value that is known before the rows")
    if values[0].variant_name() == _SUBQUERY:
        return _column_name(columns[0]), values[0]
    value = values[0].python_value()
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
    if not scalar.is_valid:
        return NoSearch("the vector is NULL, and so are all distances from it")
    return _column_name(columns[0]), scalar


def _column_name(column: Expr) -> str:
    return str(column.to_variant().name())


def _show(expression: Expr) -> str:
    return shown_name(str(expression).removeprefix("Expr(").removesuffix(")"))


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

    execution: QueryOptions

    def rows_of(self, rows: pads.Dataset) -> DataFrame:
        """Return the rows of a dataset that is read by this run alone."""
        ...

    def literal_rows(self, sql: str) -> DataFrame:
        """Plan a VALUES list of plain literals."""
        ...


def searched_scans(
    planner: ScanPlanner, root: Node, scans: Sequence[OrderedScan | NoSearch], *, ask: bool
) -> tuple[DataFrame | None, tuple[str, ...]]:
    """Return a plan with searches in place of the scans that they answer, None if there are none, and why others are not.

    Vectors that are subqueries are read first, if it may `ask` them.
    """
    tables: dict[Node, SearchTable] = {}
    reasons: list[str] = []
    for scan in scans:
        if isinstance(scan, NoSearch):
            reasons.append(f"no search: {scan.reason}")
        elif isinstance(scan.vector, Expr) and not ask:
            reasons.append("the vector is read first, when it is run")
        else:
            try:
                tables[scan.scan] = _table(planner, scan)
            except (Unsupported, SqlError, InvalidInput) as exc:
                reasons.append(f"no search: {exc}")
    if not tables:
        return None, tuple(reasons)
    try:
        return planner.optimiser.run_planning(partial(_with_tables, planner, root, tables)), tuple(reasons)
    except Unsupported as exc:
        return None, (*reasons, f"no search: {exc}")


class _OrderedRows(SearchTable):
    """The rows that a search finds, more and more of them until all that are wanted are among them.

    Where these are too few, as where some have no vector, they are all rows of the scan.
    """

    def __init__(
        self,
        result: SearchResult,
        log: ScanLog,
        wanted: Wanted,
        find: Callable[[int, list[str]], pa.Table],
        scan: Callable[[list[str]], Iterator[pa.RecordBatch]],
    ) -> None:
        super().__init__(result, log)
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
    rows = planner.optimiser.datafusion.create_dataframe_from_logical_plan(ordered.rows.plan)
    target = target_of_rows(planner, view, rows, partial(_addresses, planner, ordered) if ordered.conditions else None)
    run = SearchRun(planner.log, planner.optimiser.target_partitions, target, is_merging=True)
    report = _report(search, target, index, planner.execution)
    if ordered.is_tied:
        report = f"{report}\n  and rows as near as the last of them, which further keys sort"
    result = SearchResult(
        schema=view.schema,
        find=partial(run.best, search),
        report=report,
        failure=target.failure,
        advise=partial(advice, search, target, takes_arguments=False),
    )
    find = partial(_best_of_count, run, search)
    return _OrderedRows(result, planner.log, wanted, find, partial(_every_row, planner.log, target))


def _best_of_count(run: SearchRun, search: VectorSearch, count: int, names: list[str]) -> pa.Table:
    return run.best(replace(search, count=count), names)


def _value(planner: ScanPlanner, vector: pa.Scalar | Expr) -> object:
    """Return the numbers of a vector; read it if it is a subquery."""
    if isinstance(vector, Expr):
        frame = planner.optimiser.run_planning(lambda: planner.literal_rows("VALUES (1)").select(vector.alias("value")))
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
        scan: select_columns(planner.optimiser.datafusion, _filter_rows(planner, scan, table), scan.outputs or ())
        for scan, table in tables.items()
    }
    return rebuilt(planner.optimiser.datafusion, root, replaced)


def _addresses(planner: ScanPlanner, ordered: OrderedScan, rows: Provider) -> DataFrame:
    """Return the query for the addresses of the rows that all filters leave, those of distances aside."""

    def plan() -> DataFrame:
        frame = _filter_rows(planner, ordered.scan, rows)
        for condition in ordered.conditions:
            frame = frame.filter(condition)
        return select_columns(
            planner.optimiser.datafusion, frame, _columns(ordered.scan, [field.name for field in ADDRESS_FIELDS])
        )

    return planner.optimiser.run_planning(plan)


def _filter_rows(planner: ScanPlanner, scan: Node, rows: pads.Dataset) -> DataFrame:
    """Return the rows of a dataset that the filters of a scan leave, its columns called as those of the scan."""
    frame = name_columns(planner.optimiser.datafusion, planner.rows_of(rows), _columns(scan, rows.schema.names))
    for condition in scan.variant.filters():
        frame = frame.filter(Expr(condition))
    return frame


def _columns(scan: Node, names: Sequence[str]) -> list[ColumnReference]:
    relation = tuple(part for part in scan.variant.fqn() if part)
    return [ColumnReference(relation, name) for name in names]
