"""What a statement leaves behind: its plan, and no session; and the index of the sessions of clients."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import PlanCache
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.runtime.session_registry import KeptSessions, Session
from lance_flight.errors import LanceFlightError

from tests.engine.database import open_engine
from tests.engine.waiting import until


@pytest.fixture(scope="module", autouse=True)
def _objects() -> Iterator[None]:
    """Leaves to the collector what is made here: looking through all that other modules have left takes seconds each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = open_engine(tmp_path_factory.mktemp("ends"))
    engine.update("CREATE TABLE t (k BIGINT, x BIGINT) PARTITIONED BY (bucket(4, k))")
    engine.update("INSERT INTO t SELECT v, v FROM (SELECT unnest(range(0, 99)) AS v) AS n")
    engine.update("ALTER TABLE t CREATE TAG old")
    return engine


STATEMENTS = [
    pytest.param("SELECT 1 AS one", id="no table"),
    pytest.param("SELECT k FROM t", id="straight from Lance"),
    pytest.param("SELECT sum(x) AS x FROM t", id="aggregated"),
    pytest.param("SELECT a.k FROM t a JOIN t b ON a.k = b.k", id="in groups"),
    pytest.param("SELECT a.k FROM t a JOIN t b ON a.k = b.k ORDER BY a.x", id="above groups"),
    pytest.param("SELECT count(*) AS n FROM t", id="from metadata"),
    pytest.param("SELECT * FROM table_changes('t', 'old', 'old')", id="a table function"),
    pytest.param("SELECT * FROM t$partitions", id="a metadata table"),
    pytest.param("SELECT murmur3(k) AS h FROM t", id="a function of ours"),
    pytest.param("EXPLAIN ANALYZE SELECT k, count(*) FROM t GROUP BY k", id="explained"),
]


def sessions() -> int:
    gc.collect()
    return living()


def living() -> int:
    """The sessions that there are, but for those of plans that are kept."""
    found = gc.get_objects()
    kept = sum(each.counts.plans for each in found if isinstance(each, PlanCache))
    return sum(isinstance(each, QuerySession) for each in found) - kept


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_query_keeps_no_session(engine: Engine, sql: str) -> None:
    before = sessions()
    for _ in range(3):
        engine.query(sql)
    assert sessions() == before


FAILING = [
    pytest.param("SELECT 1 / 0", id="computed"),
    pytest.param("SELECT * FROM nothing", id="no such table"),
    pytest.param("SELECT sum(1 / (x - x)) AS x FROM t", id="of partitions"),
    pytest.param("SELECT 1 / (x - x) AS x FROM t ORDER BY x", id="sorted"),
]


@pytest.mark.parametrize("sql", FAILING)
def test_a_query_that_fails_keeps_no_session_until_it_is_collected(engine: Engine, sql: str) -> None:
    before = sessions()
    gc.disable()
    try:
        for _ in range(3):
            with pytest.raises(LanceFlightError):
                engine.query(sql)
        until(lambda: living() == before)
    finally:
        gc.enable()


def test_a_change_keeps_no_session(engine: Engine, tmp_path: Path) -> None:
    own = open_engine(tmp_path)
    before = sessions()
    own.update("CREATE TABLE t (k BIGINT) PARTITIONED BY (k)")
    own.update("INSERT INTO t SELECT 1")
    own.update("UPDATE t SET k = 2")
    own.update("MERGE INTO t USING (VALUES (2)) AS s (k) ON t.k = s.k WHEN MATCHED THEN DELETE")
    assert sessions() == before


def test_a_reader_that_goes_away_keeps_no_session(engine: Engine) -> None:
    before = sessions()
    plan = engine.plan("SELECT a.k FROM t a JOIN t b ON a.k = b.k ORDER BY a.x")
    assert plan is not None
    reader = engine.run(plan.tasks[0])
    reader.read_next_batch()
    del reader, plan
    assert sessions() == before


SESSIONS = [Session(holder=principal) for principal in ("alice", "alice", "bob", "eve")]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), st.sampled_from(SESSIONS)),
        st.tuples(st.just("pop"), st.sampled_from("abcdef"), st.none()),
        st.tuples(st.just("remove"), st.none(), st.sampled_from(SESSIONS)),
    ),
    max_size=30,
)


@given(STEPS)
def test_an_index_knows_what_a_list_does(steps: list[tuple[str, str | None, Session | None]]) -> None:
    kept, listed = KeptSessions(), list[tuple[str, Session]]()
    for step in steps:
        match step:
            case "put", str(key), Session() as session:
                kept.put(key, session)
                listed = [*(each for each in listed if each[0] != key), (key, session)]
            case "pop", str(key), _ if key in kept:
                assert (key, kept.pop(key)) in listed
                listed = [each for each in listed if each[0] != key]
            case "remove", _, Session() as session:
                kept.remove(session)
                listed = [each for each in listed if each[1] is not session]
    assert [(key, kept[key].session) for key in kept] == listed
    assert (len(kept), set(kept.sessions)) == (len(listed), {session for _, session in listed})
    for each in SESSIONS:
        assert set(kept.keys_of(each)) == {key for key, session in listed if session is each}
        own = [key for key, session in listed if session.holder == each.holder]
        assert (kept.of_holder(each.holder), kept.count_of(each.holder)) == (own, len(own))
