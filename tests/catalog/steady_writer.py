"""A process that writes to a table as fast as it can, one commit after another, until it is told to stop.

    python -m tests.catalog.steady_writer ROOT append|update STOP_FILE

It prints `ready` after a few commits, and at its end how many rows it has written, and in how many commits.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine

PARTITIONS = 48
TOUCHED = 8
"""Partitions in each commit."""
FIRST_NEW = 1_000_000
WARM = 3


def statement(kind: str, number: int) -> str:
    """What the commit with this number does: rows that are new, or rows that count how often they were changed."""
    parts = random.sample(range(PARTITIONS), TOUCHED)
    if kind == "append":
        rows = ", ".join(f"({FIRST_NEW + number * TOUCHED + n}, {p}, 1)" for n, p in enumerate(parts))
        return f"INSERT INTO t (id, p, n) VALUES {rows}"
    return f"UPDATE t SET n = n + 1 WHERE p IN ({', '.join(map(str, parts))}) AND id % 5 = {number % 5}"


def main(root: str, kind: str, stop: str) -> None:
    """Write until the file `stop` is there."""
    random.seed(kind)
    engine = Engine(Root(Store(root)), target_partitions=2)
    rows = commits = 0
    while not Path(stop).exists():
        rows += engine.update(statement(kind, commits))
        commits += 1
        if commits == WARM:
            say("ready")
    say(f"{rows} {commits}")


def say(line: str) -> None:
    """Tell the process that waits."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@dataclass(slots=True)
class Written:
    """What a writer has done, once it has ended."""

    rows: int = 0
    commits: int = 0


@contextmanager
def writing(root: Path, kind: str) -> Iterator[Written]:
    """A writer that is at work during the block."""
    stop = root.parent / f"{root.name}.stop"
    command = [sys.executable, "-m", "tests.catalog.steady_writer", str(root), kind, str(stop)]
    written = Written()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield written
        finally:
            stop.touch()
        written.rows, written.commits = map(int, process.stdout.readline().split())


if __name__ == "__main__":
    main(*sys.argv[1:])
