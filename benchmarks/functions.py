"""CPU seconds of each function of the function table over a million rows ÷ those of DuckDB, both in this process and in turn.

All that a function gives goes to Arrow. What it takes to read the columns from files is subtracted of ours: DuckDB has
them in memory. Seconds are of the processor, of all threads.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import PUBLIC, Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import QueryPlan
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.writes.ingest import IngestOptions

from benchmarks import data
from benchmarks.bench import Bench
from benchmarks.results import MILLISECONDS, Aim, Result
from tests.engine.function_cases import VALUES

AIM = Aim("ratio", "≤", 3)
ROWS = 1_000_000
LEAST = 0.005
"""Seconds that count for a function which takes less: nobody feels them."""
COLUMNS = ("id", "g", "i", "f", "s", "d", "ts", "b", "doc")
DOCUMENTS = """
json_extract(doc, '$.a')
json_extract(doc, '$.o')
json_extract(doc, '$.o.y[1]')
json_extract_string(doc, '$.a')
json_extract_string(doc, '$.n')
json_extract_string(doc, '$.o.z')
json_array_length(doc, '$.o.y')
json_keys(doc)
json_keys(doc, '$.o')
json_type(doc)
json_type(doc, '$.n')
json_type(doc, '$.o')
json_valid(doc)
json_exists(doc, '$.b')
doc ->> 'a'
doc -> 'o' ->> 'z'
""".strip().splitlines()
"""Functions over documents, which are constants in `VALUES`."""
AGGREGATES = """
count(s)
count(DISTINCT g)
count(DISTINCT s)
approx_count_distinct(s)
count_if(b)
sum(i)
sum(f)
avg(f)
min(ts)
max(s)
product(f)
geometric_mean(f)
fsum(f)
arg_max(s, f)
arg_min(id, f)
max_by(ts, f)
mode(i)
mode(g)
histogram(g)
entropy(i)
skewness(f)
kurtosis(f)
variance(f)
stddev_pop(f)
corr(f, i)
covar_pop(f, i)
regr_slope(f, i)
regr_r2(f, i)
median(f)
quantile_cont(f, 0.25)
quantile_disc(i, 0.5)
approx_quantile(f, 0.9)
percentile_cont(0.5) WITHIN GROUP (ORDER BY f)
bool_and(b)
bool_or(b)
bit_and(i)
bit_xor(i)
any_value(g)
first(i)
last(i)
first(i ORDER BY f)
list(i)
list(DISTINCT g)
string_agg(s)
string_agg(s, '|' ORDER BY f)
group_concat(s)
""".strip().splitlines()
"""Aggregates, over all rows and in groups of a hundred thousand."""


def measure(bench: Bench) -> list[Result]:
    """One line for each function, the slowest first."""
    rows = make()
    engine = Engine(Root(Store(str(bench.scratch("functions")))), target_partitions=1)
    engine.ingest(
        TableName(PUBLIC, "t"),
        rows.to_reader(),
        create_missing=True,
        existing=IfExists.FAIL,
        options=IngestOptions.of({}),
        scope=Scope(),
    )
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'; SET threads = 1")
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")

        def of_peer(sql: str) -> int:
            found: pa.Table = duck.sql(sql).to_arrow_table()
            return int(found.num_rows)

        lines = [
            _line(value, rest, bench.options.rounds, lambda sql: _read(engine, sql), of_peer)
            for value, rest in [
                *((value, "") for value in [*VALUES, *DOCUMENTS]),
                *((value, rest) for value in AGGREGATES for rest in ("", " GROUP BY g")),
            ]
        ]
    return sorted(lines, key=lambda line: -(line.ratio or 0))


def make(count: int = ROWS) -> pa.Table:
    """Return the rows: moments of seven years, short and different texts, small documents; one in fifty is NULL."""
    random = np.random.default_rng(data.SEED)
    numbers = random.integers(0, 1_000_000, count)
    missing = random.random(count) < 1 / 50
    ticks = random.integers(1_546_300_800_000_000, 1_767_225_600_000_000, count)
    texts = [f"Text {number:x}, of {number % 977} km" for number in numbers.tolist()]
    documents = [
        f'{{"a": "some text {number}", "n": {number}, "f": {number / 8}, "b": {"true" if number % 2 else "false"},'
        f' "o": {{"z": "inner {number % 1000}", "y": [1, {number % 10}, 3], "x": null}}}}'
        for number in numbers.tolist()
    ]
    columns = {
        "id": pa.array(np.arange(count)),
        "g": pa.array(numbers % 10),
        "i": pa.array((numbers % 19).astype(np.int32)),
        "f": pa.array(random.random(count) * 1_000),
        "s": pa.array(texts),
        "d": pa.array((ticks // 86_400_000_000).astype(np.int32), mask=missing).cast(pa.date32()),
        "ts": pa.array(ticks, mask=missing).cast(pa.timestamp("us")),
        "b": pa.array(numbers % 2 == 0, mask=missing),
        "doc": pa.array(documents, mask=missing),
    }
    return pa.table(columns)


def _line(value: str, rest: str, rounds: int, ours: Callable[[str], int], peer: Callable[[str], int]) -> Result:
    read = [name for name in COLUMNS if re.search(rf"\b{name}\b", value)] or ["id"]
    read += ["g"] * ("g" in rest)
    texts = [f"SELECT {value} AS x FROM t{rest}", f"SELECT {', '.join(read)} FROM t"]
    counts = [peer(f"SELECT {value} AS x FROM t{rest}"), ROWS]
    seconds: dict[tuple[Callable[[str], int], str], list[float]] = {
        key: [] for key in ((ours, texts[0]), (ours, texts[1]), (peer, texts[0]))
    }
    for number in range(rounds + 1):
        for (run, sql), taken in seconds.items():
            started = time.process_time()
            data.expect(f"rows of {value}", run(sql), counts[texts.index(sql)])
            if number:
                taken.append(time.process_time() - started)
    mine, mine_read, limit = (statistics.median(taken) for taken in seconds.values())
    return Result(
        what=f"{value}{rest}, limit DuckDB's",
        ours=max(mine - mine_read, LEAST),
        limit=max(limit, LEAST),
        unit=MILLISECONDS,
        aims=(AIM,),
    )


def _read(engine: Engine, sql: str) -> int:
    planned = engine.execute(sql, None, scope=Scope())
    if not isinstance(planned, QueryPlan):
        raise TypeError(f"{sql} is no query")
    return sum(batch.num_rows for task in planned.tasks for batch in engine.run(task))
