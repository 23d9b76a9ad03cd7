"""Schema `system`: the tables `queries` and `sessions` of this server's activity, computed when they are read.

A principal sees its own rows, and an administrator all of them. The tables are in no list of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import pyarrow as pa

from lance_flight.engine.query.computed_tables import ComputedTable
from lance_flight.engine.runtime.client_sessions import KnownSession
from lance_flight.engine.runtime.running_statement import Record
from lance_flight.engine.runtime.session_registry import SessionRegistry
from lance_flight.engine.runtime.statement_registry import StatementRegistry

SYSTEM = "system"

_MOMENT = pa.timestamp("us", "UTC")
_Of = TypeVar("_Of")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTables:
    """Tables of `system` as one principal sees them (None: all rows)."""

    running: StatementRegistry
    clients: SessionRegistry
    principal: str | None = None

    def table(self, name: str) -> ComputedTable | None:
        """Return the system table of a name; None if there is none."""
        found = _TABLES.get(name)
        return None if found is None else found.of(self)

    def queries(self) -> list[Record]:
        """Return the running statements that the principal may see."""
        return [record for record in self.running.records() if self.principal in (None, record.principal)]

    def sessions(self) -> list[_Session]:
        """Return the sessions that the principal may see."""
        running = [record.session for record in self.queries()]
        known = (session for session in self.clients.known() if self.principal in (None, session.principal))
        return [_Session(session, running.count(session.id)) for session in known]


@dataclass(frozen=True, slots=True)
class _Session:
    known: KnownSession
    statements: int


@dataclass(frozen=True, slots=True)
class _Column(Generic[_Of]):
    """Column of a system table: its field, and the function that computes its value of a subject."""

    name: str
    type: pa.DataType
    value: Callable[[_Of], object]
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class _SystemTable(Generic[_Of]):
    """System table with one row for each of its subjects."""

    subjects: Callable[[SystemTables], Iterable[_Of]]
    columns: tuple[_Column[_Of], ...]

    def of(self, tables: SystemTables) -> ComputedTable:
        """Return the table with the rows that a principal may see."""
        schema = pa.schema([pa.field(each.name, each.type, each.is_nullable) for each in self.columns])

        def rows(_: list[str]) -> list[pa.RecordBatch]:
            subjects = list(self.subjects(tables))
            columns = [pa.array([each.value(subject) for subject in subjects], each.type) for each in self.columns]
            return [pa.RecordBatch.from_arrays(columns, schema=schema)]

        return ComputedTable(schema, [rows])


_QUERIES: _SystemTable[Record] = _SystemTable(
    SystemTables.queries,
    (
        _Column("id", pa.utf8(), lambda record: record.id),
        _Column("principal", pa.utf8(), lambda record: record.principal),
        _Column("session", pa.utf8(), lambda record: record.session),
        _Column("peer", pa.utf8(), lambda record: record.peer),
        _Column("kind", pa.utf8(), lambda record: record.kind.value),
        _Column("state", pa.utf8(), lambda record: record.state.value),
        _Column("sql", pa.utf8(), lambda record: record.sql),
        _Column("began", _MOMENT, lambda record: record.began),
        _Column("seconds", pa.float64(), lambda record: record.seconds),
        _Column("queued_seconds", pa.float64(), lambda record: record.queued_seconds),
        _Column("planning_seconds", pa.float64(), lambda record: record.planning_seconds),
        _Column("partitions_scanned", pa.int64(), lambda record: record.partitions_scanned),
        _Column("partitions_total", pa.int64(), lambda record: record.partitions_total),
        _Column("progress", pa.float64(), lambda record: record.progress, is_nullable=True),
        _Column("rows", pa.int64(), lambda record: record.rows),
        _Column("bytes", pa.int64(), lambda record: record.size),
    ),
)
_SESSIONS: _SystemTable[_Session] = _SystemTable(
    SystemTables.sessions,
    (
        _Column("id", pa.utf8(), lambda session: session.known.id),
        _Column("principal", pa.utf8(), lambda session: session.known.principal),
        _Column("began", _MOMENT, lambda session: session.known.began),
        _Column("idle_seconds", pa.float64(), lambda session: session.known.idle_seconds),
        _Column("schema", pa.utf8(), lambda session: session.known.schema),
        _Column("branch", pa.utf8(), lambda session: session.known.branch, is_nullable=True),
        _Column("isolation", pa.utf8(), lambda session: session.known.isolation),
        _Column("open_transactions", pa.int64(), lambda session: session.known.open_transactions),
        _Column("statements", pa.int64(), lambda session: session.statements),
    ),
)
_TABLES: Mapping[str, _SystemTable[Any]] = MappingProxyType({"queries": _QUERIES, "sessions": _SESSIONS})
