"""Whether maintenance in the server keeps pace with writers: files and sums over time beside many small commits.

`python -m benchmarks.maintenance [--seconds N] [--rate N] [--share S]`: four writers append rows to one partition each time, and the files and a sum
of the table are measured meanwhile. Then maintenance is switched off for the table, and the same sum is measured before and after a COMPACT.
Every answer is checked. A missed aim is printed, not an error. A `--share` of 0 shows the table without maintenance.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from adbc_driver_flightsql import dbapi

from benchmarks import servers

WRITERS, EVERY, SUMS = 4, 10.0, 20
"""Connections that write, seconds between two lines, and sums of a median."""
MOST_FILES, MOST_RATIO = 500, 2.0
"""The aims: files of the table at any time, and its sum at the end ÷ the sum once it is compacted."""
CREATE = "CREATE TABLE written (part BIGINT, value BIGINT)"
SUM = "SELECT count(*), sum(value) FROM written"
FILES = "SELECT count(*) FROM written$files"
WORKS = "SELECT kind, count(*), sum(seconds) FROM system.maintenance WHERE outcome {} 'ok' GROUP BY kind ORDER BY kind"


@dataclass(slots=True)
class _Writers:
    """Connections that append a row at a time, all together `rate` in a second; `rows` counts what was acknowledged."""

    uri: str
    rate: float
    partitions: int
    seconds: float
    rows: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, writer: int) -> None:
        """Append rows, each when it is due, until the time is over."""
        began, number = time.perf_counter(), 0
        with closing(dbapi.connect(self.uri, autocommit=True)) as connection, connection.cursor() as cursor:
            while (now := time.perf_counter() - began) < self.seconds:
                due = number * WRITERS / self.rate
                if now < due:
                    time.sleep(due - now)
                rows = pa.table({"part": [(number * WRITERS + writer) % max(self.partitions, 1)], "value": [1]})
                cursor.adbc_ingest("written", rows, mode="append")
                number += 1
                with self._lock:
                    self.rows += 1


@dataclass(frozen=True, slots=True)
class _Reader:
    """A connection that measures the table."""

    connection: dbapi.Connection

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return the rows of a query or a statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()]

    def files(self) -> int:
        """Return how many files the newest version of the table has."""
        return int(str(self.rows(FILES)[0][0]))

    def sum_milliseconds(self) -> float:
        """Return how long a sum of all rows takes; it must be right."""
        began = time.perf_counter()
        ((count, total),) = self.rows(SUM)
        if count != (total or 0):
            raise AssertionError(f"a sum of ones is {total} over {count} rows")
        return (time.perf_counter() - began) * 1000

    def median(self) -> float:
        """Return the median time of some sums, after one."""
        return statistics.median([self.sum_milliseconds() for _ in range(1 + SUMS)][1:])


def main() -> int:
    """0 where every answer was right."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="lance-flight-bench-") as place:
        arguments = ("--maintenance", "on", "--maintenance-share", str(options.share)) if options.share else ()
        with servers.ours(Path(place) / "root", *arguments, log=Path(place) / "log") as server:
            writers = _Writers(server.uri, options.rate, options.partitions, options.seconds)
            with closing(dbapi.connect(server.uri, autocommit=True)) as connection:
                for line in _measure(_Reader(connection), writers):
                    print(line, flush=True)
    return 0


def _measure(reader: _Reader, writers: _Writers) -> Iterator[str]:
    reader.rows(CREATE + (" PARTITIONED BY (part)" if writers.partitions else ""))
    yield f"{'seconds':>8}{'commits':>9}{'files':>8}{'sum ms':>9}"
    began, most = time.perf_counter(), 0
    with ThreadPoolExecutor(WRITERS) as pool:
        running = [pool.submit(writers.write, writer) for writer in range(WRITERS)]
        while not all(each.done() for each in running):
            time.sleep(min(EVERY, max(began + writers.seconds - time.perf_counter(), 0.1)))
            milliseconds, files = reader.sum_milliseconds(), reader.files()
            most = max(most, files)
            yield f"{time.perf_counter() - began:8.0f}{writers.rows:9,}{files:8,}{milliseconds:9.1f}"
        for each in running:
            each.result()
    speed = writers.rows / writers.seconds
    reader.rows("ALTER TABLE written SET (maintenance = off)")
    written = reader.median()
    reader.rows("ALTER TABLE written COMPACT")
    compacted = reader.median()
    if reader.rows(SUM) != [(writers.rows, writers.rows)]:
        raise AssertionError(f"{reader.rows(SUM)}, but {writers.rows} rows were acknowledged")
    for outcome in ("=", "<>"):
        for kind, works, seconds in reader.rows(WORKS.format(outcome)):
            yield f"{kind}: {works} pieces {'done' if outcome == '=' else 'failed'}, {seconds:.1f} s"
    yield f"{speed:.1f} commits in a second of {writers.rate:g}"
    yield f"most files: {most:,} ({_met(most <= MOST_FILES)}: ≤ {MOST_FILES})"
    ratio = written / compacted
    yield f"sum ÷ compacted: {written:.1f} ms ÷ {compacted:.1f} ms = {ratio:.2f} ({_met(ratio <= MOST_RATIO)}: ≤ {MOST_RATIO:g})"


def _met(is_met: bool) -> str:  # noqa: FBT001 - it is what it says
    return "met" if is_met else "missed"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="time of writing (default: %(default)g)")
    parser.add_argument("--rate", type=float, default=45.0, help="commits in a second (default: %(default)g)")
    parser.add_argument(
        "--partitions", type=int, default=100, help="partitions; 0: a plain table (default: %(default)s)"
    )
    parser.add_argument("--share", type=float, default=0.1, help="maintenance_share (default: %(default)g)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
