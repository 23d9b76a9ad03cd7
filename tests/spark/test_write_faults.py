"""Writes that go wrong: rows are there exactly once, or not at all, and whoever comes again finds out."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_flight.faults import POINTS
from lance_flight_client.spark.commits import find_commit
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.selection import IS_FULL
from tests.service.server_process import Server
from tests.spark.faulty import FORMAT
from tests.spark.written_rows import check

TASKS = 2
IDS = list(range(10))
SELECT = "SELECT id, id % 3 AS p FROM range(10)"
HELD = [100, 101, 102]
"""What a table holds before; one of them in each of its partitions."""


def write(spark: SparkSession, root: Path, table: str, mode: str = "append", **options: str) -> None:
    rows = spark.sql(SELECT).repartition(TASKS)
    rows.write.format(FORMAT).mode(mode).options(root=str(root), table=table, **options).save()


def data_files(place: Path) -> set[Path]:
    return set(place.rglob("*.lance"))


AGAIN = [
    ("first attempts are killed after writing", "append"),
    *(
        [
            ("first attempts raise after writing", "append"),
            ("every task is done twice", "append"),
            ("every task is done twice", "overwrite"),
            ("first attempts raise after writing", "overwrite"),
            ("first attempts are killed after writing", "overwrite"),
        ]
        if IS_FULL
        else []
    ),
]


@pytest.mark.parametrize(("fault", "mode"), AGAIN)
def test_work_that_is_done_again_counts_once(
    faulty: SparkSession, server: Server, held: str, *, fault: str, mode: str
) -> None:
    write(faulty, server.root, held, mode, fault=fault)
    check(server, held, IDS + HELD if mode == "append" else IDS)


def test_a_write_that_is_given_up_leaves_nothing(faulty: SparkSession, server: Server, held: str) -> None:
    before, version = data_files(server.root / held), last_version(server, held)
    with pytest.raises(PySparkException, match="whenever it runs"):
        write(faulty, server.root, held, fault="the last task fails")
    check(server, held, HELD)
    assert last_version(server, held) == version
    # A task that has succeeded told which its files are; of the one that failed nobody knows.
    assert len(data_files(server.root / held) - before) <= TASKS * len(HELD)
    server.run(f"VACUUM {held}")
    write(faulty, server.root, held)
    check(server, held, IDS + HELD)


def last_version(server: Server, table: str) -> int:
    return int(server.value(f"SELECT max(version) FROM {table}$snapshots"))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize(
    "point", ["manifest_written", "committed", *(["table_staged", "all_staged"] if IS_FULL else [])]
)
def test_a_commit_that_is_killed_is_done_or_not_and_its_id_says_which(
    faulty: SparkSession, server: Server, held: str, *, point: str, mode: str
) -> None:
    is_done = list(POINTS).index(point) >= list(POINTS).index("committed")
    then = IDS + HELD if mode == "append" else IDS
    with pytest.raises((PySparkException, Py4JJavaError)):
        write(faulty, server.root, held, mode, fault=point, commit_id="job")
    check(server, held, then if is_done else HELD)
    assert (find_commit(str(server.root), held, "job") is not None) == is_done
    version = last_version(server, held)
    write(faulty, server.root, held, mode, commit_id="job")
    check(server, held, then)
    assert last_version(server, held) == version + (not is_done)
