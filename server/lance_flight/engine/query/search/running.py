"""Runs of a search: its targets are planned, and the best rows of their tables read; with EXPLAIN's advice for it.

Targets are tables that a filter leaves, with residual filters or rows chosen first. The advice is worked out when EXPLAIN asks, from
metadata of the partition tables and the statistics of their indices; no row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.search.row_ranking import ADDRESS, names_of
from lance_flight.catalog.search.searching import (
    AnySearch,
    VectorSearch,
    best,
    best_of_each,
    best_of_equal,
    keys_of_rows,
)
from lance_flight.catalog.storage.table_versions import map_tables
from lance_flight.catalog.tables.indices import Coverage, IndexDefinition, indices_of
from lance_flight.catalog.tables.rows import ROW_ID, ROW_NAME_FIELD
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, ADDRESS_NAMES, Scan
from lance_flight.catalog.tables.schema_adapter import physical
from lance_flight.catalog.tables.sources import Open, PinnedTable
from lance_flight.engine.functions.routines import calls_of, mutable_functions, volatile_functions
from lance_flight.engine.query.optimiser import bare_columns, is_pure_scan
from lance_flight.engine.query.search.arguments import QueryVectors
from lance_flight.engine.query.search.search_target import (
    SEARCHES,
    ChosenRows,
    Planner,
    SearchResult,
    SearchTarget,
    TargetKey,
    check_free,
)
from lance_flight.engine.query.tables.provider import PlannedRead, Provider, ScanLog
from lance_flight.engine.query.tables.table_view import Split, TableView, Targets
from lance_flight.engine.sql import references
from lance_flight.engine.sql.references import CATALOG, Cursor, enclose, quote_parts, shown_name
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.errors import LanceFlightError, SqlError, Unsupported
from lance_flight.model.arrow_types import is_multivector
from lance_flight.model.index_kinds import BYTE_METRIC, METRICS, Family, index_metrics_of, metrics_of
from lance_flight.planning.predicates import ALWAYS, Predicate
from lance_flight.planning.pruning import Pruning


def check_not_volatile(condition: str) -> None:
    """Refuse a condition that calls a volatile function."""
    for name in calls_of(condition, volatile_functions()):
        raise Unsupported(f"filter {condition!r} of a search calls {name}; expected what is the same each time")


def choose_rows(
    planner: Planner,
    view: TableView,
    alias: str,
    condition: str,
    targets: Targets,
    *,
    parameters: pa.RecordBatch | None = None,
) -> ChosenRows:
    """The rows of a table that fulfil a condition in SQL with these parameters, in the tables that its last plan has left.

    They are numbered by `targets`.
    """

    def frame_of(rows: Provider) -> DataFrame:
        name = f"rows_{len(planner.searches.tables) + 1}"
        planner.searches.tables[name] = rows
        columns = ", ".join(map(quote_parts, ADDRESS_NAMES))
        sql = f"SELECT {columns} FROM {quote_parts(CATALOG, SEARCHES, name)} AS {quote_parts(alias)} WHERE {enclose(condition)}"  # noqa: S608 - quoted
        return planner.frame(sql, parameters)

    return chosen_by(planner, view, targets, frame_of)


def chosen_by(
    planner: Planner, view: TableView, targets: Targets, frame_of: Callable[[Provider], DataFrame]
) -> ChosenRows:
    """The rows of a table that a query returns the addresses of, given the table with addresses among its columns.

    They are found when the statement starts running: while DataFusion reads a search, no other query of the statement may run.
    """
    log = ScanLog(planner.log.cancellation)
    frame = frame_of(Provider(_with_addresses(view, targets, log), log))
    rows = ChosenRows()

    def find() -> None:
        try:
            batches = list(planner.stream(frame))
        except LanceFlightError as exc:
            raise log.error or exc from exc
        rows.keep(pa.Table.from_batches(batches, pa.schema(ADDRESS_FIELDS)))

    planner.searches.run_before(find)
    return rows


def _with_addresses(view: TableView, targets: Targets, log: ScanLog) -> TableView:
    """Return the same table with the addresses of its rows, as the plan was made last that the condition is part of.

    What that requires of the rows is looked up in indices; what the statement asks of the table elsewhere does not hold here.
    """
    required = view.hint()
    kept = tuple(version.kept for version in view.log.prunings[view.key][-1].versions)
    return replace(
        view,
        targets=targets,
        extra_columns=tuple(dict.fromkeys((*view.extra_columns, *ADDRESS_FIELDS))),
        hint=lambda: required,
        share=Split(),
        log=log,
        only=kept,
        on_read=None,
    )


_SHOWN = 200
"""Characters of a filter that an error about its text repeats."""


def target(
    planner: Planner, table: str, condition: str | None, parameters: pa.RecordBatch | None = None
) -> SearchTarget:
    """The table of a name, and what a condition in SQL leaves of it; `Unsupported` for one that no row decides by itself.

    A condition whose `parameters` have no values yet leaves every row: their types are those that it wants.
    """
    reference = _reference(planner, table)
    db_schema = reference.db_schema or planner.db_schema
    if condition is not None and parameters is None and parameter_count(condition):
        planner.frame(_rows_where(db_schema, reference.name, condition))
        planner.searches.parameter_types.update(planner.wanted_types())
        condition = None
    name: TargetKey = db_schema, reference.name, condition
    known = _recall_target(planner, name)
    if known is not None:
        return known
    view = planner.whole(db_schema, reference.name) if condition is None else None
    search_target = _plan_target(planner, table, name, parameters) if view is None else _whole_table(view)
    if _is_steady(search_target, condition):
        planner.searches.targets[name] = search_target
    return search_target


def _reference(planner: Planner, table: str) -> references.TableRef:
    """Read the name of a table; raise `SqlError` for a text that is none."""
    cursor = Cursor.over(table, planner.db_schema)
    try:
        reference = references.table(cursor)
        cursor.end()
    except SqlError as exc:
        raise SqlError(
            f"{table[:_SHOWN]!r} is no name of a table to search: {exc}; expected quotes around a name with other signs than letters,"
            """ digits and _, as '"two words"'"""
        ) from exc
    return reference


def _is_steady(target: SearchTarget, condition: str | None) -> bool:
    """Return whether a target is the same whenever it is planned in the same snapshot."""
    if target.chosen is not None or not target.snapshot.is_pinned:
        return False
    return condition is None or not (parameter_count(condition) or any(calls_of(condition, mutable_functions())))


def _recall_target(planner: Planner, name: TargetKey) -> SearchTarget | None:
    """Return a target as it was found before in the same snapshot, and record it as read; None without one."""
    db_schema, reference, _ = name
    known, view = planner.searches.targets.get(name), planner.scanned.get(f"{db_schema}.{reference}")
    if known is None or view is None or known.snapshot is not view.snapshot or not known.columns.equals(view.schema):
        return None
    if known.pruning is not None:
        view.record(known.pruning)
    return known


def _plan_target(planner: Planner, table: str, name: TargetKey, parameters: pa.RecordBatch | None) -> SearchTarget:
    """Return the target that the plan of a query with its condition leaves."""
    db_schema, reference, condition = name
    given = parameters if condition is not None and parameter_count(condition) else None
    frame = _frame(planner, table, name, given)
    planner.prepare(frame)
    planner.optimiser.plan(frame)
    plan = planner.optimiser.optimise(frame)
    scans = list(planner.log.scans)
    if len(scans) > 1 or (scans and not is_pure_scan(plan)):
        raise Unsupported(
            f"filter {condition!r} of a search of {table!r} cannot be decided row by row before the search; expected"
            " a condition on the columns of a row, without queries; WHERE filters what was found"
        )
    view = planner.scanned.get(f"{db_schema}.{reference}")
    if view is None:
        raise Unsupported(
            f"{table!r} is no table that can be searched; expected a table, not a query or what a function returns, and SELECT"
            " on it without masks"
        )
    scan = scans[0] if scans else None
    targets = Targets()
    search_target = _of_scan(view, scan, targets)
    if scan is None or condition is None or bare_columns(plan) is not None:
        return search_target
    check_not_volatile(condition)
    return replace(
        search_target,
        tables=[(None, table) for _, table in search_target.tables],
        scan=None,
        chosen=choose_rows(planner, view, reference, condition, targets, parameters=given),
        report=f"{search_target.report}\n  rows are found first where {condition}",
    )


def target_of_rows(
    planner: Planner, view: TableView, rows: DataFrame, chooses: Callable[[Provider], DataFrame] | None
) -> SearchTarget:
    """The table of a `view`, and what is left of it of the `rows` of a query: a scan of it, with filters above it at most.

    Where there are such filters, `chooses` returns the query for the addresses of the rows, given the table with addresses.
    """
    planner.prepare(rows)
    planner.optimiser.plan(rows)
    scan = planner.log.scans[0] if planner.log.scans else None
    targets = Targets()
    search_target = _of_scan(view, scan, targets)
    if scan is None or chooses is None:
        return search_target
    return replace(
        search_target,
        tables=[(None, table) for _, table in search_target.tables],
        scan=None,
        chosen=chosen_by(planner, view, targets, chooses),
    )


def _frame(planner: Planner, table: str, name: TargetKey, parameters: pa.RecordBatch | None = None) -> DataFrame:
    """Plan the query for the rows of a target; raise `SqlError` that names the filter where its text is no condition of the table."""
    db_schema, reference, condition = name
    try:
        return planner.frame(_rows_where(db_schema, reference, condition), parameters)
    except SqlError as exc:
        if condition is None:
            raise
        raise SqlError(f"filter {condition[:_SHOWN]!r} of a search of {table!r}: {exc}") from exc


def _rows_where(db_schema: str, reference: str, condition: str | None) -> str:
    """Return the query for the rows of a table that fulfil a condition, which is planned and never run."""
    where = "" if condition is None else f" WHERE {enclose(_whole(condition))}"
    return f"SELECT * FROM {quote_parts(db_schema, reference)}{where}"  # noqa: S608 - quoted


def _whole(condition: str) -> str:
    """Return a condition that is complete; raise `SqlError` for one that is empty or has an unmatched closing bracket."""
    if not condition.strip():
        raise SqlError("it is empty; expected a condition, or NULL for all rows")
    cursor = Cursor.over(condition)
    cursor.until()
    cursor.end()
    return condition


def _of_scan(view: TableView, scan: PlannedRead | None, targets: Targets) -> SearchTarget:
    """Return the target that the only scan of a plan reads (None: no row can be in it)."""
    report = f"table {view.name}, snapshot {view.snapshot.version}"
    if scan is None:
        none = ": no partition can match" if view.snapshot.is_partitioned else ""
        return _of_pruning(view, None, f"{report}{none}")
    report_text = view.log.reports[-1]() if view.log.reports else report
    return _of_pruning(view, view.log.prunings[view.key][-1], report_text, scan, targets)


def _whole_table(view: TableView) -> SearchTarget:
    """Return the target of all rows of a table."""
    pruning = view.prune(ALWAYS)
    return _of_pruning(view, pruning, view.describe(pruning, ALWAYS))


def _of_pruning(
    view: TableView,
    pruning: Pruning | None,
    report: str,
    scan: PlannedRead | None = None,
    targets: Targets | None = None,
) -> SearchTarget:
    """Return the target of the tables that pruning leaves (None: of no table)."""
    tables: list[tuple[Predicate | None, Sequence[PinnedTable]]] = []
    indices, numbers = _indices(view), targets or Targets()
    texts = _of_family(indices, Family.TEXT)
    if pruning is not None:
        for mine, version in zip(view.snapshot.tables, pruning.versions, strict=True):
            tables.append((version.unfiltered, view.floating.pin_tables(mine.tables(version.kept), numbers)))
    return SearchTarget(
        name=view.name,
        columns=view.schema,
        ids=view.ids,
        tables=tables,
        scan=scan,
        texts={name: index.options for name, index in texts.items()},
        report=report,
        failure=view.failure,
        arrange=view.arrange,
        indices=indices,
        snapshot=view.snapshot,
        pruning=pruning,
        sql_name=None if view.hides_layout else shown_name(view.name, view.key.partition(".")[0]),
        partitioned_by=_partitioned_by(view),
        is_pruned=sum(len(some) for _, some in tables) < view.snapshot.table_count,
    )


def _indices(view: TableView) -> Mapping[str, Sequence[IndexDefinition]]:
    """Return the indices of a table by the names of their columns."""
    by_column: dict[str, list[IndexDefinition]] = {}
    for index in indices_of(view.snapshot):
        by_column.setdefault(view.snapshot.schema.source_names[index.field_id], []).append(index)
    return by_column


def _partitioned_by(view: TableView) -> list[str]:
    """Return the columns that the partition fields of a table are computed of."""
    if not view.snapshot.is_partitioned:
        return []
    numbers = dict.fromkeys(number for field in view.snapshot.current_spec.fields for number in field.source_ids)
    return [view.snapshot.schema.names[number] for number in numbers if number in view.snapshot.schema.names]


def _of_family(indices: Mapping[str, Sequence[IndexDefinition]], family: Family) -> Mapping[str, IndexDefinition]:
    """Return the columns with an index of a family, and that index: the last one of several."""
    return {
        column: definition
        for column, some in indices.items()
        for definition in some
        if definition.of_kind.family is family
    }


MANY_ROWS = 10_000
"""Rows that are looked at one by one, from which on an index is worth having."""
MANY_TABLES = 32
MOST_TABLES = 256
"""Partition tables that are opened for advice, at most."""
_FEW_PROBES = 0.05


@dataclass(frozen=True, slots=True)
class _TableState:
    """The rows of a table, how many of them an index lacks, and the parts of its largest segment."""

    rows: int
    unindexed: int
    parts: int = 0


def advice(search: AnySearch, target: SearchTarget, *, takes_arguments: bool = True) -> list[str]:
    """Return lines for EXPLAIN; none where the layout of the table is hidden from the principal.

    A search that is written as ORDER BY takes no arguments.
    """
    if target.sql_name is None:
        return []
    return [f"advice: {line}" for line in _lines(search, target, target.sql_name, takes_arguments=takes_arguments)]


def _lines(search: AnySearch, target: SearchTarget, name: str, *, takes_arguments: bool) -> Iterator[str]:
    family = Family.VECTOR if isinstance(search, VectorSearch) else Family.TEXT
    defined = [
        definition for definition in target.indices.get(search.column, ()) if definition.of_kind.family is family
    ]
    definitions = [
        definition
        for definition in defined
        if not isinstance(search, VectorSearch) or _metric(definition) == search.metric
    ]
    tables = [table for _, some in target.tables for table in some]
    if definitions and isinstance(search, VectorSearch) and not search.use_index:
        yield from _of_unused(definitions[0], _states(target, search.column, None, tables))
    elif definitions:
        states = _states(target, search.column, definitions[0], tables)
        yield from _of_stale(name, definitions[0], states)
        if isinstance(search, VectorSearch) and takes_arguments:
            yield from _of_arguments(search, definitions[0], states)
    else:
        yield from _of_missing(search, target, name, defined, _states(target, search.column, None, tables))
    if len(tables) >= MANY_TABLES and not target.is_pruned and target.partitioned_by:
        columns = ", ".join(map(shown_name, target.partitioned_by))
        yield f"{len(tables):,} partition tables are searched; a filter on {columns} leaves fewer"


def _metric(index: IndexDefinition) -> str:
    return str(index.options.get("metric", METRICS[0]))


def _states(
    target: SearchTarget, column: str, index: IndexDefinition | None, tables: Sequence[PinnedTable]
) -> list[_TableState]:
    return map_tables(partial(_state, target, column, index), list(islice(tables, MOST_TABLES)), "advice")


def _state(target: SearchTarget, column: str, index: IndexDefinition | None, table: PinnedTable) -> _TableState:
    source = table.source
    rows = {fragment.fragment_id: fragment.count_rows() for fragment in source.dataset.get_fragments()}
    total = sum(rows.values())
    root, *inner = column.split(".")
    stored = physical(source.columns, root, target.ids.get(root))
    if index is None or stored is None or total < index.min_rows:
        return _TableState(total, 0)
    coverage = Coverage.of(source.dataset, index.name, ".".join([stored.name, *inner]), index.of_kind)
    unindexed = sum(rows[number] for number in coverage.missing)
    if not coverage.segments or index.of_kind.family is not Family.VECTOR:
        return _TableState(total, unindexed)
    stored_parts = (
        segment.get("num_partitions", 0) for segment in source.dataset.stats.index_stats(index.name)["indices"]
    )
    return _TableState(total, unindexed, max(stored_parts, default=0))


def _of_missing(
    search: AnySearch,
    target: SearchTarget,
    name: str,
    defined: Sequence[IndexDefinition],
    states: Sequence[_TableState],
) -> Iterator[str]:
    rows = sum(state.rows for state in states)
    if rows < MANY_ROWS:
        return
    column = ".".join(map(shown_name, search.column.split(".")))
    create = f"CREATE INDEX ON {name} ({column}) USING"
    if not isinstance(search, VectorSearch):
        yield f"{rows:,} texts are cut into words for this search; {create} inverted"
        return
    stored = target.vectors(search.column).type
    metric = search.metric or metrics_of(stored)[0]
    if metric not in index_metrics_of(stored):
        return
    kind = "ivf_flat" if metric == BYTE_METRIC else "ivf_sq" if is_multivector(stored) else "ivf_pq"
    others = sorted({_metric(definition) for definition in defined})
    instead = f", or search by {' or '.join(others)}, as an index does" if others else ""
    yield f"{rows:,} vectors are compared one by one; {create} {kind} WITH (metric = '{metric}'){instead}"


def _of_unused(index: IndexDefinition, states: Sequence[_TableState]) -> Iterator[str]:
    rows = sum(state.rows for state in states)
    if rows >= MANY_ROWS:
        yield f"{rows:,} vectors are compared one by one, though there is index {index.name} ({index.kind})"


def _of_stale(name: str, index: IndexDefinition, states: Sequence[_TableState]) -> Iterator[str]:
    unindexed = [state.unindexed for state in states if state.unindexed]
    if sum(unindexed) >= MANY_ROWS:
        yield (
            f"{sum(unindexed):,} rows of {len(unindexed):,} tables are not in index {index.name}, and looked at one by one;"
            f" REINDEX TABLE {name} INDEX {shown_name(index.name)}"
        )


def _of_arguments(search: VectorSearch, index: IndexDefinition, states: Sequence[_TableState]) -> Iterator[str]:
    parts = max((state.parts for state in states), default=0)
    enough = max(round(_FEW_PROBES * parts), min(parts, 2))
    if search.nprobes is not None and search.nprobes < enough:
        yield (
            f"nprobes => {search.nprobes} leaves most of the up to {parts:,} parts of each index out; nprobes => {enough} or more"
            " finds more of the nearest rows"
        )
    if index.of_kind.is_quantised and search.refine is None and sum(state.rows for state in states) >= MANY_ROWS:
        yield f"index {index.name} ({index.kind}) measures shortened vectors; refine => 4 compares the stored ones of the best rows"


def result_of(planner: Planner, searched: SearchTarget, search: AnySearch, report: str) -> SearchResult:
    """Return the result of a search, and what EXPLAIN tells of it."""
    check_free(searched, search.result)
    return SearchResult(
        schema=pa.schema([*searched.columns, search.result]),
        find=partial(SearchRun.of(planner, searched, search).best, search),
        report=report,
        failure=searched.failure,
        hidden=searched.hidden,
        advise=partial(advice, search, searched),
    )


@dataclass(frozen=True, slots=True)
class SearchRun:
    """State that a search needs at run time; it must not reference the statement, because DataFusion keeps it."""

    log: ScanLog
    target_partitions: int
    searched: SearchTarget
    is_merging: bool

    @classmethod
    def of(cls, planner: Planner, searched: SearchTarget, search: AnySearch) -> SearchRun:
        """Return the run of a search of a target."""
        return cls(planner.log, planner.optimiser.target_partitions, searched, search.is_merging)

    def best(self, search: AnySearch, names: list[str]) -> pa.Table:
        """Return some columns of the best rows, those of `ADDRESS_FIELDS` among them if they are requested."""
        return self._name_columns(names, lambda stored: self._best(search, stored, self._of_one))

    def best_of_each(self, search: VectorSearch, queries: QueryVectors, names: list[str]) -> pa.Table:
        """Return some columns of the best rows for each of many vectors, in the order of these."""

        def of_each(search: AnySearch, work: Sequence[tuple[Scan, Open]]) -> pa.Table:
            assert isinstance(search, VectorSearch)  # noqa: S101 - as it was given
            if self.searched.arrange is not None:
                best = [self._of_one(replace(search, vector=vector), work) for vector in queries.vectors]
            else:
                best = best_of_each(search, queries.vectors, work, self.target_partitions, self.log.cancellation.check)
            rows = pa.concat_tables(best)
            return rows.append_column(queries.field, keys_of_rows(best, queries.keys))

        if not queries.vectors:
            made = {field.name: field for field in (*self.searched.columns, queries.field, search.result)}
            return pa.schema([made[name] for name in names]).empty_table()
        return self._name_columns(names, lambda stored: self._best(search, stored, of_each, queries.field))

    def _name_columns(
        self, names: list[str], find: Callable[[list[str]], tuple[pa.Table, list[tuple[Scan, Open]]]]
    ) -> pa.Table:
        """Return what is found with some columns, which may be the names of rows."""
        if ROW_ID not in names or ROW_ID not in self.searched.hidden:
            return find(names)[0]
        stored = [name for name in names if name != ROW_ID]
        rows, work = find(list(dict.fromkeys([*stored, *ADDRESS_NAMES])))
        sources = [source for _, opened in work for source in opened()] if rows.num_rows else []
        tables = [table for _, some in self.searched.tables for table in some]
        return rows.append_column(ROW_NAME_FIELD, names_of(rows, sources, tables)).select(names)

    def _of_one(self, search: AnySearch, work: Sequence[tuple[Scan, Open]]) -> pa.Table:
        def find(wanted: AnySearch) -> pa.Table:
            return best(wanted, work, self.target_partitions, self.log.cancellation.check)

        return find(search) if self.searched.arrange is None else best_of_equal(search, find)

    def _best(
        self,
        search: AnySearch,
        names: list[str],
        run: Callable[[AnySearch, Sequence[tuple[Scan, Open]]], pa.Table],
        *added: pa.Field,
    ) -> tuple[pa.Table, list[tuple[Scan, Open]]]:
        """Return stored columns of the best rows, with those that are `added` to what a search finds, and what was searched."""
        made = {field.name: field for field in (search.result, *ADDRESS_FIELDS)}
        wanted = list(dict.fromkeys([*names, search.result.name, ADDRESS.name]))
        others = {field.name for field in added}
        schema = pa.schema(
            [made[n] if n in made else self.searched.columns.field(n) for n in wanted if n not in others]
        )
        work = self.searched.work(search, schema, merging=self.is_merging and not self._compares_names)
        if not work:
            return pa.schema([*schema, *added]).empty_table().select(names), work
        if self.searched.chosen is not None:
            search = replace(search, among=self.searched.chosen.rows)
        return run(search, work).select(names), work

    @property
    def _compares_names(self) -> bool:
        """True if a filter is about the names of rows, which a scan makes of one table alone."""
        if ROW_ID not in self.searched.hidden:
            return False
        scans = self.searched.work(None, pa.schema([]), merging=False)
        return any(ROW_ID in scan.filter_columns for scan, _ in scans)
