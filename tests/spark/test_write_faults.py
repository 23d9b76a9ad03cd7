"""Writes that go wrong: rows are there exactly once, or not at all, and whoever comes again finds out."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lance_flight.faults import POINTS
from lance_flight_client.spark import activate
from lance_flight_client.spark.commits import committed
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.spark.faulty import FORMAT, FaultySource
from tests.spark.interrupted_driver import SELECT
from tests.spark.processes import kill_session, wait_until
from tests.spark.written_rows import check, sample

TASKS = 2
IDS = list(range(10))
HELD = [100, 101, 102]
"""What a table holds before; one of them in each of its partitions."""


@pytest.fixture(scope="session")
def spark(spark: SparkSession) -> SparkSession:
    spark.dataSource.register(FaultySource)
    return spark


@pytest.fixture
def held(server: Server, table: str) -> str:
    """A table of the server's, with three partitions."""
    server.run(f"CREATE TABLE {table} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    server.run(f"INSERT INTO {table} VALUES (100, 0), (101, 1), (102, 2)")
    return table


def write(spark: SparkSession, root: Path, table: str, mode: str = "append", **options: str) -> None:
    rows = spark.sql(SELECT).repartition(TASKS)
    rows.write.format(FORMAT).mode(mode).options(root=str(root), table=table, **options).save()


def data_files(place: Path) -> set[Path]:
    return set(place.rglob("*.lance"))


@pytest.mark.parametrize(
    ("fault", "mode"),
    sample(
        ("first attempts raise after writing", "append"),
        ("first attempts are killed after writing", "append"),
        ("every task is done twice", "overwrite"),
        full=[
            ("every task is done twice", "append"),
            ("first attempts raise after writing", "overwrite"),
            ("first attempts are killed after writing", "overwrite"),
        ],
    ),
)
def test_work_that_is_done_again_counts_once(
    spark: SparkSession, server: Server, held: str, fault: str, mode: str
) -> None:
    write(spark, server.root, held, mode, fault=fault)
    check(server, held, IDS + HELD if mode == "append" else IDS)


def test_a_write_that_is_given_up_leaves_nothing(spark: SparkSession, server: Server, held: str) -> None:
    before, version = data_files(server.root / held), last_version(server, held)
    with pytest.raises(PySparkException, match="whenever it runs"):
        write(spark, server.root, held, fault="the last task fails")
    check(server, held, HELD)
    assert last_version(server, held) == version
    # A task that has succeeded told which its files are; of the one that failed nobody knows.
    assert len(data_files(server.root / held) - before) <= TASKS * len(HELD)
    server.run(f"VACUUM {held}")
    write(spark, server.root, held)
    check(server, held, IDS + HELD)


def last_version(server: Server, table: str) -> int:
    return int(server.value(f"SELECT max(version) FROM {table}$snapshots"))


@pytest.mark.parametrize(
    ("point", "mode"),
    sample(
        ("all_staged", "append"),
        ("manifest_written", "overwrite"),
        ("committed", "append"),
        full=[
            ("committed", "overwrite"),
            ("table_staged", "append"),
            ("table_staged", "overwrite"),
            ("all_staged", "overwrite"),
            ("manifest_written", "append"),
        ],
    ),
)
def test_a_commit_that_is_killed_is_done_or_not_and_its_id_says_which(
    spark: SparkSession, server: Server, held: str, point: str, mode: str
) -> None:
    is_done = list(POINTS).index(point) >= list(POINTS).index("committed")
    then = IDS + HELD if mode == "append" else IDS
    with pytest.raises((PySparkException, Py4JJavaError)):
        write(spark, server.root, held, mode, fault=point, commit_id="job")
    check(server, held, then if is_done else HELD)
    assert (committed(str(server.root), held, "job") is not None) == is_done
    version = last_version(server, held)
    write(spark, server.root, held, mode, commit_id="job")
    check(server, held, then)
    assert last_version(server, held) == version + (not is_done)


def test_a_driver_that_is_killed_is_run_again(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    tables = {"before": "driver_before", "after": "driver_after"}
    places = [tmp_path / when for when in tables]
    arguments = [str(server.root), *tables.values(), str(tmp_path)]
    command = [sys.executable, "-m", "tests.spark.interrupted_driver", *arguments]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as driver:
        try:
            wait_until(lambda: all(place.exists() for place in places), driver)
        finally:
            kill_session(driver.pid)
    check(server, tables["after"], IDS)
    assert server.rows(f"SELECT id FROM {tables['before']}") == []
    for table in tables.values():
        write(spark, server.root, table, partition_by="p", commit_id="job")
        check(server, table, IDS)


@pytest.mark.parametrize(
    ("meanwhile", "write_as"),
    [
        pytest.param("INSERT INTO {} VALUES (103, 0), (104, 9)", ({}, [*IDS, *HELD, 103, 104]), id="append and insert"),
        pytest.param("DELETE FROM {} WHERE p = 1", ({}, [*IDS, 100, 102]), id="append and delete"),
        pytest.param("INSERT OVERWRITE {} VALUES (105, 2)", ({}, [*IDS, 100, 101, 105]), id="append and overwrite"),
        pytest.param("INSERT INTO {} VALUES (104, 9)", ({"mode": "overwrite"}, [*IDS, 104]), id="overwrite and others"),
        pytest.param("INSERT INTO {} VALUES (103, 0)", ({"mode": "overwrite"}, None), id="overwrite and the same"),
        pytest.param(
            "INSERT INTO {} VALUES (104, 9)", ({"mode": "overwrite", "overwrite": "table"}, None), id="the whole table"
        ),
        pytest.param("ALTER TABLE {} ADD COLUMN more INTEGER", ({}, None), id="append and another schema"),
    ],
)
def test_a_server_writes_before_the_commit(
    spark: SparkSession, server: Server, held: str, meanwhile: str, write_as: tuple[dict[str, str], list[int] | None]
) -> None:
    options, then = write_as
    more = {"meanwhile": meanwhile.format(held), "uri": server.uri}
    if then is not None:
        write(spark, server.root, held, **options, **more)
        check(server, held, then)
        return
    with pytest.raises(PySparkException, match="SerializationFailure"):
        write(spark, server.root, held, **options, **more)
    found = [number for (number,) in server.rows(f"SELECT id FROM {held}")]
    assert set(HELD) <= set(found)
    assert not set(IDS) & set(found)


@pytest.mark.parametrize(
    ("commit_ids", "times"),
    [pytest.param(("one", "two"), 2, id="two"), pytest.param(("one", "one"), 1, id="the same one")],
)
def test_jobs_at_once(spark: SparkSession, server: Server, table: str, commit_ids: tuple[str, ...], times: int) -> None:
    """They make the table together, and its partitions."""

    def job(commit_id: str) -> None:
        activate(spark)
        options = {"root": str(server.root), "table": table, "partition_by": "p", "commit_id": commit_id}
        spark.sql(SELECT).write.format("lance_flight").mode("append").options(**options).save()

    with ThreadPoolExecutor(len(commit_ids)) as threads:
        for done in [threads.submit(job, commit_id) for commit_id in commit_ids]:
            done.result()
    check(server, table, IDS * times)
    assert server.value(f"SELECT count(*) FROM {table}$partitions") == 3
