"""Reports of maintenance: small ones travel in their tickets, large ones are kept in bounded memory by the server that ran it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.backend_values import IfExists
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import Access
from lance_flight.engine.query.planned_query import Task
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.admission import Limits
from lance_flight.engine.runtime.running_statement import Issuer, Record, StatementKind
from lance_flight.engine.statements import answering
from lance_flight.engine.statements.maintenance import OperationStatement
from lance_flight.errors import Cancelled, NotFound, Refused, TicketError

from tests.engine.database import filled, open_engine

ROWS = pa.table({"k": list(range(8)), "x": list(range(8))})
LARGE = pytest.mark.parametrize("is_large", [False, True], ids=["in the ticket", "kept by the server"])


@pytest.fixture(scope="module")
def filled_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = filled(
        tmp_path_factory.mktemp("reports"), "CREATE TABLE t (k BIGINT, x BIGINT) PARTITIONED BY (bucket(2, k))"
    )
    add(open_engine(place))
    return place


@pytest.fixture
def engine(filled_root: Path, tmp_path: Path) -> Engine:
    shutil.copytree(filled_root, tmp_path, dirs_exist_ok=True)
    return opened(tmp_path)


def opened(root: Path, lifetime: float = 600.0) -> Engine:
    return open_engine(root, limits=Limits(ticket_lifetime=lifetime))


def add(engine: Engine) -> None:
    engine.ingest(TableName("public", "t"), ROWS.to_reader(), create_missing=False, existing=IfExists.APPEND)


def task_of(engine: Engine, sql: str, scope: Scope | None = None) -> Task:
    plan = engine.plan(sql, scope=scope or Scope())
    assert plan is not None
    (task,) = plan.tasks
    # As it goes over the wire.
    return Task.from_bytes(task.to_bytes())


@LARGE
def test_a_report_is_the_same_each_time_and_nothing_runs_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    monkeypatch.setattr(answering, "MOST_TICKET_BYTES", 0 if is_large else 1 << 20)
    add(engine)
    task = task_of(engine, "ALTER TABLE t COMPACT")
    assert (task.report == answering.KEPT_HERE) is is_large
    first = engine.run(task).read_all()
    assert first["files_before"].to_pylist() == [2, 2]
    add(engine)
    version = engine.query("SELECT max(version) AS v FROM t$snapshots")
    for _ in range(3):
        engine.renew(task, Issuer())
        task_of(engine, "VERIFY TABLE t")  # its report does not take the place of the first one
        assert engine.run(task).read_all().equals(first)
    assert engine.query("SELECT max(version) AS v FROM t$snapshots").equals(version)


def test_another_server_says_who_has_a_large_report_and_runs_nothing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "MOST_TICKET_BYTES", 0)
    task = task_of(engine, "ALTER TABLE t COMPACT")
    add(engine)
    version = engine.query("SELECT max(version) AS v FROM t$snapshots")
    other = opened(tmp_path)
    for redeem in (other.run, lambda task: other.renew(task, Issuer())):
        with pytest.raises(NotFound, match=r"is not kept here: the statement has run.*never runs it again"):
            redeem(task)
    assert engine.query("SELECT max(version) AS v FROM t$snapshots").equals(version)


BOUNDS = {
    "by their number": {"MOST_REPORTS": 2},
    "by their bytes": {"MOST_BYTES": 4000},
}


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_kept_reports_are_bounded(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, bounds: dict[str, int]
) -> None:
    for name, value in {"MOST_TICKET_BYTES": 0, **bounds}.items():
        monkeypatch.setattr(answering, name, value)
    bounded = opened(tmp_path)
    tasks = [task_of(bounded, "VERIFY TABLE t") for _ in range(8)]
    assert bounded.run(tasks[-1]).read_all().num_rows == 2
    with pytest.raises(NotFound, match="many have run since"):
        bounded.run(tasks[0])
    kept = bounded._reports._kept
    assert 0 < len(kept) <= answering.MOST_REPORTS
    assert 0 < kept.weight <= answering.MOST_BYTES


def test_an_expired_report_goes_with_the_next_one(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "MOST_TICKET_BYTES", 0)
    brief = opened(tmp_path, lifetime=0.0)
    gone, last = (task_of(brief, "VERIFY TABLE t").statement for _ in range(2))
    kept = brief._reports._kept
    assert len(kept) == 1
    assert kept.get(last) is not None
    assert gone != last
    assert engine.query("VERIFY TABLE t").num_rows == 2


def test_a_ticket_from_before_reports_runs_nothing(engine: Engine) -> None:
    with pytest.raises(Exception, match="returns no rows"):
        engine.run(Task(sql="ALTER TABLE t COMPACT"))
    with pytest.raises(TicketError, match="report"):
        engine.run(Task(sql="ALTER TABLE t COMPACT", report=b"no IPC"))


def test_a_report_is_given_and_renewed_for_who_may_still_see_it(engine: Engine) -> None:
    task = task_of(engine, "VERIFY TABLE t")
    for redeem in (engine.run, engine.renew):
        with pytest.raises(Refused):
            redeem(task, Issuer(), Access("nobody", grants=()))


LEAVES: dict[str, tuple[Callable[[list[bool]], bool], type[Exception] | None]] = {
    "before it begins": (lambda _: True, Cancelled),
    "once it has begun": (bool, None),
}


@pytest.mark.parametrize(("is_gone", "error"), LEAVES.values(), ids=LEAVES)
def test_a_client_that_goes_away_ends_what_has_not_begun_or_can_be_cancelled(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    is_gone: Callable[[list[bool]], bool],
    error: type[Exception] | None,
) -> None:
    add(engine)
    ended: list[Record] = []
    engine.running.observe(ended.append)
    worked: list[bool] = []
    work = OperationStatement.work

    def watched(*arguments: object) -> object:
        # The watcher looks now: before the statement begins, and after that at each step.
        engine.running.watch()
        made = work(*arguments)  # type: ignore[arg-type]
        return replace(made, run=lambda: [worked.append(True), engine.running.watch(), made.run()][-1])

    monkeypatch.setattr(OperationStatement, "work", watched)
    scope = Scope(issuer=Issuer(is_gone=lambda: is_gone(worked)))
    if error is None:
        task = task_of(engine, "REPAIR TABLE t", scope)
        assert engine.run(task).read_all().num_rows == 0
    else:
        with pytest.raises(error):
            engine.plan("REPAIR TABLE t", scope=scope)
        assert not worked
    assert [(record.kind, record.outcome) for record in ended if "REPAIR" in record.sql] == [
        (StatementKind.UPDATE, "ok" if error is None else "cancelled")
    ]
