"""What Prometheus reads: every statement is counted once, by labels that are few."""

from __future__ import annotations

import re

import pytest
from lance_flight import errors
from lance_flight.admin.metrics import DiskSpace, Load, Metrics, Resources
from lance_flight.catalog.storage.filesystems import Asked, CommitEvent, LanceRequests
from lance_flight.engine.runtime.running_statement import MaintenanceTotals, StatementKind
from lance_flight.file_reloading import FileState
from prometheus_client.parser import text_string_to_metric_families

from tests.admin.records import RECORD, record

LOAD = Load(
    statements={"planning": 2, "streaming": 0},
    calls=3,
    streams=11,
    stream_bytes=12,
    sessions=4,
    transactions=5,
    arrow_bytes=6,
    plans=20,
    plan_bytes=21,
    plan_hits=22,
    plan_misses=23,
    commits={event: number for number, event in enumerate(CommitEvent, 7)},
    quota_refusals={"bytes_per_hour": 1},
    audit_events={("login", "refused"): 2},
    audit_lost=3,
    maintenance=MaintenanceTotals(
        counts={("compact", "ok"): 3, ("vacuum", "conflict"): 1},
        seconds={"compact": 1.5},
        succeeded={"compact": 2e9},
        freed=25,
    ),
    maintenance_backlog={"compact": 24},
    restarts={"crash": 2, "unresponsive": 1},
    backed_up=3e9,
    files={"tokens file": FileState(is_in_force=False), "certificate": FileState(is_in_force=True, expires=1e9)},
    resources=Resources(
        is_root_reachable=True,
        disks={"root": DiskSpace(total=40, free=30)},
        spilled=31,
        written=32,
        memory_limit=33,
    ),
    store_requests={"list": Asked(requests=34, errors=35, seconds=36.5)},
    lance_requests=LanceRequests(37, 38, 39, 40),
)


def samples(metrics: Metrics) -> dict[str, float]:
    """Every sample by its name and labels."""
    return {
        sample.name + "".join(f"[{label}]" for label in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.page().body)
        for sample in family.samples
    }


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: LOAD)


def test_what_each_metric_is_stands_alone(metrics: Metrics) -> None:
    says = {family.name: family.documentation for family in text_string_to_metric_families(metrics.page().body)}
    assert {
        name: text
        for name, text in says.items()
        if re.search(r"\b(of that|those|these|they|them)\b", text, re.IGNORECASE)
    } == {}


