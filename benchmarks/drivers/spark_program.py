"""`python -m benchmarks.drivers.spark_program MODULE:CLASS ENVIRONMENT PLACE`: requests of `benchmarks.spark_peers`, as those of `benchmarks.drivers`."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.drivers.spark_tables import SparkTables, Unsupported

Rows = list[list[str]]


class Program:
    """The requests of a benchmark: each public method is one, its arguments and its result are JSON."""

    def __init__(self, make: Callable[[Path], SparkTables], place: Path) -> None:
        self._make = make
        self._place = place
        self._tables: SparkTables | None = None

    @property
    def tables(self) -> SparkTables:
        if self._tables is None:
            self._tables = self._make(self._place)
        return self._tables

    def start(self) -> list[float]:
        """Start a JVM and its session; return the seconds."""
        return [_measured(lambda: self.tables)[0]]

    def change(self, step: str, rows: str) -> list[float]:
        """Run a step that changes tables; return the seconds."""
        call = getattr(self.tables, step)
        return [_measured(call if step == "compact" else partial(call, rows))[0]]

    def ask(self, step: str) -> list[float]:
        """Run a step that answers; return the seconds."""
        return [_measured(lambda: getattr(self.tables, step)().collect())[0]]

    def answer(self, step: str) -> Rows:
        """Return the answer of a step as sorted texts."""
        return sorted([_formatted(value) for value in row] for row in getattr(self.tables, step)().collect())


def _measured(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = call()
    return time.perf_counter() - started, found


def _formatted(value: object) -> str:
    return format(value.normalize(), "f") if isinstance(value, Decimal) else str(value)


def main() -> None:
    """Reply to requests until standard input ends."""
    driver, _, place = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever Spark prints is no reply
    module, _, name = driver.partition(":")
    program = Program(getattr(import_module(f"benchmarks.drivers.{module}"), name), Path(place))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply: dict[str, object] = {"result": getattr(program, request.pop("verb"))(**request)}
        except Unsupported:
            reply = {"result": None}
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is why this engine is not in the table
            traceback.print_exc()
            reply = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps(reply), file=replies)


if __name__ == "__main__":
    main()
