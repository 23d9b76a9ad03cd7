"""The schema `system`: tables of what this server does, `queries` and `sessions`, computed when they are read.

A principal sees his own rows, and all of them if he is an administrator. Its tables stand in no list of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from lance_flight.engine.clients import Clients, KnownSession
from lance_flight.engine.computed_tables import ComputedTable
from lance_flight.engine.running import RunningStatements
from lance_flight.engine.statement_runs import Record

SYSTEM = "system"

_MOMENT = pa.timestamp("us", "UTC")
_QUERIES = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False),
        pa.field("principal", pa.utf8(), nullable=False),
        pa.field("session", pa.utf8(), nullable=False),
        pa.field("peer", pa.utf8(), nullable=False),
        pa.field("kind", pa.utf8(), nullable=False),
        pa.field("state", pa.utf8(), nullable=False),
        pa.field("sql", pa.utf8(), nullable=False),
        pa.field("began", _MOMENT, nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("queued_seconds", pa.float64(), nullable=False),
        pa.field("planning_seconds", pa.float64(), nullable=False),
        pa.field("partitions_scanned", pa.int64(), nullable=False),
        pa.field("partitions_total", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)
_SESSIONS = pa.schema(
    [
        pa.field("id", pa.utf8(), nullable=False),
        pa.field("principal", pa.utf8(), nullable=False),
        pa.field("began", _MOMENT, nullable=False),
        pa.field("idle_seconds", pa.float64(), nullable=False),
        pa.field("schema", pa.utf8(), nullable=False),
        pa.field("branch", pa.utf8()),
        pa.field("isolation", pa.utf8(), nullable=False),
        pa.field("open_transactions", pa.int64(), nullable=False),
        pa.field("statements", pa.int64(), nullable=False),
    ]
)

_Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTables:
    """The tables of `system` as one principal sees them (None: all rows)."""

    running: RunningStatements
    clients: Clients
    principal: str | None = None

    def table(self, name: str) -> ComputedTable | None:
        """The table of that name, if there is one."""
        if name not in _TABLES:
            return None
        schema, rows = _TABLES[name]
        return ComputedTable(schema, [lambda _: pa.Table.from_pylist(rows(self), schema=schema).to_batches()])

    def queries(self) -> _Rows:
        """A row for each statement that has not ended."""
        return [_query_row(record) for record in self._records()]

    def sessions(self) -> _Rows:
        """A row for each session."""
        running = [record.session for record in self._records()]
        known = (session for session in self.clients.known() if self.principal in (None, session.principal))
        return [_session_row(session, running.count(session.id)) for session in known]

    def _records(self) -> list[Record]:
        return [record for record in self.running.records() if self.principal in (None, record.principal)]


def _query_row(record: Record) -> dict[str, Any]:
    return {
        **{name: getattr(record, name) for name in _QUERIES.names if name not in {"kind", "state", "bytes"}},
        "kind": record.kind.value,
        "state": record.state.value,
        "bytes": record.size,
    }


def _session_row(session: KnownSession, statements: int) -> dict[str, Any]:
    return {
        **{name: getattr(session, name) for name in _SESSIONS.names if name != "statements"},
        "statements": statements,
    }


_TABLES: Mapping[str, tuple[pa.Schema, Callable[[SystemTables], _Rows]]] = MappingProxyType(
    {
        "queries": (_QUERIES, SystemTables.queries),
        "sessions": (_SESSIONS, SystemTables.sessions),
    }
)
