"""What a table of many small appends costs a query, and what maintenance in the server makes of it: query times before, during and after.

`python -m benchmarks.maintenance [--appends N] [--share S]`: a table is filled by one-row appends on a server without maintenance, queried there,
then on a server with it while rows are appended and it is compacted, and again when there is nothing left to do. Every answer is checked.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from adbc_driver_flightsql import dbapi

from benchmarks import servers

APPENDS, BESIDE, QUERIES, PATIENCE, QUIET = 10_000, 200, 20, 3600.0, 10.0
"""Appends before, and while it is compacted; queries for a median; seconds until it must have been compacted, and without work that mean so."""
TABLE = "appended"
ROWS = 10
"""Rows of each append."""
SCAN = f"SELECT count(*), sum(id), sum(value) FROM {TABLE}"
LOOKUP = f"SELECT count(*), sum(value) FROM {TABLE} WHERE id = {{}}"
FILES = f"SELECT count(*) FROM {TABLE}$files"
WORKS = "SELECT count(*), coalesce(sum(seconds), 0) FROM system.maintenance WHERE outcome = 'ok'"
RUNNING = "SELECT count(*) FROM system.maintenance WHERE outcome = 'running'"


@dataclass(slots=True)
class _Table:
    """The rows that were appended, and a connection to the server that has them."""

    connection: dbapi.Connection
    rows: int = 0

    def append(self) -> None:
        """Append some rows, each with its number."""
        ids = pa.array(range(self.rows, self.rows + ROWS), pa.int64())
        with self.connection.cursor() as cursor:
            cursor.adbc_ingest(TABLE, pa.table({"id": ids, "value": pa.array([1.0] * ROWS)}), mode="create_append")
        self.rows += ROWS

    def one(self, sql: str) -> tuple[object, ...]:
        """Return the only row of a query."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            (row,) = cursor.fetchall()
            return tuple(row)

    def scan(self) -> None:
        """Read every row, and check what they add up to."""
        _expect(self.one(SCAN), (self.rows, self.rows * (self.rows - 1) // 2, float(self.rows)))

    def look_up(self) -> None:
        """Read one row by its number."""
        _expect(self.one(LOOKUP.format(self.rows // 2)), (1, 1.0))


@dataclass(slots=True)
class _Times:
    """Milliseconds of the queries of one phase, by their name."""

    of: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, name: str, query: Callable[[], None]) -> None:
        """Run a query, and remember how long it took."""
        began = time.perf_counter()
        query()
        self.of.setdefault(name, []).append((time.perf_counter() - began) * 1000)

    def line(self, phase: str, files: object) -> str:
        """Return the phase as a row of the table."""
        medians = "".join(f"{statistics.median(times):14,.1f}{max(times):14,.1f}" for times in self.of.values())
        return f"{phase:<28}{files!s:>8}{medians}"


def main() -> int:
    """0 where every answer was right and the table was compacted."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="lance-flight-bench-") as place:
        for line in _phases(Path(place) / "root", options.appends, options.share):
            print(line, flush=True)
    return 0


def _phases(root: Path, appends: int, share: float) -> Iterator[str]:
    yield f"{'':28}{'files':>8}{'scan ms':>14}{'most':>14}{'lookup ms':>14}{'most':>14}"
    with servers.ours(root) as server, closing(dbapi.connect(server.uri, autocommit=True)) as connection:
        table = _Table(connection)
        began = time.perf_counter()
        for _ in range(appends):
            table.append()
        print(f"{appends:,} appends: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        yield _queried(table).line("before", *table.one(FILES))
    arguments = ("--maintenance", "on", "--maintenance-share", str(share))
    with servers.ours(root, *arguments) as server, closing(dbapi.connect(server.uri, autocommit=True)) as connection:
        table.connection = connection
        began, during = time.perf_counter(), _Times()
        for number in range(BESIDE):
            table.append()
            if number % (BESIDE // QUERIES) == 0:
                _query(table, during)
        yield during.line(f"during, beside {BESIDE} appends", *table.one(FILES))
        _wait(table, began)
        yield _queried(table).line("after", *table.one(FILES))
        works, seconds = table.one(WORKS)
        yield f"{works} pieces of work, {seconds:.1f} s of {time.perf_counter() - began:.1f} s, share {share:g}"


def _wait(table: _Table, began: float) -> None:
    """Wait until the server has looked at the table and found nothing to do."""
    quiet_since, known = time.perf_counter(), (0,)
    while time.perf_counter() - quiet_since < QUIET or known == (0,):
        if time.perf_counter() - began > PATIENCE:
            raise TimeoutError("the table was not compacted in time")
        now = (table.one(WORKS)[0],)
        if now != known or table.one(RUNNING) != (0,):
            quiet_since, known = time.perf_counter(), now
        time.sleep(0.5)


def _queried(table: _Table) -> _Times:
    times = _Times()
    table.scan()
    for _ in range(QUERIES):
        _query(table, times)
    return times


def _query(table: _Table, times: _Times) -> None:
    times.measure("scan", table.scan)
    times.measure("lookup", table.look_up)


def _expect(found: tuple[object, ...], expected: tuple[object, ...]) -> None:
    if found != expected:
        raise AssertionError(f"got {found}; expected {expected}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance", description=__doc__)
    parser.add_argument("--appends", type=int, default=APPENDS, help=f"small appends before (default: {APPENDS})")
    parser.add_argument(
        "--share", type=float, default=0.1, help="share of the time that maintenance works (default: 0.1)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
