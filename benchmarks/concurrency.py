"""Queries per second with 16 clients ÷ the best of 1, 4 and 16, each query the rows of one partition of 100.

More clients than cores must neither slow the server down nor fail. The clients are threads here, with a connection
each; a query that fails or answers with the wrong number of rows is an error, and there may be none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pyarrow.compute as pc
from pyarrow import ArrowException

from benchmarks import client, data
from benchmarks.bench import HUNDRED, Bench
from benchmarks.client import SqlClient
from benchmarks.results import ERRORS, QUERIES_PER_SECOND, Aim, Result
from benchmarks.servers import Server
from benchmarks.timing import interleaved, timed

CLIENTS = (1, 4, 16)
QUERIES = 96
"""In each round, shared among the clients."""


def measure(bench: Bench) -> list[Result]:
    """Throughput, and errors."""
    with bench.servers() as pair, connected(pair.ours_server) as clients:
        load = Load(bench, clients)
        seconds = interleaved({str(n): timed(load.run, n) for n in CLIENTS}, bench.options.rounds)
    speed = {n: QUERIES / seconds[str(n)] for n in CLIENTS}
    most = CLIENTS[-1]
    return [
        Result(
            what=f"{most} clients, limit best of {', '.join(map(str, CLIENTS))}",
            ours=speed[most],
            limit=max(speed.values()),
            unit=QUERIES_PER_SECOND,
            aims=(Aim("ratio", "≥", 0.9),),
        ),
        Result(what=f"failed of {load.queries:,} queries", ours=load.errors, unit=ERRORS, aims=(Aim("ours", "≤", 0),)),
    ]


class Load:
    """The same queries, by any number of clients."""

    def __init__(self, bench: Bench, clients: list[SqlClient]) -> None:
        counted = pc.value_counts(bench.table[data.HUNDRED_BY]).to_pylist()
        self._rows = {entry["values"]: entry["counts"] for entry in counted}
        self._clients = clients
        self.queries = self.errors = 0

    def run(self, clients: int) -> None:
        """Every query once."""
        keys = list(self._rows)
        wanted = [keys[number % len(keys)] for number in range(QUERIES)]
        with ThreadPoolExecutor(clients) as pool:
            failed = pool.map(self._failures, self._clients, [wanted[start::clients] for start in range(clients)])
            self.errors += sum(failed)
        self.queries += QUERIES

    def _failures(self, sql: SqlClient, keys: list[int]) -> int:
        return sum(not self._is_right(sql, key) for key in keys)

    def _is_right(self, sql: SqlClient, key: int) -> bool:
        query = f"SELECT * FROM {HUNDRED} WHERE {data.HUNDRED_BY} = {key}"
        try:
            return bool(client.drain(sql.stream(query)) == self._rows[key])
        except (ArrowException, OSError) as exc:
            print(f"concurrency: {query}: {exc}", file=sys.stderr)
            return False


@contextmanager
def connected(server: Server) -> Iterator[list[SqlClient]]:
    """As many clients as there are ever at once."""
    with ExitStack() as stack:
        yield [stack.enter_context(SqlClient(server)) for _ in range(CLIENTS[-1])]
