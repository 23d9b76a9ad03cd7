"""The searches of one statement: their tables, their targets, and what runs before they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import RLock
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, ExecutionPlan, LogicalPlan

from lance_flight.engine.query.provider import ScanLog
from lance_flight.engine.query.search.search_target import SearchTarget, TargetKey
from lance_flight.engine.query.search.table import SearchTable
from lance_flight.engine.query.tables import TableView
from lance_flight.engine.sql.parameters import parameter_count

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
        found = self.tables.get(name)
        return found if isinstance(found, SearchTable) else None

    @property
    def are_steady(self) -> bool:
        """True if a plan that reads them may be run again: there are none, or each run can make them anew (`again`)."""
        if self._before:
            return False
        are_made_anew = self._text is not None and all(isinstance(each, SearchTable) for each in self.tables.values())
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
            found = self.search(name)
            if found is None or not isinstance(table, SearchTable) or table.schema != found.schema:
                return False
            table.read(found)
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
    target_partitions: int
    log: ScanLog
    searches: StatementSearches

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

    def optimised(self, frame: DataFrame) -> LogicalPlan:
        """Return the optimised plan of a query."""
        ...

    def plan(self, frame: DataFrame) -> ExecutionPlan:
        """Create the physical plan of a query."""
        ...

    def stream(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its batches, until the statement is cancelled."""
        ...
