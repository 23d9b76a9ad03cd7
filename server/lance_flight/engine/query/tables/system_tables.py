"""Schema `system`: the tables of the activity of this server and its peers, computed when they are read.

A principal sees its own rows of `queries`, `operators`, `statements` and `sessions`, and the `quotas` of its roles; an administrator sees all of them. The rows of
`maintenance`, `servers` and `audit` are for administrators alone. The tables are in no list of tables.
"""

from __future__ import annotations

import importlib.metadata
import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lance_flight import machine
from lance_flight.audit import AuditEvent, trail
from lance_flight.catalog.commits.writer import write_memory
from lance_flight.engine.query.tables.measured_plans import MeasuredOperator
from lance_flight.engine.query.tables.provider import ComputedColumn, ComputedTable, RowTable
from lance_flight.engine.runtime.admission import QuotaUsage
from lance_flight.engine.runtime.running_statement import (
    MaintenanceRecord,
    MaintenanceRecords,
    Record,
    RunningStatement,
)
from lance_flight.engine.runtime.session_registry import KnownSession, SessionRegistry
from lance_flight.engine.runtime.statement_registry import NO_PEERS, Peers, StatementRegistry

_MOMENT = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """The process of a server: its random id, where it runs, and since when."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    host: str = field(default_factory=socket.gethostname)
    process: int = field(default_factory=os.getpid)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTables:
    """Tables of `system` as one principal sees them (None: all rows)."""

    running: StatementRegistry
    clients: SessionRegistry
    maintained: MaintenanceRecords
    server: ServerProcess
    peers: Peers = NO_PEERS
    principal: str | None = None

    def table(self, name: str) -> ComputedTable | None:
        """Return the system table of a name; None if there is none."""
        row_table = _TABLES.get(name)
        if row_table is None:
            return None
        return (
            row_table.of(self) if self.peers is NO_PEERS else row_table.of(self, further=partial(self._elsewhere, name))
        )

    def all_rows(self, name: str) -> pa.Table:
        """Return all rows of a system table of this server and its peers."""
        own = _TABLES[name].table(self)
        others = (batch for batch in self._elsewhere(name, own.column_names) if batch.schema.equals(own.schema))
        return pa.concat_tables([own, pa.Table.from_batches(others, own.schema)])

    def _elsewhere(self, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a system table at the other servers; one of another release may lack columns, and is left out then."""
        for rows in self.peers.rows(name, self.principal):
            if set(columns) <= set(rows.column_names):
                yield from rows.select(list(columns)).to_batches()

    def queries(self) -> list[Record]:
        """Return the running statements that the principal may see."""
        return [record for record in self.running.records() if self.principal in (None, record.principal)]

    def operators(self) -> Iterator[_Operator]:
        """Yield the operators of the plans that EXPLAIN ANALYZE runs now, of statements that the principal may see."""
        for statement, measured in self.running.measured():
            if self.principal not in (None, statement.issuer.principal):
                continue
            trees = [tree for plans in measured for tree in plans.trees()]
            for number, (plan, operator) in enumerate((plan, each) for plan, tree in enumerate(trees) for each in tree):
                yield _Operator(statement, plan, number, operator)

    def statements(self) -> list[Record]:
        """Return the statements that have ended, as far as they are remembered, and the principal may see them."""
        return [record for record in self.running.ended_records() if self.principal in (None, record.principal)]

    def sessions(self) -> list[_Session]:
        """Return the sessions that the principal may see."""
        running = [record.session for record in self.queries()]
        known = (session for session in self.clients.list_sessions() if self.principal in (None, session.principal))
        return [_Session(session, running.count(session.id)) for session in known]

    def quotas(self) -> list[QuotaUsage]:
        """Return the quotas that apply to the principal, as far as it has run statements within the last hour."""
        return self.running.quota_usage(self.principal)

    def maintenance(self) -> list[MaintenanceRecord]:
        """Return the maintenance that runs and that has ended lately, if the principal is an administrator."""
        return self.maintained.records() if self.principal is None else []

    def servers(self) -> list[SystemTables]:
        """Return this server, if the principal is an administrator."""
        return [self] if self.principal is None else []

    def audit(self) -> list[AuditEvent]:
        """Return the newest events of the audit trail, if the principal is an administrator."""
        return trail.recent if self.principal is None else []


@dataclass(frozen=True, slots=True)
class _Session:
    known: KnownSession
    statements: int


