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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pyarrow.parquet as pq

from benchmarks import data, results, servers, tpch
from benchmarks.drivers.driver import NormalForm
from benchmarks.peer_processes import Peer, PeerProcess, Unavailable, start_peer

ARROW = "pyarrow==26.0.1"
BASE = "DuckDB hive"
PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        BASE: Peer(driver="duck:Hive", packages=("duckdb==2.0.0", ARROW)),
        "DuckLake": Peer(driver="duck:Lake", packages=("duckdb==1.5.5", "duckdb-extension-ducklake==1.5.5", ARROW)),
        "deltalake": Peer(driver="delta:Delta", packages=("deltalake==1.6.6", ARROW)),
        "PyIceberg + DuckDB": Peer(
            driver="iceberg:Iceberg",
            packages=("pyiceberg[pyarrow,pyiceberg-core,sql-sqlite]==0.12.0", "duckdb==2.0.0", ARROW),
        ),
        "one Lance table": Peer(
            driver="lance_table:LanceTable", packages=("pylance==14.0.2", "datafusion==55.0.0", ARROW)
        ),
        "Quack": Peer(
            driver="duck:Quack",
            packages=("duckdb==1.5.5", "duckdb-extension-quack==1.5.5", "duckdb-extension-httpfs==1.5.5", ARROW),
        ),
        "ROAPI": Peer(driver="flight_servers:Roapi", packages=("roapi==0.12.7",), is_client_ours=True),
        "bare Flight": Peer(driver="flight_servers:Bare", is_client_ours=True),
        "lance-flight": Peer(driver="flight_servers:LanceFlight", is_client_ours=True),
    }
)

SCALE, ROUNDS, LOADS, APPENDS, REPEATS = 1.0, 5, 3, 30, 5
RATE_SECONDS, CLIENTS, EXACT_TO = 1.0, 16, 100
PRICE = "count(*) AS n, sum(l_extendedprice) AS price"
REVENUE = "sum(l_extendedprice * (1 - l_discount)) AS revenue"
GROUP = "l_returnflag, l_linestatus"
ONE = NormalForm(select="1 AS one")
RATES = {
    "day, 1 client": ("day", 1),
    f"day, {CLIENTS} clients": ("day", CLIENTS),
    f"SELECT 1, {CLIENTS} clients": ("SELECT 1", CLIENTS),
}

Admission = Callable[[int], dict[str, object]]
"""The request of each peer in a round."""


def make_day(wanted: date = tpch.DAY) -> NormalForm:
    """Return the question for one day, all of whose rows lie in one partition."""
    return NormalForm(
        select=PRICE,
        columns=("l_shipdate", "l_extendedprice"),
        where=f"l_shipdate = DATE '{wanted}'",
        months=f"y = {wanted.year} AND m = {wanted.month}",
    )


