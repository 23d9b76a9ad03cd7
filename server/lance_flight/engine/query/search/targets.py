"""Planning of the targets of searches: tables that a filter leaves, with residual filters or rows chosen first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.tables.indices import IndexDefinition, indices_of
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, ADDRESS_NAMES
from lance_flight.catalog.tables.sources import PinnedTable
from lance_flight.engine.functions.routines import calls_of, mutable_functions, volatile_functions
from lance_flight.engine.query.optimising.pure_scans import bare_columns, is_pure_scan
from lance_flight.engine.query.search.search_target import SEARCHES, ChosenRows, Planner, SearchTarget, TargetKey
from lance_flight.engine.query.tables.provider import PlannedRead, Provider, ScanLog
from lance_flight.engine.query.tables.table_view import Split, TableView, Targets
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import CATALOG, enclose, quote_parts, shown_name
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.errors import LanceFlightError, SqlError, Unsupported
from lance_flight.model.index_kinds import Family
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
