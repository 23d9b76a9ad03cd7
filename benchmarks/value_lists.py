"""Milliseconds of a query with 20,000 values in its condition ÷ Lance's own scan of the same rows with the same filter, in this process.

The values are others each time, as those of programs are: no plan of an earlier statement is of use. Lance is given IN for all forms:
it takes chains of OR apart one by one, and has no parameters. Parameters are those of a statement that is prepared once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

import lance
import pyarrow as pa

from benchmarks import data
from benchmarks.bench import PLAIN, Bench
from benchmarks.client import Prepared, SqlClient
from benchmarks.results import MILLISECONDS, Aim, Result
from benchmarks.timing import Stopwatch, interleaved

AIM = Aim("ratio", "≤", 2)
VALUES = 20_000
NAMES = [f"${number}" for number in range(1, VALUES + 1)]
FORMS: dict[str, Callable[[Sequence[int]], str]] = {
    "IN": lambda values: f"id IN ({', '.join(map(str, values))})",
    "OR": lambda values: " OR ".join(f"id = {value}" for value in values),
}


def measure(bench: Bench) -> list[Result]:
    """One line for each form, and one for parameters."""
    with bench.servers() as pair:
        peer = lance.dataset(bench.bare_table)
        return list(_measured(bench, pair.ours, peer))


def _measured(bench: Bench, ours: SqlClient, peer: lance.LanceDataset) -> Iterator[Result]:
    random = Random(data.SEED)  # noqa: S311 - values to look for

    # Each of a round has values of its own, as many of which are found on average.
    def case(find: Callable[[list[int]], Callable[[], list[int]]]) -> Callable[[Stopwatch], None]:
        def run(watch: Stopwatch) -> None:
            wanted = random.sample(range(2 * bench.facts.rows), VALUES)
            search = find(wanted)
            with watch:
                found = search()
            data.expect("rows of the values", sorted(found), sorted(v for v in wanted if v < bench.facts.rows))

        return run

    def by_text(write: Callable[[Sequence[int]], str], wanted: list[int]) -> Callable[[], list[int]]:
        sql = f"SELECT id FROM {PLAIN} WHERE {write(wanted)}"
        return lambda: [row for batch in ours.stream(sql) for row in batch["id"].to_pylist()]

    def by_parameters(prepared: Prepared, wanted: list[int]) -> Callable[[], list[int]]:
        row = pa.RecordBatch.from_arrays([pa.array([value]) for value in wanted], NAMES)
        return lambda: [int(str(found["id"])) for found in prepared.rows(row)]

    def of_peer(wanted: list[int]) -> Callable[[], list[int]]:
        condition = FORMS["IN"](wanted)

        def find() -> list[int]:
            found: list[int] = peer.to_table(columns=["id"], filter=condition)["id"].to_pylist()
            return found

        return find

    with ours.prepared(f"SELECT id FROM {PLAIN} WHERE id IN ({', '.join(NAMES)})") as prepared:
        forms = {form: partial(by_text, write) for form, write in FORMS.items()}
        for form, find in {**forms, "parameters of IN": partial(by_parameters, prepared)}.items():
            seconds = interleaved({"ours": case(find), "peer": case(of_peer)}, bench.options.rounds)
            yield Result(
                what=f"{VALUES:,} values in {form}, limit Lance's own",
                ours=seconds["ours"],
                limit=seconds["peer"],
                unit=MILLISECONDS,
                aims=(AIM,),
            )
