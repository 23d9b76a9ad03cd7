"""A query that was planned before is not planned again, unless that could give something else."""

from __future__ import annotations

import gc
import shutil
import weakref
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import Access, Grant, GrantedTables, Privilege
from lance_flight.engine.query.planned_query import PlanCache, Task
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.running_statement import Issuer
from lance_flight.engine.runtime.session_registry import QueryOptions, Session
from lance_flight.engine.statements.answering import Answering, Sessions
from lance_flight.errors import Cancelled, LanceFlightError, SqlError

from tests.engine.database import open_engine, refusal
from tests.engine.waiting import until

pytestmark = pytest.mark.slow  # every change between two runs of every query

QUERIES = {
    "straight from Lance": "SELECT id FROM {t}",
    "filtered": "SELECT id FROM {t} WHERE id > 1",
    "aggregated": "SELECT k, count(*) AS n FROM {t} GROUP BY k",
    "joined": "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id",
    "metadata": "SELECT version FROM {t}$snapshots",
    "no table": "SELECT 1 AS one",
}
KEPT = [name for name in QUERIES if name != "metadata"]
CHANGES_OF_PLAIN = [
    ("INSERT INTO {t} SELECT k + 1, id + 10 FROM {t}",),
    ("DROP TABLE {t}",),
    ("DROP TABLE {t}", "CREATE TABLE {t} (k BIGINT, id BIGINT)", "INSERT INTO {t} VALUES (7, 7)"),
    ("ALTER TABLE {t} RENAME TO other",),
]
CHANGES = [*CHANGES_OF_PLAIN, ("DELETE FROM {t} WHERE id > 1",), ("ALTER TABLE {t} DROP COLUMN id",)]
ROWS = pa.table({"k": [0, 0, 1, 1], "id": [1, 2, 3, 4]})


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One element for each session that is begun."""
    counted: list[None] = []
    begin = Sessions.begin

    def noted(*arguments: Any, **options: Any) -> Any:
        counted.append(None)
        return begin(*arguments, **options)

    monkeypatch.setattr(Sessions, "begin", noted)
    return counted


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partitioned table `t` and a plain one `p` of the same rows, and a table `v` of six vectors, two of them equal."""
    made = tmp_path_factory.mktemp("template")
    engine = open_engine(made)
    for name, by in (("t", "PARTITIONED BY (k)"), ("p", "")):
        engine.update(f"CREATE TABLE {name} (k BIGINT, id BIGINT) {by}")
        put(engine, name)
    engine.update("CREATE TABLE v (k BIGINT, id BIGINT, word VARCHAR, e FLOAT[8]) PARTITIONED BY (k)")
    for n in range(6):
        add(engine, n, [float(n % 5 - 2) * m for m in range(8)])
    return made


@pytest.fixture
def engine(template: Path, tmp_path: Path) -> Engine:
    return open_engine(shutil.copytree(template, tmp_path / "root"))


def put(engine: Engine, name: str) -> None:
    engine.ingest(TableName("public", name), ROWS.to_reader(), create_missing=False, existing=IfExists.APPEND)


def planned(engine: Engine, sql: str, scope: Scope | None = None) -> Task:
    plan = engine.plan(sql, scope=scope or Scope())
    assert plan is not None
    (task,) = plan.tasks
    return task


def said(run: Callable[[], pa.RecordBatchReader]) -> list[Any] | str:
    """The rows, sorted, or what is said instead."""
    try:
        return sorted(map(str, run().read_all().to_pylist()))
    except LanceFlightError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("form", ["{}", "SELECT * FROM ({}) AS q"])
