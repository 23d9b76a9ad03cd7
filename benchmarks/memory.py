"""The most memory the server ever had resident (VmHWM), a fresh process for each case, beside the bare server's.

A reader slower than the server must not make it hold the rows, nor may an ingest hold its stream. The peer holds what
Lance and Flight hold by themselves at the same work: the stream of one table, an ingest into one table. The first line
is what both take before they do anything of the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from benchmarks import client, data
from benchmarks.bench import HUNDRED, PLAIN, Bench, Pair, check_stored
from benchmarks.client import SlowReader
from benchmarks.results import MEBIBYTES, Result

SLOW_SECONDS_PER_ROW = 1e-6
"""What the slow reader spends on a row: 10 s for ten million, a multiple of what it takes to send them."""

TARGET = "ingested"
Check = Callable[[], object]
Work = Callable[[Bench, Pair], Check]
"""Makes both servers work, and says how to check the result once the memory was read: a check is work too."""


def measure(bench: Bench) -> list[Result]:
    """One line for each case."""
    size = f"{MEBIBYTES.show(bench.table.nbytes)} of Arrow"
    return [
        _peaks("idle", bench.servers(), bench, _idle),
        _peaks(f"{size} from 1 table to a slow reader", bench.servers(), bench, _stream(PLAIN)),
        _peaks(f"{size} from 100 partitions to a slow reader", bench.servers(), bench, _stream(HUNDRED)),
        _peaks(f"{size} by DoPut into 500 partitions", bench.empty_servers("memory"), bench, _ingest),
    ]


def _peaks(what: str, servers: AbstractContextManager[Pair], bench: Bench, work: Work) -> Result:
    with servers as pair:
        check = work(bench, pair)
        ours, limit = pair.ours_server.peak_bytes(), pair.bare_server.peak_bytes()
        check()
    return Result(what=what, ours=ours, limit=limit, unit=MEBIBYTES)


def _idle(bench: Bench, pair: Pair) -> Check:
    found = pair.ours.rows("SELECT 1 AS one")
    return lambda: data.expect("SELECT 1", found, [{"one": 1}])


def _stream(table: str) -> Work:
    def work(bench: Bench, pair: Pair) -> Check:
        rows = bench.facts.rows
        slow = SlowReader(SLOW_SECONDS_PER_ROW * rows, rows)
        streams = pair.ours.stream(f"SELECT * FROM {table}"), pair.bare.stream(bench.bare_table)
        found = [client.drain(stream, slow) for stream in streams]
        return lambda: data.expect(f"rows of {table}", found, [rows, rows])

    return work


def _ingest(bench: Bench, pair: Pair) -> Check:
    pair.ours.ingest(TARGET, bench.table, partition_by=data.FIVE_HUNDRED_BY)
    pair.bare.write(str(bench.place / "memory.lance"), bench.table)
    return lambda: check_stored(pair.ours, TARGET, bench.facts)
