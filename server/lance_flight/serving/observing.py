"""Admin ports that a configuration asks for, and the metrics, logs and traces of statements.

Their libraries are imported only if they are configured: a server without them starts sooner.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_flight import audit
from lance_flight.admin.readiness import Phase, Readiness
from lance_flight.admin.work_logs import AuditLog, MaintenanceLog, StatementLog
from lance_flight.catalog.backup.saving import last_backup
from lance_flight.catalog.commits.writer import write_memory
from lance_flight.catalog.storage.counts import CommitEvent, commit_counts, store_requests
from lance_flight.catalog.storage.store import Store
from lance_flight.config import NO_PORT, ServerConfig
from lance_flight.engine.runtime.maintenance_records import WorkKind
from lance_flight.engine.runtime.running_statement import Record, State
from lance_flight.errors import InvalidInput
from lance_flight.file_reloading import look
from lance_flight.flight.calls import TRACING
from lance_flight.serving.service import Service

if TYPE_CHECKING:
    from lance_flight.admin.health import HealthServer
    from lance_flight.admin.http import Page
    from lance_flight.admin.tracing import Tracing

BACKUP_LOOK_SECONDS = 60.0
_COLLECTORS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Operations:
    """Starts the configured admin ports when it is created; `addresses` holds their addresses by the names of the settings.

    `probe` raises what keeps the server from its data; `restarts` are those of this server, by their reason.
    """

    def __init__(
        self, config: ServerConfig, probe: Callable[[], object], restarts: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.addresses: dict[str, str] = {}
        self._restarts = restarts
        self._readiness = Readiness(probe)
        self._pages: dict[str, Page] = {}
        self._health: HealthServer | None = None
        if config.admin_port != NO_PORT:
            http = importlib.import_module("lance_flight.admin.http")
            self._pages |= http.health_pages(self._readiness)
            self.addresses["admin_port"] = http.AdminServer(config.admin_host, config.admin_port, self._pages).url
        if config.health_port != NO_PORT:
            health = importlib.import_module("lance_flight.admin.health")
            self._health = health.HealthServer(config.admin_host, config.health_port)
            self.addresses["health_port"] = self._health.uri
        self._tracing = _tracing(config, os.environ)
        self._audit = AuditLog(config.audit_log) if config.audit_log else None
        audit.trail.begin(self._audit, is_required=config.audit_required, with_sql=config.audit_statements)
        self._statement_log: StatementLog | None = None
        self.apply(config)

    @property
    def middleware(self) -> Mapping[str, Any]:
        """Return the Flight middleware of the server: tracing, if it is configured."""
        if self._tracing is None:
            return {}
        tracing = importlib.import_module("lance_flight.flight.tracing")
        return {TRACING: tracing.TracingMiddlewareFactory(self._tracing.tracer)}

    def watch(self, service: Service) -> None:
        """Count and log the statements of a service from now on, as the configuration asks for."""
        running, maintained = service.engine.running, service.engine.maintained
        maintained.observe(MaintenanceLog().log_end)
        running.observe(self._log_statement)
        if self._pages:
            metrics = importlib.import_module("lance_flight.admin.metrics")
            backed_up = _LastBackup(service.engine.root.store)
            counted = metrics.Metrics(
                lambda: metrics.Load(
                    **_load(service),
                    restarts=self._restarts,
                    backed_up=backed_up.look(),
                    resources=metrics.Resources(
                        is_root_reachable=self._readiness.reaches_root(), **_resources(service, metrics.DiskSpace)
                    ),
                )
            )
            running.observe(counted.count_end)
            self._pages["/metrics"] = counted.page
        if self._tracing is not None:
            running.observe(self._tracing.record_end)

    def apply(self, config: ServerConfig) -> None:
        """Log statements as a configuration asks for from now on."""
        self._statement_log = StatementLog(config.log_sql) if config.log_statements else None
        if self._tracing is not None:
            self._tracing.sql_characters = config.log_sql

    def _log_statement(self, record: Record) -> None:
        if self._statement_log is not None:
            self._statement_log.log_end(record)

    def enter(self, phase: Phase) -> None:
        """Move readiness and the health service to another phase of the server's life."""
        self._readiness.enter(phase)
        if self._health is not None:
            self._health.set_serving(serving=phase is Phase.SERVING)

    def close(self) -> None:
        """Send the spans that are left, and write what is left of the audit log."""
        if self._audit is not None:
            self._audit.close()
        if self._tracing is not None:
            self._tracing.close()


