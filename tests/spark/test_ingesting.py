"""Jobs, run: the rows of files in tables, as a server shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lance_flight.errors import AlreadyCommitted, LanceFlightError
from lance_flight_client.errors import JobFailed
from lance_flight_client.spark.pipelines.errors import plain_errors
from lance_flight_client.spark.pipelines.ingesting import described, earlier_commit, ingest
from lance_flight_client.spark.pipelines.job import Job, JobSource, JobTarget, Write
from lance_flight_client.spark.pipelines.program import main
from pyspark.sql import SparkSession

from tests.selection import IS_FULL
from tests.service.server_process import Server, files

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


def as_json(place: Path) -> JobSource:
    lines = [json.dumps({"id": number, "p": p}) for number, p in ROWS]
    (place / "rows").write_text("\n".join(lines))
    return JobSource(paths=(str(place),), format="json")


SOURCES = [
    pytest.param(as_csv, id="csv, two of them"),
    *(
        [pytest.param(as_json, id="json, in a directory"), pytest.param(as_parquet, id="parquet, by a glob")]
        if IS_FULL
        else []
    ),
]


@pytest.fixture
def target(server: Server, table: str) -> JobTarget:
    return JobTarget(root=str(server.root), table=table, partition_by="p")


@pytest.mark.parametrize("source", SOURCES)
def test_files_of_every_format(
    spark: SparkSession, server: Server, target: JobTarget, tmp_path: Path, source: Any
) -> None:
    said = str(ingest(spark, Job(source=source(tmp_path), target=target)))
    version = server.value(f"SELECT max(version) FROM {target.table}$snapshots")
    assert said.startswith(f"{target.table}: 9 rows in 3 partitions, version {version}, ")
    assert server.rows(f"SELECT id, p FROM {target.table} ORDER BY id") == ROWS


def test_rows_and_columns_are_chosen_in_sql(
    spark: SparkSession, server: Server, target: JobTarget, tmp_path: Path
) -> None:
    source = replace(as_parquet(tmp_path), where="id >= 4", columns=("id * 2 AS double", "p"))
    assert ingest(spark, Job(source=source, target=target)).report is not None
    assert server.rows(f"SELECT double, p FROM {target.table} ORDER BY double") == [(2 * n, p) for n, p in ROWS[4:]]


WRITES = [
    pytest.param(Write(cluster=True, spread=2), sorted([*ROWS, *ROWS, (100, 0), (101, 7)]), id="clustered"),
    pytest.param(Write(mode="overwrite"), sorted([*ROWS, (101, 7)]), id="overwrite"),
    *(
        [
            pytest.param(Write(), sorted([*ROWS, *ROWS, (100, 0), (101, 7)]), id="append"),
            pytest.param(Write(mode="overwrite table"), ROWS, id="overwrite table"),
        ]
        if IS_FULL
        else []
    ),
]


@pytest.mark.parametrize(("write", "then"), WRITES)
def test_rows_are_written_as_the_job_says(
    spark: SparkSession, server: Server, target: JobTarget, tmp_path: Path, *, write: Write, then: list[Any]
) -> None:
    job = Job(source=as_parquet(tmp_path), target=target, write=replace(write, mode="append"))
    ingest(spark, job)
    server.run(f"INSERT INTO {target.table} VALUES (100, 0), (101, 7)")
    ingest(spark, replace(job, write=write))
    assert server.rows(f"SELECT id, p FROM {target.table} ORDER BY id, p") == then


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


def test_what_would_be_done_is_said_and_not_done(
    spark: SparkSession, server: Server, target: JobTarget, tmp_path: Path
) -> None:
    source = replace(as_parquet(tmp_path), where="id >= 4")
    before = files(server.root)
    new = list(described(spark, Job(source=source, target=target, write=Write(cluster=True))))
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
    there = list(described(spark, Job(source=source, target=target, write=Write(mode="overwrite table"))))
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
    list(described(spark, job))


def test_what_cannot_be_done_is_said_in_one_line(spark: SparkSession, target: JobTarget, tmp_path: Path) -> None:
    before, job = files(Path(target.root)), Job(source=as_csv(tmp_path), target=target)
    for case, (change, (code, says)) in WRONG.items():
        for do in (run, describe):
            with pytest.raises((LanceFlightError, JobFailed)) as raised, plain_errors():
                do(spark, change(job))
            assert raised.value.code == code, case
            assert says in str(raised.value), case
            assert "\n" not in str(raised.value), case
            assert files(Path(target.root)) == before, case


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
