"""A query that was planned a moment ago is not planned again, unless that could give something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policies.access import Access
from lance_flight.engine.query.scope import Scope
from lance_flight.engine.query.sessions import Sessions
from lance_flight.engine.query.tasks import Task
from lance_flight.engine.runtime.limits import Limits
from lance_flight.engine.runtime.statement_runs import Issuer
from lance_flight.engine.statements import ready
from lance_flight.engine.writes.ingest import Existing
from lance_flight.errors import Cancelled, LanceFlightError

QUERIES = {
    "straight from Lance": "SELECT id FROM {t}",
    "filtered": "SELECT id FROM {t} WHERE id > 1",
    "aggregated": "SELECT k, count(*) AS n FROM {t} GROUP BY k",
    "joined": "SELECT a.id FROM {t} a JOIN {t} b ON a.id = b.id",
    "metadata": "SELECT version FROM {t}$snapshots",
    "no table": "SELECT 1 AS one",
}
OF_PLAIN = [name for name in QUERIES if name != "metadata"]
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


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return filled(Engine(Root(Store(str(tmp_path / "root"))), ways=2))


def filled(engine: Engine) -> Engine:
    """An engine with a partitioned table `t` and a plain one `p` of the same rows."""
    for name, by in (("t", "PARTITIONED BY (k)"), ("p", "")):
        engine.update(f"CREATE TABLE {name} (k BIGINT, id BIGINT) {by}")
        put(engine, name)
    return engine


def put(engine: Engine, name: str) -> None:
    engine.ingest(TableName("public", name), ROWS.to_reader(), create_missing=False, existing=Existing.APPEND)


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


@pytest.mark.parametrize(("query", "table"), [*product(QUERIES, "t"), *product(OF_PLAIN, "p")])
def test_what_is_ready_is_used_once(engine: Engine, begun: list[None], query: str, table: str) -> None:
    task = planned(engine, QUERIES[query].format(t=table))
    first = said(lambda: engine.run(task))
    assert isinstance(first, list)
    assert len(begun) == 1
    assert said(lambda: engine.run(task)) == first
    assert len(begun) == 2


@pytest.mark.parametrize(
    ("change", "query", "table"),
    [*product(CHANGES, QUERIES, "t"), *product(CHANGES_OF_PLAIN, OF_PLAIN, "p")],
    ids=lambda part: part if isinstance(part, str) else " ".join(part[-1].split(" ")[:2]),
)
def test_what_happens_between_shows_as_if_it_were_planned_again(
    engine: Engine, change: tuple[str, ...], query: str, table: str
) -> None:
    other = Engine(engine.root, ways=2)
    task = planned(engine, QUERIES[query].format(t=table))
    for statement in change:
        other.update(statement.format(t=table))
    assert said(lambda: engine.run(task)) == said(lambda: other.run(task))


def test_an_old_snapshot_is_ready_too(engine: Engine, begun: list[None]) -> None:
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
    assert len(begun) == 3


def test_another_task_of_the_statement_is_planned(engine: Engine, begun: list[None]) -> None:
    task = planned(engine, "SELECT id FROM t")
    assert said(lambda: engine.run(replace(task, sql="SELECT k FROM t WHERE k = 0"))) == ["{'k': 0}"] * 2
    assert len(begun) == 2


def test_a_cancelled_statement_is_not_ready(engine: Engine) -> None:
    task = planned(engine, "SELECT id FROM t")
    engine.running.cancel(task.statement, Issuer())
    with pytest.raises(Cancelled):
        engine.run(task)


def test_what_nobody_reads_is_forgotten(tmp_path: Path, begun: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "MOST_READY", 2)
    engine = filled(Engine(Root(Store(str(tmp_path))), ways=2, limits=Limits(ticket_lifetime=3600)))
    tasks = [planned(engine, f"SELECT id FROM t WHERE id > {number}") for number in range(3)]
    begun.clear()
    for task in tasks:
        engine.run(task).read_all()
    assert len(begun) == 1
    abandoned = planned(engine, "SELECT id FROM t")
    assert len(engine._ready._ready) == 1
    engine.running.cancel(abandoned.statement, Issuer())
    assert len(engine._ready._ready) == 0