@pytest.mark.parametrize("by", ["id", "id % 3"])
def test_a_pivot_has_the_columns_of_its_values_when_it_was_planned(engine: Engine, form: str, by: str) -> None:
    sql = form.format(f"PIVOT t ON {by} USING count(*) GROUP BY k")
    plan = engine.plan(sql)
    assert plan is not None
    (task,) = plan.tasks
    before = said(lambda: engine.run(task))
    engine.update("DELETE FROM t WHERE id <= 3")
    engine.update("INSERT INTO t VALUES (5, 55)")
    assert engine.run(task).schema == plan.schema
    assert said(lambda: engine.run(task)) == before
    later = engine.query(sql)
    assert later.schema != plan.schema
    assert sum(sum(column.to_pylist()) for column in later.columns[1:]) == 2
    assert engine.describe(sql).schema == later.schema


def test_the_rows_of_a_pivot_without_values_depend_on_no_parameter(engine: Engine) -> None:
    sql = "PIVOT (SELECT * FROM t WHERE id > ?) ON k USING count(*)"
    message = refusal(lambda: engine.describe(sql))
    assert "write ON column IN (…)" in message
    assert engine.describe("SELECT * FROM (PIVOT t ON k USING count(*) GROUP BY id) WHERE id > ?").schema is not None


@pytest.mark.parametrize("query", KEPT)
@pytest.mark.parametrize("table", ["t", "p"])
def test_a_query_is_planned_once(engine: Engine, begun: list[None], query: str, table: str) -> None:
    sql = QUERIES[query].format(t=table)
    task = planned(engine, sql)
    first = said(lambda: engine.run(task))
    assert isinstance(first, list)
    assert said(lambda: engine.run(task)) == first
    assert said(lambda: engine.run(planned(engine, sql))) == first
    assert len(begun) == 1
    assert (engine.plans.counts.hits, engine.plans.counts.misses) == (4, 1)


LONG = {
    "a list": f"SELECT id FROM t WHERE id IN ({', '.join(map(str, range(3, 15_000)))})",
    "a chain": f"SELECT id FROM t WHERE {' OR '.join(f'id = {number}' for number in range(3, 15_000))}",
    "long texts": "SELECT id FROM t WHERE CAST(id AS VARCHAR) IN ('4', "
    + ", ".join(map("'{:036}'".format, range(15_000)))
    + ")",
}


@pytest.mark.parametrize("sql", LONG.values(), ids=LONG)
def test_a_query_of_many_values_is_planned_once(engine: Engine, begun: list[None], sql: str) -> None:
    short = planned(engine, "SELECT id FROM t")
    begun.clear()
    assert "{'id': 4}" in said(lambda: engine.run(planned(engine, sql)))
    assert len(begun) == 1
    assert isinstance(said(lambda: engine.run(short)), list)
    assert len(begun) == 1


def test_a_plan_that_the_cache_has_no_room_for_displaces_none(engine: Engine, begun: list[None]) -> None:
    engine.plans = PlanCache(most_bytes=1 << 20)
    engine._answering = Answering(engine.sessions, engine.plans)
    for text in ("SELECT id FROM t", LONG["a list"]):
        engine.run(planned(engine, text)).read_all()
    assert engine.plans.counts.plans == 1
    begun.clear()
    engine.run(planned(engine, "SELECT id FROM t")).read_all()
    assert begun == []


NEVER_KEPT = {
    "a metadata table": "SELECT version FROM t$snapshots",
    "a table of the server": "SELECT id FROM system.queries",
    "the time": "SELECT id FROM t WHERE now() > TIMESTAMP '2020-01-01'",
    "the date": "SELECT id FROM t WHERE current_date > DATE '2020-01-01'",
    "chance": "SELECT id, random() >= 0 AS r FROM t",
    "a search of rows that are found first": (
        "SELECT id FROM full_text_search('texts', 'word', 'a', filter => 'upper(word) LIKE ''A%''')"
    ),
    "a search with chance": "SELECT id, random() >= 0 AS r FROM full_text_search('texts', 'word', 'a')",
    "changes": "SELECT * FROM table_changes('t', 'old', 'old')",
}


