"""An engine in a process of its own: what it does is not charged for what others did before, nor helped by it."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

import pyarrow as pa
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.session_registry import Session
from lance_flight.engine.writes.ingest import IngestOptions, TableProperties
from lance_flight.errors import QueryFailed
from lance_flight.model.checksums import Checksum

from benchmarks import data, servers
from benchmarks.servers import CORES

P = ParamSpec("P")
T = TypeVar("T")

WARM_UP = "SELECT 1 AS one"
EXHAUSTED = "Resources exhausted"
"""How DataFusion begins what it says where the memory limit is too small."""

PATIENCE = 600.0

NEW_PEAK = "5"
"""What /proc/self/clear_refs takes to have VmHWM start again from what is resident."""


class WorkFailed(Exception):
    """The traceback of what went wrong in the other process."""


class NoAnswer(Exception):
    """The other process was still at work when its time was over."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A query, and the settings of its session that are off; the others are as they are by default."""

    sql: str
    off: tuple[str, ...] = ()

    def scope(self, engine: Engine) -> Scope:
        """A session with these settings."""
        scope = Scope(Session())
        for name in self.off:
            engine.update(f"SET {name} = 'off'", scope=scope)
        return scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a query took: bytes resident at its peak that were not before it, and bytes read from files."""

    rows: int
    peak_bytes: int
    read_bytes: int


class EngineProcess:
    """A fresh process with an engine over a root, opened and warm; it is gone at the end of a `with`.

    `patience` is how many seconds it has for an answer, its start included.
    """

    def __init__(self, root: Path, *, memory_limit: int | None = None, patience: float = PATIENCE) -> None:
        self._patience = patience
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_work, args=(other, root, memory_limit), daemon=True)
        self._process.start()
        other.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # the threads of Lance and DataFusion may keep it from ending by itself
        self._process.join()

    def __call__(self, work: Callable[Concatenate[Engine, P], T], *arguments: P.args, **_: P.kwargs) -> T:
        """Have a function of this module called there; `WorkFailed` if it raises, `NoAnswer` if it takes too long."""
        self._pipe.send((work, arguments))
        if not self._pipe.poll(self._patience):
            raise NoAnswer(f"no answer from {work.__name__} within {self._patience:.0f} s")
        answer, failure = cast("tuple[T, str | None]", self._pipe.recv())
        if failure is not None:
            raise WorkFailed(failure)
        return answer


def open_engine(root: Path, memory_limit: int | None = None) -> Engine:
    """An engine over a root, with as many lanes as the service gives it."""
    return Engine(Root(Store(str(root))), target_partitions=CORES, limits=Limits(server_memory=memory_limit))


def store(root: Path, name: str, reader: pa.RecordBatchReader, *, partition_by: str | None = None) -> int:
    """Store rows in a new table; how many there were."""
    return open_engine(root).ingest(
        TableName(PUBLIC, name),
        reader,
        create_missing=True,
        existing=IfExists.FAIL,
        options=IngestOptions(properties=TableProperties.by(partition_by)),
    )


def stream(engine: Engine, statement: Statement) -> pa.RecordBatchReader:
    """The batches of a query."""
    plan = engine.plan(statement.sql, scope=statement.scope(engine))
    if plan is None:
        raise ValueError(f"{statement.sql!r} returns no rows")
    (task,) = plan.tasks
    return engine.run(task)


def drain(engine: Engine, statement: Statement) -> int:
    """Run a query and throw its rows away; how many there were."""
    return sum(batch.num_rows for batch in stream(engine, statement))


def fingerprint(engine: Engine, statement: Statement) -> Checksum:
    """What a query answers."""
    return Checksum.of(stream(engine, statement))


def completes(engine: Engine, statement: Statement, answer: Checksum) -> bool:
    """Whether the memory limit suffices for a query, whose answer is then looked at."""
    try:
        found = fingerprint(engine, statement)
    except QueryFailed as exc:
        if EXHAUSTED not in str(exc):
            raise
        return False
    data.expect(f"{statement.sql!r} with little memory", found, answer)
    return True


def costs(engine: Engine, statement: Statement, warm_up: str) -> Costs:
    """Drain a query as the first one of its process after another that has the same code loaded."""
    engine.query(warm_up)
    Path("/proc/self/clear_refs").write_text(NEW_PEAK)
    resident, read = servers.memory(os.getpid(), "VmRSS"), _read_bytes()
    rows = drain(engine, statement)
    return Costs(rows=rows, peak_bytes=servers.memory(os.getpid(), "VmHWM") - resident, read_bytes=_read_bytes() - read)


def _work(pipe: Connection, root: Path, memory_limit: int | None) -> None:
    engine = open_engine(root, memory_limit)
    engine.query(WARM_UP)
    while True:
        work, arguments = pipe.recv()
        answer: tuple[Any, str | None]
        try:
            answer = work(engine, *arguments), None
        except Exception:  # noqa: BLE001 - whatever it is, the other process raises it
            answer = None, traceback.format_exc()
        pipe.send(answer)


def _read_bytes() -> int:
    """Bytes that system calls have read: Lance reads files by `pread`, whether or not they are in the page cache."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"])
