"""Queries per second of a server that is watched ÷ of one that is not, both with 16 clients at once.

Watched is one that logs a line of JSON for each statement, and counts it for Prometheus.
"""

from __future__ import annotations

from benchmarks import servers
from benchmarks.bench import Bench
from benchmarks.concurrency import CLIENTS, QUERIES, Load, connected
from benchmarks.results import ERRORS, QUERIES_PER_SECOND, Aim, Result
from benchmarks.timing import interleaved, timed

TIMES = 3
"""How often each round asks every query: what is looked for is small."""


def measure(bench: Bench) -> list[Result]:
    """Throughput, and errors."""
    watching = ("--log-statements", "--log-format", "json", "--admin-port", "0")
    with (
        servers.ours(bench.root) as alone,
        servers.ours(bench.root, *watching, log=bench.place / "statements.log") as watched,
        connected(alone) as alone_clients,
        connected(watched) as watched_clients,
    ):
        loads = {"alone": Load(bench, alone_clients), "watched": Load(bench, watched_clients)}
        seconds = interleaved({name: timed(_run, load) for name, load in loads.items()}, bench.options.rounds)
    lines = (bench.place / "statements.log").read_text().count("\n")
    if lines < loads["watched"].queries:
        raise AssertionError(f"{lines} lines for {loads['watched'].queries} queries")
    errors = sum(load.errors for load in loads.values())
    return [
        Result(
            what=f"{CLIENTS[-1]} clients, logged and counted, limit neither",
            ours=QUERIES * TIMES / seconds["watched"],
            limit=QUERIES * TIMES / seconds["alone"],
            unit=QUERIES_PER_SECOND,
            aims=(Aim("ratio", "≥", 0.97),),
        ),
        Result(what="failed queries", ours=errors, unit=ERRORS, aims=(Aim("ours", "≤", 0),)),
    ]


def _run(load: Load) -> None:
    for _ in range(TIMES):
        load.run(CLIENTS[-1])
