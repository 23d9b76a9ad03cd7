"""LanceDB's Python client over REST ÷ the same calls of an embedded LanceDB, and the further ports ÷ our Flight SQL port.

Both clients ask for the same rows of the same vectors, one search after another. Seconds are those of the clock; the CPU beside them
is that of the client and of the server together. The memory of an insert is what the server takes beyond its memory before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from lance_flight.serving.replicas import free_ports

from benchmarks import data, servers
from benchmarks.bench import Bench
from benchmarks.client import SqlClient
from benchmarks.results import FINE_MILLISECONDS, MEBIBYTES, Aim, Result
from benchmarks.servers import Server
from benchmarks.timing import interleaved, timed

DIMENSIONS, QUERIES, COUNT, PARTITIONS, ADDED = 128, 16, 10, 64, 100_000
PARTS, PROBES = 32, 4
PART, FILTER = 7, "part = 7"
LARGE_BYTES = 1 << 30
STATEMENTS = 50
SMALL = "SELECT 1 AS one"
Search = Callable[[Any, np.ndarray], set[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """The same server by each of its ports, and an embedded database."""

    server: Server
    flight: SqlClient
    polled: Any
    rest: Any
    embedded: Any


def measure(bench: Bench) -> list[Result]:
    """Searches, an add, a small statement, and the memory of a large insert."""
    rows = max(bench.options.rows // 100, PARTITIONS * 1024)
    table, wanted = _vectors(rows)
    with _places(bench.place / "lancedb") as places:
        return [
            *_searches(places, table, wanted, bench.options.rounds),
            *_adds(places, table.slice(0, ADDED), bench.options.rounds),
            *_statements(places, bench.options.rounds),
            _memory(places),
        ]


@contextmanager
def _places(place: Path) -> Iterator[_Places]:
    rest, polled = free_ports(2)
    place.mkdir()
    with (
        servers.ours(place / "root", "--rest-port", str(rest), "--lancedb-sql-port", str(polled)) as server,
        SqlClient(server) as flight,
    ):
        remote = lancedb.connect(
            "db://bench",
            api_key="any",
            host_override=f"http://127.0.0.1:{rest}",
            sql_host_override=f"grpc://127.0.0.1:{polled}",
        )
        embedded = lancedb.connect(place / "embedded")
        yield _Places(server=server, flight=flight, polled=remote, rest=remote, embedded=embedded)


def _searches(places: _Places, table: pa.Table, wanted: np.ndarray, rounds: int) -> Iterator[Result]:
    options = {"metric": "l2", "vector_column_name": "v", "index_type": "IVF_FLAT", "num_partitions": PARTS}
    embedded = places.embedded.create_table("vectors", table)
    remote = places.rest.create_table("vectors", table)
    for each in (embedded, remote):
        each.create_index(**options)
    divided = table.replace_schema_metadata({"lance_flight.partition_by": "part"})
    parts = places.rest.create_table("parts", divided)
    cases: Mapping[str, tuple[Any, str | None]] = {
        "embedded": (embedded, None),
        "remote": (remote, None),
        "embedded part": (embedded, FILTER),
        "remote part": (parts, FILTER),
    }
    runs = {name: partial(_search, asked, where) for name, (asked, where) in cases.items()}
    for vector in wanted:
        # Each trains its own index, and misses other rows if it does not look into all of its parts.
        exact = [_search(asked, None, vector, PARTS) for asked in (remote, embedded)]
        data.expect("nearest rows", *exact)
        data.expect("rows of the partition", {place % PARTITIONS for place in runs["remote part"](vector)}, {PART})
    for what, ours, limit, bound in (
        (f"top 10 of {table.num_rows:,} vectors", "remote", "embedded", 3),
        ("top 10 in 1 of 64 partitions by a filter", "remote part", "embedded part", 1.5),
    ):
        pair = {name: partial(_all, runs[name], wanted) for name in (ours, limit)}
        yield from _compare(places, f"{what}, limit LanceDB in process", pair, rounds, number=len(wanted), bound=bound)


def _search(table: Any, where: str | None, vector: np.ndarray, probes: int = PROBES) -> set[int]:
    search = table.search(vector, vector_column_name="v").limit(COUNT).nprobes(probes)
    filtered = search if where is None else search.where(where, prefilter=True)
    return set(filtered.select(["id", "_distance"]).to_arrow()["id"].to_pylist())


def _all(run: Callable[[np.ndarray], object], wanted: np.ndarray) -> None:
    shift = next(_SHIFTS)  # no query is repeated, so that none is answered from a cache of plans
    for vector in wanted:
        run(vector + np.float32(shift * 1e-4))


_SHIFTS = count(1)


def _adds(places: _Places, table: pa.Table, rounds: int) -> Iterator[Result]:
    added = places.rest.create_table("added", schema=table.schema)
    places.flight.ingest("ingested", table.slice(0, 0))

    def check(rows: int) -> None:
        for name in ("added", "ingested"):
            data.expect(f"rows of {name}", places.flight.row(f"SELECT count(*) AS n FROM {name}")["n"], rows)

    pair = {"ours": partial(added.add, table), "limit": partial(places.flight.ingest, "ingested", table)}
    for run in pair.values():
        run()
    check(table.num_rows)
    yield from _compare(
        places, f"add of {table.num_rows:,} rows, limit an ingest by Flight", pair, rounds, number=1, bound=1.5
    )


def _statements(places: _Places, rounds: int) -> Iterator[Result]:
    def ours() -> object:
        return places.polled.execute_query(SMALL).read_all().to_pylist()

    def limit() -> object:
        return places.flight.rows(SMALL)

    data.expect(SMALL, ours(), limit())
    pair = {"ours": partial(_often, ours), "limit": partial(_often, limit)}
    yield from _compare(places, "small statement by polls, limit Flight", pair, rounds, number=STATEMENTS, bound=2)


def _often(run: Callable[[], object]) -> None:
    for _ in range(STATEMENTS):
        run()


def _compare(
    places: _Places, what: str, pair: Mapping[str, Callable[[], object]], rounds: int, *, number: int, bound: float
) -> Iterator[Result]:
    """The seconds of ours and its limit, interleaved, and then the CPU that each takes."""
    (ours, run), (limit, other) = pair.items()
    seconds = interleaved({name: timed(each) for name, each in pair.items()}, rounds)
    aims = (Aim("ratio", "≤", bound),)
    yield Result(
        what=what, ours=seconds[ours] / number, limit=seconds[limit] / number, unit=FINE_MILLISECONDS, aims=aims
    )
    taken = [_cpu(places.server, each, rounds) / number for each in (run, other)]
    yield Result(what=f"CPU of {what}", ours=taken[0], limit=taken[1], unit=FINE_MILLISECONDS)


def _cpu(server: Server, run: Callable[[], object], rounds: int) -> float:
    """Seconds of a core that this process and the server take for one run."""
    begun = time.process_time() + servers.cpu(server.pid)
    for _ in range(rounds):
        run()
    return (time.process_time() + servers.cpu(server.pid) - begun) / rounds


def _memory(places: _Places) -> Result:
    table = pa.table({"n": np.arange(LARGE_BYTES // 64)} | {f"c{n}": np.zeros(LARGE_BYTES // 64) for n in range(7)})
    stored = places.rest.create_table("large", schema=table.schema)
    before = servers.memory(places.server.pid, "VmRSS")
    Path(f"/proc/{places.server.pid}/clear_refs").write_text("5")  # the peak begins anew
    stored.add(pa.Table.from_batches(table.to_batches(data.BATCH_ROWS)))
    peak = places.server.peak_bytes()
    data.expect("rows of the large insert", stored.count_rows(), table.num_rows)
    return Result(
        what="memory of an insert of 1 GiB", ours=peak - before, unit=MEBIBYTES, aims=(Aim("ours", "≤", 300 << 20),)
    )


def _vectors(rows: int) -> tuple[pa.Table, np.ndarray]:
    chance = np.random.default_rng(data.SEED)
    vectors = chance.normal(size=(rows + QUERIES, DIMENSIONS)).astype(np.float32)
    stored = pa.FixedSizeListArray.from_arrays(pa.array(vectors[:rows].ravel()), DIMENSIONS)
    table = pa.table({"id": np.arange(rows), "part": np.arange(rows) % PARTITIONS, "v": stored})
    return table, vectors[rows:]
