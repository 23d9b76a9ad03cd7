"""Joins of tables in buckets of their key, partition by partition ÷ DataFusion's own, and the reads that a join prunes.

`orders` and `lineitem` of TPC-H meet in 8 pairs of buckets, so that a join or a group by on the key holds one pair in
each lane where the plain one holds all of `orders`. Both sides run in the same engine, with the setting on and off, each
in a process of its own; a peak is that of a fresh process, less what it held before the query. What the plain side
answers, ours must. Peaks hold what Lance reads and decodes ahead as well: what that takes by itself is a line of its own.
The last line is a join with a small table that leaves one partition of 100: bytes read by system calls.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa
from lance_flight.model.checksums import Checksum

from benchmarks import data, engines, tpch
from benchmarks.bench import HUNDRED, Bench
from benchmarks.engines import Costs, EngineProcess, NoAnswer, Statement
from benchmarks.results import FINE_MEBIBYTES, MEBIBYTES, MILLISECONDS, Aim, Result
from benchmarks.timing import interleaved, timed

PARTITION_WISE, DYNAMIC = "partition_wise_join", "dynamic_pruning"
TIME_AIM, MEMORY_AIM = Aim("ratio", "≤", 0.8), Aim("ratio", "≤", 0.25)
READ_AIM = Aim("ratio", "≤", 0.1)

FRESH_ROUNDS = 2
"""Fresh processes for each peak: one takes a second to start."""

MEBIBYTE = 1 << 20
FIRST_LIMIT = 64 * MEBIBYTE
PRECISION = 1.25

MANY_TIMES = 3
"""How much longer than without a limit a query may take under one before it counts as hanging."""

PLACES = "places"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """One statement over the two tables, one that only reads the larger, the rows of the first by theirs, what is aimed at."""

    sql: str
    scan: str
    rows: Callable[[Mapping[str, int]], int]
    time_aims: tuple[Aim, ...] = ()
    memory_aims: tuple[Aim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """One statement over a root, with a setting on (ours) and off (the limit), what both answer, and in how many seconds."""

    root: Path
    ours: Statement
    plain: Statement
    answer: Checksum
    seconds: float

    @classmethod
    def checked(cls, root: Path, sql: str, setting: str) -> Sides:
        """`WrongAnswer` where they differ."""
        ours, plain = Statement(sql), Statement(sql, off=(setting,))
        started = time.perf_counter()
        answer = _fresh(root, engines.fingerprint, plain)
        seconds = time.perf_counter() - started
        data.expect(sql, _fresh(root, engines.fingerprint, ours), answer)
        return cls(root=root, ours=ours, plain=plain, answer=answer, seconds=seconds)

    @property
    def both(self) -> tuple[Statement, Statement]:
        return self.ours, self.plain

    def drain(self, process: EngineProcess, statement: Statement) -> None:
        """Run one of them."""
        data.expect(f"rows of {statement}", process(engines.drain, statement), self.answer.rows)

    def costs(self, statement: Statement, warm_up: str) -> Costs:
        """What one of them takes in a fresh process."""
        found = _fresh(self.root, engines.costs, statement, warm_up)
        data.expect(f"rows of {statement}", found.rows, self.answer.rows)
        return found

    def completes(self, statement: Statement, memory_limit: int) -> bool:
        """Whether one of them comes to its end within a memory limit; DataFusion may wait for ever where it is small."""
        patience = MANY_TIMES * self.seconds
        try:
            with EngineProcess(self.root, memory_limit=memory_limit, patience=patience) as process:
                return process(engines.completes, statement, self.answer)
        except NoAnswer as exc:
            limit = MEBIBYTES.show(memory_limit)
            print(f"joins: {exc} at a memory limit of {limit}, off: {statement.off}", file=sys.stderr, flush=True)
            return False


def measure(bench: Bench) -> list[Result]:
    """Four lines for each query of TPC-H, and one for the pruned reads."""
    root = bench.scratch("joins")
    rows = tpch.load(root, bench.options.scale)
    results = []
    for name, query in QUERIES.items():
        sides = Sides.checked(root, query.sql, PARTITION_WISE)
        data.expect(f"rows of {name}", sides.answer.rows, query.rows(rows))
        results += [
            _times(name, query, sides, bench.options.rounds),
            *_peaks(name, query, sides),
            _limits(name, sides),
        ]
    return [*results, _reads(bench)]


def _times(name: str, query: Query, sides: Sides, rounds: int) -> Result:
    with EngineProcess(sides.root) as ours, EngineProcess(sides.root) as plain:
        cases = {
            "ours": timed(sides.drain, ours, sides.ours),
            "plain": timed(sides.drain, plain, sides.plain),
        }
        seconds = interleaved(cases, rounds)
    return Result(
        what=f"{name}: time", ours=seconds["ours"], limit=seconds["plain"], unit=MILLISECONDS, aims=query.time_aims
    )


def _peaks(name: str, query: Query, sides: Sides) -> list[Result]:
    """Of the query, and of the scan that both sides have to pay for."""
    taken = []
    for _ in range(FRESH_ROUNDS):
        costs = [sides.costs(side, WARM_UP) for side in sides.both]
        costs.append(_fresh(sides.root, engines.costs, Statement(query.scan), WARM_UP))
        taken.append([cost.peak_bytes for cost in costs])
    ours, plain, scanned = map(statistics.median, zip(*taken, strict=True))
    return [
        Result(what=f"{name}: peak memory", ours=ours, limit=plain, unit=MEBIBYTES, aims=query.memory_aims),
        Result(what=f"{name}: peak memory of only reading lineitem", ours=scanned, limit=plain, unit=MEBIBYTES),
    ]


def _limits(name: str, sides: Sides) -> Result:
    ours, plain = (_smallest(partial(sides.completes, statement)) for statement in sides.both)
    return Result(what=f"{name}: smallest memory limit", ours=ours, limit=plain, unit=FINE_MEBIBYTES)


def _smallest(completes: Callable[[int], bool]) -> float:
    """The least number of bytes with which it completes, or up to `PRECISION` times as many."""
    enough = too_few = FIRST_LIMIT
    if completes(FIRST_LIMIT):
        while enough > MEBIBYTE and completes(too_few := enough // 2):
            enough = too_few
    else:
        while not completes(enough := too_few * 2):
            too_few = enough
    while enough > too_few * PRECISION:
        middle = int((enough * too_few) ** 0.5)
        if completes(middle):
            enough = middle
        else:
            too_few = middle
    return enough


def _reads(bench: Bench) -> Result:
    places = pa.table({"c": range(data.HUNDRED), "name": [f"place {number}" for number in range(data.HUNDRED)]})
    engines.store(bench.root, PLACES, places.to_reader())
    sides = Sides.checked(bench.root, PRUNED, DYNAMIC)
    ours, plain = (sides.costs(statement, f"SELECT count(*) AS n FROM {PLACES}").read_bytes for statement in sides.both)
    return Result(
        what="join that leaves 1 partition of 100: bytes read",
        ours=ours,
        limit=plain,
        unit=FINE_MEBIBYTES,
        aims=(READ_AIM,),
    )


def _fresh(root: Path, work: Callable[..., T], *arguments: object) -> T:
    """What a function of `engines` returns in a process made for it."""
    with EngineProcess(root) as process:
        return process(work, *arguments)


WARM_UP = (
    "SELECT o_orderpriority, sum(l_quantity) AS quantity FROM orders JOIN lineitem ON o_orderkey = l_orderkey"
    " WHERE o_orderkey = 7 GROUP BY o_orderpriority"
)
"""Has the code of a scan, a join and an aggregate loaded: its pages are resident memory too, some 80 MiB."""

PRUNED = (
    "SELECT count(*) AS n, sum(id) AS ids, sum(b) AS b, max(s) AS s"
    f" FROM {HUNDRED} JOIN {PLACES} ON {HUNDRED}.c = {PLACES}.c WHERE name = 'place 42'"
)

QUERIES: Mapping[str, Query] = MappingProxyType(
    {
        "join and aggregate": Query(
            "SELECT o_orderpriority, count(*) AS n, sum(l_extendedprice * (1 - l_discount)) AS revenue"
            " FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY o_orderpriority",
            "SELECT max(l_orderkey) AS k, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem",
            lambda _: 5,
            (TIME_AIM,),
            (MEMORY_AIM,),
        ),
        "join, every column": Query(
            "SELECT * FROM orders JOIN lineitem ON o_orderkey = l_orderkey",
            "SELECT * FROM lineitem",
            lambda rows: rows["lineitem"],
            (TIME_AIM,),
            (MEMORY_AIM,),
        ),
        "group by key": Query(
            "SELECT l_orderkey, sum(l_quantity) AS quantity FROM lineitem GROUP BY l_orderkey",
            "SELECT max(l_orderkey) AS k, sum(l_quantity) AS quantity FROM lineitem",
            lambda rows: rows["orders"],
        ),
    }
)