@pytest.mark.parametrize("sql", NEVER_KEPT.values(), ids=NEVER_KEPT)
def test_what_may_change_by_itself_is_planned_each_time(engine: Engine, sql: str) -> None:
    engine.update("CREATE TABLE texts (id BIGINT, word VARCHAR) PARTITIONED BY (id)")
    engine.update("INSERT INTO texts VALUES (1, 'a')")
    engine.update("ALTER TABLE t CREATE TAG old")
    engine.run(planned(engine, sql)).read_all()
    assert engine.plans.counts.plans == 0


NEAR = [float(n) for n in range(8)]
FAR = [float(-n) for n in range(8)]
SEARCHES = {
    "vectors": "SELECT id FROM vector_search('v', 'e', {vector}, k => 2)",
    "vectors of some rows": "SELECT id FROM vector_search('v', 'e', {vector}, k => 2, filter => 'k = 1')",
    "vectors, filtered afterwards": "SELECT id FROM vector_search('v', 'e', {vector}, k => 3) WHERE id <> 3",
    "vectors, measured": "SELECT id, array_distance(e, {vector}) AS d FROM vector_search('v', 'e', {vector}, k => 2)",
    "two": "SELECT a.id, b.id AS o FROM vector_search('v', 'e', {vector}, k => 2) a,"
    " vector_search('v', 'e', [8, 7, 6, 5, 4, 3, 2, 1]) b ORDER BY 1, 2",
    "texts": "SELECT id FROM full_text_search('v', 'word', 'a') WHERE '{vector}' <> ''",
    "both": "SELECT id FROM hybrid_search('v', 'e', {vector}, 'word', 'a', k => 2)",
    "only named": "SELECT id, '{vector} of vector_search' AS n FROM v ORDER BY id",
}


def add(engine: Engine, n: int, vector: list[float]) -> None:
    engine.update(f"INSERT INTO v VALUES ({n % 2}, {n}, 'a', {vector})")


def ordered(engine: Engine, sql: str) -> list[Any] | str:
    """The rows in their order, or what is said instead."""
    try:
        found: list[Any] = engine.run(planned(engine, sql)).read_all().to_pylist()
    except LanceFlightError as error:
        return f"{type(error).__name__}: {error}"
    return found


def unplanned(engine: Engine, sql: str) -> list[Any] | str:
    """What an engine over the same root gives that has planned nothing before."""
    return ordered(Engine(engine.root, target_partitions=2), sql)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_search_is_made_anew_in_the_plan_of_another(engine: Engine, search: str) -> None:
    near, far = search.format(vector=NEAR), search.format(vector=FAR)
    for sql in (near, far, near, far):
        found = ordered(engine, sql)
        assert isinstance(found, list)
        assert found == unplanned(engine, sql)
    add(engine, 7, FAR)
    for sql in (far, near):
        assert ordered(engine, sql) == unplanned(engine, sql)
    engine.update("ALTER TABLE v RENAME COLUMN word TO body")
    for sql in (far, near):
        assert ordered(engine, sql) == unplanned(engine, sql)


def test_searches_for_other_vectors_are_planned_once(engine: Engine, begun: list[None]) -> None:
    for name in ("vectors", "vectors of some rows", "both"):
        begun.clear()
        for vector in (NEAR, FAR, [0.5] * 8):
            ordered(engine, SEARCHES[name].format(vector=vector))
        assert len(begun) == 1


def test_a_bound_vector_is_searched_for_in_the_plan_of_another(engine: Engine, begun: list[None]) -> None:
    def found(vector: list[float]) -> list[Any]:
        values = pa.record_batch({"$1": pa.array([vector], pa.list_(pa.float32(), 8))})
        plan = engine.plan(SEARCHES["vectors"].format(vector="$1"), values)
        assert plan is not None
        rows: list[Any] = engine.run(plan.tasks[0]).read_all().to_pylist()
        return rows

    for vector in (NEAR, FAR, NEAR):
        begun.clear()
        rows, count = found(vector), len(begun)
        assert rows == unplanned(engine, SEARCHES["vectors"].format(vector=vector))
    assert count == 0


