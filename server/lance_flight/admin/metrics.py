"""Metrics of a server in the Prometheus text format.

Labels are the kinds of statements, their states and the codes of errors: there are few of each, and none identifies a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from lance_flight.admin.http import HttpResponse
from lance_flight.catalog.storage.filesystems import Asked, CommitEvent, LanceRequests
from lance_flight.engine.runtime.running_statement import MaintenanceTotals, Record, StatementKind
from lance_flight.file_reloading import FileState

PREFIX = "lance_flight_"
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Upper bounds of the histograms of durations."""
_TOLD_FROM_THE_START = ("ok", "internal")
"""Outcomes that are 0 before the first: an alert on an increase misses a first one that comes out of nothing."""


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Bytes of the disk that a directory lies on, and those of them that are free."""

    total: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The root, the disks and the memory of a server.

    Disks are by what lies on them; `spilled` and `written` are bytes of rows that queries have spilled and that writers hold; `memory_limit` is
    for statements and writes together (None: no limit).
    """

    is_root_reachable: bool
    disks: Mapping[str, DiskSpace]
    spilled: int
    written: int
    memory_limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Counts and gauges that other parts of the server keep, read when metrics are scraped.

    Statements by their state, calls, open streams and the bytes that they hold, sessions, open transactions and kept plans (in bytes, too) now, bytes of Arrow; hits and misses
    of the plan cache, commits ever, statements beyond a quota by its resource, events of the audit trail by
    kind and decision and those that were lost, maintenance and what of it waits by kind, restarts by their reason, when the root was last backed up, the files that are read again by what they are, what the server lives on,
    and what an object store was asked for, by kind, and by Lance.
    """

    statements: Mapping[str, int]
    calls: int
    streams: int
    stream_bytes: int
    sessions: int
    transactions: int
    arrow_bytes: int
    plans: int
    plan_bytes: int
    plan_hits: int
    plan_misses: int
    commits: Mapping[CommitEvent, int]
    quota_refusals: Mapping[str, int]
    audit_events: Mapping[tuple[str, str], int]
    audit_lost: int
    maintenance: MaintenanceTotals
    maintenance_backlog: Mapping[str, int]
    restarts: Mapping[str, int]
    backed_up: float | None
    files: Mapping[str, FileState]
    resources: Resources
    store_requests: Mapping[str, Asked]
    lance_requests: LanceRequests


class Metrics:
    """Counts statements that end, and reports `load` as of the moment of the scrape."""

    def __init__(self, load: Callable[[], Load]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        registry.register(_LoadCollector(load))
        ProcessCollector(registry=registry)
        self._statements = Counter(
            f"{PREFIX}statements", "Statements that have ended, by outcome.", ["kind", "outcome"], registry=registry
        )
        for kind in StatementKind:
            for outcome in _TOLD_FROM_THE_START:
                self._statements.labels(kind.value, outcome)
        self._seconds = Histogram(
            f"{PREFIX}statement_seconds",
            "Seconds from the beginning of a statement to its end.",
            ["kind"],
            buckets=SECONDS,
            registry=registry,
        )
        self._planning = Histogram(
            f"{PREFIX}planning_seconds",
            "Seconds that a statement was planned.",
            ["kind"],
            buckets=SECONDS,
            registry=registry,
        )
        self._queued = Histogram(
            f"{PREFIX}queued_seconds",
            "Seconds that a statement waited for its turn.",
            buckets=SECONDS,
            registry=registry,
        )
        self._rows = Counter(f"{PREFIX}rows", "Rows that were sent, changed or stored.", ["kind"], registry=registry)
        self._bytes = Counter(
            f"{PREFIX}bytes", "Bytes of Arrow in rows that were sent, changed or stored.", ["kind"], registry=registry
        )
        self._scanned = Counter(f"{PREFIX}partitions_scanned", "Partition tables that were read.", registry=registry)
        self._listed = Counter(
            f"{PREFIX}partitions_listed",
            "Partition tables that the tables of queries have, read or not.",
            registry=registry,
        )

    def count_end(self, record: Record) -> None:
        """Count one statement."""
        kind = record.kind.value
        self._statements.labels(kind, record.outcome).inc()
        self._seconds.labels(kind).observe(record.seconds)
        self._planning.labels(kind).observe(record.planning_seconds)
        self._queued.observe(record.queued_seconds)
        self._rows.labels(kind).inc(max(record.rows, 0))
        self._bytes.labels(kind).inc(record.size)
        self._scanned.inc(record.partitions_scanned)
        self._listed.inc(record.partitions_total)

    def page(self) -> HttpResponse:
        """Everything, in Prometheus's text format."""
        return HttpResponse(HTTPStatus.OK, generate_latest(self._registry).decode(), CONTENT_TYPE_LATEST)


