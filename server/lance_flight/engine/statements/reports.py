"""Reports of maintenance statements: rows that describe the work, and are read as often as their ticket is redeemed.

A statement runs once, when it is executed; its ticket gives the report and can never run it again. A small report travels in
its ticket, so that any server gives it; a large one is kept by the server that ran the statement.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lance_flight.arrow_streams import decode_table, encode_rows
from lance_flight.catalog.bulk.pieces import Watch
from lance_flight.catalog.roots.directory import Root
from lance_flight.engine.query.names.statement_context import Scope
from lance_flight.engine.query.query_plans import QueryPlan, Task, tasks_of
from lance_flight.engine.runtime.running_statement import RunningStatement
from lance_flight.engine.runtime.transactions import SqlTransaction
from lance_flight.engine.sql.references import table_name
from lance_flight.engine.statements.kinds import MaintenanceStatement, MaintenanceWork
from lance_flight.errors import NotFound, TicketError, Unsupported
from lance_flight.lru_cache import LruCache

MOST_TICKET_BYTES = 64 << 10
MOST_BYTES = 64 << 20
MOST_REPORTS = 256

KEPT_HERE = b""
"""Marker in a task whose report is stored on this server."""

_COMPRESSION = "zstd"


def maintenance_work(
    root: Root, transaction: SqlTransaction | None, statement: MaintenanceStatement, progress: Watch | None = None
) -> MaintenanceWork:
    """Return the work of a maintenance statement on its table, without doing it."""
    name = table_name(statement.table)
    if transaction is not None:
        raise Unsupported(f"table {name.name!r} is maintained outside of any transaction; commit first")
    table = root.table(name)
    return statement.work(table, progress)


@dataclass(frozen=True, slots=True)
class _Kept:
    content: bytes
    expires: float
    owner: str


class Reports:
    """Store of the reports that are too large for their tickets, as compressed Arrow IPC. Safe to share among threads.

    Each is kept for `seconds`; those that were read longest ago go where there are more than `MOST_REPORTS`, or than `MOST_BYTES` in all.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._kept = LruCache[str, _Kept](MOST_REPORTS, most_weight=MOST_BYTES, weigh=lambda kept: len(kept.content))

    def plan(self, running: RunningStatement, report: pa.Table, scope: Scope) -> QueryPlan:
        """Plan the report of a statement that has run, as its only task."""
        running.rows, running.size = report.num_rows, report.nbytes
        content = encode_rows(report, _COMPRESSION)
        if len(content) > MOST_TICKET_BYTES:
            self._keep(running.id, content, running.issuer.holder)
            content = KEPT_HERE
        tasks = tuple(replace(task, report=content) for task in tasks_of(running, None, {}, 1, scope))
        return QueryPlan(schema=report.schema, tasks=tasks, expires=self._expiry(), rows=report.num_rows)

    def _keep(self, statement: str, content: bytes, owner: str) -> None:
        now = time.monotonic()
        self._kept.discard(lambda kept: kept.expires < now)
        self._kept.put(statement, _Kept(content, now + self.seconds, owner), owner=owner)

    def read(self, task: Task) -> pa.Table:
        """Return the report of a task; `NotFound` where it is kept by another server, or no longer."""
        return _decode(task.report or self._find(task).content)

    def renew(self, task: Task) -> datetime:
        """Keep the report of a task for as long as a new one, and return the time of expiry; raises the errors of `read`."""
        if not task.report:
            kept = self._find(task)
            self._keep(task.statement, kept.content, kept.owner)
        return self._expiry()

    def _find(self, task: Task) -> _Kept:
        kept = self._kept.get(task.statement)
        if kept is None:
            raise NotFound(
                f"the report of statement {task.statement!r} is not kept here: the statement has run, on another server, or"
                " before this one started, or many have run since; a ticket never runs it again"
            )
        return kept

    def _expiry(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.seconds)


def _decode(content: bytes) -> pa.Table:
    try:
        return decode_table(content)
    except pa.ArrowInvalid as exc:
        raise TicketError(f"a ticket that does not hold a report: {exc}") from exc
