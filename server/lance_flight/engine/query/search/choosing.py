"""Search filters that Lance cannot apply: DataFusion finds the rows first, and the search is restricted to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.catalog.tables.scan import ADDRESS_FIELDS, ADDRESS_NAMES
from lance_flight.engine.query.provider import Provider, ScanLog
from lance_flight.engine.query.search.search_target import ChosenRows
from lance_flight.engine.query.search.statement_searches import SEARCHES, Planner
from lance_flight.engine.query.tables import Split, TableView, Targets
from lance_flight.engine.sql.references import CATALOG, enclosed, quoted
from lance_flight.engine.sql.routines import calls_of, volatile_functions
from lance_flight.errors import LanceFlightError, Unsupported


def check_not_volatile(condition: str) -> None:
    """Refuse a condition that calls a volatile function."""
    for name in calls_of(condition, volatile_functions()):
        raise Unsupported(f"filter {condition!r} of a search calls {name}; expected what is the same each time")


def chosen(
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
        columns = ", ".join(map(quoted, ADDRESS_NAMES))
        sql = f"SELECT {columns} FROM {quoted(CATALOG, SEARCHES, name)} AS {quoted(alias)} WHERE {enclosed(condition)}"  # noqa: S608 - quoted
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
    found = ChosenRows()

    def find() -> None:
        try:
            batches = list(planner.stream(frame))
        except LanceFlightError as exc:
            raise log.error or exc from exc
        found.keep(pa.Table.from_batches(batches, pa.schema(ADDRESS_FIELDS)))

    planner.searches.run_before(find)
    return found


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