_COMMITS: Mapping[CommitEvent, tuple[str, str]] = {
    CommitEvent.COMMITTED: ("commits", "Commits of __manifest."),
    CommitEvent.TRANSACTION: ("committed_transactions", "Transactions that became visible in commits of __manifest."),
    CommitEvent.RETRY: ("commit_retries", "Commits that met another writer and were tried again."),
    CommitEvent.CONFLICT: ("commit_conflicts", "Transactions that failed because another writer was first."),
}


class _LoadCollector(Collector):
    """Collector of the values in `Load`, read at each scrape."""

    def __init__(self, load: Callable[[], Load]) -> None:
        self._load = load

    def collect(self) -> Iterator[Metric]:
        """Read the load once, and yield its metrics."""
        load = self._load()
        states = GaugeMetricFamily(
            f"{PREFIX}statements_now",
            "Statements that have not ended; an overdue one was cancelled and is still at work.",
            labels=["state"],
        )
        for state, count in load.statements.items():
            states.add_metric([state], count)
        yield states
        yield GaugeMetricFamily(f"{PREFIX}calls_now", "Calls that are running.", load.calls)
        yield GaugeMetricFamily(f"{PREFIX}streams_now", "Results that clients are reading.", load.streams)
        yield GaugeMetricFamily(
            f"{PREFIX}stream_bytes_now", "Bytes of rows that results hold for their clients.", load.stream_bytes
        )
        yield GaugeMetricFamily(f"{PREFIX}sessions_now", "Sessions that are remembered.", load.sessions)
        yield GaugeMetricFamily(f"{PREFIX}transactions_now", "Transactions that are open.", load.transactions)
        yield GaugeMetricFamily(f"{PREFIX}arrow_bytes_now", "Bytes in Arrow's memory pool.", load.arrow_bytes)
        yield GaugeMetricFamily(f"{PREFIX}plans_now", "Plans of queries that are kept.", load.plans)
        yield GaugeMetricFamily(
            f"{PREFIX}plan_bytes_now", "Memory that the kept plans of queries are taken to need.", load.plan_bytes
        )
        yield CounterMetricFamily(f"{PREFIX}plan_cache_hits", "Queries whose plan was kept.", load.plan_hits)
        yield CounterMetricFamily(f"{PREFIX}plan_cache_misses", "Queries that were planned.", load.plan_misses)
        for event, (name, text) in _COMMITS.items():
            yield CounterMetricFamily(PREFIX + name, text, load.commits[event])
        refusals = CounterMetricFamily(
            f"{PREFIX}quota_refusals", "Statements that were beyond a quota.", labels=["resource"]
        )
        for resource, count in load.quota_refusals.items():
            refusals.add_metric([resource], count)
        yield refusals
        events = CounterMetricFamily(f"{PREFIX}audit_events", "Events of the audit log.", labels=["event", "decision"])
        for (kind, decision), count in load.audit_events.items():
            events.add_metric([kind, decision], count)
        yield events
        yield CounterMetricFamily(
            f"{PREFIX}audit_lost", "Events of the audit log that could not be written.", load.audit_lost
        )
        yield from _maintenance(load.maintenance, load.maintenance_backlog)
        restarts = CounterMetricFamily(f"{PREFIX}restarts", "Restarts by the supervising parent.", labels=["reason"])
        for reason, count in load.restarts.items():
            restarts.add_metric([reason], count)
        yield restarts
        backed_up = GaugeMetricFamily(
            f"{PREFIX}backup_last_success_timestamp_seconds",
            "When the last backup of the whole root began, in Unix time; there is none before the first.",
        )
        if load.backed_up is not None:
            backed_up.add_metric([], load.backed_up)
        yield backed_up
        yield from _files(load.files)
        yield from _resources(load.resources)
        yield from _store(load.store_requests, load.lance_requests)
        yield InfoMetricFamily(f"{PREFIX}build", "The version of this server.", {"version": version("lance-flight")})

    def describe(self) -> list[Metric]:
        """Return no descriptions: describing by collecting would read the load at registration."""
        return []


