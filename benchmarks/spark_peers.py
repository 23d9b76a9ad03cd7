"""`python -m benchmarks.spark_peers`: our tables in Spark beside those of Iceberg and Delta, each engine in its own environment and process.

TPC-H's orders and line items are loaded by year and month and into buckets of the order's key. Engines must give the same answers before the
clock starts; they take turns within each step, in an order that alternates. Cold is a step's first run in a new process whose session
has started; warm is the median of later runs there. A dash is a step that an engine does not have; one that fails is named with the reason.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks import data, results, servers, tpch
from benchmarks.peer_processes import Peer, PeerProcess, Unavailable, start_peer

PROGRAM = "benchmarks.drivers.spark_program"
PYSPARK = "pyspark==4.1.4"
"""The newest that Iceberg and Delta have jars for."""
OURS = (PYSPARK, "--editable", f"{servers.PROJECT}[spark]")
BASE = "Iceberg"
ENGINES: Mapping[str, Peer] = MappingProxyType(
    {
        BASE: Peer(driver="spark_tables:Iceberg", packages=(PYSPARK,), program=PROGRAM),
        "Delta": Peer(driver="spark_tables:Delta", packages=(PYSPARK,), program=PROGRAM),
        "connector": Peer(driver="spark_ours:Connector", packages=OURS, program=PROGRAM),
        "options": Peer(driver="spark_ours:Options", packages=OURS, program=PROGRAM),
    }
)
LOADS = {
    "load by month, cold": "load_months",
    "load into buckets, warm": "load_buckets",
    "load by month, warm": "load_months",
}
QUESTIONS = {"one month": "month", "Q1": "q1", "join by bucket": "join"}
CHANGES = {"MERGE of a hundredth": "merge", "compaction": "compact"}
REPEATED = {"merge"}
"""Changes that do as much, and leave the same, when they are run again."""
SCALE, ROUNDS = 1.0, 3
WARM = 7
"""Least number of warm runs of a question: the first ones of a process still wait for compilers."""


@dataclass(slots=True)
class Run:
    """The engines that run, why others do not, and the seconds by heading and engine."""

    place: Path
    cache: Path
    names: list[str]
    reasons: dict[str, str] = field(default_factory=dict)
    found: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    @contextmanager
    def started(self) -> Iterator[dict[str, PeerProcess]]:
        """Start a new process for each engine, with its session; what they have stored is there."""
        with ExitStack() as stack:
            running: dict[str, PeerProcess] = {}
            for name in list(self.names):
                peer = ENGINES[name]
                process = start_peer(peer, self.cache / "environments", self.place / peer.directory)
                try:
                    running[name] = stack.enter_context(process)
                    self.found["start of a session"][name] += running[name]("start")
                except Unavailable as exc:
                    self.fail(name, exc)
            yield running

    def fail(self, name: str, exc: Unavailable) -> None:
        """Leave an engine out from now on; the base has to run."""
        if name == BASE:
            raise exc
        self.reasons[name] = str(exc)
        self.names.remove(name)

    def turn(self, running: Mapping[str, PeerProcess], heading: str, number: int, verb: str, **request: Any) -> None:
        """Send each engine one request and keep what it took."""
        names = [name for name in self.names if name in running]
        for name in names if number % 2 else reversed(names):
            try:
                self.found[heading][name] += running[name](verb, **request) or []
            except Unavailable as exc:
                self.fail(name, exc)
        print(f"measured: {heading}", file=sys.stderr, flush=True)

    def compare(self, running: Mapping[str, PeerProcess], step: str) -> None:
        """Raise `WrongAnswer` where an engine's answer is not that of the base."""
        expected = running[BASE]("answer", step=step)
        for name in self.names:
            answer = running[name]("answer", step=step) if name in running else None
            if answer is not None:
                data.expect(f"{step}: the answer of {name}", answer, expected)


def measure(run: Run, rows: Path, rounds: int, steps: Sequence[str]) -> None:
    """Load, compare, ask, change."""
    given = {"rows": str(rows)}
    for number in range(rounds):
        with run.started() as running:
            for heading, step in LOADS.items():
                run.turn(running, heading, number, "change", step=step, **given)
    for heading, step in QUESTIONS.items():
        if heading in steps:
            with run.started() as running:
                run.turn(running, f"{heading}, cold", 0, "ask", step=step)
                run.compare(running, step)
                for number in range(max(rounds, WARM)):
                    run.turn(running, f"{heading}, warm", number, "ask", step=step)
    with run.started() as running:
        for heading, step in CHANGES.items():
            if heading in steps:
                run.turn(running, f"{heading}, cold", 0, "change", step=step, **given)
                run.compare(running, "merged")
                for number in range(rounds if step in REPEATED else 0):
                    run.turn(running, f"{heading}, warm", number, "change", step=step, **given)
                    run.compare(running, "merged")


def format_lines(run: Run, names: Sequence[str]) -> list[list[str]]:
    """Format the table: medians in seconds by heading and engine, each with its ratio to the base."""
    return [[heading, *(_format_cell(taken, name) for name in names)] for heading, taken in run.found.items()]


def _format_cell(taken: Mapping[str, list[float]], name: str) -> str:
    if not taken.get(name):
        return "–"
    median = statistics.median(taken[name])
    base = f" ({median / statistics.median(taken[BASE]):.2f})" if taken.get(BASE) else ""
    return f"{median:,.2f}{base}"


def main() -> int:
    """Return 0 unless engines answer differently, whether or not all of them ran."""
    arguments = _make_parser().parse_args()
    names = [name for name in ENGINES if name == BASE or name in (arguments.only or ENGINES)]
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="lance-flight-bench-") as temporary:
        cache = (arguments.cache or Path(temporary) / "cache").absolute()
        rows = cache / f"tpch-tables-{arguments.scale:g}"
        if not (rows / "lineitem.parquet").exists():
            tpch.generate(rows, arguments.scale, ["orders", "lineitem"])
        run = Run(Path(temporary), cache, list(names))
        measure(run, rows, arguments.rounds, arguments.steps or [*QUESTIONS, *CHANGES])
    print(
        f"TPC-H at scale {arguments.scale:g} in Spark, local[2], {PYSPARK}: seconds, medians of {arguments.rounds} interleaved rounds (÷ {BASE});"
        f" {servers.CORES} cores, load {before:.1f} before and {os.getloadavg()[0]:.1f} after\n"
    )
    print((results.markdown if arguments.markdown else results.aligned)(format_lines(run, names), ["", *names], (0,)))
    for name, reason in run.reasons.items():
        print(f"\n{name}: {reason}")
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_peers", description=__doc__)
    parser.add_argument("--scale", type=float, default=SCALE, metavar="X", help="of TPC-H (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="of each step (default: %(default)s)")
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="keep environments and rows there (default: none are kept)"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as markdown")
    parser.add_argument(
        "--only", nargs="+", choices=ENGINES, metavar="ENGINE", help=f"besides {BASE}: {', '.join(ENGINES)}"
    )
    steps = [*QUESTIONS, *CHANGES]
    parser.add_argument(
        "--steps", nargs="+", choices=steps, metavar="STEP", help=f"after the loads: {', '.join(steps)} (default: all)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
