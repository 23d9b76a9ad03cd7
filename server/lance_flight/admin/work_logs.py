"""Log lines of work that has ended: of each statement, and of each piece of maintenance that the server did by itself."""

from __future__ import annotations

import logging

from lance_flight.admin.logs import FIELDS
from lance_flight.engine.runtime.maintenance_records import OK, MaintenanceRecord
from lance_flight.engine.runtime.running_statement import Record, StatementKind

_statements = logging.getLogger("lance_flight.statements")
_maintenance = logging.getLogger("lance_flight.maintenance")
_EXPECTED = frozenset({OK, "cancelled", "conflict", "serialization_failure"})
"""Outcomes of which nobody needs to be warned: writers came first, or the server was stopped."""


class StatementLog:
    """Logs statements that have ended, with up to `sql_characters` of their text (0: without it), at level INFO.

    A statement that was merely prepared is logged where that failed: otherwise its execution is.
    """

    def __init__(self, sql_characters: int) -> None:
        self._sql_characters = sql_characters
        _statements.setLevel(logging.INFO)

    def log_end(self, record: Record) -> None:
        """Log one statement."""
        if record.kind is not StatementKind.PREPARE or record.outcome != "ok":
            _statements.info("ended", extra={FIELDS: self._fields(record)})

    def _fields(self, record: Record) -> dict[str, object]:
        fields: dict[str, object] = {
            "id": record.id,
            "kind": record.kind.value,
            "outcome": record.outcome,
            "principal": record.principal,
            "session": record.session,
            "peer": record.peer,
            "snapshots": dict(record.snapshots),
            "partitions_scanned": record.partitions_scanned,
            "partitions_total": record.partitions_total,
            "rows": record.rows,
            "bytes": record.size,
            "queued_ms": _milliseconds(record.queued_seconds),
            "planning_ms": _milliseconds(record.planning_seconds),
            "total_ms": _milliseconds(record.seconds),
        }
        return fields | ({"sql": shorten_text(record.sql, self._sql_characters)} if self._sql_characters else {})


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def shorten_text(text: str, characters: int) -> str:
    """Truncate a text to a number of characters, ending with an ellipsis if it was longer."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


class MaintenanceLog:
    """Logs maintenance that has ended, at level INFO, and as a warning where it has failed."""

    def __init__(self) -> None:
        _maintenance.setLevel(logging.INFO)

    def log_end(self, record: MaintenanceRecord) -> None:
        """Log one piece of work."""
        fields = {
            "table": f"{record.db_schema}.{record.table}",
            "kind": record.kind,
            "outcome": record.outcome,
            "reason": record.reason,
            "result": record.result,
            "total_ms": round(record.seconds * 1000, 3),
        }
        _maintenance.log(
            logging.INFO if record.outcome in _EXPECTED else logging.WARNING, "ended", extra={FIELDS: fields}
        )
