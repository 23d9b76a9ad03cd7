"""Seconds of a query over 100 partitions ÷ the same query over the same rows in one table, both through the service.

No query here can be pruned: what is measured is what it costs to read many tables where one would do. Only the full
scan and the group by are aimed at; the two filters show how much of it is planning inside Lance, table by table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import data
from benchmarks.bench import HUNDRED, PLAIN, Bench
from benchmarks.client import SqlClient
from benchmarks.results import MILLISECONDS, Aim, Result
from benchmarks.timing import interleaved, timed

AIM = Aim("ratio", "≤", 1.25)
Rows = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Query:
    """One statement over either table, ordered where it gives several rows."""

    sql: str
    answer: Callable[[pa.Table], Rows]
    aims: tuple[Aim, ...] = ()


def measure(bench: Bench) -> list[Result]:
    """One line for each query."""
    with bench.servers() as pair:
        cases = {}
        for name, query in QUERIES.items():
            answer = query.answer(bench.table)
            for table in (PLAIN, HUNDRED):
                sql = query.sql.format(table=table, middle=bench.facts.rows // 2)
                _check(f"{name} of {table}", pair.ours.rows(sql), answer)
                cases[name + table] = timed(_run, pair.ours, sql, len(answer))
        seconds = interleaved(cases, bench.options.rounds)
    return [
        Result(
            what=f"{name}: 100 partitions, limit 1 table",
            ours=seconds[name + HUNDRED],
            limit=seconds[name + PLAIN],
            unit=MILLISECONDS,
            aims=query.aims,
        )
        for name, query in QUERIES.items()
    ]


def _run(sql: SqlClient, query: str, rows: int) -> None:
    data.expect(f"rows of {query!r}", len(sql.rows(query)), rows)


def _check(what: str, found: Rows, wanted: Rows) -> None:
    data.expect(f"{what}: rows", len(found), len(wanted))
    for place, (row, answer) in enumerate(zip(found, wanted, strict=True)):
        for column, value in answer.items():
            data.expect(f"{what}: {column} of row {place}", row[column], value)


def _full_scan(table: pa.Table) -> Rows:
    sums = {name: pc.sum(table[name]).as_py() for name in ("a", "b", "c")}
    return [{"n": table.num_rows} | sums | {name: pc.max(table[name]).as_py() for name in ("id", "s", "d")}]


def _group_by(table: pa.Table) -> Rows:
    grouped = table.group_by("s").aggregate([([], "count_all"), ("a", "sum")]).sort_by("s")
    return list(grouped.rename_columns(["s", "n", "a"]).to_pylist())


def _filtered(table: pa.Table) -> Rows:
    kept = table.filter(pc.less(table["b"], 250))
    return [{"n": kept.num_rows, "a": pc.sum(kept["a"]).as_py()}]


def _one(table: pa.Table) -> Rows:
    return list(table.slice(table.num_rows // 2, 1).to_pylist())


QUERIES: Mapping[str, Query] = MappingProxyType(
    {
        "full scan": Query(
            "SELECT count(*) AS n, sum(a) AS a, sum(b) AS b, sum(c) AS c, max(id) AS id, max(s) AS s, max(d) AS d FROM {table}",
            _full_scan,
            (AIM,),
        ),
        "group by string": Query(
            "SELECT s, count(*) AS n, sum(a) AS a FROM {table} GROUP BY s ORDER BY s", _group_by, (AIM,)
        ),
        "filter + sum": Query("SELECT count(*) AS n, sum(a) AS a FROM {table} WHERE b < 250", _filtered),
        "id = constant": Query("SELECT * FROM {table} WHERE id = {middle}", _one),
    }
)
