"""A real cluster: a master, workers that are processes of their own, and drivers. Rows are there once, whoever dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.service.server_process import Server
from tests.spark.cluster import Cluster, cluster
from tests.spark.processes import kill_session, wait_until
from tests.stock import MANIFEST, stored_rows, stored_tables

HELD = [100, 101, 102]
"""What a table holds before; one of them in each of its partitions."""

ROWS = sorted([*range(10), *HELD])
"""And after a driver has written."""

SPECULATION = (
    "spark.speculation=true",
    "spark.speculation.interval=100ms",
    "spark.speculation.minTaskRuntime=100ms",
    "spark.speculation.multiplier=1.1",
    "spark.speculation.quantile=0.5",
)
"""A task is tried a second time as soon as the other one is done."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@contextmanager
def driving(
    running: Cluster, server: Server, *told: str, module: str = "cluster_driver"
) -> Iterator[subprocess.Popen[str]]:
    """A driver that does what it is told."""
    running.have_workers(2)
    command = [sys.executable, "-m", f"tests.spark.{module}", running.master, str(server.root), *told]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(command, start_new_session=True, text=True, env=environment, **pipes) as driver:
        try:
            yield driver
        finally:
            kill_session(driver.pid)


def printed(driver: subprocess.Popen[str]) -> str:
    """What a driver prints that has to be successful."""
    out, err = driver.communicate(timeout=120)
    assert driver.returncode == 0, err
    return out


def check(server: Server, table: str, version: int) -> None:
    """The rows are there once, by one commit, and files lie around which no version has: work that did not count."""
    assert [number for (number,) in server.rows(f"SELECT id FROM {table} ORDER BY id")] == ROWS
    assert sorted(stored_rows(server.root / table)["id"].to_pylist()) == ROWS
    assert last_version(server, table) == version + 1
    tables = stored_tables(server.root / table)
    fragments = [fragment for stored in tables for fragment in stored.dataset.get_fragments()]
    of_version = {Path(data.path).name for fragment in fragments for data in fragment.data_files()}
    there = {file.name for file in (server.root / table).rglob("data/*.lance") if MANIFEST not in file.parts}
    assert of_version < there


def last_version(server: Server, table: str) -> int:
    return int(server.value(f"SELECT max(version) FROM {table}$snapshots"))


def test_a_worker_that_is_killed_in_the_middle_of_a_task(
    running: Cluster, server: Server, held: str, tmp_path: Path
) -> None:
    place, version = tmp_path / "begun", last_version(server, held)
    with driving(running, server, held, "a first attempt stays after writing", str(place), "read") as driver:
        wait_until(place.exists, driver)
        running.kill(int(place.read_text()))
        read = json.loads(printed(driver))
    check(server, held, version)
    assert sorted(number for number, _, _ in read) == ROWS
    assert {session for _, _, session in read} <= running.workers.keys()


def test_a_task_that_is_run_twice_at_once(running: Cluster, server: Server, held: str, tmp_path: Path) -> None:
    place, version = tmp_path / "both", last_version(server, held)
    os.mkfifo(place)
    told = [held, "a first attempt waits for the second one", str(place), "end", *SPECULATION]
    with driving(running, server, *told) as driver:
        printed(driver)
    check(server, held, version)


def test_statements_through_the_catalog_survive_a_worker(
    running: Cluster, server: Server, held: str, tmp_path: Path
) -> None:
    place = tmp_path / "begun"
    with driving(running, server, held, str(place), module="cluster_catalog_driver") as driver:
        wait_until(place.exists, driver)
        running.kill(int(place.read_text()))
        read = json.loads(printed(driver))
    # MERGE negates the even numbers below ten, and adds those from there on.
    expected = sorted([*range(1, 10, 2), *range(0, -10, -2), *range(10, 20, 2), *HELD])
    assert read == expected
    for name in (held, f"{held}_streamed"):
        assert [number for (number,) in server.rows(f"SELECT id FROM {name} ORDER BY id")] == expected
