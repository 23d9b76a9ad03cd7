"""Milliseconds of a lookup by a BTREE in 100 partitions ÷ the scan that it saves: the same row found by looking at every one.

The rows are those of the other areas. The index is about all of them, and none of the partitions can be pruned.
"""

from __future__ import annotations

from benchmarks import data
from benchmarks.bench import HUNDRED, Bench
from benchmarks.client import SqlClient
from benchmarks.results import FINE_MILLISECONDS, Aim, Result
from benchmarks.timing import interleaved, timed

AIM = Aim("ratio", "≤", 0.05)


def measure(bench: Bench) -> list[Result]:
    """One line."""
    number = bench.facts.rows // 2
    with bench.servers() as pair:
        pair.ours.update(f"CREATE INDEX by_id ON {HUNDRED} (id) WITH (min_rows = 1)")
        cases = {
            "lookup": timed(_find, pair.ours, number, "id = {}"),
            "scan": timed(_find, pair.ours, number, "id + 0 = {}"),
        }
        seconds = interleaved(cases, bench.options.rounds)
        pair.ours.update(f"DROP INDEX by_id ON {HUNDRED}")
    return [
        Result(
            what="id = constant under a BTREE in 100 partitions, limit the scan",
            ours=seconds["lookup"],
            limit=seconds["scan"],
            unit=FINE_MILLISECONDS,
            aims=(AIM,),
        )
    ]


def _find(client: SqlClient, number: int, condition: str) -> None:
    found = client.rows(f"SELECT id FROM {HUNDRED} WHERE {condition.format(number)}")
    data.expect("the row that is looked up", [row["id"] for row in found], [number])
