"""Maintenance of a table by the executors of Spark: the work of `lance-flight compact` and its like, one task for each piece.

A piece that fails for a reason of ours, a value that cannot be, say, ends the work at once: it would fail again. For any other
reason Spark runs its task again, there or elsewhere; what the first attempt wrote is part of no version.

Executors read and write files that are not visible yet; the driver makes each part of the work visible in one commit. Other writers, and a
server on the same root, go on meanwhile.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, Signature
from threading import Event, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from lance_flight.catalog.bulk.pieces import Keep, Piece, PieceWork, Progress
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.table import Table
from lance_flight.engine.operations import DOING, OperationWork
from lance_flight.engine.writes.column_changes import backfill as backfill_in
from lance_flight.engine.writes.computed_columns import PythonFunction, SqlExpression
from lance_flight.engine.writes.definitions import arrow_type
from lance_flight.errors import InvalidInput, LanceFlightError
from lance_flight.model.operations import OPERATIONS
from pyspark import cloudpickle

from lance_flight_client.dataset.portions import store_of
from lance_flight_client.spark.options import WriteOptions
from lance_flight_client.spark.writing import evaluate_expression

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

    def __call__(
        self, pieces: Sequence[Piece[R]], told: Progress | None = None, keep: Keep[R] | None = None
    ) -> list[R]:
        done: list[R] = []
        for start in range(0, len(pieces), PIECES_PER_JOB):
            some = pieces[start : start + PIECES_PER_JOB]
            try:
                with _watch_jobs(self.spark, self.doing, _counter(told, start, len(pieces))):
                    outcomes = self._outcomes(some)
            except BaseException:
                if keep is None:
                    _undo(pieces, done)
                raise
            failed = [outcome for outcome in outcomes if isinstance(outcome, LanceFlightError)]
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
        task = _Task(_pickle(list(pieces)))
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
                yield pa.RecordBatch.from_arrays([[number], [_pickle(_outcome(pieces[number]))]], schema=_SCHEMA)


def _outcome(piece: Piece[R]) -> R | LanceFlightError:
    try:
        return piece.run()
    except LanceFlightError as exc:
        return exc


def _undo(pieces: Sequence[Piece[R]], outcomes: Sequence[R | LanceFlightError]) -> None:
    for piece, outcome in zip(pieces, outcomes, strict=False):
        if not isinstance(outcome, LanceFlightError):
            piece.undo(outcome)


def _counter(told: Progress | None, before: int, pieces: int) -> Callable[[int], None] | None:
    return None if told is None else lambda done: told(before + done, pieces)


@contextmanager
def _watch_jobs(spark: SparkSession, doing: str, told: Callable[[int], None] | None) -> Iterator[None]:
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


def _pickle(value: Any) -> bytes:
    """Pickle a value, by value for functions of the caller's own program, which executors have not."""
    content: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return content


_DEFAULTS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {"rewrite": {"tables": 1024, "rows": 64 << 20, "rows_per_piece": 1 << 20}}
)
"""Arguments of an operation that executors do, where they are others than in one process."""


@dataclass(frozen=True, slots=True)
class Backfilled:
    """A new column with its values: the version that has it."""

    column: str
    snapshot: int

    def __str__(self) -> str:
        return f"column {self.column} added, snapshot {self.snapshot}"


def maintain(
    spark: SparkSession,
    operation: str,
    root: str,
    table: str,
    given: Mapping[str, Any],
    *,
    storage: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Any:
    """Do an operation of the table of operations, with the arguments that are `given` by name, and return its report."""
    does, found = DOING[operation], _Table.of(root, table, storage)
    said = {name: value for name, value in given.items() if value is not None}
    rules = does.rules_of({**_DEFAULTS.get(operation, {}), **said})
    run = Executors(spark, f"{operation} {found.name.name}")
    return does.run(found.namespace, rules, OperationWork(run=run, evaluate=evaluate_expression, progress=progress))


def _function(name: str) -> Callable[..., Any]:
    """Return the function of an operation: session, root and table, and its arguments by place or by name."""
    arguments = OPERATIONS[name].of_jobs
    places = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("spark", "root", "table")]
    places += [
        Parameter(argument.name, Parameter.POSITIONAL_OR_KEYWORD) for argument in arguments if argument.is_positional
    ]
    named = [*(argument.name for argument in arguments if not argument.is_positional), "storage", "progress"]
    signature = Signature([*places, *(Parameter(column, Parameter.KEYWORD_ONLY, default=None) for column in named)])

    def function(*values: Any, **more: Any) -> Any:
        given = signature.bind(*values, **more).arguments
        spark, root, table = (given.pop(name) for name in ("spark", "root", "table"))
        storage, progress = given.pop("storage", None), given.pop("progress", None)
        return maintain(spark, name, root, table, given, storage=storage, progress=progress)

    said = "".join(f"\n    {argument.name}: {argument.means}" for argument in arguments)
    function.__name__, function.__doc__ = name.replace("-", "_"), OPERATIONS[name].means + "\n" + said
    function.__signature__ = signature  # type: ignore[attr-defined]  # of `inspect.signature`
    return function


compact, create_index, reindex, rewrite, verify = map(
    _function, ("compact", "create-index", "reindex", "rewrite", "verify")
)


def backfill(
    spark: SparkSession,
    root: str,
    table: str,
    column: str,
    values: str | Callable[[pa.RecordBatch], pa.Array],
    *,
    data_type: str | None = None,
    columns: Sequence[str] | None = None,
    storage: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Backfilled:
    """Add a column with its values, in one commit: of an SQL expression (DataFusion's SQL), or of a function.

    A function takes batches of `columns` (none: all) and returns as many values each, the same whenever it is called. `data_type` is SQL's
    name of the type; an expression has one by itself.
    """
    found = _Table.of(root, table, storage)
    if isinstance(values, str):
        if columns is not None:
            raise InvalidInput(f"columns are given: {', '.join(columns)}; an expression names those that it needs")
        made: SqlExpression | PythonFunction = SqlExpression(values)
    else:
        known = found.namespace.snapshot().schema.plain.names
        made = PythonFunction(tuple(known if columns is None else columns), values)
    version = backfill_in(
        found.root,
        found.name,
        column,
        made,
        None if data_type is None else arrow_type(data_type),
        work=PieceWork(run=Executors(spark, f"backfill {found.name.name}.{column}"), progress=progress),
    )
    return Backfilled(column, version)


@dataclass(frozen=True, slots=True)
class _Table:
    root: Root
    name: TableName
    namespace: Table

    @classmethod
    def of(cls, root: str, table: str, storage: Mapping[str, str] | None) -> _Table:
        """Return the table by what options call it."""
        options = WriteOptions.of(root, table, storage or {})
        place, name = Root(store_of(options.root, options.storage)), TableName(*options.table)
        return cls(place, name, place.table(name))
