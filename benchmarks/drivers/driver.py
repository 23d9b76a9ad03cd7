"""The loop that serves one peer: a JSON request on each line of standard input, its JSON reply on a line of standard output.

It runs in the environment of the peer, whose only packages in common with ours are Python and pyarrow.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.drivers.question import Question

BATCH_ROWS = 1 << 16
Client = Callable[[Question], Iterable[pa.RecordBatch]]


class Unsupported(Exception):
    """The peer has no such operation."""


class Driver:
    """One table of line items in a peer; an operation that is not overridden is one that the peer lacks.

    `place` is an empty directory, `environment` the virtual environment of the peer. What is started here does not count as loading.
    """

    def __init__(self, place: Path, environment: Path) -> None:
        self.place = place
        self.environment = environment
        self.stack = ExitStack()

    def load(self, rows: Path) -> None:
        """Store the rows of a Parquet file."""
        raise Unsupported

    def append(self, rows: pa.Table) -> None:
        """Add rows in one commit."""
        raise Unsupported

    def connect(self) -> Client:
        """A client for one thread."""
        raise Unsupported


def batches(rows: Path) -> pa.RecordBatchReader:
    """The rows of a Parquet file as a stream."""
    file = pq.ParquetFile(rows)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(BATCH_ROWS))


class Program:
    """The requests; each method is one, its arguments and its result are JSON."""

    def __init__(self, make: Callable[[Path], Driver], place: Path) -> None:
        self._make = make
        self._place = place
        self._driver: Driver | None = None
        self._clients: list[Client] = []

    def load(self, rows: str) -> list[float]:
        """Seconds that it takes to store the rows in a new directory; what was stored before goes."""
        self.close()
        self._driver = self._make(Path(tempfile.mkdtemp(dir=self._place)))
        return [_seconds(partial(self._driver.load, Path(rows)))]

    def append(self, rows: str) -> list[float]:
        """Seconds that it takes to add the rows of a small Parquet file."""
        return [_seconds(partial(self._opened.append, pq.read_table(rows)))]

    def answer(self, question: dict[str, object]) -> list[list[str]]:
        """The rows of an answer as sorted texts; those of a whole table as their number and a sum for each column."""
        asked = Question.of(question)
        found = self._connected(1)[0](asked)
        if asked.is_whole:
            return _summary(found)
        return sorted([_text(value) for value in row.values()] for batch in found for row in batch.to_pylist())

    def ask(self, questions: list[dict[str, object]]) -> list[float]:
        """Seconds that each of some questions takes, one after another."""
        (client,) = self._connected(1)
        return [_seconds(partial(_drain, client, Question.of(question))) for question in questions]

    def rate(self, question: dict[str, object], clients: int, seconds: float) -> list[float]:
        """Answers per second of so many clients that ask the same for a while."""
        asked, connected = Question.of(question), self._connected(clients)
        started = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            answers = sum(pool.map(partial(_drain_until, asked, started + seconds), connected))
        return [answers / (time.perf_counter() - started)]

    def close(self) -> None:
        """Close and remove what was loaded."""
        self._clients.clear()
        if self._driver is not None:
            self._driver.stack.close()
            shutil.rmtree(self._driver.place)

    @property
    def _opened(self) -> Driver:
        if self._driver is None:
            raise ValueError("nothing is loaded; expected a request `load` before this one")
        return self._driver

    def _connected(self, clients: int) -> list[Client]:
        while len(self._clients) < clients:
            self._clients.append(self._opened.connect())
        return self._clients[:clients]


def run(make: Callable[[Path, Path], Driver]) -> None:
    """Reply to requests until standard input ends; the program's arguments are the peer's environment and a directory to work in."""
    environment, place = map(Path, sys.argv[1:])
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no reply
    program = Program(partial(make, environment=environment), place)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"result": getattr(program, request.pop("verb"))(**request)}
        except Unsupported:
            reply = {"result": None}
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is why this peer is not in the table
            traceback.print_exc()
            reply = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps(reply), file=replies)
    program.close()


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _drain(client: Client, question: Question) -> int:
    return sum(batch.num_rows for batch in client(question))


def _drain_until(question: Question, deadline: float, client: Client) -> int:
    answers = 0
    while answers == 0 or time.perf_counter() < deadline:
        _drain(client, question)
        answers += 1
    return answers


def _summary(found: Iterable[pa.RecordBatch]) -> list[list[str]]:
    sums: Counter[str] = Counter()
    for batch in found:
        sums["rows"] += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            sums[name] += pc.sum(_number(column)).as_py() or 0
    return sorted([name, _text(value)] for name, value in sums.items())


def _number(column: pa.Array) -> pa.Array:
    """Dates as days, texts as their lengths."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    is_number = pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)
    return column if is_number else pc.utf8_length(column.cast(pa.utf8()))


def _text(value: object) -> str:
    """Numbers of one value are one text, whatever their types; floats may differ by the order in which they were added up."""
    if isinstance(value, float):
        return f"{value:.9g}"
    return format(value.normalize(), "f") if isinstance(value, Decimal) else str(value)
