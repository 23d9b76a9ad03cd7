"""The ports of administration that a configuration asks for.

What they need is loaded with them: a server without them starts sooner.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from lance_flight.admin.readiness import Phase, Readiness
from lance_flight.config import NO_PORT, ServerConfig

if TYPE_CHECKING:
    from lance_flight.admin.health import HealthServer


class Operations:
    """Answers from the moment that it is made; `addresses` says where. `probe` raises what keeps the server from its data."""

    def __init__(self, config: ServerConfig, probe: Callable[[], object]) -> None:
        self.addresses: list[str] = []
        self._readiness = Readiness(probe)
        self._health: HealthServer | None = None
        if config.admin_port != NO_PORT:
            self._serve_http(config.admin_host, config.admin_port)
        if config.health_port != NO_PORT:
            self._serve_health(config.admin_host, config.health_port)

    def enter(self, phase: Phase) -> None:
        """Tell everyone who asks that the server goes on to another phase of its life."""
        self._readiness.enter(phase)
        if self._health is not None:
            self._health.set_serving(serving=phase is Phase.SERVING)

    def _serve_http(self, host: str, port: int) -> None:
        http = importlib.import_module("lance_flight.admin.http")
        self.addresses.append(http.AdminServer(host, port, http.health_pages(self._readiness)).url)

    def _serve_health(self, host: str, port: int) -> None:
        self._health = importlib.import_module("lance_flight.admin.health").HealthServer(host, port)
        self.addresses.append(self._health.uri)
