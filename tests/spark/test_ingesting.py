"""Jobs, run: the rows of files in tables, as a server shows them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lance_flight.errors import AlreadyCommitted, AlreadyExists, LanceFlightError, NotFound
from lance_flight_client.errors import JobFailed
from lance_flight_client.spark.ingesting import (
    STDERR,
    _unlogged,
    describe_ingest,
    earlier_commit,
    ingest,
    plain_errors,
    session_settings,
)
from lance_flight_client.spark.job import Job, JobSource, JobTarget, Write, read_job
from lance_flight_client.spark.program import main
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.documents import TOP
from tests.selection import IS_FULL
from tests.service.server_process import Server, files

JOBS = TOP / "docker" / "spark"
ROWS = [(number, number % 3) for number in range(9)]


def as_parquet(place: Path) -> JobSource:
    for part in (ROWS[:4], ROWS[4:]):
        table = pa.table({"id": [row[0] for row in part], "p": [row[1] for row in part]})
        pq.write_table(table, place / f"{len(part)}.parquet")
    return JobSource(paths=(str(place / "*.parquet"),))


def as_csv(place: Path) -> JobSource:
    for part in (ROWS[:4], ROWS[4:]):
        text = "".join(f"{number};{p}\n" for number, p in part)
        (place / f"{len(part)}.csv").write_text("id;p\n" + text)
    paths = (str(place / "4.csv"), str(place / "5.csv"))
    return JobSource(paths=paths, schema="id BIGINT, p BIGINT", options={"header": "true", "sep": ";"})


@pytest.fixture
def target(server: Server, table: str) -> JobTarget:
    return JobTarget(root=str(server.root), table=table, partition_by="p")


def test_the_job_of_the_compose_file_loads_its_rows(
    spark: SparkSession, server: Server, table: str, tmp_path: Path
) -> None:
    text = (JOBS / "readings.toml").read_text()
    for of_the_container, here in {
        "/jobs": str(JOBS),
        '"/data"': f'"{server.root}"',
        '"readings"': f'"{table}"',
    }.items():
        assert of_the_container in text
        text = text.replace(of_the_container, here)
    file = tmp_path / "readings.toml"
    file.write_text(text)
    job = read_job(str(file), {})
    said = str(ingest(spark, job))
    version = server.value(f"SELECT max(version) FROM {table}$snapshots")
    assert said.startswith(f"{table}: 4 rows in 3 partitions, version {version}, ")
    assert server.rows(f"SELECT site, celsius FROM {table} ORDER BY at") == [
        *(("Oslo", -3.5), ("Oslo", 1.25), ("Lima", 22.0), ("Lima", 23.5))
    ]
    with pytest.raises(AlreadyCommitted, match="with 4 rows"):
        ingest(spark, job)


def test_rows_and_columns_are_chosen_in_sql_and_rows_are_brought_together(
    spark: SparkSession, server: Server, target: JobTarget, tmp_path: Path
) -> None:
    source = replace(as_parquet(tmp_path), where="id >= 4", columns=("id * 2 AS double", "p"))
    for write in (Write(), Write(cluster=True, spread=2)):
        assert ingest(spark, Job(source=source, target=target, write=write)).report is not None
    expected = sorted(2 * [(2 * n, p) for n, p in ROWS[4:]])
    assert server.rows(f"SELECT double, p FROM {target.table} ORDER BY double") == expected


def test_a_job_with_a_commit_id_is_run_once(
    spark: SparkSession,
    server: Server,
    target: JobTarget,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = Job(source=as_parquet(tmp_path), target=target, write=Write(commit_id="one"))
    assert earlier_commit(job) is None
    ingest(spark, job)
    before = files(server.root)
    # The program looks before it starts a Spark of its own; a run that had looked too early finds out at its end.
    flags = ["--root", target.root, "--table", target.table, "--commit-id", "one"]
    assert main(["ingest", "--source", *job.source.paths, *flags]) == 0
    assert "commit_id 'one' was committed at" in (said := capsys.readouterr().out)
    assert said.endswith("with 9 rows; nothing was written\n")
    with pytest.raises(AlreadyCommitted, match="with 9 rows"):
        ingest(spark, job)
    assert files(server.root) == before
    assert server.value(f"SELECT count(*) FROM {target.table}") == len(ROWS)


def test_another_source_under_the_same_commit_id_is_an_error(
    spark: SparkSession, server: Server, target: JobTarget, tmp_path: Path
) -> None:
    job = Job(source=as_parquet(tmp_path), target=target, write=Write(commit_id="one"))
    ingest(spark, job)
    other = of_source(job, where="id > 4")
    flags = ["--root", target.root, "--table", target.table, "--commit-id", "one", "--where", "id > 4"]
    assert main(["ingest", "--source", *job.source.paths, *flags]) == 1
    with pytest.raises(AlreadyExists, match=r"with 9 rows, of another source; expected another commit_id"):
        earlier_commit(other)
    with pytest.raises((LanceFlightError, JobFailed), match="of another source") as raised, plain_errors():
        ingest(spark, other)
    assert raised.value.code == "already_exists"
    assert server.value(f"SELECT count(*) FROM {target.table}") == len(ROWS)


def test_rows_are_merged_by_their_keys(sql: SparkSession, server: Server, target: JobTarget, tmp_path: Path) -> None:
    job = Job(source=as_parquet(tmp_path), target=target, write=Write(mode="merge", keys=("id",)))
    for name, value in session_settings([job]).items():
        if name.startswith("spark.sql.catalog."):
            sql.conf.set(name, value)
    for changed, expected in ((job, 0), (of_source(job, where="id < 4", columns=("id", "p + 3 AS p")), 4), (job, 0)):
        ingest(sql, changed)
        assert server.value(f"SELECT count(*) FROM {target.table}") == len(ROWS)
        assert server.value(f"SELECT count(*) FROM {target.table} WHERE p >= 3") == expected
    with pytest.raises(NotFound, match="no column 'nope'"):
        ingest(sql, replace(job, write=Write(mode="merge", keys=("nope",))))


def test_what_would_be_done_is_said_and_not_done(
    spark: SparkSession, server: Server, target: JobTarget, tmp_path: Path
) -> None:
    source = replace(as_parquet(tmp_path), where="id >= 4")
    before = files(server.root)
    new = list(describe_ingest(spark, Job(source=source, target=target, write=Write(cluster=True))))
    assert files(server.root) == before
    place = f"table {target.table} of {server.root}, partitioned by p AS p"
    assert new == [
        f"would read 2 files of parquet: {source.paths[0]}",
        "  where id >= 4",
        "  id bigint",
        "  p bigint",
        "would bring the rows of each partition together in one task",
        f"would make {place}, and append to it",
    ]
    server.run(f"CREATE TABLE {target.table} (id BIGINT, p BIGINT) PARTITIONED BY (p)")
    before = files(server.root)
    there = list(describe_ingest(spark, Job(source=source, target=target, write=Write(mode="overwrite table"))))
    assert files(server.root) == before
    assert there[-1].startswith(f"would overwrite all rows of {place}, at version ")


WRONG: Mapping[str, tuple[Callable[[Job], Job], tuple[str, str]]] = {
    "no such field": (lambda job: of_source(job, columns=("id",)), ("invalid_spec", "no column 'p'")),
    "no such column": (lambda job: of_source(job, where="nope = 1"), ("spark", "[UNRESOLVED_COLUMN")),
    "no SQL": (lambda job: of_source(job, columns=("id +",)), ("spark", "[PARSE_SYNTAX_ERROR]")),
    "no files": (lambda job: of_source(job, paths=("/no/x.csv",)), ("spark", "[PATH_NOT_FOUND]")),
    "a table that cannot be made": (
        lambda job: replace(job, target=replace(job.target, partition_by=None)),
        ("not_found", "to make it, say how it is partitioned"),
    ),
}


def of_source(job: Job, **changes: Any) -> Job:
    return replace(job, source=replace(job.source, **changes))


def run(spark: SparkSession, job: Job) -> None:
    ingest(spark, job)


def describe(spark: SparkSession, job: Job) -> None:
    list(describe_ingest(spark, job))


def test_what_cannot_be_done_is_said_in_one_line(spark: SparkSession, target: JobTarget, tmp_path: Path) -> None:
    before, job = files(Path(target.root)), Job(source=as_csv(tmp_path), target=target)
    for case, (change, (code, says)) in WRONG.items():
        for do in (describe, *([run] if IS_FULL else [])):
            with pytest.raises((LanceFlightError, JobFailed)) as raised, plain_errors():
                do(spark, change(job))
            assert raised.value.code == code, case
            assert says in str(raised.value), case
            assert "\n" not in str(raised.value), case
            assert files(Path(target.root)) == before, case


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("WARN A: a\n12:00 ERROR B: no master answers\n12:01 ERROR C: c\n", "B: no master answers$"),
        ("WARN A: a\n", "no gateway$"),
    ],
)
def test_what_keeps_spark_from_starting_is_said_in_one_line_of_its_log(
    capfd: pytest.CaptureFixture[str], log: str, says: str
) -> None:
    def start() -> None:
        os.write(STDERR, log.encode())
        raise PySparkException("no gateway")

    with pytest.raises(JobFailed, match=f"Spark does not start: {says}"), _unlogged():
        start()
    os.write(STDERR, b"after")
    assert capfd.readouterr().err == "after"


def test_a_row_that_cannot_be_read_fails_the_job(
    spark: SparkSession, server: Server, target: JobTarget, tmp_path: Path
) -> None:
    source = as_csv(tmp_path)
    with (tmp_path / "5.csv").open("a") as file:
        file.write("x;1\n")
    with pytest.raises(JobFailed, match=r"5\.csv.*Malformed records.*\"x\""), plain_errors():
        ingest(spark, Job(source=source, target=target))
    assert server.rows(f"SELECT * FROM {target.table}") == []
    lenient = replace(source, options={**source.options, "mode": "DROPMALFORMED"})
    ingest(spark, Job(source=lenient, target=target))
    assert server.value(f"SELECT count(*) FROM {target.table}") == len(ROWS)
