"""`python -m benchmarks.durability`: what it costs that an acknowledged commit survives a power cut, beside stores that flush as well.

Each store runs one statement after another, in rounds that alternate: in this process, or in a PostgreSQL server of this run over its socket.
SQLite has a write-ahead log and `synchronous = FULL`; DuckDB and PostgreSQL flush their logs as they come. All files are on one disk.
PostgreSQL is left out where its programs, or psycopg, are not installed (`uv run --with 'psycopg[binary]'`).
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.durability import Durability, durability
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.translation.evaluation import evaluate
from lance_flight.model.naming import PUBLIC, TableName

from benchmarks import data
from benchmarks.timing import interleaved, timed

try:
    import psycopg  # type: ignore[import-not-found]
except ImportError:
    psycopg = None

ROUNDS, COMMITS, WRITERS, MANY, FEW = 7, 10, 8, 100_000, 1_000
INSERT, UPDATE = "INSERT INTO t VALUES (1, 1)", f"UPDATE u SET n = n + 1 WHERE id < {FEW}"
TABLES = ("t", "u", "m")

Run = Callable[[str], object]


@dataclass(frozen=True)
class Peer:
    """A store: a new client of it, and how it inserts some rows in one commit."""

    connect: Callable[[], Run]
    load: Callable[[Run, str, int], object]


def open_ours(place: Path, mode: Durability) -> Peer:
    """An engine in this process, over a directory."""
    place.mkdir()
    engine = Engine(Root(Store(str(place))), target_partitions=2)

    def run(sql: str) -> object:
        durability.mode = mode
        return engine.update(sql)

    def load(_: Run, table: str, count: int) -> object:
        durability.mode = mode
        target, numbers = engine.root.table(TableName(PUBLIC, table)), pa.array(range(count), pa.int64())
        return target.append([pa.table([numbers, numbers], schema=target.snapshot().schema.table)], evaluate)

    return Peer(lambda: run, load)


def insert_from(series: str) -> Callable[[Run, str, int], object]:
    """Insertion of the numbers of a series, of which `{last}` is the last."""
    return lambda run, table, count: run(f"INSERT INTO {table} SELECT i, i FROM {series.format(last=count - 1)}")


def open_sqlite(file: Path) -> Peer:
    """SQLite, with a write-ahead log that is flushed at each commit."""

    def connect() -> Run:
        connection = sqlite3.connect(file, isolation_level=None, timeout=60, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection.execute

    numbers = "(WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < {last}) SELECT i FROM s)"
    return Peer(connect, insert_from(numbers))


def open_duckdb(file: Path) -> Peer:
    """DuckDB, in one file."""
    database = duckdb.connect(file)
    return Peer(lambda: database.cursor().execute, insert_from("range({last} + 1) AS s(i)"))


@contextmanager
def open_postgres(place: Path) -> Iterator[Peer | None]:
    """PostgreSQL, in a server for the block; None where it is not installed."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if psycopg is None or not programs:
        yield None
        return
    place.mkdir()
    place.parent.chmod(0o755)
    shutil.chown(place, "postgres")

    def control(program: str, *words: str) -> None:
        subprocess.run([programs[-1] / program, "-D", place / "data", *words], user="postgres", check=True, cwd=place)

    control("initdb", "--auth=trust", "--no-instructions")
    control("pg_ctl", "-w", "-l", str(place / "log"), "-o", f"-c listen_addresses= -k {place}", "start")
    try:
        where = f"host={place} dbname=postgres user=postgres"
        yield Peer(
            lambda: psycopg.connect(where, autocommit=True).execute, insert_from("generate_series(0, {last}) AS s(i)")
        )
    finally:
        control("pg_ctl", "-m", "immediate", "stop")


def cases_of(peer: Peer) -> Mapping[str, Callable[[], object]]:
    """The statements of one store, over tables that are there."""
    run, writers = peer.connect(), [peer.connect() for _ in range(WRITERS)]
    for table in TABLES:
        run(f"CREATE TABLE {table} (id BIGINT, n BIGINT)")
    peer.load(run, "u", 10 * FEW)

    def repeat(one: Run) -> None:
        for _ in range(COMMITS):
            one(INSERT)

    def together() -> None:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(repeat, writers))

    return {
        "INSERT of 1 row": partial(repeat, run),
        f"INSERT of {MANY:,} rows": partial(peer.load, run, "m", MANY),
        f"UPDATE of {FEW:,} of {10 * FEW:,} rows": partial(run, UPDATE),
        f"{WRITERS} writers, each 1 row": together,
    }


PER_COMMIT = {"INSERT of 1 row": COMMITS, f"{WRITERS} writers, each 1 row": COMMITS * WRITERS}
"""Commits in one turn of a case; one in the others."""


def main() -> int:
    """Measure, and print a table of milliseconds a commit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durability", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds that count (%(default)s)")
    parser.add_argument("--place", help="directory on the disk that is measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lance-flight-bench-", dir=arguments.place) as top, ExitStack() as held:
        place = Path(top)
        peers = {
            "none": open_ours(place / "none", Durability.NONE),
            "commit": open_ours(place / "commit", Durability.COMMIT),
            "SQLite": open_sqlite(place / "sqlite.db"),
            "DuckDB": open_duckdb(place / "duck.db"),
            "PostgreSQL": held.enter_context(open_postgres(place / "postgres")),
        }
        cases = {name: cases_of(peer) for name, peer in peers.items() if peer is not None}
        print("| milliseconds a commit | " + " | ".join(cases) + " |")
        print("| --- |" + " ---: |" * len(cases))
        for case in next(iter(cases.values())):
            seconds = interleaved({name: timed(of[case]) for name, of in cases.items()}, arguments.rounds)
            each = (1000 * taken / PER_COMMIT.get(case, 1) for taken in seconds.values())
            print(f"| {case} | " + " | ".join(f"{taken:,.1f}" for taken in each) + " |", flush=True)
        written = (arguments.rounds + 1) * (1 + WRITERS) * COMMITS
        for mode in ("none", "commit"):
            table = Root(Store(str(place / mode))).table(TableName(PUBLIC, "t"))
            data.expect(f"rows of {mode}", sum(rows.num_rows for rows in table.rows()), written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
