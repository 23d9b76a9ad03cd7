"""Main loop of a server process, from its signals to the end of its last call, with the admin ports and the logs of statements.

Admin ports that a configuration asks for, and the metrics, logs and traces of statements.

Their libraries are imported only if they are configured: a server without them starts sooner.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa

from lance_flight import audit
from lance_flight.admin import logs
from lance_flight.admin.readiness import Phase, Readiness
from lance_flight.admin.work_logs import AuditLog, MaintenanceLog, StatementLog
from lance_flight.catalog.backup.saving import last_backup
from lance_flight.catalog.commits.writer import write_memory
from lance_flight.catalog.storage.filesystems import CommitEvent, commit_counts, store_requests
from lance_flight.catalog.storage.formats import root_store
from lance_flight.catalog.storage.store import Store
from lance_flight.config import NO_PORT, ServerConfig
from lance_flight.connections import Tls
from lance_flight.engine.runtime.running_statement import Record, State, WorkKind
from lance_flight.errors import InvalidInput
from lance_flight.file_reloading import look
from lance_flight.flight.calls import TRACING
from lance_flight.flight.peers import Neighbours
from lance_flight.flight.server import SelfCheck, serve_until
from lance_flight.machine import leave
from lance_flight.serving import service
from lance_flight.serving.service import Service, certificates
from lance_flight.serving.supervisor import REPLACING, STACKS, Life, check_ready_file, write_ready_file
from lance_flight.threads import SignalEvent

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


BEATS = 4
"""Heartbeats that a server sends within the time after which it counts as unresponsive."""
BEAT_SECONDS = 5.0
"""Longest time between two heartbeats."""

log = logging.getLogger(__name__)


def run(options: argparse.Namespace, settings: ServerConfig, life: Life, changes: Iterator[ServerConfig]) -> int:
    """Serve until SIGTERM or SIGINT; the second one does not wait for running calls.

    What `changes` gives takes the place of the settings that a running server takes.
    """
    stop, stopped, replaced = SignalEvent(), SignalEvent(), SignalEvent()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, partial(_stop, stopped, stop))
    signal.signal(REPLACING, partial(_replace, replaced, stop))
    # Where its threads are is asked with `kill -USR1`. A server that hangs with Python's lock does not answer that, but SIGQUIT, which may
    # end it: the other threads go on while they are looked at.
    signal.signal(signal.SIGUSR1, _write_stacks)
    faulthandler.register(STACKS)
    check_ready_file(settings.ready_file)
    store = root_store(options.root, settings.storage, create=options.create)
    operations = Operations(settings, store.check, life.restarts)
    print_line = partial(logs.print_line, format=logs.LogFormat(settings.log_format.lower()))
    for address in operations.addresses.values():
        print_line(f"administration at {address}")
    neighbours = Neighbours(life.machine, life.siblings) if life.machine else Neighbours()
    built = service.build(options.root, settings, operations.middleware, neighbours=neighbours)
    operations.watch(built)
    for line in () if life.machine else built.doors.lines:  # of replicas clients call the address of all
        print_line(line)
    running = _Running(settings, built, operations)
    threading.Thread(target=running.follow, args=[changes], name="settings", daemon=True).start()

    def ready(uri: str) -> None:
        operations.enter(Phase.SERVING)
        life.report_ready(_ports({"port": uri, **operations.addresses, **built.doors.addresses}))
        print_line(f"{life.name or f'serving {options.root}'} at {uri}")
        write_ready_file(settings.ready_file, uri)
        if life.channel is not None and settings.unresponsive_after:
            threading.Thread(target=_beat, args=(life, settings, uri, stop), name="self-check", daemon=True).start()
        built.maintainer.start()

    def stopping() -> None:
        operations.enter(Phase.STOPPING)
        built.maintainer.interrupt()
        built.doors.stopping()
        life.report_stopping()

    def renewed(tls: Tls) -> None:
        built.peers.renew(tls)
        built.doors.renew(tls)

    serve_until(
        built.server,
        stop,
        grace=lambda: running.settings.grace,
        ready=ready,
        stopping=stopping,
        certificates=certificates(settings),
        renewed=renewed,
        is_replaced=replaced.is_set,
    )
    built.maintainer.stop()
    built.doors.stop()
    operations.close()
    leave(0)


class _Running:
    """A server with the settings that it has at the moment."""

    def __init__(self, settings: ServerConfig, built: service.Service, operations: Operations) -> None:
        self.settings = settings
        self._built, self._operations = built, operations

    def follow(self, changes: Iterator[ServerConfig]) -> None:
        """Take new settings as they come."""
        for settings in changes:
            try:
                logs.reconfigure(settings.log_level, logs.LogFormat(settings.log_format.lower()))
                self._built.apply(settings)
                self._operations.apply(settings)
                self.settings = settings
            except Exception:
                # The next ones may be better, and calls go on.
                log.exception("new settings are not all in use; expected a restart")


def _beat(life: Life, settings: ServerConfig, uri: str, stop: SignalEvent) -> None:
    """Send heartbeats to the parent for as long as this server answers its own calls.

    Where clients are known by their certificates, of which there is none here, and where the first call fails, this thread alone tells it:
    a server is not ended because it cannot reach itself.
    """
    seconds = settings.unresponsive_after
    check = None if settings.tls_client_ca else SelfCheck(uri, timeout=seconds)
    if check is not None and not check.is_answered() and not stop.is_set():
        log.warning("the server cannot call itself at %s: whether its handlers run is not watched", uri)
        check = None
    pause = threading.Event()
    while True:
        if check is None or stop.is_set() or check.is_answered():
            life.beat()
        pause.wait(min(seconds / BEATS, BEAT_SECONDS))


def _ports(addresses: Mapping[str, str]) -> dict[str, int]:
    """Extract the port of each address."""
    return {name: urlsplit(address).port or 0 for name, address in addresses.items()}


def _write_stacks(number: int, frame: FrameType | None) -> None:
    """Write to standard error where each thread is, this one last.

    Not by `faulthandler`: it goes through the list of threads while gRPC adds to it and takes from it.
    """
    here = threading.get_ident()
    stacks = sorted(sys._current_frames().items(), key=lambda pair: pair[0] == here)  # noqa: SLF001 - there is no other way
    for thread, top in stacks:
        lines = [f"Thread {thread:#x} (most recent call first):"]
        for inner, line in traceback.walk_stack(top):
            lines.append(f'  File "{inner.f_code.co_filename}", line {line} in {inner.f_code.co_name}')
        os.write(sys.stderr.fileno(), "\n".join([*lines, "", ""]).encode())


def _stop(stopped: SignalEvent, stop: SignalEvent, number: int, frame: FrameType | None) -> None:
    """Stop after the running calls have ended; a second signal ends the process at once, of those that stop it."""
    if stopped.is_set():
        leave(128 + number)
    stopped.set()
    stop.set()


def _replace(replaced: SignalEvent, stop: SignalEvent, number: int, frame: FrameType | None) -> None:
    """Stop after the running calls have ended, for another server that takes the next ones."""
    replaced.set()
    stop.set()
