"""Log line of each piece of maintenance that a server has done by itself."""

from __future__ import annotations

import logging

from lance_flight.admin.logs import FIELDS
from lance_flight.engine.runtime.maintenance_records import OK, MaintenanceRecord

_log = logging.getLogger("lance_flight.maintenance")


class MaintenanceLog:
    """Logs maintenance that has ended, at level INFO, and as a warning where it has failed."""

    def __init__(self) -> None:
        _log.setLevel(logging.INFO)

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
        _log.log(logging.INFO if record.outcome in _EXPECTED else logging.WARNING, "ended", extra={FIELDS: fields})


_EXPECTED = frozenset({OK, "cancelled", "conflict", "serialization_failure"})
"""Outcomes of which nobody needs to be warned: writers came first, or the server was stopped."""
