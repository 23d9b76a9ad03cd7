"""The ports of administration that a configuration asks for, and what is told there and logged of statements.

What they need is loaded with them: a server without them starts sooner.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_flight.admin.readiness import Phase, Readiness
from lance_flight.admin.statement_log import StatementLog
from lance_flight.catalog.commit_counts import CommitEvent, commit_counts
from lance_flight.cli.service import Service
from lance_flight.config import NO_PORT, ServerConfig
from lance_flight.engine.running import State

if TYPE_CHECKING:
    from lance_flight.admin.health import HealthServer
    from lance_flight.admin.http import Page


class Operations:
    """Answers from the moment that it is made; `addresses` says where. `probe` raises what keeps the server from its data."""

    def __init__(self, config: ServerConfig, probe: Callable[[], object]) -> None:
        self.addresses: list[str] = []
        self._config = config
        self._readiness = Readiness(probe)
        self._pages: dict[str, Page] = {}
        self._health: HealthServer | None = None
        if config.admin_port != NO_PORT:
            http = importlib.import_module("lance_flight.admin.http")
            self._pages |= http.health_pages(self._readiness)
            self.addresses.append(http.AdminServer(config.admin_host, config.admin_port, self._pages).url)
        if config.health_port != NO_PORT:
            health = importlib.import_module("lance_flight.admin.health")
            self._health = health.HealthServer(config.admin_host, config.health_port)
            self.addresses.append(self._health.uri)

    def watch(self, service: Service) -> None:
        """Count and log the statements of a service from now on, as the configuration asks for."""
        running = service.engine.running
        if self._config.log_statements:
            running.observe(StatementLog(self._config.log_sql).ended)
        if self._pages:
            metrics = importlib.import_module("lance_flight.admin.metrics")
            counted = metrics.Metrics(lambda: metrics.Load(**_load(service)))
            running.observe(counted.ended)
            self._pages["/metrics"] = counted.page

    def enter(self, phase: Phase) -> None:
        """Tell everyone who asks that the server goes on to another phase of its life."""
        self._readiness.enter(phase)
        if self._health is not None:
            self._health.set_serving(serving=phase is Phase.SERVING)


def _load(service: Service) -> dict[str, object]:
    sessions, transactions = service.engine.clients.counted()
    states = Counter(record.state for record in service.engine.running.records())
    return {
        "statements": {state.value: states[state] for state in State},
        "calls": len(service.server.in_flight),
        "sessions": sessions,
        "transactions": transactions,
        "arrow_bytes": pa.total_allocated_bytes(),
        "commits": {event: commit_counts[event] for event in CommitEvent},
    }
