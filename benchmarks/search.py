"""Milliseconds of a top-10 vector search over 1, 16 and 64 partitions ÷ the same search of one Lance table, in this process.

A tenth as many vectors of 128 dimensions as there are rows, around a thousand centres, under IVF_PQ with the same share of its
parts looked into, and ten times as many vectors compared in full; each line says how many of the ten nearest were found, by
what comparing every vector finds. Then one partition of 64 against all of them, and a lookup by a BTREE against
the scan that it saves.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

from benchmarks import data, servers
from benchmarks.bench import Bench
from benchmarks.client import SqlClient
from benchmarks.results import FINE_MILLISECONDS, Aim, Result
from benchmarks.timing import interleaved, timed

DIMENSIONS, CENTRES, QUERIES, COUNT = 128, 1000, 16, 10
PARTS_OF_ROWS = 1000
"""How many rows one part of an index has."""
SHARE = 0.05
PARTITIONS, AIMED_AT = (1, 16, 64), 16
SIXTEEN, FILTERED, LOOKUP = Aim("ratio", "≤", 1.5), Aim("ratio", "≤", 0.1), Aim("ratio", "≤", 0.05)


def measure(bench: Bench) -> list[Result]:
    """Searches, then the filter, then the lookup."""
    rows = max(bench.options.rows // 10, 64 * 1024)
    vectors, wanted = _vectors(rows)
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "p16": pa.array(np.arange(rows) % 16),
            "p64": pa.array(np.arange(rows) % 64),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSIONS),
        }
    )
    nearest = [_nearest(vectors, vector) for vector in wanted]
    with _stored(bench, table) as (peer, client):
        found = {"peer": lambda vector: _peer_search(peer, rows, vector)}
        for number in PARTITIONS:
            found[f"t{number}"] = _search(client, number, rows)
        found["one"] = _search(client, 64, rows, "p64 = 7")
        recall = {name: _recall(run, wanted, nearest) for name, run in found.items() if name != "one"}
        cases = {name: timed(_all, run, wanted) for name, run in found.items()}
        cases["lookup"] = timed(_lookup, client, rows // 2, "id = {}")
        cases["scan"] = timed(_lookup, client, rows // 2, "id + 0 = {}")
        seconds = interleaved(cases, bench.options.rounds)
    each = {name: taken / (len(wanted) if name in found else 1) for name, taken in seconds.items()}
    said = f"of {rows:,} vectors, limit one Lance table in process, which finds {recall['peer']:.0%}"
    results = [
        Result(
            what=f"top 10 in {number} partitions {said}; {recall[f't{number}']:.0%} found",
            ours=each[f"t{number}"],
            limit=each["peer"],
            unit=FINE_MILLISECONDS,
            aims=(SIXTEEN,) if number == AIMED_AT else (),
        )
        for number in PARTITIONS
    ]
    results.append(
        Result(
            what="top 10 in 1 of 64 partitions by a filter, limit all 64",
            ours=each["one"],
            limit=each["t64"],
            unit=FINE_MILLISECONDS,
            aims=(FILTERED,),
        )
    )
    results.append(
        Result(
            what="id = constant under a BTREE in 16 partitions, limit the scan",
            ours=each["lookup"],
            limit=each["scan"],
            unit=FINE_MILLISECONDS,
            aims=(LOOKUP,),
        )
    )
    return results


def _vectors(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around centres, and some to search for."""
    chance = np.random.default_rng(data.SEED)
    centres = chance.normal(size=(CENTRES, DIMENSIONS)).astype(np.float32)

    def around(count: int) -> np.ndarray:
        noise = chance.normal(scale=0.4, size=(count, DIMENSIONS)).astype(np.float32)
        return np.asarray(centres[chance.integers(CENTRES, size=count)] + noise)

    return around(rows), around(QUERIES)


def _nearest(vectors: np.ndarray, vector: np.ndarray) -> set[int]:
    distances = ((vectors - vector) ** 2).sum(axis=1)
    return {int(place) for place in np.argpartition(distances, COUNT)[:COUNT]}


@contextmanager
def _stored(bench: Bench, table: pa.Table) -> Iterator[tuple[lance.LanceDataset, SqlClient]]:
    """The rows in one Lance table, and in as many partitions as each of our tables has."""
    place = Path(bench.place) / "search"
    shutil.rmtree(place, ignore_errors=True)
    (place / "root").mkdir(parents=True)
    rows = table.num_rows
    peer = lance.write_dataset(table, str(place / "peer.lance"))
    peer.create_index("v", "IVF_PQ", num_partitions=_parts(rows), num_sub_vectors=DIMENSIONS // 8)
    with servers.ours(place / "root") as server, SqlClient(server) as client:
        for number in PARTITIONS:
            name, by = f"t{number}", f"p{number}" if number > 1 else "bucket(1, id)"
            data.expect(f"rows stored in {name}", client.ingest(name, table, partition_by=by), rows)
            parts = _parts(rows // number)
            client.update(
                f"CREATE INDEX v ON {name} (v) USING ivf_pq"
                f" WITH (num_partitions = {parts}, num_sub_vectors = {DIMENSIONS // 8}, min_rows = 1)"
            )
        client.update("CREATE INDEX i ON t16 (id) WITH (min_rows = 1)")
        yield lance.dataset(str(place / "peer.lance")), client


def _parts(rows: int) -> int:
    return max(rows // PARTS_OF_ROWS, 1)


def _probes(rows: int) -> int:
    return max(round(SHARE * _parts(rows)), 1)


def _peer_search(peer: lance.LanceDataset, rows: int, vector: np.ndarray) -> set[int]:
    nearest = {"column": "v", "q": vector, "k": COUNT, "nprobes": _probes(rows), "refine_factor": COUNT}
    return set(peer.scanner(columns=["id", "_distance"], nearest=nearest).to_table()["id"].to_pylist())


def _search(
    client: SqlClient, number: int, rows: int, condition: str | None = None
) -> Callable[[np.ndarray], set[int]]:
    filtered = "" if condition is None else f", filter => '{condition}'"
    probes = _probes(rows // number)

    def run(vector: np.ndarray) -> set[int]:
        values = ", ".join(map(str, vector.tolist()))
        found = client.rows(
            f"SELECT id, _distance FROM vector_search('t{number}', 'v', [{values}], k => {COUNT}, nprobes => {probes},"
            f" refine => {COUNT}{filtered})"
        )
        data.expect("rows found", len(found), COUNT)
        return {int(str(row["id"])) for row in found}

    return run


def _recall(run: Callable[[np.ndarray], set[int]], wanted: np.ndarray, nearest: list[set[int]]) -> float:
    found = [len(run(vector) & known) for vector, known in zip(wanted, nearest, strict=True)]
    return sum(found) / (COUNT * len(found))


def _all(run: Callable[[np.ndarray], set[int]], wanted: np.ndarray) -> None:
    for vector in wanted:
        run(vector)


def _lookup(client: SqlClient, number: int, condition: str) -> None:
    found = client.rows(f"SELECT id FROM t16 WHERE {condition.format(number)}")
    data.expect("the row that is looked up", [row["id"] for row in found], [number])
