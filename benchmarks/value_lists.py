"""Milliseconds of a query with 20,000 values in its condition ÷ Lance's own scan of the same rows with the same filter, in this process.

The values are others each time, as those of programs are: no plan of an earlier statement is of use. Lance is given IN for both forms:
it takes chains of OR apart one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import lance
import pyarrow as pa

from benchmarks import data
from benchmarks.bench import PLAIN, Bench
from benchmarks.client import SqlClient
from benchmarks.results import MILLISECONDS, Aim, Result
from benchmarks.timing import Stopwatch, interleaved

AIM = Aim("ratio", "≤", 2)
VALUES = 20_000
FORMS: dict[str, Callable[[Sequence[int]], str]] = {
    "IN": lambda values: f"id IN ({', '.join(map(str, values))})",
    "OR": lambda values: " OR ".join(f"id = {value}" for value in values),
}


def measure(bench: Bench) -> list[Result]:
    """One line for each form."""
    with bench.servers() as pair:
        peer = lance.dataset(bench.bare_table)
        return list(_measured(bench, pair.ours, peer))


def _measured(bench: Bench, ours: SqlClient, peer: lance.LanceDataset) -> Iterator[Result]:
    random = Random(data.SEED)  # noqa: S311 - values to look for

    def values() -> list[int]:
        return random.sample(range(2 * bench.facts.rows), VALUES)

    for form, write in FORMS.items():
        # Both of a round have values of their own, as many of which are found on average.
        def of_ours(watch: Stopwatch, write: Callable[[Sequence[int]], str] = write) -> None:
            wanted = values()
            sql = f"SELECT id FROM {PLAIN} WHERE {write(wanted)}"
            with watch:
                found = pa.Table.from_batches(ours.stream(sql), pa.schema({"id": pa.int64()}))
            _check(found, wanted, bench)

        def of_peer(watch: Stopwatch) -> None:
            wanted = values()
            condition = FORMS["IN"](wanted)
            with watch:
                found = peer.to_table(columns=["id"], filter=condition)
            _check(found, wanted, bench)

        seconds = interleaved({"ours": of_ours, "peer": of_peer}, bench.options.rounds)
        yield Result(
            what=f"{VALUES:,} values in {form}, limit Lance's own",
            ours=seconds["ours"],
            limit=seconds["peer"],
            unit=MILLISECONDS,
            aims=(AIM,),
        )


def _check(found: pa.Table, wanted: list[int], bench: Bench) -> None:
    data.expect(
        "rows of the values", sorted(found["id"].to_pylist()), sorted(v for v in wanted if v < bench.facts.rows)
    )
