"""Statements while they run: what is known of them, who may end them, and that they end at once."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext, udf
from lance_flight.backend_values import CancelStatus, IfExists
from lance_flight.catalog.commits.transaction import Staging
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.storage.leases import SnapshotId, leased_snapshots, leases
from lance_flight.engine import operations
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.planned_query import QueryPlan
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime import statement_registry
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.cancellation import Cancellation
from lance_flight.engine.runtime.running_statement import Issuer, Record, RunningStatement, State, StatementKind
from lance_flight.engine.runtime.statement_registry import StatementRegistry
from lance_flight.engine.runtime.streams import cancellable
from lance_flight.errors import Cancelled, LanceFlightError, OutOfMemory, Refused

from tests.engine.database import open_engine
from tests.engine.waiting import until
from tests.service.server_process import files

ALICE, BOB = Issuer(principal="alice", session="a1", peer="here"), Issuer(principal="bob")
ROWS = pa.table({"k": list(range(100)), "x": list(range(100))})
ENDLESS = {
    "a join that finds nothing": "SELECT count(*) FROM generate_series(1, 1000000) a JOIN generate_series(1, 1000000) b"
    " ON a.value + b.value < 0",
    "a cross join": "SELECT count(*) FROM generate_series(1, 1000000) a CROSS JOIN generate_series(1, 1000000) b",
    "a sort": "SELECT * FROM (SELECT value * 7919 % 10000019 AS x FROM generate_series(1, 200000000)) t ORDER BY x",
    "an aggregate": "SELECT value * 7919 % 10000019 AS x, count(*) AS n FROM generate_series(1, 2000000000) GROUP BY 1",
    "a scan, again and again": "SELECT count(*) FROM t a, t b, t c, t d, t e, t f WHERE a.x + b.x + c.x + d.x + e.x + f.x < 0",
}


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("running")
    filled(open_engine(place))
    return place


def filled(engine: Engine) -> Engine:
    """An engine with a table of four partitions."""
    engine.update("CREATE TABLE t (k BIGINT, x BIGINT) PARTITIONED BY (bucket(4, k))")
    engine.ingest(TableName("public", "t"), ROWS.to_reader(), create_missing=False, existing=IfExists.APPEND)
    return engine


@pytest.fixture
def ended(engine: Engine) -> list[Record]:
    """What has ended since the test began."""
    records: list[Record] = []
    engine.running.observe(records.append)
    return records


def planned(engine: Engine, sql: str, endpoints: int = 1) -> QueryPlan:
    plan = engine.plan(sql, endpoints=endpoints, scope=Scope(issuer=ALICE))
    assert plan is not None
    return plan


def test_a_query_is_one_statement_from_its_plan_to_its_last_row(engine: Engine, ended: list[Record]) -> None:
    (task,) = planned(engine, "SELECT k, x FROM t WHERE k = 7").tasks
    (waiting,) = engine.running.records()
    assert (waiting.id, waiting.state, waiting.kind) == (task.statement, State.PLANNED, StatementKind.QUERY)
    reader = engine.run(task, ALICE)
    batch = reader.read_next_batch()
    (streaming,) = engine.running.records()
    assert (streaming.id, streaming.state, streaming.rows) == (task.statement, State.STREAMING, 1)
    reader.read_all()
    assert engine.running.records() == []
    (record,) = ended
    assert record.id == task.statement
    assert record.sql == "SELECT k, x FROM t WHERE k = 7"
    assert (record.principal, record.session, record.peer) == ("alice", "a1", "here")
    assert (record.rows, record.size, record.outcome) == (1, batch.nbytes, "ok")
    assert (record.partitions_scanned, record.partitions_total) == (1, 4)
    assert record.snapshots == {"public.t": waiting.snapshots["public.t"]}
    assert record.seconds >= record.planning_seconds > 0


def test_a_query_with_several_endpoints_ends_with_the_last_one(engine: Engine, ended: list[Record]) -> None:
    tasks = planned(engine, "SELECT k FROM t", endpoints=4).tasks
    assert len(tasks) == 4
    for task in tasks:
        assert not ended
        engine.run(task, ALICE).read_all()
    (record,) = ended
    assert record.rows == ROWS.num_rows


OUTCOMES = [
    pytest.param("INSERT INTO t VALUES (1, 1), (2, 2)", (StatementKind.UPDATE, "ok", 2), id="a change"),
    pytest.param("SELECT nothing FROM t", (StatementKind.QUERY, "invalid_sql", 0), id="a query that cannot be planned"),
    pytest.param("NONSENSE", (StatementKind.QUERY, "invalid_sql", 0), id="no SQL"),
    pytest.param("INSERT INTO t SELECT 1, 1 / 0", (StatementKind.UPDATE, "query_failed", 0), id="a change that fails"),
]


@pytest.mark.parametrize(("sql", "expected"), OUTCOMES)
def test_what_ends_in_its_first_call_is_told_once(
    engine: Engine, ended: list[Record], sql: str, expected: tuple[StatementKind, str, int]
) -> None:
    with suppress(LanceFlightError):
        engine.execute(sql)
    (record,) = ended
    assert (record.kind, record.outcome, record.rows) == expected
    assert engine.running.records() == []


def test_an_ingest_counts_what_it_is_given(engine: Engine, ended: list[Record]) -> None:
    engine.ingest(TableName("public", "t"), ROWS.to_reader(), create_missing=False, existing=IfExists.APPEND)
    (record,) = ended
    assert (record.kind, record.sql, record.rows) == (StatementKind.INGEST, "INGEST INTO public.t", ROWS.num_rows)


def test_a_reader_that_stops_early_has_closed_its_statement(engine: Engine, ended: list[Record]) -> None:
    reader = engine.run(planned(engine, "SELECT k FROM t").tasks[0], ALICE)
    reader.read_next_batch()
    del reader
    (record,) = ended
    assert record.outcome == "closed"


def test_a_reader_that_goes_with_its_function_ends_its_statement(engine: Engine, ended: list[Record]) -> None:
    """What a table function's name is not found as is an error that is kept, and must not keep its callers' frames."""

    def read() -> None:
        reader = engine.run(planned(engine, "SELECT value FROM generate_series(1, 4000000)").tasks[0], ALICE)
        reader.read_next_batch()

    read()
    assert [record.outcome for record in ended] == ["closed"]


def test_a_query_that_waits_for_its_reader_is_cancelled_with_its_tickets(engine: Engine, ended: list[Record]) -> None:
    (task,) = planned(engine, "SELECT k FROM t").tasks
    with pytest.raises(Refused):
        engine.running.cancel(task.statement, BOB)
    assert engine.running.cancel(task.statement, ALICE) is CancelStatus.CANCELLED
    with pytest.raises(Cancelled):
        engine.run(task, ALICE)
    assert [record.outcome for record in ended] == ["cancelled"]


@pytest.mark.slow  # queries that would compute for ever
@pytest.mark.parametrize("sql", [pytest.param(sql, id=name) for name, sql in ENDLESS.items()])
def test_a_query_that_computes_is_cancelled(engine: Engine, ended: list[Record], sql: str) -> None:
    reader = engine.run(planned(engine, sql).tasks[0], ALICE)
    (running,) = engine.running.records()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            reader.read_all()
        except Cancelled as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    until(lambda: any(record.state is State.RUNNING for record in engine.running.records()))
    assert engine.running.cancel(running.id, ALICE) is CancelStatus.CANCELLED
    thread.join(10)
    assert len(failures) == 1
    assert [record.outcome for record in ended] == ["cancelled"]


LONG_WORK = {
    "CREATE INDEX i ON t (x) WITH (min_rows = 1)": 4,
    "REINDEX t": 8,
    "ALTER TABLE t COMPACT": 4,
    "VERIFY TABLE t": 4,
}


@pytest.mark.slow  # maintenance of many steps
@pytest.mark.parametrize(("sql", "steps"), LONG_WORK.items(), ids=LONG_WORK)
def test_long_work_says_how_far_it_is(engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str, steps: int) -> None:
    if sql == "REINDEX t":
        engine.update("CREATE INDEX i ON t (x) WITH (min_rows = 1)")
        engine.update("CREATE INDEX j ON t (k) WITH (min_rows = 1)")
    engine.ingest(TableName("public", "t"), ROWS.to_reader(), create_missing=False, existing=IfExists.APPEND)
    seen: list[float | None] = []
    progressed = RunningStatement.report_progress

    def noted(statement: RunningStatement, done: int, total: int) -> None:
        progressed(statement, done, total)
        seen.extend(record.progress for record in engine.running.records() if record.id == statement.id)

    monkeypatch.setattr(RunningStatement, "report_progress", noted)
    if sql.startswith("CREATE"):
        engine.update(sql)
    else:
        engine.query(sql)
    assert seen == [(number + 1) / steps for number in range(steps)]


def test_a_change_is_cancelled_before_its_commit(engine: Engine, ended: list[Record]) -> None:
    failures: list[BaseException] = []

    def insert() -> None:
        try:
            engine.update(
                f"INSERT INTO t SELECT 1, n FROM ({ENDLESS['a cross join']}) AS s (n)", scope=Scope(issuer=ALICE)
            )
        except Cancelled as error:
            failures.append(error)

    thread = threading.Thread(target=insert)
    thread.start()
    until(engine.running.records)
    (running,) = engine.running.records()
    assert engine.running.cancel(running.id, ALICE) is CancelStatus.CANCELLED
    thread.join(10)
    assert len(failures) == 1
    assert [record.outcome for record in ended] == ["cancelled"]
    assert engine.query("SELECT count(*) AS n FROM t").to_pylist() == [{"n": ROWS.num_rows}]


def test_an_ingest_is_cancelled_between_its_batches(engine: Engine) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        (running,) = engine.running.records()
        engine.running.cancel(running.id, ALICE, seconds=0)
        yield from ROWS.to_batches()

    reader = pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    with pytest.raises(Cancelled):
        engine.ingest(
            TableName("public", "t"),
            reader,
            create_missing=False,
            existing=IfExists.APPEND,
            scope=Scope(issuer=ALICE),
        )
    assert engine.query("SELECT count(*) AS n FROM t").to_pylist() == [{"n": ROWS.num_rows}]


STAGED = 40
STAGING = {
    "INSERT INTO wide SELECT value + 1000, value FROM range(40)": True,
    "CREATE TABLE made PARTITIONED BY (k) AS SELECT value AS k FROM range(40)": True,
    "INSERT OVERWRITE wide SELECT value + 1000, value FROM range(40)": False,
    "UPDATE wide SET k = k + 1000": False,
}


@pytest.mark.parametrize(("sql", "is_new"), STAGING.items())
def test_a_commit_of_many_partitions_is_cancelled_while_they_are_staged(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str, *, is_new: bool
) -> None:
    engine.update("CREATE TABLE wide PARTITIONED BY (k) AS SELECT value AS k, value AS x FROM range(40)")
    root = Path(engine.root.store.uri)
    before, rows = files(root), engine.query("SELECT * FROM wide ORDER BY k")
    stage, staged = Staging._stage, [0]

    def cancelled(*arguments: Any, **options: Any) -> Any:
        staged[0] += 1
        if staged[0] == STAGED // 10:
            (running,) = engine.running.records()
            assert engine.running.cancel(running.id, ALICE, seconds=0) is CancelStatus.CANCELLING
        return stage(*arguments, **options)

    monkeypatch.setattr(Staging, "_stage", cancelled)
    with pytest.raises(Cancelled):
        engine.update(sql, scope=Scope(issuer=ALICE))
    assert staged[0] < STAGED // 4
    assert not is_new or files(root) == before
    monkeypatch.undo()
    assert engine.query("SELECT * FROM wide ORDER BY k").equals(rows)
    engine.update(sql)


def test_a_commit_is_not_interrupted(engine: Engine) -> None:
    with engine.running.enter(StatementKind.UPDATE, "INSERT", ALICE) as running:
        with running.cancellation.committing():
            assert engine.running.cancel(running.id, ALICE) is CancelStatus.NOT_CANCELLABLE
        running.cancellation.check()
        assert engine.running.cancel(running.id, ALICE, seconds=0) is CancelStatus.CANCELLING
        with pytest.raises(Cancelled), running.cancellation.committing():
            pytest.fail("a cancelled statement began its commit")


@pytest.mark.parametrize(("sql", "is_ended"), [("VERIFY TABLE t", True), ("REPAIR TABLE t", False)])
def test_maintenance_can_be_cancelled_but_not_a_repair(
    engine: Engine,
    ended: list[Record],
    monkeypatch: pytest.MonkeyPatch,
    sql: str,
    is_ended: bool,  # noqa: FBT001 - a column of the table
) -> None:
    outcomes: list[CancelStatus] = []
    work = {"VERIFY TABLE t": "verify", "REPAIR TABLE t": "repair"}[sql]
    begun = getattr(operations, work)

    def cancelled(*args: Any, **options: Any) -> Any:
        (record,) = engine.running.records()
        outcomes.append(engine.running.cancel(record.id, ALICE))
        return begun(*args, **options)

    monkeypatch.setattr(operations, work, cancelled)
    with pytest.raises(Cancelled) if is_ended else nullcontext():
        planned(engine, sql)
    until(lambda: outcomes)
    assert outcomes == [CancelStatus.CANCELLED if is_ended else CancelStatus.NOT_CANCELLABLE]
    assert [record.outcome for record in ended] == ["cancelled" if is_ended else "ok"]


def leased_of(engine: Engine) -> set[SnapshotId]:
    """What vacuum is told that this process still reads."""
    leases.publish_all()
    return leased_snapshots(engine.root.store.child("t"), time.time())


def test_a_reader_that_stops_early_holds_no_snapshot(tmp_path: Path) -> None:
    engine = filled(open_engine(tmp_path, limits=Limits(ticket_lifetime=0)))
    reader = engine.run(planned(engine, "SELECT k FROM t").tasks[0], ALICE)
    reader.read_next_batch()
    assert len(leased_of(engine)) == 1
    del reader
    assert leased_of(engine) == set()


def test_another_server_keeps_the_snapshots_of_a_ticket_that_it_renews(tmp_path: Path) -> None:
    brief = filled(open_engine(tmp_path, limits=Limits(ticket_lifetime=0)))
    patient = open_engine(tmp_path)
    (task,) = planned(brief, "SELECT k FROM t").tasks
    assert leased_of(brief) == set()
    patient.renew(task, ALICE)
    assert len(leased_of(brief)) == 1


def test_a_client_that_is_answered_while_it_is_asked_for_has_not_gone() -> None:
    running, answered = StatementRegistry(), threading.Event()

    def is_gone() -> bool:
        while leaving:
            leaving.pop().start()
        return answered.wait(0.2)

    def leave() -> None:
        entered.__exit__(None, None, None)
        answered.set()

    leaving = [threading.Thread(target=leave)]
    entered = running.enter(StatementKind.QUERY, "SELECT 1", Issuer(is_gone=is_gone))
    statement = entered.__enter__()
    statement.awaited.add(0)
    running.watch()
    assert answered.wait(10)
    statement.cancellation.check()


def test_a_client_that_comes_again_is_not_told_that_it_has_gone() -> None:
    running, ended = StatementRegistry(), list[Record]()
    running.observe(ended.append)
    gone = Issuer(is_gone=lambda: True)
    first = running.of_ticket("1", 0, "SELECT 1", gone)
    with running.working(first, gone):
        running.watch()
        with pytest.raises(Cancelled, match="the client disconnected"):
            first.cancellation.check()
        again = running.of_ticket("1", 0, "SELECT 1", ALICE)
        with running.working(again, ALICE):
            again.cancellation.check()
            first.failure = "cancelled"
            first.awaited.clear()
    assert running.records()[0].principal == "alice"
    assert [record.outcome for record in ended] == ["cancelled"]


def test_a_query_whose_reader_never_comes_is_abandoned(tmp_path: Path) -> None:
    engine = open_engine(tmp_path, target_partitions=1, limits=Limits(ticket_lifetime=0.01))
    outcomes: list[str | None] = []
    engine.running.observe(lambda record: outcomes.append(record.outcome))
    planned(engine, "SELECT 1 AS one")
    until(lambda: outcomes == ["abandoned"])
    assert engine.running.records() == []


def test_a_reader_that_comes_again_and_reads_nothing_is_abandoned(tmp_path: Path) -> None:
    """Of a statement that has ended, and that the ticket begins anew."""
    engine, ended = (
        filled(open_engine(tmp_path, target_partitions=1, limits=Limits(ticket_lifetime=0.2))),
        list[str | None](),
    )
    (task,) = planned(engine, "SELECT * FROM t").tasks
    engine.run(task, ALICE).read_all()
    engine.running.observe(lambda record: ended.append(record.outcome))
    engine.run(task, ALICE).close()
    until(lambda: ended == ["abandoned"])
    assert engine.running.records() == []


def test_the_memory_of_a_statement_that_failed_is_free_at_once(tmp_path: Path) -> None:
    """Nobody waits for Python's collector: the pool is everybody's."""
    engine = open_engine(tmp_path, limits=Limits(server_memory=64 << 20))
    many = "generate_series(1, 4000000)"
    # Keys in a row would be looked up in an array, which takes little memory.
    joined = f"SELECT count(*) AS n FROM {many} AS a JOIN {many} AS b ON -a.value = b.value"
    gc.disable()
    try:
        for _ in range(3):
            with pytest.raises(OutOfMemory):
                engine.query(joined)
            rows = engine.run(planned(engine, f"SELECT value FROM {many} ORDER BY -value").tasks[0])
            assert rows.read_next_batch().column(0)[0].as_py() == 4_000_000
            rows.close()
            del rows
    finally:
        gc.enable()


@pytest.mark.parametrize("made", ["", " PARTITIONED BY (k)"], ids=["plain", "partitioned"])
@pytest.mark.parametrize(
    "sql", ["INSERT INTO u VALUES (2)", "UPDATE u SET k = 3", "DELETE FROM u WHERE k = 1", "TRUNCATE TABLE u"]
)
def test_nothing_is_visible_of_a_change_that_is_cancelled_as_its_commit_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, made: str
) -> None:
    engine = open_engine(tmp_path, target_partitions=1)
    engine.update(f"CREATE TABLE u (k BIGINT){made}")
    engine.update("INSERT INTO u VALUES (1)")
    begin = Cancellation.begin_commit

    def cancelled(cancellation: Cancellation) -> None:
        cancellation.cancel(lambda: Cancelled("the statement was cancelled"))
        begin(cancellation)

    monkeypatch.setattr(Cancellation, "begin_commit", cancelled)
    with pytest.raises(Cancelled):
        engine.update(sql)
    assert engine.query("SELECT k FROM u").to_pylist() == [{"k": 1}]


def _waits(cancellation: Cancellation, wait: Callable[[], object]) -> None:
    cancellation.run_in_thread(wait)


def _computes(cancellation: Cancellation, wait: Callable[[], object]) -> None:
    context = SessionContext(SessionConfig().with_target_partitions(1))
    context.register_udf(udf(lambda values: [wait(), values][1], [pa.bool_()], pa.bool_(), "volatile", "wait"))
    frame = context.sql("SELECT wait(value > 0) AS w FROM generate_series(1, 10)")
    list(cancellable(frame.execute_stream_partitioned, cancellation))


@pytest.mark.parametrize("work", [_waits, _computes])
def test_a_cancelled_statement_that_is_still_at_work_is_named(
    work: Callable[[Cancellation, Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(statement_registry, "OVERDUE_SECONDS", 0.1)
    running, is_released = StatementRegistry(), threading.Event()

    def wait() -> None:
        running.cancel(statement.id, ALICE, seconds=0)
        is_released.wait()

    with suppress(Cancelled), running.enter(StatementKind.QUERY, "SELECT 1", ALICE) as statement:
        work(statement.cancellation, wait)
    until(lambda: running.overdue == 1)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"statement {statement.id} of alice was cancelled")
    is_released.set()
    until(lambda: running.overdue == 0)
