"""`python -m benchmarks.peers`: the service over the wire beside other stores of the same rows, each in its own environment.

TPC-H's line items, partitioned by year and month where the peer has partitions (84). All peers must give the same answers before the clock
starts. They then take turns within each question, in an order that alternates; a turn asks a short question a few times. A question has the
same text each time, but for `new text`: another day each time. A peer that could not be installed or run is named with the reason.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data, servers, tpch
from benchmarks.drivers.question import Question
from benchmarks.peer_processes import Peer, PeerProcess, Unavailable

ARROW = "pyarrow==26.0.1"
BASE = "DuckDB hive"
PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        BASE: Peer(driver="duckdb_hive", packages=("duckdb==2.0.0", ARROW)),
        "DuckLake": Peer(driver="ducklake", packages=("duckdb==1.5.5", "duckdb-extension-ducklake==1.5.5", ARROW)),
        "deltalake": Peer(driver="delta", packages=("deltalake==1.6.6", ARROW)),
        "PyIceberg + DuckDB": Peer(
            driver="iceberg", packages=("pyiceberg[pyarrow,pyiceberg-core,sql-sqlite]==0.12.0", "duckdb==2.0.0", ARROW)
        ),
        "one Lance table": Peer(driver="lance_table", packages=("pylance==14.0.2", "datafusion==55.0.0", ARROW)),
        "Quack": Peer(
            driver="quack",
            packages=("duckdb==1.5.5", "duckdb-extension-quack==1.5.5", "duckdb-extension-httpfs==1.5.5", ARROW),
        ),
        "ROAPI": Peer(driver="roapi", packages=("roapi==0.12.7",), is_client_ours=True),
        "bare Flight": Peer(driver="bare_flight", is_client_ours=True),
        "lance-flight": Peer(driver="lance_flight", is_client_ours=True),
    }
)

SCALE, ROUNDS, LOADS, APPENDS, REPEATS = 1.0, 5, 3, 30, 5
ADDED_ROWS, ADDED_MONTHS = 100, 60
RATE_SECONDS, CLIENTS, EXACT_TO = 1.0, 16, 100
DAY, FIRST_MONTH = date(1995, 3, 15), 1993
PRICE = "count(*) AS n, sum(l_extendedprice) AS price"
REVENUE = "sum(l_extendedprice * (1 - l_discount)) AS revenue"
GROUP = "l_returnflag, l_linestatus"
ONE = Question(select="1 AS one")
RATES = {
    "day, 1 client": ("day", 1),
    f"day, {CLIENTS} clients": ("day", CLIENTS),
    f"SELECT 1, {CLIENTS} clients": ("SELECT 1", CLIENTS),
}

Turn = Callable[[int], dict[str, object]]
"""The request of each peer in a round."""


def day(wanted: date = DAY) -> Question:
    """One day: rows of one partition."""
    return Question(
        select=PRICE,
        columns=("l_shipdate", "l_extendedprice"),
        where=f"l_shipdate = DATE '{wanted}'",
        months=f"y = {wanted.year} AND m = {wanted.month}",
    )


def questions(rows: Path) -> dict[str, Question]:
    """What is asked, by heading; the key that is looked up lies in the middle of the rows."""
    file = pq.ParquetFile(rows)
    key = file.read_row_group(file.num_row_groups // 2, columns=["l_orderkey"])["l_orderkey"][0]
    names = tuple(file.schema_arrow.names)
    return {
        "SELECT 1": ONE,
        "day": day(),
        "quarter": Question(
            select=PRICE,
            columns=("l_shipdate", "l_extendedprice"),
            where="l_shipdate >= DATE '1995-01-01' AND l_shipdate < DATE '1995-04-01'",
            months="y = 1995 AND m <= 3",
        ),
        "group by": Question(
            select=f"{GROUP}, {PRICE}, sum(l_quantity) AS quantity, {REVENUE}",
            columns=("l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_shipdate"),
            where="l_shipdate <= DATE '1998-09-02'",
            group=GROUP,
        ),
        "key": Question(select=PRICE, columns=("l_orderkey", "l_extendedprice"), where=f"l_orderkey = {key}"),
        "stream all": Question(select=", ".join(names), columns=names, is_whole=True),
    }


@dataclass(frozen=True, slots=True)
class Rows:
    """Parquet files: all line items, and rows to append that fall into many partitions or into one."""

    all: Path
    scattered: Path
    one_month: Path

    @classmethod
    def make(cls, place: Path, scale: float) -> Rows:
        """Generate them unless they are there, with plain types that every peer stores."""
        rows = cls(place / "lineitem.parquet", place / "scattered.parquet", place / "one-month.parquet")
        if not rows.one_month.exists():
            tpch.generate(place / "generated", scale, ["lineitem"])
            first = _plain(place / "generated" / "lineitem.parquet", rows.all)
            months = [number % ADDED_MONTHS for number in range(ADDED_ROWS)]
            scattered = [date(FIRST_MONTH + month // 12, month % 12 + 1, DAY.day) for month in months]
            pq.write_table(_dated(first, scattered), rows.scattered)
            pq.write_table(_dated(first, [DAY] * ADDED_ROWS), rows.one_month)
        return rows


def _plain(source: Path, target: Path) -> pa.Table:
    """Write a file again without views of texts and without notes in its schema; its first rows."""
    file = pq.ParquetFile(source)
    fields = [f.remove_metadata() for f in file.schema_arrow]
    schema = pa.schema([f.with_type(pa.utf8()) if pa.types.is_string_view(f.type) else f for f in fields])
    with pq.ParquetWriter(target, schema) as writer:
        for group in range(file.num_row_groups):
            writer.write_table(file.read_row_group(group).cast(schema))
    return pq.ParquetFile(target).read_row_group(0).slice(0, ADDED_ROWS)


def _dated(rows: pa.Table, dates: list[date]) -> pa.Table:
    place = rows.schema.get_field_index("l_shipdate")
    return rows.set_column(place, rows.schema.field(place), pa.array(dates, pa.date32()))


@dataclass(slots=True)
class Run:
    """The peers, why some do not run, and what was measured by heading and peer: seconds, or answers per second."""

    peers: dict[str, PeerProcess] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    found: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def ask(self, name: str, verb: str, **arguments: object) -> list[Any] | None:
        """The result of a request; None from a peer that cannot do it or that fails, unless it is the base."""
        try:
            return self.peers[name](verb, **arguments)
        except Unavailable as exc:
            if name == BASE:
                raise
            self.reasons[name] = str(exc)
            del self.peers[name]
            return None

    def take_turns(self, heading: str, verb: str, turn: Turn, rounds: int, *, warm_up: bool = True) -> None:
        """Every peer once in each round; the first round does not count where it warms up."""
        taken = self.found.setdefault(heading, defaultdict(list))
        for number in range(rounds + warm_up):
            for name in list(self.peers) if number % 2 else list(reversed(self.peers)):
                result = self.ask(name, verb, **turn(number))
                if number >= warm_up:
                    taken[name] += result or []

    def compare(self, heading: str, question: Question) -> None:
        """`WrongAnswer` with the peer, the question and both answers where one is not that of the base."""
        answers = {name: self.ask(name, "answer", question=asdict(question)) for name in list(self.peers)}
        for name, answer in answers.items():
            if answer is not None:
                data.expect(f"{heading}: the answer of {name} to {question.sql()!r}", answer, answers[BASE])


def measure(run: Run, rows: Rows, rounds: int) -> None:
    """Load, compare, then question by question."""
    run.take_turns("load", "load", _always(rows=str(rows.all)), min(rounds, LOADS), warm_up=False)
    asked = questions(rows.all)
    for heading, question in asked.items():
        run.compare(heading, question)
    for heading, question in asked.items():
        run.take_turns(heading, "ask", _always(questions=[asdict(question)] * _repeats(question)), rounds)
    run.take_turns("day, new text", "ask", lambda number: {"questions": _days(number)}, rounds)
    for heading, (what, clients) in RATES.items():
        request = _always(question=asdict(asked[what]), clients=clients, seconds=RATE_SECONDS)
        run.take_turns(heading, "rate", request, rounds)
    run.take_turns(f"append {ADDED_ROWS}", "append", _always(rows=str(rows.scattered)), APPENDS - 1)
    run.peers = {name: peer for name, peer in run.peers.items() if run.found[f"append {ADDED_ROWS}"][name]}
    run.compare(f"after {APPENDS} appends", day())
    run.take_turns(f"day after {APPENDS}", "ask", _always(questions=[asdict(day())] * REPEATS), rounds)
    run.take_turns("append, 1 month", "append", _always(rows=str(rows.one_month)), rounds)
    run.compare("after all appends", asked["stream all"])


def _always(**request: object) -> Turn:
    return lambda _: request


def _repeats(question: Question) -> int:
    return 1 if question.is_whole else REPEATS


def _days(number: int) -> list[dict[str, object]]:
    """As many days as a turn asks, none of which was asked before."""
    return [asdict(day(DAY + timedelta(days=1 + number * REPEATS + i))) for i in range(REPEATS)]


@contextmanager
def started(names: Iterable[str], place: Path, cache: Path) -> Iterator[Run]:
    """A run with these peers and the base."""
    run = Run()
    with ExitStack() as stack:
        for name, peer in PEERS.items():
            if name != BASE and name not in names:
                continue
            try:
                run.peers[name] = stack.enter_context(PeerProcess(peer, cache / "environments", place / peer.driver))
            except Unavailable as exc:
                run.reasons[name] = str(exc)
        yield run


def table(run: Run) -> str:
    """Medians by heading and peer, each with its ratio to the base, in markdown; below it who is missing, and why."""
    names = [name for name in PEERS if name in run.reasons or any(taken[name] for taken in run.found.values())]
    lines = [["", *names]]
    lines += [
        [_unit(heading), *(_cell(taken, heading, name) for name in names)] for heading, taken in run.found.items()
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * (width - 1) + ":" if place else "-" * width for place, width in enumerate(widths)])
    rendered = [
        f"| {' | '.join(cell.rjust(w) if place else cell.ljust(w) for place, (cell, w) in enumerate(zip(line, widths, strict=True)))} |"
        for line in lines
    ]
    return "\n".join([*rendered, *(f"\n{name} did not run: {reason}" for name, reason in run.reasons.items())])


def _unit(heading: str) -> str:
    return f"{heading}, per second" if heading in RATES else f"{heading}, ms"


def _cell(taken: Mapping[str, list[float]], heading: str, name: str) -> str:
    if not taken[name]:
        return "–"
    median = statistics.median(taken[name])
    shown = median if heading in RATES else median * 1e3
    return f"{shown:,.{0 if shown >= EXACT_TO else 1}f} ({median / statistics.median(taken[BASE]):.2f})"


def main() -> int:
    """0 unless peers answer differently, whether or not all of them ran."""
    arguments = _parser().parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="lance-flight-bench-") as temporary:
        place = Path(temporary)
        cache = (arguments.cache or place / "cache").absolute()
        rows = Rows.make(cache / f"tpch-{arguments.scale:g}", arguments.scale)
        with started(arguments.only or PEERS, place, cache) as run:
            measure(run, rows, arguments.rounds)
    print(
        f"TPC-H line items at scale {arguments.scale:g}, medians of {arguments.rounds} interleaved rounds (÷ {BASE}),"
        f" {servers.CORES} cores, load {before:.1f} before\n\n{table(run)}\n"
    )
    for name in PEERS:
        print(f"{name}: {', '.join(PEERS[name].packages) or 'this environment'}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--scale", type=float, default=SCALE, metavar="X", help="of TPC-H (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help="after the warm-up (default: %(default)s)"
    )
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="keep environments and rows there (default: none are kept)"
    )
    parser.add_argument("--only", nargs="+", choices=PEERS, metavar="PEER", help=f"besides {BASE}: {', '.join(PEERS)}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