class _LastBackup:
    """The time of the last backup of a root; of one in an object store it is read in the background, which may not answer."""

    def __init__(self, root: Store) -> None:
        self._root = root
        self._found: float | None = None
        self._next = 0.0

    def look(self) -> float | None:
        """Return it in Unix time, as of the last look of this minute."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + BACKUP_LOOK_SECONDS
            if self._root.is_remote:
                threading.Thread(target=self._read, name="last-backup", daemon=True).start()
            else:
                self._read()
        return self._found

    def _read(self) -> None:
        moment = last_backup(self._root)
        self._found = None if moment is None else moment.timestamp()


def _tracing(config: ServerConfig, environment: Mapping[str, str]) -> Tracing | None:
    """Return the tracing that OpenTelemetry's variables ask for; None without them."""
    exporter = environment.get("OTEL_TRACES_EXPORTER")
    is_wanted = exporter not in {None, "", "none"} or (exporter != "none" and any(map(environment.get, _COLLECTORS)))
    if not is_wanted or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        tracing = importlib.import_module("lance_flight.admin.tracing")
    except ModuleNotFoundError as exc:
        raise InvalidInput(f"traces are wanted and {exc.name} is not installed; expected lance-flight[otel]") from exc
    made: Tracing = tracing.Tracing(tracing.exporter_of(environment), sql_characters=config.log_sql)
    return made


def _load(service: Service) -> dict[str, object]:
    sessions, transactions = service.engine.clients.count()
    states = Counter(record.state for record in service.engine.running.records())
    plans = service.engine.plans.counts
    return {
        "statements": {state.value: states[state] for state in State} | {"overdue": service.engine.running.overdue},
        "calls": len(service.server.in_flight),
        "streams": len(service.engine.running.open_streams),
        "stream_bytes": service.engine.running.open_streams.held.size,
        "sessions": sessions,
        "transactions": transactions,
        "arrow_bytes": pa.total_allocated_bytes(),
        "plans": plans.plans,
        "plan_bytes": plans.size,
        "plan_hits": plans.hits,
        "plan_misses": plans.misses,
        "commits": {event: commit_counts[event] for event in CommitEvent},
        "quota_refusals": {resource.value: count for resource, count in service.engine.running.quotas.refusals.items()},
        "audit_events": {(kind.value, made.value): count for (kind, made), count in audit.trail.counts.items()},
        "audit_lost": audit.trail.lost,
        "maintenance": service.engine.maintained.totals,
        "maintenance_backlog": {kind.value: service.maintainer.backlog[kind] for kind in WorkKind},
        "files": look(),
        "store_requests": {kind.value: sent for kind, sent in store_requests.counts.items()},
        "lance_requests": store_requests.of_lance,
    }


def _resources(service: Service, disk_space: Callable[[int, int], object]) -> dict[str, object]:
    store, limits = service.engine.root.store, service.engine.limits
    spill_directory = limits.spill_directory
    places = {
        "spill_directory": spill_directory or tempfile.gettempdir(),
        **({} if store.is_remote else {"root": store.uri}),
    }
    disks: dict[str, object] = {}
    for name, place in places.items():
        # A directory may be gone: the root is told about by itself.
        with suppress(OSError):
            usage = shutil.disk_usage(place)
            disks[name] = disk_space(usage.total, usage.free)
    return {
        "disks": disks,
        "spilled": 0 if spill_directory is None else _bytes_below(Path(spill_directory)),
        "written": write_memory.taken,
        "memory_limit": limits.server_memory,
    }


def _bytes_below(place: Path) -> int:
    total = 0
    for path in place.rglob("*"):
        with suppress(OSError):  # DataFusion removes what it has read
            total += path.stat().st_size if path.is_file() else 0
    return total
