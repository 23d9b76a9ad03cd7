"""TPC-H and TPC-DS over partitioned tables ÷ DuckDB over the same rows as Parquet in directories of the same partitions.

All tables, queries and answers come from DuckDB's extensions. Every answer is compared before the clock, and a query that
differs ends the run. `uv run --group bench python -m benchmarks.tpc tpch --scale 1` prints the seconds of each query, the
medians of interleaved rounds, and the geometric mean of the ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data, engines, results, servers
from benchmarks.client import SqlClient
from benchmarks.timing import interleaved, timed

PACKAGES = ("duckdb-extensions==1.5.5", "duckdb-extension-tpch==1.5.5", "duckdb-extension-tpcds==1.5.5")
SUITES = ("tpch", "tpcds")
PARTITIONED: Mapping[str, str] = MappingProxyType(
    {
        "lineitem": "year(l_shipdate)",
        "orders": "bucket(8, o_orderkey)",
        "store_sales": "bucket(8, ss_item_sk)",
        "catalog_sales": "bucket(8, cs_item_sk)",
        "web_sales": "bucket(4, ws_item_sk)",
    }
)
"""Tables that are partitioned; the others are plain."""
HIVE: Mapping[str, str] = MappingProxyType({"lineitem": "year(l_shipdate)"})
"""What DuckDB partitions alike: buckets it has none."""
ROUNDS = 3
DIGITS = 4
"""Digits that numbers are compared by: one engine's mean is a decimal, the other's a double."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a suite, and its rows as texts."""

    sql: str
    rows: Sequence[Sequence[str]]

    def difference(self, found: pa.Table) -> str | None:
        """Return how an answer differs from the known one, in whatever order its rows are; None if it does not."""
        wanted = sorted([_compared(value) for value in row] for row in self.rows)
        columns = [column.to_pylist() for column in found.columns]
        rows = sorted([_compared(value) for value in row] for row in zip(*columns, strict=True))
        if rows == wanted:
            return None
        return f"{len(rows)} rows, expected {len(wanted)}; the first that differs: {next(_unequal(rows, wanted))}"


def generate(place: Path, suite: str, scale: float) -> Mapping[int, Query]:
    """Write the tables of a suite as Parquet files into a directory, unless they are there; return its queries."""
    queries = place / "queries.json"
    if not queries.exists():
        place.mkdir(parents=True, exist_ok=True)
        wanted: list[str] = [argument for package in PACKAGES for argument in ("--with", package)]
        program = Path(__file__).parent / "drivers" / "tpc_data.py"
        command = [
            "uv",
            "run",
            "--quiet",
            "--isolated",
            "--no-project",
            "--python",
            sys.executable,
            *wanted,
            str(program),
        ]
        subprocess.run([*command, str(place), suite, f"{scale:g}"], check=True)
    return {int(number): Query(*found) for number, found in json.loads(queries.read_text()).items()}


def load(root: Path, files: Path) -> None:
    """Store the tables of a suite in a root."""
    for file in sorted(files.glob("*.parquet")):
        parquet = pq.ParquetFile(file)
        reader = pa.RecordBatchReader.from_batches(parquet.schema_arrow, parquet.iter_batches(data.BATCH_ROWS))
        stored = engines.store(root, file.stem, reader, partition_by=PARTITIONED.get(file.stem))
        data.expect(f"rows stored in {file.stem}", stored, parquet.metadata.num_rows)


def _compared(value: Any) -> str:
    try:
        return f"{float(value) + 0.0:.{DIGITS}g}"
    except (TypeError, ValueError):
        return str(value)


def _unequal(rows: Sequence[Any], wanted: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    longer = max(len(rows), len(wanted))
    pairs = zip([*rows, *[None] * (longer - len(rows))], [*wanted, *[None] * (longer - len(wanted))], strict=True)
    return (pair for pair in pairs if pair[0] != pair[1])


def _peer(place: Path, files: Path) -> duckdb.DuckDBPyConnection:
    """Return DuckDB over the same rows: lineitem in a directory for each year, the others a file each."""
    connection = duckdb.connect()
    place.mkdir()
    for file in sorted(files.glob("*.parquet")):
        name, source = file.stem, f"'{file}'"
        if name in HIVE:
            connection.execute(
                f"COPY (SELECT *, {HIVE[name]} AS part FROM {source}) TO '{place / name}' (FORMAT parquet, PARTITION_BY (part))"
            )
            source = f"'{place / name}/*/*.parquet', hive_partitioning = true"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({source})")
    return connection


def measure(place: Path, suite: str, scale: float, rounds: int, only: Sequence[int]) -> str:
    """Run the queries of a suite; return the table."""
    queries = generate(place / suite, suite, scale)
    root = place / f"{suite}-root"
    load(root, place / suite)
    peer = _peer(place / f"{suite}-hive", place / suite)
    lines: list[list[str]] = []
    ratios: list[float] = []
    with servers.ours(root) as server, SqlClient(server) as client:
        for number, query in queries.items():
            if only and number not in only:
                continue
            sql = query.sql.strip().rstrip(";")
            batches = [*client.stream(sql)]
            difference = query.difference(pa.Table.from_batches(batches) if batches else pa.table({}))
            data.expect(f"the answer of query {number}", difference, None)
            cases: Mapping[str, Callable[[], object]] = {
                "ours": partial(_drained, client, sql),
                "duckdb": partial(_fetched, peer, sql),
            }
            seconds = interleaved({name: timed(case) for name, case in cases.items()}, rounds)
            ratios.append(seconds["ours"] / seconds["duckdb"])
            shown = [f"{seconds[name] * 1000:,.0f} ms" for name in cases]
            lines.append([str(number), *shown, f"{ratios[-1]:.2f}"])
    lines.append(["geometric mean", "", "", f"{statistics.geometric_mean(ratios):.2f}"])
    return results.aligned(lines, [f"{suite}, scale {scale:g}", "ours", "DuckDB", "÷"], left=(0,))


def _drained(client: SqlClient, sql: str) -> int:
    return sum(batch.num_rows for batch in client.stream(sql))


def _fetched(peer: duckdb.DuckDBPyConnection, sql: str) -> int:
    return len(peer.execute(sql).fetchall())


def main() -> int:
    """Print the seconds of a suite."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpc", description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("queries", type=int, nargs="*", help="their numbers (default: all)")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="X", help="gigabytes of rows (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help="rounds that count (default: %(default)s)"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(measure(Path(place), given.suite, given.scale, given.rounds, given.queries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
