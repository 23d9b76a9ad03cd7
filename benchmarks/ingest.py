"""Rows per second of a Flight SQL ingest ÷ a bare Flight `do_put` that hands its reader to Lance as one table.

Ours splits the rows by partition, checks them and commits all partitions at once; the peer does none of it. The rows
come in no order: every batch holds rows of every partition. One plain table of ours shows what the service alone costs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import lance

from benchmarks import data
from benchmarks.bench import HUNDRED, PLAIN, Bench, Pair, check_stored
from benchmarks.results import ROWS_PER_SECOND, Aim, Result
from benchmarks.timing import Case, Stopwatch, interleaved

AIMS = (Aim("ratio", "≥", 0.7), Aim("ours", "≥", 1e6))


def measure(bench: Bench) -> list[Result]:
    """One line for 100 partitions, one for a plain table."""
    with bench.empty_servers("ingest") as pair:
        ingests = _Ingests(bench, pair)
        cases: dict[str, Case] = {
            "bare": ingests.bare,
            HUNDRED: partial(ingests.ours, partition_by=data.HUNDRED_BY),
            PLAIN: partial(ingests.ours, partition_by=None),
        }
        seconds = interleaved(cases, bench.options.rounds)
    speed = {name: bench.facts.rows / taken for name, taken in seconds.items()}
    return [
        Result(
            what="DoPut into 100 partitions", ours=speed[HUNDRED], limit=speed["bare"], unit=ROWS_PER_SECOND, aims=AIMS
        ),
        Result(what="DoPut into 1 plain table", ours=speed[PLAIN], limit=speed["bare"], unit=ROWS_PER_SECOND),
    ]


@dataclass(frozen=True, slots=True)
class _Ingests:
    """Each time into a new table, which is gone again off the clock; what it holds is checked in the first round."""

    bench: Bench
    pair: Pair
    numbers: Iterator[int] = field(default_factory=count)

    def ours(self, watch: Stopwatch, partition_by: str | None) -> None:
        """Through the service."""
        name = f"ingest_{next(self.numbers)}"
        with watch:
            stored = self.pair.ours.ingest(name, self.bench.table, partition_by=partition_by)
        data.expect(f"rows stored in {name}", stored, self.bench.facts.rows)
        if watch.is_warm_up:
            check_stored(self.pair.ours, name, self.bench.facts)
        self.pair.ours.update(f"DROP TABLE {name}")

    def bare(self, watch: Stopwatch) -> None:
        """Through the peer."""
        path = str(self.bench.place / f"ingest_{next(self.numbers)}.lance")
        with watch:
            self.pair.bare.write(path, self.bench.table)
        data.expect(f"rows stored in {path}", lance.dataset(path).count_rows(), self.bench.facts.rows)
        shutil.rmtree(path)
