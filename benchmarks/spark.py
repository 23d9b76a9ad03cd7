"""PySpark over a root ÷ the same work without Spark, or with Spark's own means: reads, a write, a join.

Spark runs here, in two threads. Rows go from Python to the JVM in every read and the other way round in every write; that hop is
what most of the ratios show, so columns are read all six and two at a time. A read ends in Spark's `noop` sink. The peer of a write is
the same job with tasks that hand their batches to Lance as they come, into one table. The join is TPC-H's, in buckets that match:
by groups, and by Spark's sort-merge join of the very same reads.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq
from lance.fragment import write_fragments
from lance_flight_client.spark.partition_wise import partition_wise_join
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from benchmarks import client, data, tpch
from benchmarks.bench import HUNDRED, Bench, Pair
from benchmarks.results import MILLISECONDS, ROWS_PER_SECOND, Aim, Result
from benchmarks.timing import Case, Stopwatch, interleaved, timed

JOIN_AIM = Aim("ratio", "≤", 0.4)
TWO_COLUMNS = ("id", "a")
FILES = 8
BUCKETS = "bucket(8, id)"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(data.BATCH_ROWS),
}
ORDERS, LINES = "o_orderkey, o_orderdate", "l_orderkey, l_quantity, l_extendedprice"
JOINED = ("o_orderdate", "l_quantity", "l_extendedprice")

# Workers know the product, and not its benchmarks.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def measure(bench: Bench) -> list[Result]:
    """Four lines for reads, two for writes, one for the join."""
    root = bench.root
    with _session(bench.scratch("spark")) as spark, bench.servers() as pair:
        results = [*_reads(bench, spark, root, pair), *_writes(bench, spark)]
    with _session(bench.scratch("spark-joins")) as spark:
        return [*results, _join(bench, spark)]


def _reads(bench: Bench, spark: SparkSession, root: Path, pair: Pair) -> list[Result]:
    rows, results = bench.facts.rows, []
    for columns in (tuple(data.SCHEMA.names), TWO_COLUMNS):
        named = ", ".join(columns)
        direct = spark.read.format("lance_flight").options(root=str(root), table=HUNDRED, columns=named).load()
        through = (
            spark.read.format("lance_flight").options(uri=pair.ours_server.uri, table=HUNDRED, columns=named).load()
        )
        for frame in (direct, through):
            found = frame.agg({"id": "sum", "a": "sum", "*": "count"}).collect()[0].asDict()
            data.expect("sum of id", found["sum(id)"], bench.facts.sum_id)
            data.expect("rows", found["count(1)"], rows)
        seconds = interleaved(
            {
                "direct": timed(_drain, direct),
                "lance": timed(_scan, bench.bare_table, columns, rows),
                "through": timed(_drain, through),
                "flight": timed(_stream, pair, f"SELECT {named} FROM {HUNDRED}", rows),
            },
            bench.options.rounds,
        )
        for what, ours, limit in (
            ("direct ÷ a Lance scan in process", "direct", "lance"),
            ("through Flight ÷ a raw Flight client", "through", "flight"),
        ):
            results.append(
                Result(
                    what=f"read of {len(columns)} columns, {what}",
                    ours=rows / seconds[ours],
                    limit=rows / seconds[limit],
                    unit=ROWS_PER_SECOND,
                )
            )
    return results


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _scan(path: str, columns: Iterable[str], rows: int) -> None:
    found = lance.dataset(path).scanner(columns=list(columns), batch_size=data.BATCH_ROWS).to_batches()
    data.expect("rows of the scan", sum(batch.num_rows for batch in found), rows)


def _stream(pair: Pair, sql: str, rows: int) -> None:
    data.expect(f"rows of {sql}", client.drain(pair.ours.stream(sql)), rows)


def _writes(bench: Bench, spark: SparkSession) -> list[Result]:
    """The rows come from Parquet in either case."""
    place = bench.scratch("spark-parquet")
    for number in range(FILES):
        share = bench.table.slice(number * bench.facts.rows // FILES, -(-bench.facts.rows // FILES))
        end = (number + 1) * bench.facts.rows // FILES - number * bench.facts.rows // FILES
        pq.write_table(share.slice(0, end), place / f"{number}.parquet")
    writes = _Writes(bench, spark.read.parquet(str(place)), bench.scratch("spark-written"))
    by = {"100 partitions": data.HUNDRED_BY, "8 buckets": BUCKETS}
    cases: dict[str, Case] = {what: partial(writes.ours, by=fields) for what, fields in by.items()}
    seconds = interleaved(cases | {"lance": writes.lance}, bench.options.rounds)
    speed = {name: bench.facts.rows / taken for name, taken in seconds.items()}
    return [
        Result(
            what=f"write into {what} ÷ write_fragments", ours=speed[what], limit=speed["lance"], unit=ROWS_PER_SECOND
        )
        for what in by
    ]


@dataclass(frozen=True, slots=True)
class _Writes:
    """Each time into a new table, which is gone again off the clock; what it holds is checked in the first round."""

    bench: Bench
    source: DataFrame
    place: Path
    numbers: Iterator[int] = field(default_factory=count)

    def ours(self, watch: Stopwatch, by: str) -> None:
        """Split by partition, checked, and committed."""
        name = f"t{next(self.numbers)}"
        writer = self.source.write.format("lance_flight").mode("append")
        with watch:
            writer.options(root=str(self.place), table=name, partition_by=by).save()
        if watch.is_warm_up:
            self._check(name)
        shutil.rmtree(self.place / name)

    def lance(self, watch: Stopwatch) -> None:
        """As it comes, and part of no version."""
        path = self.place / f"t{next(self.numbers)}.lance"
        with watch:
            written = self.source.mapInArrow(_fragments(str(path), self.bench.table.schema), "rows long")
            rows = sum(row["rows"] for row in written.collect())
        data.expect(f"rows written to {path}", rows, self.bench.facts.rows)
        shutil.rmtree(path)

    def _check(self, name: str) -> None:
        reader = self.source.sparkSession.read.format("lance_flight")
        found = reader.options(root=str(self.place), table=name).load().agg({"id": "sum", "b": "sum"}).collect()[0]
        data.expect(f"sum of id in {name}", found["sum(id)"], self.bench.facts.sum_id)
        data.expect(f"sum of b in {name}", found["sum(b)"], self.bench.facts.sum_b)


def _fragments(path: str, schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in batches))
        written = write_fragments(reader, path, schema=schema)
        yield pa.RecordBatch.from_pydict({"rows": [sum(fragment.physical_rows for fragment in written)]})

    return write


def _join(bench: Bench, spark: SparkSession) -> Result:
    root = bench.scratch("spark-tpch")
    rows = tpch.load(root, bench.options.scale)
    orders, lines = (
        {"root": str(root), "table": table, "columns": columns}
        for table, columns in (("orders", ORDERS), ("lineitem", LINES))
    )
    grouped = partition_wise_join(spark, orders, lines, [("o_orderkey", "l_orderkey")], columns=JOINED)
    left, right = (spark.read.format("lance_flight").options(**side).load() for side in (orders, lines))
    merged = left.join(right, left["o_orderkey"] == right["l_orderkey"]).select(*JOINED)
    answers = [
        frame.agg({"l_quantity": "sum", "o_orderdate": "max", "*": "count"}).collect() for frame in (grouped, merged)
    ]
    data.expect("the join by groups", answers[0], answers[1])
    data.expect("rows of the join", answers[0][0]["count(1)"], rows["lineitem"])
    cases = {"groups": timed(_drain, grouped), "sort-merge": timed(_drain, merged)}
    seconds = interleaved(cases, bench.options.rounds)
    return Result(
        what="join by groups ÷ sort-merge join",
        ours=seconds["groups"],
        limit=seconds["sort-merge"],
        unit=MILLISECONDS,
        aims=(JOIN_AIM,),
    )


@contextmanager
def _session(place: Path) -> Iterator[SparkSession]:
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").appName("benchmarks")
    for name, value in (SETTINGS | {"spark.local.dir": str(place)}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