def test_the_time_in_the_filter_of_a_search_is_that_of_each_run(engine: Engine) -> None:
    engine.update("ALTER TABLE v ADD COLUMN at TIMESTAMP")
    engine.update("UPDATE v SET at = arrow_cast(now() + INTERVAL '1 second', 'Timestamp(Microsecond, None)')")
    sql = "SELECT id FROM vector_search('v', 'e', [1, 1, 1, 1, 1, 1, 1, 1], filter => 'at < now()')"
    before = datetime.now(UTC)
    while not (found := ordered(engine, sql)):
        assert datetime.now(UTC) - before < timedelta(seconds=60)
    assert len(found) == 6


def test_a_vector_that_does_not_fit_is_refused_after_one_that_did(engine: Engine) -> None:
    sql = SEARCHES["vectors"]
    ordered(engine, sql.format(vector=NEAR))
    with pytest.raises(SqlError, match="has 9 values; expected 8 numbers"):
        engine.plan(sql.format(vector=[*NEAR, 1.0]))


def test_a_query_that_was_planned_sees_what_was_written_since(engine: Engine, begun: list[None]) -> None:
    for sql in (QUERIES["straight from Lance"], QUERIES["filtered"], QUERIES["aggregated"], QUERIES["joined"]):
        for table in ("t", "p"):
            text = sql.format(t=table)
            engine.run(planned(engine, text)).read_all()
            engine.update(f"INSERT INTO {table} VALUES (7, 70)")
            begun.clear()
            again = said(lambda text=text: engine.run(planned(engine, text)))
            assert begun == []
            assert again == said(
                lambda text=text: Engine(engine.root, target_partitions=2).run(
                    planned(Engine(engine.root, target_partitions=2), text)
                )
            )
            assert "7" in str(again)


@pytest.mark.parametrize("table", ["t", "p"])
def test_other_parameters_are_bound_in_the_same_plan(engine: Engine, begun: list[None], table: str) -> None:
    sql = f"SELECT id FROM {table} WHERE id = ? OR k = ?"
    found = []
    for number in (1, 2, 3):
        plan = engine.plan(sql, pa.record_batch({"a": [number], "b": [9]}))
        assert plan is not None
        found += engine.run(plan.tasks[0]).read_all()["id"].to_pylist()
    assert found == [1, 2, 3]
    assert len(begun) == 1


def test_statements_beside_each_other_have_a_plan_each(engine: Engine, begun: list[None]) -> None:
    tasks = [planned(engine, "SELECT id FROM t") for _ in range(3)]
    readers = [engine.run(task) for task in tasks]
    first = [reader.read_next_batch().num_rows for reader in readers]
    assert len(begun) == 3
    assert [rows + reader.read_all().num_rows for rows, reader in zip(first, readers, strict=True)] == [len(ROWS)] * 3
    assert engine.plans.counts.plans == 3


SESSIONS = {
    "another schema": Scope(Session(db_schema="other")),
    "lanes": Scope(Session(execution=QueryOptions(target_partitions=1))),
    "a snapshot": Scope(Session(execution=QueryOptions(snapshot="2"))),
    "a principal": Scope(access=Access("alice")),
    "a policy": Scope(access=Access("", grants=(Grant(privileges=frozenset(Privilege), tables=GrantedTables()),))),
}


@pytest.mark.parametrize("scope", SESSIONS.values(), ids=SESSIONS)
def test_another_session_has_another_plan(engine: Engine, begun: list[None], scope: Scope) -> None:
    engine.run(planned(engine, "SELECT 1 AS one")).read_all()
    engine.run(planned(engine, "SELECT 1 AS one", scope), access=scope.access).read_all()
    assert len(begun) == 2