def _maintenance(totals: MaintenanceTotals, backlog: Mapping[str, int]) -> Iterator[Metric]:
    works = CounterMetricFamily(
        f"{PREFIX}maintenance", "Pieces of maintenance that have ended, by outcome.", labels=["kind", "outcome"]
    )
    for (kind, outcome), count in totals.counts.items():
        works.add_metric([kind, outcome], count)
    yield works
    seconds = CounterMetricFamily(
        f"{PREFIX}maintenance_seconds", "Time that the server has spent on maintenance.", labels=["kind"]
    )
    succeeded = GaugeMetricFamily(
        f"{PREFIX}maintenance_last_success_timestamp_seconds",
        "When maintenance last ended well, in Unix time; before the first time, when the server was started.",
        labels=["kind"],
    )
    waiting = GaugeMetricFamily(
        f"{PREFIX}maintenance_backlog",
        "Maintenance that is due: files that a compaction would spare, rows in no index, snapshots that are over.",
        labels=["kind"],
    )
    for kind in totals.seconds:
        seconds.add_metric([kind], totals.seconds[kind])
        succeeded.add_metric([kind], totals.succeeded[kind])
        waiting.add_metric([kind], backlog[kind])
    yield from (seconds, succeeded, waiting)
    yield CounterMetricFamily(
        f"{PREFIX}maintenance_freed_bytes",
        "Bytes of the files that the server's own vacuums have removed.",
        totals.freed,
    )


def _files(files: Mapping[str, FileState]) -> Iterator[Metric]:
    in_force = GaugeMetricFamily(
        f"{PREFIX}file_in_force",
        "1 if the server uses what a file says now; 0 if that cannot be used, and what it said before is in force.",
        labels=["file"],
    )
    expiry = GaugeMetricFamily(
        f"{PREFIX}certificate_expiry_timestamp_seconds", "When the server's certificate expires, in Unix time."
    )
    for name, state in files.items():
        in_force.add_metric([name], state.is_in_force)
        if state.expires is not None:
            expiry.add_metric([], state.expires)
    yield in_force
    yield expiry


def _store(sent: Mapping[str, Asked], of_lance: LanceRequests) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        f"{PREFIX}store_requests",
        "How often the server has asked the object store for something by itself, which Lance does beside it.",
        labels=["kind"],
    )
    errors = CounterMetricFamily(
        f"{PREFIX}store_request_errors", "How often the object store has failed to answer the server.", labels=["kind"]
    )
    seconds = CounterMetricFamily(
        f"{PREFIX}store_request_seconds", "Seconds until the object store had answered.", labels=["kind"]
    )
    for kind, each in sent.items():
        requests.add_metric([kind], each.requests)
        errors.add_metric([kind], each.errors)
        seconds.add_metric([kind], each.seconds)
    yield from (requests, errors, seconds)
    lance = CounterMetricFamily(
        f"{PREFIX}lance_requests",
        "Reads and writes by Lance of open tables in the object store, the data files of writers not among the number.",
        labels=["kind"],
    )
    size = CounterMetricFamily(
        f"{PREFIX}lance_request_bytes",
        "Bytes of open tables that Lance has read from the object store and written there.",
        labels=["kind"],
    )
    for kind, count, in_bytes in (
        ("read", of_lance.reads, of_lance.read_bytes),
        ("write", of_lance.writes, of_lance.written_bytes),
    ):
        lance.add_metric([kind], count)
        size.add_metric([kind], in_bytes)
    yield from (lance, size)


def _resources(resources: Resources) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        f"{PREFIX}root_reachable",
        "1 if the root could be listed at this scrape; 0 if it failed, or gave no answer within five seconds.",
        resources.is_root_reachable,
    )
    total = GaugeMetricFamily(f"{PREFIX}disk_bytes", "Size of the disk that a directory lies on.", labels=["place"])
    free = GaugeMetricFamily(
        f"{PREFIX}disk_free_bytes",
        "Free bytes of the disk that a directory lies on.",
        labels=["place"],
    )
    for place, disk in resources.disks.items():
        total.add_metric([place], disk.total)
        free.add_metric([place], disk.free)
    yield from (total, free)
    yield GaugeMetricFamily(
        f"{PREFIX}spilled_bytes_now", "Bytes of the files in `spill_directory`; 0 where none is set.", resources.spilled
    )
    yield GaugeMetricFamily(
        f"{PREFIX}write_memory_bytes_now", "Bytes of rows that writers hold in memory.", resources.written
    )
    if resources.memory_limit is not None:
        yield GaugeMetricFamily(
            f"{PREFIX}memory_limit_bytes",
            "Bytes that statements and writes may have together (`server_memory_limit`).",
            resources.memory_limit,
        )