def make_questions(rows: Path) -> dict[str, NormalForm]:
    """Return the questions by heading; the key that is looked up lies in the middle of the rows."""
    file = pq.ParquetFile(rows)
    names = tuple(file.schema_arrow.names)
    key = file.read_row_group(file.num_row_groups // 2, columns=["l_orderkey"])["l_orderkey"][0]
    return {
        "SELECT 1": ONE,
        "day": make_day(),
        "quarter": NormalForm(
            select=PRICE,
            columns=("l_shipdate", "l_extendedprice"),
            where="l_shipdate >= DATE '1995-01-01' AND l_shipdate < DATE '1995-04-01'",
            months="y = 1995 AND m <= 3",
        ),
        "group by": NormalForm(
            select=f"{GROUP}, {PRICE}, sum(l_quantity) AS quantity, {REVENUE}",
            columns=("l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_shipdate"),
            where="l_shipdate <= DATE '1998-09-02'",
            group=GROUP,
        ),
        "key": NormalForm(select=PRICE, columns=("l_orderkey", "l_extendedprice"), where=f"l_orderkey = {key}"),
        "stream all": NormalForm(select=", ".join(names), columns=names, is_whole=True),
    }


@dataclass(slots=True)
class Run:
    """The peers, why some do not run, and what was measured by heading and peer: seconds, or answers per second."""

    peers: dict[str, PeerProcess] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    found: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def ask(self, name: str, verb: str, **arguments: object) -> list[Any] | None:
        """Return the result of a request; None from a peer that cannot do it or that fails, unless it is the base."""
        try:
            return cast("list[Any]", self.peers[name](verb, **arguments))
        except Unavailable as exc:
            if name == BASE:
                raise
            self.reasons[name] = str(exc)
            del self.peers[name]
            return None

    def take_turns(self, heading: str, verb: str, turn: Admission, rounds: int, *, warm_up: bool = True) -> None:
        """Send every peer one request in each round and keep what it took; the first round does not count where it warms up."""
        taken = self.found.setdefault(heading, defaultdict(list))
        for number in range(rounds + warm_up):
            for name in list(self.peers) if number % 2 else list(reversed(self.peers)):
                result = self.ask(name, verb, **turn(number))
                if number >= warm_up:
                    taken[name] += result or []
        print(f"measured: {heading}", file=sys.stderr, flush=True)

    def compare(self, heading: str, question: NormalForm) -> None:
        """Raise `WrongAnswer` with the peer, the question and both answers where one is not that of the base."""
        answers = {name: self.ask(name, "answer", question=asdict(question)) for name in list(self.peers)}
        for name, answer in answers.items():
            if answer is not None:
                data.expect(f"{heading}: the answer of {name} to {question.sql()!r}", answer, answers[BASE])


def measure(run: Run, rows: tpch.LineItems, rounds: int) -> None:
    """Load all peers, compare their answers, then measure question by question."""
    run.take_turns("load", "load", _repeat_request(rows=str(rows.all)), min(rounds, LOADS), warm_up=False)
    asked = make_questions(rows.all)
    for heading, question in asked.items():
        run.compare(heading, question)
    for heading, question in asked.items():
        run.take_turns(heading, "ask", _repeat_request(questions=[asdict(question)] * _count_repeats(question)), rounds)
    run.take_turns("day, new text", "ask", lambda number: {"questions": _next_days(number)}, rounds)
    for heading, (what, clients) in RATES.items():
        request = _repeat_request(question=asdict(asked[what]), clients=clients, seconds=RATE_SECONDS)
        run.take_turns(heading, "rate", request, rounds)
    run.take_turns(f"append {tpch.ADDED_ROWS}", "append", _repeat_request(rows=str(rows.scattered)), APPENDS - 1)
    run.peers = {name: peer for name, peer in run.peers.items() if run.found[f"append {tpch.ADDED_ROWS}"][name]}
    run.compare(f"after {APPENDS} appends", make_day())
    run.take_turns(f"day after {APPENDS}", "ask", _repeat_request(questions=[asdict(make_day())] * REPEATS), rounds)
    run.take_turns("append, 1 month", "append", _repeat_request(rows=str(rows.one_month)), rounds)
    run.compare("after all appends", asked["stream all"])


def _repeat_request(**request: object) -> Admission:
    return lambda _: request


def _count_repeats(question: NormalForm) -> int:
    return 1 if question.is_whole else REPEATS


def _next_days(number: int) -> list[dict[str, object]]:
    """Return as many days as a turn asks, none of which was asked before."""
    return [asdict(make_day(tpch.DAY + timedelta(days=1 + number * REPEATS + i))) for i in range(REPEATS)]


@contextmanager
def start_peers(names: Sequence[str], place: Path, cache: Path) -> Iterator[Run]:
    """Start the peers with these names; stop them at the end."""
    run = Run()
    with ExitStack() as stack:
        for name in names:
            process = start_peer(PEERS[name], cache / "environments", place / PEERS[name].directory)
            try:
                run.peers[name] = stack.enter_context(process)
            except Unavailable as exc:
                run.reasons[name] = str(exc)
        yield run


def format_lines(run: Run, names: Sequence[str]) -> list[list[str]]:
    """Format the table: medians by heading and peer, each with its ratio to the base."""
    return [
        [_format_heading(heading), *(_format_cell(taken, heading, name) for name in names)]
        for heading, taken in run.found.items()
    ]


def _format_heading(heading: str) -> str:
    return f"{heading}, per second" if heading in RATES else f"{heading}, ms"


def _format_cell(taken: Mapping[str, list[float]], heading: str, name: str) -> str:
    if not taken[name]:
        return "–"
    median = statistics.median(taken[name])
    shown = median if heading in RATES else median * 1e3
    return f"{shown:,.{0 if shown >= EXACT_TO else 1}f} ({median / statistics.median(taken[BASE]):.2f})"


def main() -> int:
    """Return 0 unless peers answer differently, whether or not all of them ran."""
    arguments = _make_parser().parse_args()
    names = [name for name in PEERS if name == BASE or name in (arguments.only or PEERS)]
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="lance-flight-bench-") as temporary:
        cache = (arguments.cache or Path(temporary) / "cache").absolute()
        rows = tpch.LineItems.make(cache / f"tpch-{arguments.scale:g}", arguments.scale)
        with start_peers(names, Path(temporary), cache) as run:
            measure(run, rows, arguments.rounds)
    print(
        f"TPC-H's line items at scale {arguments.scale:g}, medians of {arguments.rounds} interleaved rounds (÷ {BASE});"
        f" {servers.CORES} cores, load {before:.1f} before and {os.getloadavg()[0]:.1f} after\n"
    )
    print((results.markdown if arguments.markdown else results.aligned)(format_lines(run, names), ["", *names], (0,)))
    print("\n" + "\n".join(f"{name}: {run.reasons.get(name) or _format_packages(PEERS[name])}" for name in names))
    return 0


def _format_packages(peer: Peer) -> str:
    return ", ".join(peer.packages) or "the packages of the project"


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--scale", type=float, default=SCALE, metavar="X", help="of TPC-H (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help="after the warm-up (default: %(default)s)"
    )
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="keep environments and rows there (default: none are kept)"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as markdown")
    parser.add_argument("--only", nargs="+", choices=PEERS, metavar="PEER", help=f"besides {BASE}: {', '.join(PEERS)}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
