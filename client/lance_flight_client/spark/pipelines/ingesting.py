"""A job, run: its files are read, and their rows written in one commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from lance_flight.catalog.commits.commit_tokens import CommitToken
from lance_flight.engine.writes.partition_fields import parse_partition_by
from lance_flight.errors import AlreadyCommitted
from pyspark.sql import DataFrame, SparkSession

from lance_flight_client.dataset.roots import store_of
from lance_flight_client.spark.clustering import cluster_by_partition
from lance_flight_client.spark.commits import committed
from lance_flight_client.spark.pipelines.job import APPEND, OVERWRITE, OVERWRITE_TABLE, Job, JobSource
from lance_flight_client.spark.source import FORMAT
from lance_flight_client.spark.writing.options import WriteOptions
from lance_flight_client.spark.writing.planning import make_table, planned_table
from lance_flight_client.spark.writing.reports import Report

# What a reader cannot make out is NULL otherwise, without notice.
STRICT: Mapping[str, Mapping[str, str]] = MappingProxyType({kind: {"mode": "FAILFAST"} for kind in ("csv", "json")})
_VERBS = MappingProxyType(
    {
        APPEND: "append to",
        OVERWRITE: "overwrite the partitions that get rows of",
        OVERWRITE_TABLE: "overwrite all rows of",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """Result of a job; `seconds` are those of its reading and writing, without the start of Spark.

    `report` is None where the rows are committed, and the file that says more could not be written.
    """

    table: str
    report: Report | None
    seconds: float

    def __str__(self) -> str:
        if self.report is None:
            return f"{self.table}: committed, {self.seconds:.1f} s"
        return (
            f"{self.table}: {self.report.rows:,} rows in {self.report.partitions:,} partitions,"
            f" version {self.report.version}, {self.seconds:.1f} s"
        )


def check(job: Job) -> None:
    """Look for what is wrong with the target of a job before Spark is started."""
    options = _options(job)
    store_of(options.root, options.storage)
    if options.partition_by is not None:
        parse_partition_by(options.partition_by)


def earlier_commit(job: Job) -> CommitToken | None:
    """Return the commit that an earlier run of the job has made, found without Spark."""
    if job.write.commit_id is None:
        return None
    return committed(job.target.root, job.target.table, job.write.commit_id, storage=job.target.storage)


def ingest(spark: SparkSession, job: Job) -> Ingested:
    """Run a job; `AlreadyCommitted` if another run of it was faster, and nothing was written."""
    began = time.perf_counter()
    rows = source_rows(spark, job.source)
    if job.write.cluster:
        make_table(_options(job), rows.schema)
        target = job.target
        rows = cluster_by_partition(
            rows, target.root, target.table, spread=job.write.spread or 1, storage=target.storage
        )
    with TemporaryDirectory(prefix="lance-flight-") as place:
        path = Path(place, "report")
        rows.write.format(FORMAT).mode(job.write_mode).options(**job.write_options, report=str(path)).save()
        report = Report.read(path)
    if report is not None and report.version is None:
        known = earlier_commit(job)
        raise AlreadyCommitted("another run of this job was faster" if known is None else str(known))
    return Ingested(table=job.target.table, report=report, seconds=time.perf_counter() - began)


def source_rows(spark: SparkSession, source: JobSource) -> DataFrame:
    """The rows that a job reads, with the columns that it stores."""
    kind = source.kind or ""
    reader = spark.read.format(kind).options(**{**STRICT.get(kind, {}), **source.options})
    rows = (reader if source.schema is None else reader.schema(source.schema)).load(list(source.paths))
    return (rows if source.where is None else rows.where(source.where)).selectExpr(*source.columns)


def described(spark: SparkSession, job: Job) -> Iterator[str]:
    """Return what `ingest` would do, in lines; errors are those that it would meet before its first task."""
    rows = source_rows(spark, job.source)
    table = planned_table(_options(job), rows.schema)
    yield f"would read {len(rows.inputFiles()):,} files of {job.source.kind}: {', '.join(job.source.paths)}"
    if job.source.where is not None:
        yield f"  where {job.source.where}"
    yield from (f"  {field.name} {field.dataType.simpleString()}" for field in rows.schema)
    if job.write.cluster:
        tasks = "one task" if job.write.spread is None else f"up to {job.write.spread:,} tasks"
        yield f"would bring the rows of each partition together in {tasks}"
    place, partitioning = f"table {job.target.table} of {job.target.root}", f"partitioned by {table.partitioning}"
    if table.version is None:
        yield f"would make {place}, {partitioning}, and {_VERBS[job.write.mode]} it"
    else:
        yield f"would {_VERBS[job.write.mode]} {place}, {partitioning}, at version {table.version}"


def _options(job: Job) -> WriteOptions:
    return WriteOptions.parse(job.write_options, overwrite=job.write_mode == OVERWRITE)
