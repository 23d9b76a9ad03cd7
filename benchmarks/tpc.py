"""TPC-H and TPC-DS over partitioned tables ÷ DuckDB over the same rows as Parquet in directories of the same partitions.

All tables, queries and answers come from DuckDB's extensions. Every answer is compared before the clock, and a query that
differs ends the run. `uv run --group bench python -m benchmarks.tpc tpch --scale 1` prints the seconds of each query, the
medians of interleaved rounds, and the geometric mean of the ratios. `--bare` adds DataFusion by itself, over the Parquet files
and over rows in memory; `--profile` prints where the CPU of each query went.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from datafusion import SessionContext

from benchmarks import data, engines, results, servers
from benchmarks.client import SqlClient, drain
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

    @property
    def text(self) -> str:
        """The query as it is sent."""
        return self.sql.strip().rstrip(";")

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


def _peer(ground: Ground) -> duckdb.DuckDBPyConnection:
    """Return DuckDB over the same rows: lineitem in a directory for each year, the others a file each."""
    connection, place = duckdb.connect(), ground.hive
    place.mkdir()
    for file in sorted(ground.files.glob("*.parquet")):
        name, source = file.stem, f"'{file}'"
        if name in HIVE:
            connection.execute(
                f"COPY (SELECT *, {HIVE[name]} AS part FROM {source}) TO '{place / name}' (FORMAT parquet, PARTITION_BY (part))"
            )
            source = f"'{place / name}/*/*.parquet', hive_partitioning = true"
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({source})")
    return connection


@dataclass(frozen=True, slots=True)
class Ground:
    """The queries of a suite, and the places of its tables: as files, as partitioned tables, and as DuckDB's directories."""

    suite: str
    queries: Mapping[int, Query]
    files: Path
    root: Path
    hive: Path

    @classmethod
    def made(cls, place: Path, suite: str, scale: float, only: Sequence[int]) -> Ground:
        """Write everything; with only some of the queries, or with all where none is named."""
        queries = generate(place / suite, suite, scale)
        root = place / f"{suite}-root"
        load(root, place / suite)
        chosen = {number: query for number, query in queries.items() if not only or number in only}
        return cls(f"{suite}, scale {scale:g}", chosen, place / suite, root, place / f"{suite}-hive")

    def check(self, client: SqlClient) -> None:
        """Compare the answers of all queries with the known ones."""
        for number, query in self.queries.items():
            batches = [*client.stream(query.text)]
            difference = query.difference(pa.Table.from_batches(batches) if batches else pa.table({}))
            data.expect(f"the answer of query {number}", difference, None)


Run = Callable[[str], object]


def measure(ground: Ground, rounds: int, *, is_bare: bool) -> str:
    """Run the queries of a suite; return the table."""
    lines: list[list[str]] = []
    ratios: list[float] = []
    with servers.ours(ground.root) as server, SqlClient(server) as client:
        ground.check(client)
        runs: dict[str, Run] = {"ours": partial(_drained, client), "DuckDB": partial(_fetched, _peer(ground))}
        if is_bare:
            runs |= {name: partial(_collected, context) for name, context in _bare(ground)}
        for number, query in ground.queries.items():
            cases = {name: partial(run, query.text) for name, run in runs.items() if _runs(run, query.text)}
            seconds = interleaved({name: timed(case) for name, case in cases.items()}, rounds)
            ratios.append(seconds["ours"] / seconds["DuckDB"])
            shown = [f"{seconds[name] * 1000:,.0f} ms" if name in seconds else "refused" for name in runs]
            lines.append([str(number), *shown, f"{ratios[-1]:.2f}"])
    lines.append(["geometric mean", *[""] * len(runs), f"{statistics.geometric_mean(ratios):.2f}"])
    return results.aligned(lines, [ground.suite, *runs, "ours ÷ DuckDB"], left=(0,))


def _runs(run: Run, sql: str) -> bool:
    """Return whether a peer answers a query: DataFusion by itself refuses some."""
    try:
        run(sql)
    except Exception:  # noqa: BLE001 - whatever it says of a query, it does not answer it
        return False
    return True


PARTS: Mapping[str, str] = MappingProxyType({"lance": "decoding", "tokio-rt-worker": "operators"})
"""What threads do for a query, by how their names begin; the others open tables and send rows."""


def profile(ground: Ground, rounds: int) -> str:
    """Return where the CPU of each query went, in milliseconds of a core: the median of rounds, each of which plans it anew."""
    columns = ["text and planning", "decoding", "operators", "opening and sending"]
    lines = []
    with servers.ours(ground.root) as server, SqlClient(server) as client:
        ground.check(client)
        for number, query in ground.queries.items():
            found = [_parts(server, client, f"{query.text} -- {round_}") for round_ in range(rounds)]
            medians = [statistics.median(each[name] for each in found) for name in columns]
            lines.append([str(number), *(f"{each:,.0f}" for each in [*medians, sum(medians)])])
    return results.aligned(lines, [f"{ground.suite}: CPU in ms", *columns, "sum"], left=(0,))


def _parts(server: servers.Server, client: SqlClient, sql: str) -> Counter[str]:
    """Milliseconds of a core that the parts of a query took."""
    before = servers.cpu_by_thread(server.pid)
    planned = client.plan(sql)
    between = servers.cpu_by_thread(server.pid)
    drain(client.fetch(planned))
    after = servers.cpu_by_thread(server.pid)
    parts = Counter({"text and planning": (between - before).total()})
    for thread, taken in (after - between).items():
        name = next((part for begins, part in PARTS.items() if thread.startswith(begins)), "opening and sending")
        parts[name] += taken
    return parts


def _bare(ground: Ground) -> Iterator[tuple[str, SessionContext]]:
    """DataFusion by itself, over the files and over rows in memory: it reads no Lance tables."""
    over_files, over_rows = SessionContext(), SessionContext()
    for file in sorted(ground.files.glob("*.parquet")):
        over_files.register_parquet(file.stem, file)
        over_rows.register_record_batches(file.stem, [[*pq.ParquetFile(file).iter_batches(data.BATCH_ROWS)]])
    yield "DataFusion over Parquet", over_files
    yield "DataFusion in memory", over_rows


def _drained(client: SqlClient, sql: str) -> int:
    return drain(client.stream(sql))


def _collected(context: SessionContext, sql: str) -> int:
    return sum(batch.num_rows for batch in context.sql(sql).collect())


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
    parser.add_argument("--bare", action="store_true", help="run DataFusion by itself, too")
    parser.add_argument("--profile", action="store_true", help="print where the CPU of each query went, and no seconds")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        ground = Ground.made(Path(place), given.suite, given.scale, given.queries)
        print(profile(ground, given.rounds) if given.profile else measure(ground, given.rounds, is_bare=given.bare))
    return 0


if __name__ == "__main__":
    sys.exit(main())
