"""What a server tells of its statements to those who run it: counts, and a line for each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from prometheus_client.parser import text_string_to_metric_families

from tests.service.forked import forked
from tests.service.operated import PATIENCE, Operated, operated

HUNDRED = pa.table({"id": pa.array(range(100), pa.int64()), "p": [number % 10 for number in range(100)]})


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Operated]:
    with operated(tmp_path / "root", "--log-statements", "--log-format", "json") as server:
        yield server


def use(running: Operated) -> None:
    """Statements of each kind, some of which fail."""
    server = running.server
    assert server.ingest("t", HUNDRED, partition_by="p") == 100
    assert len(server.rows("SELECT id FROM t WHERE p IN (3, 4)")) == 20
    assert server.run("UPDATE t SET id = id + 1000 WHERE p = 5") == 10
    server.refuses("SELECT nothing FROM t")
    server.refuses("SELECT 1 / (id - id) FROM t")
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM t WHERE p = 6")
        connection.commit()


def samples(running: Operated) -> dict[tuple[str, ...], float]:
    """What the metrics say, by name and labels."""
    status, body = running.page("/metrics")
    assert status == 200
    families = text_string_to_metric_families(body)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def stopped_lines(running: Operated) -> list[dict[str, Any]]:
    """What the server logged of statements, once it has ended."""
    running.server.close()
    running.server.process.terminate()
    assert running.server.process.wait(PATIENCE) == 0
    lines = [json.loads(line) for line in running.log().splitlines()]
    return [line for line in lines if line["logger"] == "lance_flight.statements"]


@pytest.mark.parametrize("more", [[], ["--replicas", "2"]], ids=["one", "replicas"])
def test_what_a_start_prints_is_json_like_its_log(tmp_path: Path, more: list[str]) -> None:
    command = ["serve", str(tmp_path), "--port=0", "--log-format=json", *more]
    with forked(command, log=tmp_path / "log", is_piped=True) as process:
        assert process.stdout is not None
        said: list[str] = []
        while not any(line.startswith("serving ") for line in said):
            said.append(json.loads(process.stdout.readline())["message"])
        assert said[-1].startswith(f"serving {tmp_path} at grpc://")


def test_statements_are_counted_and_each_is_a_line(running: Operated) -> None:
    use(running)
    said = samples(running)
    for expected in (
        (1, "lance_flight_statements_total", "ingest", "ok"),
        (1, "lance_flight_statements_total", "query", "ok"),
        (1, "lance_flight_statements_total", "query", "query_failed"),
        (2, "lance_flight_statements_total", "update", "ok"),
        (1, "lance_flight_statements_total", "prepare", "invalid_sql"),
        (100, "lance_flight_rows_total", "ingest"),
        (20, "lance_flight_rows_total", "query"),
        (20, "lance_flight_rows_total", "update"),
        (160, "lance_flight_bytes_total", "query"),
        (3, "lance_flight_commits_total"),
        (0, "lance_flight_commit_conflicts_total"),
        (3, "lance_flight_plan_cache_misses_total"),
        (4, "lance_flight_plan_cache_hits_total"),
        (1, "lance_flight_plans_now"),
        (0, "lance_flight_transactions_now"),
        (0, "lance_flight_statements_now", "running"),
    ):
        assert (said.get(tuple(expected[1:])), *expected[1:]) == expected
    assert said["lance_flight_partitions_scanned_total",] < said["lance_flight_partitions_listed_total",]
    lines = stopped_lines(running)
    assert [(line["kind"], line["outcome"], line["rows"]) for line in lines] == [
        ("ingest", "ok", 100),
        ("query", "ok", 20),
        ("update", "ok", 10),
        ("prepare", "invalid_sql", 0),
        ("query", "query_failed", 0),
        ("update", "ok", 10),
    ]
    query = lines[1]
    assert query["sql"] == "SELECT id FROM t WHERE p IN (3, 4)"
    assert (query["partitions_scanned"], query["partitions_total"]) == (2, 10)
    assert query["principal"] == "anonymous"
    assert query["peer"].startswith("ipv4:127.0.0.1:")
    assert query["snapshots"].keys() == {"public.t"}
    assert 0 < query["planning_ms"] <= query["total_ms"]
    assert len({line["id"] for line in lines}) == len(lines)


def test_what_a_server_lives_on_is_told(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    (tmp_path / "spill" / "rows").write_bytes(bytes(1000))
    memory = 1 << 30
    with operated(
        tmp_path / "root", "--spill-directory", str(tmp_path / "spill"), "--server-memory-limit", str(memory)
    ) as running:
        said = samples(running)
        assert said["lance_flight_root_reachable",] == 1
        for place in ("root", "spill_directory"):
            assert 0 < said["lance_flight_disk_free_bytes", place] <= said["lance_flight_disk_bytes", place]
        assert said["lance_flight_spilled_bytes_now",] == 1000
        assert said["lance_flight_memory_limit_bytes",] == memory
        (tmp_path / "root").rename(tmp_path / "away")
        said = samples(running)
        assert said["lance_flight_root_reachable",] == 0
        assert ("lance_flight_disk_free_bytes", "root") not in said
        (tmp_path / "away").rename(tmp_path / "root")
        assert samples(running)["lance_flight_root_reachable",] == 1


def test_lines_leave_the_text_out_when_asked(tmp_path: Path) -> None:
    with operated(tmp_path / "root", "--log-statements", "--log-format", "json", "--log-sql", "0") as running:
        assert running.server.value("SELECT 'hush'") == "hush"
        (line,) = stopped_lines(running)
    assert "hush" not in running.log()
    assert line["outcome"] == "ok"


def test_nothing_is_logged_unless_it_is_asked_for(tmp_path: Path) -> None:
    with operated(tmp_path / "root") as running:
        assert running.server.value("SELECT 1") == 1
        assert stopped_lines(running) == []
