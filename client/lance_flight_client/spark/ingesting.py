"""An ingest job, run: its Spark session, its files read, their rows written in one commit, and its errors as one line.

Our own errors are raised in processes that Spark starts, and arrive as the text of a traceback within its own.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from types import MappingProxyType

from lance_flight import errors
from lance_flight.catalog.commits.once import CommitToken
from lance_flight.engine.writes.definitions import parse_partition_by
from lance_flight.errors import AlreadyCommitted, NotFound
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lance_flight_client.dataset.portions import store_of
from lance_flight_client.errors import JobFailed
from lance_flight_client.spark.clustering import cluster_by_partition
from lance_flight_client.spark.commits import find_commit
from lance_flight_client.spark.connector.sessions import settings
from lance_flight_client.spark.job import APPEND, MERGE, OVERWRITE, OVERWRITE_TABLE, Job, JobSource
from lance_flight_client.spark.machine import PYTHON, prepare
from lance_flight_client.spark.options import STORAGE, WriteOptions
from lance_flight_client.spark.source import FORMAT
from lance_flight_client.spark.writing import Report, make_table, planned_table

# What a reader cannot make out is NULL otherwise, without notice.
STRICT: Mapping[str, Mapping[str, str]] = MappingProxyType({kind: {"mode": "FAILFAST"} for kind in ("csv", "json")})
_VERBS = MappingProxyType(
    {
        APPEND: "append to",
        OVERWRITE: "overwrite the partitions that get rows of",
        OVERWRITE_TABLE: "overwrite all rows of",
        MERGE: "merge into",
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
    """Return the commit that an earlier run of the job has made, found without Spark; `AlreadyExists` for one of another source."""
    if job.write.commit_id is None:
        return None
    found = find_commit(job.target.root, job.target.table, job.write.commit_id, storage=job.target.storage)
    if found is not None:
        found.check_source(job.source_digest)
    return found


def ingest(spark: SparkSession, job: Job) -> Ingested:
    """Run a job; `AlreadyCommitted` if another run of it was faster, and nothing was written."""
    began = time.perf_counter()
    rows = source_rows(spark, job.source)
    if job.write.mode == MERGE:
        _merge(spark, job, rows)
        return Ingested(table=job.target.table, report=None, seconds=time.perf_counter() - began)
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


def _catalog(job: Job) -> str:
    """Return the name of the catalog over the root of a job."""
    return f"job_{hashlib.sha256(job.target.root.encode()).hexdigest()[:12]}"


def session_settings(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the settings of the session of jobs: those that they have, and a catalog over each root that rows are merged into."""
    found: dict[str, str] = {}
    for job in jobs:
        if job.write.mode == MERGE:
            storage = {f"{STORAGE}{name}": text for name, text in job.target.storage.items()}
            found |= settings(job.target.root, catalog=_catalog(job), **storage)
    return {**found, **jobs[0].spark}


def _merge(spark: SparkSession, job: Job, rows: DataFrame) -> None:
    """Change the rows whose keys are those of new ones, and add the others, in one commit."""
    for key in job.write.keys:
        if key not in rows.columns:
            raise NotFound.named("column", key, rows.columns)
    make_table(_options(job), rows.schema)
    rows.createOrReplaceTempView(_NEW)
    table = ".".join(map(_quoted, (_catalog(job), *_options(job).table)))
    # NULL is a key as well: the same rows merged again are the same rows.
    condition = " AND ".join(f"t.{_quoted(key)} <=> n.{_quoted(key)}" for key in job.write.keys)
    spark.sql(
        f"MERGE INTO {table} AS t USING {_NEW} AS n ON {condition}"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


_NEW = "lance_flight_new_rows"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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


PROGRESS, LOG_LEVEL = "spark.ui.showConsoleProgress", "spark.log.level"


@contextmanager
def _unlogged() -> Iterator[None]:
    """Have the Java that is started here write its log to nowhere; what ends it before it answers is raised as `JobFailed`."""
    with TemporaryFile() as log:
        before = os.dup(STDERR)
        try:
            os.dup2(log.fileno(), STDERR)
            yield
        except (PySparkException, Py4JJavaError) as exc:
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
            # The first error led to the others.
            told = next((line.partition(_ERROR)[2] for line in lines if _ERROR in line), str(failure(str(exc))))
            raise JobFailed(OTHER, f"Spark does not start: {told.strip()}") from exc
        finally:
            os.dup2(before, STDERR)
            os.close(before)


STDERR = 2
_ERROR = " ERROR "
"""What stands before the words of an error in Spark's log."""


@contextmanager
def session(name: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Start a session with these settings, on top of those of `spark-submit` and Spark's files; stop it at the end.

    Tasks run in the Python of this process, unless `PYSPARK_PYTHON` or `spark.pyspark.python` names another one. How
    far they are is shown on a terminal, and in no log. The log of Spark is shown where its level is among the settings.
    """
    os.environ.setdefault(PYTHON, settings.get("spark.pyspark.python", sys.executable))
    prepare()
    shown = {LOG_LEVEL: "ERROR"} | ({} if sys.stderr.isatty() else {PROGRESS: "false"})
    # It repeats the error of a query, with its plan and its stack, on standard error.
    logging.getLogger("SQLQueryContextLogger").disabled = LOG_LEVEL not in settings
    builder = SparkSession.builder.appName(name)
    for key, value in {**shown, **settings}.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings(), nullcontext() if sys.stderr.isatty() or LOG_LEVEL in settings else _unlogged():
        # The process that is forked here becomes Java at once; nothing of Lance runs in it.
        warnings.filterwarnings("ignore", "lance is not fork-safe")
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
