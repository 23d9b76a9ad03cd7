"""`python -m benchmarks.drivers MODULE:CLASS ENVIRONMENT PLACE`: a JSON request on each line of standard input, its reply on one of output."""

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
from contextlib import closing
from decimal import Decimal
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.drivers.driver import Client, Driver, NormalForm, Unsupported


class Program:
    """The requests: each public method is one, its arguments and its result are JSON. `load` comes first."""

    def __init__(self, make: Callable[[Path], Driver], place: Path) -> None:
        self._make = make
        self._place = place
        self._clients: list[Client] = []

    def load(self, rows: str) -> list[float]:
        """Store the rows in a new directory and return the seconds; what was stored before is removed."""
        self.close()
        self._driver = self._make(Path(tempfile.mkdtemp(dir=self._place)))
        return [_measure(self._driver.load, Path(rows))]

    def append(self, rows: str) -> list[float]:
        """Add the rows of a small Parquet file and return the seconds."""
        return [_measure(self._driver.append, pq.read_table(rows))]

    def answer(self, question: dict[str, Any]) -> list[list[str]]:
        """Return the rows of an answer as sorted texts; for a whole table, the sum of each column."""
        asked = NormalForm(**question)
        found = self._connect(1)[0](asked)
        rows = _sum_columns(found) if asked.is_whole else (row.values() for batch in found for row in batch.to_pylist())
        return sorted([_format_value(value) for value in row] for row in rows)

    def ask(self, questions: list[dict[str, Any]]) -> list[float]:
        """Ask some questions one after another and return the seconds of each."""
        (client,) = self._connect(1)
        return [_measure(_drain, client, NormalForm(**question)) for question in questions]

    def rate(self, question: dict[str, Any], clients: int, seconds: float) -> list[float]:
        """Have so many clients ask the same for some seconds and return the answers per second."""
        connected, started = self._connect(clients), time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            answers = sum(pool.map(partial(_drain_until, started + seconds, NormalForm(**question)), connected))
        return [answers / (time.perf_counter() - started)]

    def close(self) -> None:
        """Close and remove what was loaded."""
        self._clients.clear()
        if hasattr(self, "_driver"):
            self._driver.stack.close()
            shutil.rmtree(self._driver.place)

    def _connect(self, clients: int) -> list[Client]:
        while len(self._clients) < clients:
            self._clients.append(self._driver.connect())
        return self._clients[:clients]


def _measure(call: Callable[..., object], *arguments: object) -> float:
    started = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - started


def _drain(client: Client, question: NormalForm) -> None:
    for _ in client(question):
        pass


def _drain_until(deadline: float, question: NormalForm, client: Client) -> int:
    answers = 0
    while answers == 0 or time.perf_counter() < deadline:
        _drain(client, question)
        answers += 1
    return answers


def _sum_columns(found: Iterable[pa.RecordBatch]) -> Iterable[tuple[str, object]]:
    """Sum each column: numbers as they are, dates as days, texts as their lengths."""
    sums: Counter[str] = Counter()
    for batch in found:
        sums["rows"] += batch.num_rows
        for column, values in zip(batch.schema, batch.columns, strict=True):
            if pa.types.is_date(column.type):
                values = values.cast(pa.int32())  # noqa: PLW2901 - the same values
            elif not pa.types.is_integer(column.type) and not pa.types.is_decimal(column.type):
                values = pc.utf8_length(values.cast(pa.utf8()))  # noqa: PLW2901
            sums[column.name] += pc.sum(values).as_py() or 0
    return sums.items()


def _format_value(value: object) -> str:
    """Format equal numbers of all types as one text."""
    return format(value.normalize(), "f") if isinstance(value, Decimal) else str(value)


def main() -> None:
    """Reply to requests until standard input ends."""
    named, environment, place = sys.argv[1:]
    module, _, name = named.partition(":")
    driver = getattr(import_module(f"benchmarks.drivers.{module}"), name)
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no reply
    with closing(Program(partial(driver, environment=Path(environment)), Path(place))) as program:
        for line in sys.stdin:
            print(json.dumps(_reply(program, **json.loads(line))), file=replies)


def _reply(program: Program, verb: str, **arguments: object) -> dict[str, object]:
    try:
        return {"result": getattr(program, verb)(**arguments)}
    except Unsupported:
        return {"result": None}
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is why this peer is not in the table
        traceback.print_exc()
        return {"error": f"{type(exc).__name__}: {exc}"}


if __name__ == "__main__":
    main()
