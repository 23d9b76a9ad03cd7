"""Search filters that Lance cannot apply: DataFusion finds the rows first, and the search is restricted to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame

from lance_flight.catalog.search.chosen_rows import Addresses
from lance_flight.catalog.tables.scan import ADDRESS_FIELDS
from lance_flight.engine.query.provider import Provider, ScanLog
from lance_flight.engine.query.tables import Split, TableView, Targets
from lance_flight.engine.sql.references import CATALOG, enclosed, quoted
from lance_flight.engine.sql.routines import calls_of, volatile_functions
from lance_flight.errors import LanceFlightError, QueryFailed, Unsupported

SEARCHES = "$search"
"""Schema of the tables that stand for searches, and of their inputs, within a statement."""

_ADDRESSES = tuple(field.name for field in ADDRESS_FIELDS)


class QueryRunner(Protocol):
    """Runs a query within the statement (`session.QuerySession`)."""

    log: ScanLog
    inner: dict[str, pads.Dataset]
    first: list[Callable[[], None]]

    def frame(self, sql: str, parameters: pa.RecordBatch | None = None) -> DataFrame:
        """Plan a query."""
        ...

    def stream(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its batches, until the statement is cancelled."""
        ...


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
        number, address = (found[name].to_numpy() for name in _ADDRESSES)
        order = np.lexsort((address, number))
        numbers, starts = np.unique(number[order], return_index=True)
        parts = np.split(address[order], starts[1:])
        self._rows = {int(each): part for each, part in zip(numbers, parts, strict=False)}


def check_not_volatile(condition: str) -> None:
    """Refuse a condition that calls a volatile function."""
    for name in calls_of(condition, volatile_functions()):
        raise Unsupported(f"filter {condition!r} of a search calls {name}; expected what is the same each time")


def chosen(
    runner: QueryRunner,
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
        name = f"rows_{len(runner.inner) + 1}"
        runner.inner[name] = rows
        columns = ", ".join(map(quoted, _ADDRESSES))
        sql = f"SELECT {columns} FROM {quoted(CATALOG, SEARCHES, name)} AS {quoted(alias)} WHERE {enclosed(condition)}"  # noqa: S608 - quoted
        return runner.frame(sql, parameters)

    return chosen_by(runner, view, targets, frame_of)


def chosen_by(
    runner: QueryRunner, view: TableView, targets: Targets, frame_of: Callable[[Provider], DataFrame]
) -> ChosenRows:
    """The rows of a table that a query returns the addresses of, given the table with addresses among its columns.

    They are found when the statement starts running: while DataFusion reads a search, no other query of the statement may run.
    """
    log = ScanLog(runner.log.cancellation)
    frame = frame_of(Provider(_with_addresses(view, targets, log), log))
    found = ChosenRows()

    def find() -> None:
        try:
            batches = list(runner.stream(frame))
        except LanceFlightError as exc:
            raise log.error or exc from exc
        found.keep(pa.Table.from_batches(batches, pa.schema(ADDRESS_FIELDS)))

    runner.first.append(find)
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
