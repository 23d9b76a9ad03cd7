"""Queries per second of 16 clients with two replicas behind one address ÷ with one server, on the same cores and rows."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.concurrency import CLIENTS, QUERIES, Load, connected
from benchmarks.results import ERRORS, QUERIES_PER_SECOND, Aim, Result
from benchmarks.servers import replicas
from benchmarks.timing import interleaved, timed

REPLICAS = 2


def measure(bench: Bench) -> list[Result]:
    """Throughput beside one server, and errors."""
    most = CLIENTS[-1]
    with (
        bench.servers() as pair,
        replicas(bench.root, REPLICAS) as several,
        connected(pair.ours_server) as at_one,
        connected(several) as at_several,
    ):
        one, two = Load(bench, at_one), Load(bench, at_several)
        seconds = interleaved({"one": timed(one.run, most), "two": timed(two.run, most)}, bench.options.rounds)
    return [
        Result(
            what=f"{most} clients at {REPLICAS} replicas, limit one server",
            ours=QUERIES / seconds["two"],
            limit=QUERIES / seconds["one"],
            unit=QUERIES_PER_SECOND,
            aims=(Aim("ratio", "≥", 1.5),),
        ),
        Result(
            what=f"failed of {two.queries:,} queries at {REPLICAS} replicas",
            ours=two.errors,
            unit=ERRORS,
            aims=(Aim("ours", "≤", 0),),
        ),
    ]
