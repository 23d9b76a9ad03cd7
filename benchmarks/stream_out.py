"""Rows per second of `SELECT *` through the service ÷ a bare Flight server that streams one Lance scanner.

The peer is the ceiling: the same rows, the same client, the same cores, and nothing between Lance and Flight. Once
from one plain table and once from 100 partitions, which must cost no more.
"""

from __future__ import annotations

from benchmarks import client, data
from benchmarks.bench import HUNDRED, PLAIN, Bench, Pair
from benchmarks.results import ROWS_PER_SECOND, Aim, Result
from benchmarks.timing import interleaved, timed

AIM = Aim("ratio", "≥", 0.95)
TABLES = {PLAIN: "1 plain table", HUNDRED: "100 partitions"}


def measure(bench: Bench) -> list[Result]:
    """One line for each kind of table."""
    with bench.servers() as pair:
        client.check("the peer's stream", pair.bare.stream(bench.bare_table), bench.facts)
        for name in TABLES:
            client.check(f"SELECT * FROM {name}", pair.ours.stream(f"SELECT * FROM {name}"), bench.facts)
        cases = {"bare": timed(_bare, pair, bench)} | {name: timed(_ours, pair, bench, name) for name in TABLES}
        seconds = interleaved(cases, bench.options.rounds)
    rows = bench.facts.rows
    return [
        Result(
            what=f"SELECT * from {what}",
            ours=rows / seconds[name],
            limit=rows / seconds["bare"],
            unit=ROWS_PER_SECOND,
            aims=(AIM,),
        )
        for name, what in TABLES.items()
    ]


def _ours(pair: Pair, bench: Bench, name: str) -> None:
    data.expect(f"rows of {name}", client.drain(pair.ours.stream(f"SELECT * FROM {name}")), bench.facts.rows)


def _bare(pair: Pair, bench: Bench) -> None:
    data.expect("rows of the peer", client.drain(pair.bare.stream(bench.bare_table)), bench.facts.rows)