@pytest.mark.parametrize("query", KEPT)
@pytest.mark.parametrize(("change", "table"), [*product(CHANGES, "t"), *product(CHANGES_OF_PLAIN, "p")])
def test_what_happens_between_shows_as_if_it_were_planned_again(
    engine: Engine, change: tuple[str, ...], query: str, table: str
) -> None:
    other = Engine(engine.root, target_partitions=2)
    task = planned(engine, QUERIES[query].format(t=table))
    for statement in change:
        other.update(statement.format(t=table))
    assert said(lambda: engine.run(task)) == said(lambda: other.run(task))


@pytest.mark.parametrize("change", CHANGES)
def test_metadata_show_what_happens_between(engine: Engine, change: tuple[str, ...]) -> None:
    test_what_happens_between_shows_as_if_it_were_planned_again(engine, change, "metadata", "t")


def test_a_plan_of_an_old_snapshot_is_kept_too(engine: Engine, begun: list[None]) -> None:
    version = max(row["version"] for row in engine.query("SELECT version FROM t$snapshots").to_pylist())
    put(engine, "t")
    begun.clear()
    assert len(said(lambda: engine.run(planned(engine, f"SELECT id FROM t@{version}")))) == len(ROWS)
    assert len(begun) == 1


def test_who_may_see_less_by_now_sees_less(engine: Engine, begun: list[None]) -> None:
    alice = Scope(issuer=Issuer(principal="alice"), access=Access("alice"))
    task = planned(engine, "SELECT id FROM t", alice)
    assert said(lambda: engine.run(task, alice.issuer, Access("alice", grants=()))) == "NotFound: no table 't'"
    assert len(begun) == 2
    task = planned(engine, "SELECT id FROM t", alice)
    assert len(said(lambda: engine.run(task, alice.issuer, Access("alice")))) == len(ROWS)
    assert len(begun) == 2


def test_another_task_of_the_statement_is_planned(engine: Engine, begun: list[None]) -> None:
    task = planned(engine, "SELECT id FROM t")
    assert said(lambda: engine.run(replace(task, sql="SELECT k FROM t WHERE k = 0"))) == ["{'k': 0}"] * 2
    assert len(begun) == 2


def test_a_cancelled_statement_is_not_ready(engine: Engine) -> None:
    task = planned(engine, "SELECT id FROM t")
    engine.running.cancel(task.statement, Issuer())
    with pytest.raises(Cancelled):
        engine.run(task)


def test_a_kept_plan_keeps_no_call(engine: Engine) -> None:
    class Call:
        def is_gone(self) -> bool:
            return False

    call = Call()
    gone = weakref.ref(call)
    issuer = Issuer(is_gone=call.is_gone)
    engine.run(planned(engine, "SELECT id FROM t", Scope(issuer=issuer)), issuer).read_all()
    del call, issuer
    gc.collect()
    assert engine.plans.counts.plans == 1
    # DataFusion's threads drop what they held of the run a moment after its last row.
    until(lambda: gone() is None)


def test_a_plan_whose_run_failed_is_not_kept(engine: Engine) -> None:
    assert "QueryFailed" in said(lambda: engine.run(planned(engine, "SELECT 1 / (id - id) AS x FROM t")))
    assert engine.plans.counts.plans == 0


@pytest.mark.parametrize("bounds", [{"most_plans": 2}, {"most_bytes": 250_000}], ids=["plans", "bytes"])
def test_the_plans_used_last_are_kept(engine: Engine, begun: list[None], bounds: dict[str, int]) -> None:
    engine.plans = PlanCache(**bounds)
    engine._answering = Answering(engine.sessions, engine.plans)
    texts = [f"SELECT id FROM t WHERE id > {number}" for number in range(3)]
    for text in texts:
        engine.run(planned(engine, text)).read_all()
    assert engine.plans.counts.plans == 2
    assert engine.plans.counts.size <= bounds.get("most_bytes", 1 << 20)
    begun.clear()
    for text in texts[1:]:
        engine.run(planned(engine, text)).read_all()
    assert begun == []
    engine.run(planned(engine, texts[0])).read_all()
    assert len(begun) == 1


