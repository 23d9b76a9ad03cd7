"""Milliseconds of a lookup by a BTREE in 100 partitions ÷ the scan that it saves: the same row found by looking at every one.

The rows are those of the other areas. The index is about all of them, and none of the partitions can be pruned. Each round looks
for several rows, one after another.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import data
from benchmarks.bench import HUNDRED, Bench
from benchmarks.client import SqlClient
from benchmarks.results import FINE_MILLISECONDS, Aim, Result
from benchmarks.timing import interleaved, timed

AIM = Aim("ratio", "≤", 0.05)
ROWS = 16


def measure(bench: Bench) -> list[Result]:
    """One line."""
    numbers = range(0, bench.facts.rows, bench.facts.rows // ROWS)[:ROWS]
    with bench.servers() as pair:
        pair.ours.update(f"CREATE INDEX by_id ON {HUNDRED} (id) WITH (min_rows = 1)")
        cases = {
            "lookup": timed(_find, pair.ours, numbers, "id = {}"),
            "scan": timed(_find, pair.ours, numbers, "id + 0 = {}"),
        }
        seconds = interleaved(cases, bench.options.rounds)
        pair.ours.update(f"DROP INDEX by_id ON {HUNDRED}")
    return [
        Result(
            what="id = constant under a BTREE in 100 partitions, limit the scan",
            ours=seconds["lookup"] / len(numbers),
            limit=seconds["scan"] / len(numbers),
            unit=FINE_MILLISECONDS,
            aims=(AIM,),
        )
    ]


def _find(client: SqlClient, numbers: Sequence[int], condition: str) -> None:
    for number in numbers:
        found = client.rows(f"SELECT id FROM {HUNDRED} WHERE {condition.format(number)}")
        data.expect("the row that is looked up", [row["id"] for row in found], [number])
