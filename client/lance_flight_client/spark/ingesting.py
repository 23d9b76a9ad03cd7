"""An ingest job, run: its Spark session, its files read, their rows written in one commit, and its errors as one line.

Our own errors are raised in processes that Spark starts, and arrive as the text of a traceback within its own.
"""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from lance_flight import errors
from lance_flight.catalog.commits.once import CommitToken
from lance_flight.engine.writes.definitions import parse_partition_by
from lance_flight.errors import AlreadyCommitted
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lance_flight_client.dataset.portions import store_of
from lance_flight_client.errors import JobFailed
from lance_flight_client.spark.clustering import cluster_by_partition
from lance_flight_client.spark.commits import find_commit
from lance_flight_client.spark.job import APPEND, OVERWRITE, OVERWRITE_TABLE, Job, JobSource
from lance_flight_client.spark.machine import PYTHON, prepare
from lance_flight_client.spark.options import WriteOptions
from lance_flight_client.spark.source import FORMAT
from lance_flight_client.spark.writing import Report, make_table, planned_table

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
    return find_commit(job.target.root, job.target.table, job.write.commit_id, storage=job.target.storage)


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


def describe_ingest(spark: SparkSession, job: Job) -> Iterator[str]:
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


OTHER = "spark"
"""The code of an error that is not one of ours."""

_OURS = re.compile(rf"^{re.escape(errors.__name__)}\.(?P<name>\w+): (?P<message>.+)$", re.MULTILINE)
_CAUSES = re.compile(r"^(?::|Caused by:) [\w.$]+: (?P<message>.+)$", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+(; line \d+ pos \d+;?)?\s*$")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise errors of Spark as `JobFailed`: ours with the code that they have, all else with `OTHER`."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as exc:
        raise failure(str(exc)) from exc


def failure(text: str) -> JobFailed:
    r"""Return what an error of Spark with this text comes to.

    >>> error = failure("Traceback …\nlance_flight.errors.NotFound: no table 'fligths'\n\nDriver stacktrace: …")
    >>> error.code, str(error)
    ('not_found', "no table 'fligths'")
    >>> str(failure("An error occurred\n: a.b.FailedRead: cannot read x.csv\n  at …\nCaused by: a.b.Malformed: [null,3]"))
    'cannot read x.csv; [null,3]'
    """
    # The last one is what the others led to.
    for match in reversed(list(_OURS.finditer(text))):
        kind = getattr(errors, match["name"], None)
        if isinstance(kind, type) and issubclass(kind, errors.LanceFlightError):
            return JobFailed(kind.code, match["message"])
    causes = [match["message"] for match in _CAUSES.finditer(text)]
    lines = dict.fromkeys(_STATE.sub("", line).rstrip(".") for line in causes or text.strip().splitlines()[:1])
    return JobFailed(OTHER, "; ".join(lines) or "Spark does not say why")


PROGRESS = "spark.ui.showConsoleProgress"


@contextmanager
def session(name: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start a session with these settings, on top of those of `spark-submit` and Spark's files; stop it at the end.

    Tasks run in the Python of this process, unless `PYSPARK_PYTHON` or `spark.pyspark.python` names another one. How
    far they are is shown on a terminal, and in no log.
    """
    os.environ.setdefault(PYTHON, settings.get("spark.pyspark.python", sys.executable))
    prepare()
    shown = {} if sys.stderr.isatty() else {PROGRESS: "false"}
    builder = SparkSession.builder.appName(name)
    for key, value in {**shown, **settings}.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # The process that is forked here becomes Java at once; nothing of Lance runs in it.
        warnings.filterwarnings("ignore", "lance is not fork-safe")
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