def test_statements_are_counted_by_kind_and_outcome(metrics: Metrics) -> None:
    for made in (RECORD, RECORD, record(outcome="conflict", kind=StatementKind.UPDATE, rows=-1, size=0)):
        metrics.count_end(made)
    said = samples(metrics)
    assert {
        name: value for name, value in said.items() if name.startswith("lance_flight") and "_bucket" not in name
    } == {
        "lance_flight_statements_now[planning]": 2,
        "lance_flight_statements_now[streaming]": 0,
        "lance_flight_calls_now": 3,
        "lance_flight_streams_now": 11,
        "lance_flight_stream_bytes_now": 12,
        "lance_flight_sessions_now": 4,
        "lance_flight_transactions_now": 5,
        "lance_flight_arrow_bytes_now": 6,
        "lance_flight_plans_now": 20,
        "lance_flight_plan_bytes_now": 21,
        "lance_flight_plan_cache_hits_total": 22,
        "lance_flight_plan_cache_misses_total": 23,
        "lance_flight_quota_refusals_total[bytes_per_hour]": 1,
        "lance_flight_audit_events_total[refused][login]": 2,
        "lance_flight_audit_lost_total": 3,
        "lance_flight_maintenance_total[compact][ok]": 3,
        "lance_flight_maintenance_total[vacuum][conflict]": 1,
        "lance_flight_maintenance_seconds_total[compact]": 1.5,
        "lance_flight_maintenance_last_success_timestamp_seconds[compact]": 2e9,
        "lance_flight_maintenance_backlog[compact]": 24,
        "lance_flight_maintenance_freed_bytes_total": 25,
        "lance_flight_commits_total": 7,
        "lance_flight_committed_transactions_total": 8,
        "lance_flight_commit_retries_total": 9,
        "lance_flight_commit_conflicts_total": 10,
        "lance_flight_restarts_total[crash]": 2,
        "lance_flight_restarts_total[unresponsive]": 1,
        "lance_flight_backup_last_success_timestamp_seconds": 3e9,
        "lance_flight_file_in_force[tokens file]": 0,
        "lance_flight_file_in_force[certificate]": 1,
        "lance_flight_certificate_expiry_timestamp_seconds": 1e9,
        "lance_flight_root_reachable": 1,
        "lance_flight_disk_bytes[root]": 40,
        "lance_flight_disk_free_bytes[root]": 30,
        "lance_flight_spilled_bytes_now": 31,
        "lance_flight_write_memory_bytes_now": 32,
        "lance_flight_memory_limit_bytes": 33,
        "lance_flight_store_requests_total[list]": 34,
        "lance_flight_store_request_errors_total[list]": 35,
        "lance_flight_store_request_seconds_total[list]": 36.5,
        "lance_flight_lance_requests_total[read]": 37,
        "lance_flight_lance_request_bytes_total[read]": 38,
        "lance_flight_lance_requests_total[write]": 39,
        "lance_flight_lance_request_bytes_total[write]": 40,
        "lance_flight_build_info[0.1.0]": 1,
        **{
            f"lance_flight_statements_total[{kind.value}][{end}]": 0
            for kind in StatementKind
            for end in ("ok", "internal")
        },
        "lance_flight_statements_total[query][ok]": 2,
        "lance_flight_statements_total[update][conflict]": 1,
        "lance_flight_statement_seconds_count[query]": 2,
        "lance_flight_statement_seconds_sum[query]": 3.0,
        "lance_flight_statement_seconds_count[update]": 1,
        "lance_flight_statement_seconds_sum[update]": 1.5,
        "lance_flight_planning_seconds_count[query]": 2,
        "lance_flight_planning_seconds_sum[query]": 0.025,
        "lance_flight_planning_seconds_count[update]": 1,
        "lance_flight_planning_seconds_sum[update]": 0.0125,
        "lance_flight_queued_seconds_count": 3,
        "lance_flight_queued_seconds_sum": 0.003,
        "lance_flight_rows_total[query]": 20,
        "lance_flight_rows_total[update]": 0,
        "lance_flight_bytes_total[query]": 160,
        "lance_flight_bytes_total[update]": 0,
        "lance_flight_partitions_scanned_total": 9,
        "lance_flight_partitions_listed_total": 3600,
    }
    assert said["lance_flight_statement_seconds_bucket[query][1.0]"] == 0
    assert said["lance_flight_statement_seconds_bucket[query][2.5]"] == 2
    assert said["process_resident_memory_bytes"] > 0


def test_names_and_texts_of_clients_are_nowhere(metrics: Metrics) -> None:
    for number in range(100):
        metrics.count_end(
            record(principal=f"user{number}", sql=f"SELECT {number}", session=f"s{number}", id=f"id{number}")
        )
    page = metrics.page().body
    assert [word for word in ("user9", "SELECT", "s9", "id9", "public.t") if word in page] == []
    assert samples(metrics)["lance_flight_statements_total[query][ok]"] == 100


def test_there_is_an_outcome_for_each_code_of_error_and_few_others(metrics: Metrics) -> None:
    codes = {error.code for error in vars(errors).values() if isinstance(error, type) and issubclass(error, Exception)}
    for kind in StatementKind:
        for code in (*codes, "ok", "closed", "abandoned", "internal"):
            metrics.count_end(record(kind=kind, outcome=code))
    assert len(metrics.page().body.splitlines()) < 500


def test_counts_of_two_servers_in_a_process_are_their_own(metrics: Metrics) -> None:
    metrics.count_end(RECORD)
    assert samples(Metrics(lambda: LOAD))["lance_flight_statements_total[query][ok]"] == 0
