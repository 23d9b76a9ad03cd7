"""Results of planning a statement: its schema, its tasks and its snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa

from lance_flight.engine.query.scope import Scope
from lance_flight.engine.query.statement_context import TableVersion
from lance_flight.engine.query.tables import Split
from lance_flight.engine.query.tasks import Task
from lance_flight.engine.runtime.running_statement import RunningStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """A query ready to run: its exact schema, one task for each endpoint, the snapshot of each table.

    The tasks can be run until it `expires`; in that order, where the rows are `ordered`. `rows` is how many the tables of a
    query with several endpoints have, before any filter, and how many a report has. `partitions` is how many tables are scanned of how many, where the
    plan says so already.
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
) -> tuple[Task, ...]:
    """Return what each endpoint of a query has to do."""
    whole = Task(
        sql=running.sql,
        statement=running.id,
        parameters=parameters,
        readings=readings,
        transaction=scope.transaction,
        branch=scope.branch,
        db_schema=scope.db_schema,
        session="" if scope.session is None else scope.session.id,
        temporary=tuple(sorted(name.name for name in scope.temporary.names)),
        execution=scope.execution,
    )
    return tuple(replace(whole, share=Split(part, shares)) for part in range(shares))
