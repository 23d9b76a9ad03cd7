"""Planned query: its schema, its endpoints, and the streaming of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan
from datafusion.expr import Limit, Projection, Sort

from lance_flight.engine.query.names.statement_context import StatementContext
from lance_flight.engine.query.optimising.pure_scans import bare_columns, is_one_row, is_pure_scan, stream
from lance_flight.engine.query.optimising.runner import shape_batches
from lance_flight.engine.query.partition_wise import division
from lance_flight.engine.query.partition_wise.statistics import read_tables
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.query.policies.access import Access
from lance_flight.engine.runtime.client_sessions import QueryOptions
from lance_flight.engine.runtime.memory import Pool
from lance_flight.engine.runtime.running_statement import RunningStatement
from lance_flight.engine.sql.select_lists import REFUSAL, names_of, with_marked_repeats
from lance_flight.engine.translation.typed_calls import shown_name
from lance_flight.errors import SqlError


@dataclass(frozen=True, slots=True)
class PlanKey:
    """Key of a cached plan: everything that planning a text depends on, except for its tables.

    Texts that differ in vectors that are searched for alone have the same key (`query.search.arguments.without_vectors`).
    """

    text: str
    db_schema: str
    branch: str | None
    execution: QueryOptions
    access: Access
    pool: Pool = field(default_factory=Pool)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedQuery:
    """Query in the session that it was planned in, with the `parameters` that are bound in it.

    It is run by one statement at a time, and again by others of its `key` (None: by none); `plan_cache` keeps it between them.
    """

    session: QuerySession
    frame: DataFrame
    schema: pa.Schema
    text: str
    parameters: pa.RecordBatch | None = None
    key: PlanKey | None = None

    @classmethod
    def of(cls, session: QuerySession, text: str, parameters: pa.RecordBatch | None = None) -> PlannedQuery:
        """Plan a query; nothing is read yet but the values of a PIVOT without IN, which its text has from here on."""
        text = session.with_read_values(text)
        frame = _frame(session, text, parameters)
        fields = frame.schema()
        names = names_of([shown_name(name) for name in fields.names])
        schema = pa.schema([field.with_name(name) for field, name in zip(fields, names, strict=True)])
        return cls(session, frame, schema, text, parameters)

    def again(self, context: StatementContext, text: str, parameters: pa.RecordBatch | None) -> PlannedQuery | None:
        """Begin the query again for another statement of its key; return None if its tables have other columns, so that it must be planned anew."""
        is_searching = self.session.is_searching
        if (text != self.text and not is_searching) or not self.session.again(context):
            return None
        is_same = _is_same(parameters, self.parameters)
        if is_searching:
            if text == self.text and is_same and self.session.is_resumed:
                self.session.searches.go_on(self.session.log)
                return self
            again = replace(self, text=text, parameters=parameters)
            return again if self.session.search_again(text, parameters) else None
        if is_same:
            return self
        return replace(PlannedQuery.of(self.session, self.text, parameters), key=self.key)

    def was_begun_for(self, running: RunningStatement | None) -> bool:
        """Return whether this very statement was the last one that it was begun for."""
        return running is not None and self.session.log.cancellation is running.cancellation

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the query; every batch has exactly `schema`."""
        session, frame = self.session, self.frame
        session.prepare(frame)
        if session.optimiser.learn_from_plan(frame, is_one_row) and not session.is_costly:
            return shape_batches(session.runner.collect(frame), self.schema)
        columns = session.optimiser.learn_from_plan(frame, bare_columns)
        if columns is not None and session.may_read_directly:
            session.plan_columns(frame)
            direct = stream(session.log, columns, self.schema)
            if direct is not None:
                return session.directly(direct)
        return division.rows(session, frame, self.schema)


def _frame(session: QuerySession, text: str, parameters: pa.RecordBatch | None) -> DataFrame:
    """Plan a query, with aliases for columns of one name, which DataFusion refuses."""
    try:
        return session.frame(text, parameters)
    except SqlError as exc:
        if REFUSAL not in str(exc):
            raise
    return session.frame(with_marked_repeats(text), parameters)


def _is_same(one: pa.RecordBatch | None, other: pa.RecordBatch | None) -> bool:
    return one is other if one is None or other is None else one.equals(other)


def split(planned: PlannedQuery, endpoints: int) -> tuple[int, int | None]:
    """Return the number of endpoints of a query, and the rows of the tables that they read; 1 and None if it is not split.

    A pure scan of one table has as many parts as it reads partition tables.
    """
    session, frame = planned.session, planned.frame
    if endpoints == 1 or not session.views or not is_pure_scan(session.optimiser.optimise(frame)):
        return 1, None
    if any(view.hides_layout for view in session.views.values()):
        return 1, None
    scans = session.optimiser.logical_scans(frame)
    if scans is None or len(scans) != 1:
        # A scalar subquery scans as well, and must see all of its table.
        return 1, None
    session.prepare(frame)
    prunings = session.prune(frame)
    parts = min(endpoints, sum(pruning.scanned for of_scan in prunings.values() for pruning in of_scan))
    if parts <= 1:
        return 1, None
    counted = [session.views[table].row_counts(read_tables(found)) for table, found in prunings.items()]
    return parts, sum(int(counts.sum()) for counts_of_table in counted for counts in counts_of_table)


def is_ordered(plan: LogicalPlan) -> bool:
    """Return whether the query's own ORDER BY determines the order of its rows; an unoptimised plan has the sort at its top."""
    node = plan.to_variant()
    if isinstance(node, Sort):
        return True
    return isinstance(node, _KEEP_ORDER) and all(is_ordered(child) for child in plan.inputs())


_KEEP_ORDER = (Limit, Projection)
