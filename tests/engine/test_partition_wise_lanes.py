"""Groups on their lanes: errors reach whoever reads, readers may go away, and many queries at once all end."""

from __future__ import annotations

import gc
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.partition_wise import division
from lance_flight.engine.query.partition_wise.lanes import Admission
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.session_registry import QueryOptions, Session
from lance_flight.errors import LanceFlightError, QueryFailed

from tests.engine.database import open_engine

IN_GROUPS = Scope(session=Session(execution=QueryOptions(group_rows=0)))
PLAIN = Scope(session=Session(execution=QueryOptions(partition_wise_join=False)))
ROWS = 160
JOIN = "FROM l JOIN r ON l.k = r.k"
QUERIES = [
    pytest.param(f"SELECT l.id, 10 / (r.v - 5) {JOIN}", id="all of the query"),
    pytest.param(f"SELECT sum(10 / (r.v - 5)) {JOIN}", id="below an aggregate"),
    pytest.param(f"SELECT l.k, 10 / (r.v - 5) {JOIN} ORDER BY l.v, l.id LIMIT 3", id="below a sort"),
    pytest.param("SELECT id, 10 / (v - 5) FROM l ORDER BY k, id", id="in the order of partitions"),
]
READ = [
    pytest.param(f"SELECT l.id {JOIN}", id="all of the query"),
    pytest.param(f"SELECT l.id {JOIN} LIMIT 1", id="below a limit"),
    pytest.param(f"SELECT DISTINCT upper(CAST(l.id AS VARCHAR)) {JOIN} LIMIT 2", id="below DISTINCT"),
    pytest.param(f"SELECT l.v {JOIN} UNION ALL SELECT l.v {JOIN}", id="twice"),
    pytest.param("SELECT id FROM l ORDER BY k, id", id="in the order of partitions"),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return laid_out(tmp_path_factory.mktemp("root"))


def laid_out(place: Path) -> Engine:
    """Two tables of 8 partitions; each `k` comes 20 times, and `v` is 5 in the last row alone."""
    engine = open_engine(place)
    values = ", ".join(f"({n}, {n % 8}, {n % 5 if n < ROWS - 1 else 5})" for n in range(ROWS))
    for table in ("l", "r"):
        engine.update(f"CREATE TABLE {table} (id BIGINT, k BIGINT, v BIGINT) PARTITIONED BY (k)")
        engine.update(f"INSERT INTO {table} VALUES {values}")
    return engine


@pytest.fixture(autouse=True)
def no_lane_is_left() -> Iterator[None]:
    yield
    gc.collect()
    for lane in lanes():
        lane.join(timeout=20)
    assert not lanes()


def lanes() -> list[threading.Thread]:
    """The lanes that are still there."""
    return [thread for thread in threading.enumerate() if thread.name == "group lane"]


def read(engine: Engine, sql: str, scope: Scope = IN_GROUPS) -> list[tuple[object, ...]]:
    """The rows of a query."""
    planned = engine.plan(sql, scope=scope)
    assert planned is not None
    table = engine.run(planned.tasks[0]).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def groups(engine: Engine, sql: str) -> str:
    """What EXPLAIN says of groups."""
    return "\n".join(str(text) for kind, text in read(engine, f"EXPLAIN {sql}") if kind == "groups")


@pytest.mark.parametrize("sql", QUERIES)
def test_an_error_in_a_group_reaches_the_reader(engine: Engine, sql: str) -> None:
    assert "groups: none" not in groups(engine, sql)
    for scope in (PLAIN, IN_GROUPS):
        with pytest.raises(QueryFailed, match=r"^Divide by zero: a number is divided by 0; write [^;]*$"):
            read(engine, sql, scope)


def test_a_table_that_cannot_be_read_is_the_same_error(tmp_path: Path) -> None:
    engine = laid_out(tmp_path)
    shutil.rmtree(next(place for place in (tmp_path / "r").rglob("data") if "__manifest" not in str(place)))
    for sql in (f"SELECT l.id {JOIN}", f"SELECT DISTINCT l.v + 1 {JOIN}", "SELECT id FROM r ORDER BY k, id"):
        said = []
        for scope in (PLAIN, IN_GROUPS):
            with pytest.raises(LanceFlightError) as raised:
                read(engine, sql, scope)
            said.append(repr(raised.value))
        assert said[0] == said[1]


@pytest.mark.parametrize("sql", READ)
def test_a_reader_that_goes_away_leaves_no_lane(engine: Engine, sql: str) -> None:
    assert "groups: none" not in groups(engine, sql)
    planned = engine.plan(sql, scope=IN_GROUPS)
    assert planned is not None
    reader = engine.run(planned.tasks[0])
    assert reader.read_next_batch().num_rows
    del reader


@pytest.mark.parametrize("sql", READ)
def test_a_query_that_was_read_leaves_no_lane(engine: Engine, sql: str) -> None:
    assert len(read(engine, sql)) == len(read(engine, sql, PLAIN))


@pytest.mark.parametrize("free", [64, 2])
def test_many_queries_at_once_all_end(engine: Engine, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(division, "admission", Admission(free))
    monkeypatch.setattr(division, "ADMISSION_SECONDS", 0.01)
    sql = f"SELECT l.k, count(*) AS rows {JOIN} GROUP BY l.k ORDER BY l.k"
    both = f"SELECT l.v, l.id {JOIN} UNION ALL SELECT r.v, r.id {JOIN} ORDER BY v, id LIMIT 9"
    expected = {query: read(engine, query, PLAIN) for query in (sql, both)}
    with ThreadPoolExecutor(8) as pool:
        asked = [sql, both] * 6
        assert [*pool.map(lambda query: read(engine, query), asked)] == [expected[query] for query in asked]