@dataclass(frozen=True, slots=True)
class _Operator:
    statement: RunningStatement
    plan: int
    number: int
    measured: MeasuredOperator

    @property
    def partitions(self) -> tuple[int | None, int | None]:
        return (self.measured.scanned and self.measured.scanned.partitions) or (None, None)


_ISSUED: tuple[ComputedColumn[Record], ...] = (
    ComputedColumn("id", pa.utf8(), lambda record: record.id),
    ComputedColumn("principal", pa.utf8(), lambda record: record.principal),
    ComputedColumn("session", pa.utf8(), lambda record: record.session),
    ComputedColumn("peer", pa.utf8(), lambda record: record.peer),
    ComputedColumn("kind", pa.utf8(), lambda record: record.kind.value),
)
_WORK: tuple[ComputedColumn[Record], ...] = (
    ComputedColumn("sql", pa.utf8(), lambda record: record.sql),
    ComputedColumn("began", _MOMENT, lambda record: record.began),
    ComputedColumn("seconds", pa.float64(), lambda record: record.seconds),
    ComputedColumn("queued_seconds", pa.float64(), lambda record: record.queued_seconds),
    ComputedColumn("planning_seconds", pa.float64(), lambda record: record.planning_seconds),
    ComputedColumn("partitions_scanned", pa.int64(), lambda record: record.partitions_scanned),
    ComputedColumn("partitions_total", pa.int64(), lambda record: record.partitions_total),
)
_DONE: tuple[ComputedColumn[Record], ...] = (
    ComputedColumn("rows", pa.int64(), lambda record: record.rows),
    ComputedColumn("bytes", pa.int64(), lambda record: record.size),
)
_STATE: ComputedColumn[Record] = ComputedColumn("state", pa.utf8(), lambda record: record.state.value)
_PROGRESS: ComputedColumn[Record] = ComputedColumn(
    "progress", pa.float64(), lambda record: record.progress, is_nullable=True
)
_OUTCOME: ComputedColumn[Record] = ComputedColumn("outcome", pa.utf8(), lambda record: record.outcome or "")
_QUERIES: RowTable[SystemTables, Record] = RowTable(SystemTables.queries, (*_ISSUED, _STATE, *_WORK, _PROGRESS, *_DONE))
_STATEMENTS: RowTable[SystemTables, Record] = RowTable(SystemTables.statements, (*_ISSUED, _OUTCOME, *_WORK, *_DONE))
_OPERATORS: RowTable[SystemTables, _Operator] = RowTable(
    SystemTables.operators,
    (
        ComputedColumn("statement", pa.utf8(), lambda each: each.statement.id),
        ComputedColumn("session", pa.utf8(), lambda each: each.statement.issuer.session),
        ComputedColumn("number", pa.int64(), lambda each: each.number),
        ComputedColumn("plan", pa.int64(), lambda each: each.plan),
        ComputedColumn("depth", pa.int64(), lambda each: each.measured.depth),
        ComputedColumn("operator", pa.utf8(), lambda each: each.measured.text),
        ComputedColumn("plans", pa.int64(), lambda each: each.measured.plans),
        ComputedColumn("rows", pa.int64(), lambda each: each.measured.rows, is_nullable=True),
        ComputedColumn("seconds", pa.float64(), lambda each: each.measured.seconds, is_nullable=True),
        ComputedColumn(
            "table_name",
            pa.utf8(),
            lambda each: each.measured.scanned and each.measured.scanned.name,
            is_nullable=True,
        ),
        ComputedColumn("partitions_scanned", pa.int64(), lambda each: each.partitions[0], is_nullable=True),
        ComputedColumn("partitions_total", pa.int64(), lambda each: each.partitions[1], is_nullable=True),
    ),
)
_SESSIONS: RowTable[SystemTables, _Session] = RowTable(
    SystemTables.sessions,
    (
        ComputedColumn("id", pa.utf8(), lambda session: session.known.id),
        ComputedColumn("principal", pa.utf8(), lambda session: session.known.principal),
        ComputedColumn("began", _MOMENT, lambda session: session.known.began),
        ComputedColumn("idle_seconds", pa.float64(), lambda session: session.known.idle_seconds),
        ComputedColumn("schema", pa.utf8(), lambda session: session.known.schema),
        ComputedColumn("branch", pa.utf8(), lambda session: session.known.branch, is_nullable=True),
        ComputedColumn("isolation", pa.utf8(), lambda session: session.known.isolation),
        ComputedColumn("open_transactions", pa.int64(), lambda session: session.known.open_transactions),
        ComputedColumn("statements", pa.int64(), lambda session: session.statements),
    ),
)
_MAINTENANCE: RowTable[SystemTables, MaintenanceRecord] = RowTable(
    SystemTables.maintenance,
    (
        ComputedColumn("id", pa.utf8(), lambda record: record.id),
        ComputedColumn("table_schema", pa.utf8(), lambda record: record.db_schema),
        ComputedColumn("table_name", pa.utf8(), lambda record: record.table),
        ComputedColumn("kind", pa.utf8(), lambda record: record.kind),
        ComputedColumn("reason", pa.utf8(), lambda record: record.reason),
        ComputedColumn("began", _MOMENT, lambda record: record.began),
        ComputedColumn("seconds", pa.float64(), lambda record: record.seconds),
        ComputedColumn("outcome", pa.utf8(), lambda record: record.outcome),
        ComputedColumn("result", pa.utf8(), lambda record: record.result),
    ),
)
_QUOTAS: RowTable[SystemTables, QuotaUsage] = RowTable(
    SystemTables.quotas,
    (
        ComputedColumn("role", pa.utf8(), lambda usage: usage.quota.role, is_nullable=True),
        ComputedColumn("principal", pa.utf8(), lambda usage: usage.quota.principal, is_nullable=True),
        ComputedColumn("resource", pa.utf8(), lambda usage: usage.quota.resource.value),
        ComputedColumn("allowed", pa.int64(), lambda usage: usage.quota.limit),
        ComputedColumn("used", pa.int64(), lambda usage: usage.used, is_nullable=True),
        ComputedColumn("free_at", _MOMENT, lambda usage: usage.free_at, is_nullable=True),
    ),
)
_SERVERS: RowTable[SystemTables, SystemTables] = RowTable(
    SystemTables.servers,
    (
        ComputedColumn("id", pa.utf8(), lambda tables: tables.server.id),
        ComputedColumn("host", pa.utf8(), lambda tables: tables.server.host),
        ComputedColumn("process", pa.int64(), lambda tables: tables.server.process),
        ComputedColumn("release", pa.utf8(), lambda _: importlib.metadata.version("lance-flight")),
        ComputedColumn("began", _MOMENT, lambda tables: tables.server.began),
        ComputedColumn("statements", pa.int64(), lambda tables: len(tables.running.records())),
        ComputedColumn("sessions", pa.int64(), lambda tables: tables.clients.count()[0]),
        ComputedColumn("memory_bytes", pa.int64(), lambda _: machine.own_memory()),
        ComputedColumn(
            "memory_limit", pa.int64(), lambda tables: tables.clients.limits.server_memory, is_nullable=True
        ),
        ComputedColumn("result_bytes", pa.int64(), lambda tables: tables.running.open_streams.held.size),
        ComputedColumn("write_bytes", pa.int64(), lambda _: write_memory.taken),
        ComputedColumn("arrow_bytes", pa.int64(), lambda _: pa.total_allocated_bytes()),
    ),
)
_AUDIT: RowTable[SystemTables, AuditEvent] = RowTable(
    SystemTables.audit,
    (
        ComputedColumn("time", _MOMENT, lambda event: event.time),
        ComputedColumn("event", pa.utf8(), lambda event: event.kind.value),
        ComputedColumn("decision", pa.utf8(), lambda event: event.decision.value),
        ComputedColumn("principal", pa.utf8(), lambda event: event.subject.principal, is_nullable=True),
        ComputedColumn("client", pa.utf8(), lambda event: event.subject.client, is_nullable=True),
        ComputedColumn("session", pa.utf8(), lambda event: event.subject.session, is_nullable=True),
        ComputedColumn("statement", pa.utf8(), lambda event: event.subject.statement, is_nullable=True),
        ComputedColumn("action", pa.utf8(), lambda event: event.action, is_nullable=True),
        ComputedColumn("object", pa.utf8(), lambda event: event.object, is_nullable=True),
        ComputedColumn("reason", pa.utf8(), lambda event: event.reason, is_nullable=True),
        ComputedColumn("error", pa.utf8(), lambda event: event.error, is_nullable=True),
    ),
)
_TABLES: Mapping[str, RowTable[SystemTables, Any]] = MappingProxyType(
    {
        "queries": _QUERIES,
        "operators": _OPERATORS,
        "statements": _STATEMENTS,
        "sessions": _SESSIONS,
        "quotas": _QUOTAS,
        "maintenance": _MAINTENANCE,
        "servers": _SERVERS,
        "audit": _AUDIT,
    }
)
