"""Pieces of maintenance done by the executors of Spark (`catalog.pieces.Runner`): one task for each, in jobs of many.

A piece that fails for a reason of ours, a value that cannot be, say, ends the work at once: it would fail again. For any other
reason Spark runs its task again, there or elsewhere; what the first attempt wrote is part of no version.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from lance_flight.catalog.bulk.pieces import Keep, Piece, Told
from lance_flight.errors import LanceFlightError
from pyspark import cloudpickle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

R = TypeVar("R")

PIECES_PER_JOB = 1024
"""All of a job's pieces go to each of its tasks."""

_LOOKING_SECONDS = 0.5
_OUTCOMES = "number long, outcome binary"
_SCHEMA = pa.schema([("number", pa.int64()), ("outcome", pa.binary())])


@dataclass(frozen=True, slots=True)
class Executors:
    """Does pieces in tasks of Spark; `doing` is what Spark's own pages call the jobs."""

    spark: SparkSession
    doing: str

    def __call__(self, pieces: Sequence[Piece[R]], told: Told | None = None, keep: Keep[R] | None = None) -> list[R]:
        done: list[R] = []
        for start in range(0, len(pieces), PIECES_PER_JOB):
            some = pieces[start : start + PIECES_PER_JOB]
            try:
                with _watched(self.spark, self.doing, _counter(told, start, len(pieces))):
                    outcomes = self._outcomes(some)
            except BaseException:
                if keep is None:
                    _undo(pieces, done)
                raise
            failed = [each for each in outcomes if isinstance(each, LanceFlightError)]
            if failed:
                _undo(some, outcomes)
                if keep is None:
                    _undo(pieces, done)
                raise failed[0]
            done += outcomes
            if keep is not None:
                for number, outcome in enumerate(outcomes, start):
                    keep(number, outcome)
            if told is not None:
                told(len(done), len(pieces))
        return done

    def _outcomes(self, pieces: Sequence[Piece[Any]]) -> list[Any]:
        task = _Task(_pickled(list(pieces)))
        numbers = self.spark.range(0, len(pieces), 1, len(pieces))
        found = numbers.mapInArrow(task.outcomes, _OUTCOMES).toArrow().sort_by("number")
        return [pickle.loads(outcome) for outcome in found["outcome"].to_pylist()]  # noqa: S301 - of our own tasks


@dataclass(frozen=True, slots=True)
class _Task:
    """Function of every task of a job, with all pieces of the job, pickled."""

    pieces: bytes

    def outcomes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the result of each piece that a task is given by its number, or the error that it ends with."""
        pieces = pickle.loads(self.pieces)  # noqa: S301 - made by the driver
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_arrays([[number], [_pickled(_outcome(pieces[number]))]], schema=_SCHEMA)


def _outcome(piece: Piece[R]) -> R | LanceFlightError:
    try:
        return piece.run()
    except LanceFlightError as exc:
        return exc


def _undo(pieces: Sequence[Piece[R]], outcomes: Sequence[R | LanceFlightError]) -> None:
    for piece, outcome in zip(pieces, outcomes, strict=False):
        if not isinstance(outcome, LanceFlightError):
            piece.undo(outcome)


def _counter(told: Told | None, before: int, pieces: int) -> Callable[[int], None] | None:
    return None if told is None else lambda done: told(before + done, pieces)


@contextmanager
def _watched(spark: SparkSession, doing: str, told: Callable[[int], None] | None) -> Iterator[None]:
    """Give the jobs in here a name, and tell meanwhile how many of their tasks are done; Connect tells it at the end alone."""
    if not _is_classic(spark):
        yield
        return
    context = spark.sparkContext
    group = f"lance-flight {secrets.token_hex(4)}"
    context.setJobGroup(group, doing)
    ended = Event()
    watcher = Thread(target=_look, args=(context, group, told, ended), daemon=True)
    try:
        if told is not None:
            watcher.start()
        yield
    finally:
        ended.set()
        if told is not None:
            watcher.join()
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]  # None takes it away again


def _look(context: Any, group: str, told: Callable[[int], None], ended: Event) -> None:
    tracker = context.statusTracker()
    while not ended.wait(_LOOKING_SECONDS):
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
        told(sum(stage.numCompletedTasks for stage in stages if stage is not None))


def _is_classic(spark: SparkSession) -> bool:
    """Return whether this is a session of a driver in this process, and not one of Spark Connect."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def _pickled(value: Any) -> bytes:
    """Pickle a value, by value for functions of the caller's own program, which executors have not."""
    content: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return content
