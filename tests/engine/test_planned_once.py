"""How often DataFusion is asked for each step of planning, from GetFlightInfo to the last row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import DataFrame, SessionContext
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.statements import parsing
from lance_flight.engine.translation import rewriting
from lance_flight.errors import SqlError
from lance_flight.planning import pruning

from tests.engine.database import filled

SQL, OPTIMISED, PHYSICAL, RUN = (
    "sql_with_options",
    "optimized_logical_plan",
    "execution_plan",
    "execute_stream_partitioned",
)
AT_ONCE = "collect"

QUERIES = {
    "no table": ("SELECT 1 AS one", AT_ONCE),
    "made of no table": ("SELECT value FROM generate_series(1, 3)", RUN),
    "a scalar subquery": ("SELECT (SELECT sum(value) FROM range(1, 3)) AS s", RUN),
    "aggregated": ("SELECT sum(id) AS s FROM t WHERE id > 1", RUN),
    "grouped": ("SELECT name, count(*) AS n FROM t GROUP BY name", RUN),
    "a point": ("SELECT max(id) AS m FROM t WHERE k = 1", RUN),
    "sorted": ("SELECT id FROM t ORDER BY name LIMIT 2", RUN),
    "of a plain table": ("SELECT sum(id) AS s FROM p", RUN),
    # Lance alone runs these: what is planned is the scan.
    "scanned": ("SELECT id FROM t WHERE id > 1", PHYSICAL),
    "of all columns": ("SELECT * FROM t", PHYSICAL),
}


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(
        tmp_path_factory.mktemp("planned"),
        "CREATE TABLE t (k BIGINT, id BIGINT, name VARCHAR) PARTITIONED BY (k)",
        "CREATE TABLE p (k BIGINT, id BIGINT)",
        "INSERT INTO t VALUES " + ", ".join(f"({n % 3}, {n}, 'a')" for n in range(9)),
        "INSERT INTO p VALUES " + ", ".join(f"({n % 3}, {n})" for n in range(9)),
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each step was asked for."""
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            counted[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    count(SessionContext, SQL)
    for name in (OPTIMISED, PHYSICAL, RUN, AT_ONCE):
        count(DataFrame, name)
    return counted


def test_a_partition_is_opened_once_for_all_lanes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = Store.open

    def noting(store: Store, version: int | str | None = None) -> Any:
        opened.append(store.uri)
        return real(store, version)

    monkeypatch.setattr(Store, "open", noting)
    table = engine.query("SELECT max(id) AS m, count(*) AS n FROM t WHERE k = 1 AND name = 'a'")
    assert table.to_pylist() == [{"m": 7, "n": 3}]
    assert len([uri for uri in opened if uri.endswith("$dataset")]) == 1


def planned(engine: Engine, sql: str, parameters: pa.RecordBatch | None = None) -> Task:
    plan = engine.plan(sql, parameters)
    assert plan is not None
    return plan.tasks[0]


@pytest.mark.parametrize(("sql", "run"), QUERIES.values(), ids=QUERIES)
def test_a_query_is_planned_once_and_run_once(engine: Engine, asked: Counter[str], sql: str, run: str) -> None:
    task = planned(engine, sql)
    assert asked[PHYSICAL] == asked[RUN] == 0
    first = engine.run(task).read_all()
    # The bounds of plans make joins of subqueries in expressions, by a few rules of the optimiser.
    # A sum of BIGINT is planned again with what refuses one beyond it.
    plannings = 1 + ("sum(" in sql)
    assert asked == {SQL: plannings, OPTIMISED: 4 if "SELECT (SELECT" in sql else 1, run: 1}
    asked.clear()
    assert engine.run(planned(engine, sql)).read_all().num_rows == first.num_rows
    assert asked == {run: 1}


def test_a_described_query_is_planned_by_then(engine: Engine, asked: Counter[str]) -> None:
    sql = "SELECT sum(id) AS s FROM t"
    assert engine.describe(sql).schema == pa.schema({"s": pa.int64()})
    assert asked[OPTIMISED] == 1
    asked.clear()
    engine.run(planned(engine, sql)).read_all()
    assert asked == {RUN: 1}


def test_a_text_is_read_once(engine: Engine) -> None:
    read = parsing._remembered.cache_info().misses
    rewritten = rewriting._remembered.cache_info().misses
    sql = "SELECT sum(id) AS of_this_test_alone FROM t WHERE k = $1"
    engine.describe(sql)
    for number in range(3):
        engine.run(planned(engine, sql, pa.record_batch({"k": [number]}))).read_all()
    assert parsing._remembered.cache_info().misses == read + 1
    assert rewriting._remembered.cache_info().misses == rewritten + 1


def test_other_parameters_are_bound_and_nothing_else(engine: Engine, asked: Counter[str]) -> None:
    sql = "SELECT sum(id) AS s FROM t WHERE k = $1"
    engine.describe(sql)
    for number in range(3):
        asked.clear()
        task = planned(engine, sql, pa.record_batch({"k": [number]}))
        assert engine.run(task).read_all()["s"].to_pylist() == [9 + 3 * number]
        assert asked == {SQL: 2, OPTIMISED: 1, RUN: 1}


def test_partitions_are_pruned_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned: list[Any] = []
    keep = pruning._keep_any_of

    def counting(*arguments: Any) -> Any:
        pruned.append(arguments)
        return keep(*arguments)

    monkeypatch.setattr(pruning, "_keep_any_of", counting)
    sql = "SELECT sum(id) AS s FROM t WHERE k = 1"
    for _ in range(3):
        assert engine.run(planned(engine, sql)).read_all()["s"].to_pylist() == [12]
    assert len(pruned) == 1
    engine.update("INSERT INTO t VALUES (1, 100, 'b')")
    assert engine.run(planned(engine, sql)).read_all()["s"].to_pylist() == [112]
    assert len(pruned) == 2


REFUSED = {
    "SELECT ntile(-1) OVER (ORDER BY id) FROM t": "NTILE requires a positive integer",
    "SELECT string_agg(name, id) FROM t": "delimiter must be a string literal",
    "SELECT approx_percentile_cont(id, 2) FROM t": "between 0.0 and 1.0",
}


@pytest.mark.parametrize(("sql", "why"), REFUSED.items())
def test_what_is_refused_as_it_is_planned_physically_is_an_error_of_the_text(
    engine: Engine, sql: str, why: str
) -> None:
    with pytest.raises(SqlError, match=why):
        engine.run(planned(engine, sql)).read_all()