@pytest.fixture
def made_anew(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One element for each plan whose searches are made anew."""
    counted: list[None] = []
    search_again = QuerySession.search_again

    def noted(*arguments: Any) -> bool:
        counted.append(None)
        return search_again(*arguments)

    monkeypatch.setattr(QuerySession, "search_again", noted)
    return counted


def bound(engine: Engine, vector: list[float]) -> Task:
    values = pa.record_batch({"$1": pa.array([vector], pa.list_(pa.float32(), 8))})
    plan = engine.plan(SEARCHES["vectors"].format(vector="$1"), values)
    assert plan is not None
    (task,) = plan.tasks
    # As it comes back in a ticket.
    return Task.from_bytes(task.to_bytes())


def test_a_ticket_goes_on_with_the_searches_of_its_plan(
    engine: Engine, begun: list[None], made_anew: list[None]
) -> None:
    near, far = [ordered(engine, SEARCHES["vectors"].format(vector=each)) for each in (NEAR, FAR)]
    begun.clear()
    for vector, rows in [(NEAR, near), (FAR, far), (NEAR, near)]:
        made_anew.clear()
        assert engine.run(bound(engine, vector)).read_all().to_pylist() == rows
        assert len(made_anew) <= 1
    assert len(begun) == 1


def test_tickets_of_statements_beside_each_other_find_their_own_rows(engine: Engine) -> None:
    expected = [ordered(engine, SEARCHES["vectors"].format(vector=each)) for each in (NEAR, FAR)]
    for order in ([0, 1], [1, 0]):
        tasks = [bound(engine, vector) for vector in (NEAR, FAR)]
        found = {each: engine.run(tasks[each]).read_all().to_pylist() for each in order}
        assert [found[0], found[1]] == expected


@pytest.mark.parametrize("change", ["INSERT INTO v SELECT k, id + 100, word, e FROM v", "DELETE FROM v WHERE id = 3"])
def test_a_ticket_reads_the_snapshot_that_it_was_planned_for(engine: Engine, change: str) -> None:
    expected = ordered(engine, SEARCHES["vectors"].format(vector=NEAR))
    task = bound(engine, NEAR)
    engine.update(change)
    assert engine.run(task).read_all().to_pylist() == expected
    assert engine.run(task).read_all().to_pylist() == expected
    assert ordered(engine, SEARCHES["vectors"].format(vector=NEAR)) != expected


def test_the_ticket_of_a_dropped_table_is_refused(engine: Engine) -> None:
    task = bound(engine, NEAR)
    engine.update("DROP TABLE v")
    with pytest.raises(LanceFlightError, match="'v'"):
        engine.run(task).read_all()


def test_a_ticket_shows_no_more_than_its_reader_may_see(engine: Engine) -> None:
    alice = Issuer(principal="alice")
    plan = engine.plan(SEARCHES["vectors"].format(vector=NEAR), scope=Scope(issuer=alice, access=Access("alice")))
    assert plan is not None
    task = plan.tasks[0]
    assert said(lambda: engine.run(task, alice, Access("alice", grants=()))) == "NotFound: no table 'v'"
    assert len(said(lambda: engine.run(task, alice, Access("alice")))) == 2


def test_another_vector_in_a_ticket_of_the_statement_is_searched_for(engine: Engine) -> None:
    other, task = bound(engine, FAR), bound(engine, NEAR)
    expected = ordered(engine, SEARCHES["vectors"].format(vector=FAR))
    assert engine.run(replace(task, parameters=other.parameters)).read_all().to_pylist() == expected
