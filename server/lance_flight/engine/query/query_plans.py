"""Results of planning a statement: its schema, its tasks and its snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

import pyarrow as pa

from lance_flight.engine.query.scope import Scope
from lance_flight.engine.query.statement_context import TableVersion
from lance_flight.engine.query.tables import Split
from lance_flight.engine.query.tasks import Task
from lance_flight.engine.runtime.running_statement import RunningStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """Query that is ready to run: its exact schema, one task for each endpoint, the snapshot of each table.

    The tasks can be run until it `expires`; in that order, if the rows are `ordered`. `rows` is the number of rows in the tables of
    a query with several endpoints, before any filter, and that of a report. `partitions` are the numbers of scanned tables and of all
    tables, if the plan gives them already.
    """

    schema: pa.Schema
    tasks: tuple[Task, ...]
    expires: datetime
    snapshots: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None
    ordered: bool = False
    partitions: tuple[int, int] | None = None


def tasks_of(
    running: RunningStatement,
    parameters: pa.RecordBatch | None,
    readings: Mapping[str, TableVersion],
    shares: int,
    scope: Scope,
    *,
    views: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Task, ...]:
    """Return the tasks of a query, one for each endpoint."""
    whole = Task(
        sql=running.sql,
        statement=running.id,
        parameters=parameters,
        readings=readings,
        views=views,
        transaction=scope.transaction,
        branch=scope.branch,
        db_schema=scope.db_schema,
        session="" if scope.session is None else scope.session.id,
        temporary=tuple(sorted(name.name for name in scope.temporary.names)),
        execution=scope.execution,
        isolation=scope.isolation,
    )
    return tuple(replace(whole, share=Split(part, shares)) for part in range(shares))
