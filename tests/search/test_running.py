"""How searches are run: without DataFusion where it has nothing to do, and so that their statements end when they are told to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query import runner
from lance_flight.engine.query.planned_query import QueryPlan
from lance_flight.engine.query.search import running
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.running_statement import Issuer
from lance_flight.errors import Cancelled

from tests.search.collection import Documents, literal, made, query

ALICE = Issuer(principal="alice")
CALL = f"vector_search('docs', 'embedding', {literal([0.5] * 8)}, k => 7)"
ALONE = {
    "columns": f"SELECT id, _distance FROM {CALL}",
    "columns twice, under other names": f"SELECT _distance AS d, id AS a, id AS b FROM {CALL}",
    "all": f"SELECT * FROM {CALL}",
    "rows that are found first": f"SELECT id FROM {CALL.removesuffix(')')}, filter => 'price % 2 = 1')",
}
WITH_DATAFUSION = {
    "an order": f"SELECT id FROM {CALL} ORDER BY id",
    "a filter": f"SELECT id FROM {CALL} WHERE _distance < 100",
    "a limit": f"SELECT id FROM {CALL} LIMIT 3",
    "an expression": f"SELECT id + 1 FROM {CALL}",
    "two searches": f"SELECT id FROM {CALL} UNION ALL SELECT id FROM {CALL}",
    "a join": f"SELECT a.id FROM {CALL} a JOIN {CALL} b ON a.id = b.id",
}


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents.random(200)


@pytest.fixture(scope="module")
def docs(documents: Documents, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return made(tmp_path_factory.mktemp("docs") / "root", documents)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What DataFusion was to run."""
    runs: list[str] = []
    stream = runner.cancellable

    def noted(*arguments: Any) -> Iterator[pa.RecordBatch]:
        runs.append("a query")
        return stream(*arguments)

    monkeypatch.setattr(runner, "cancellable", noted)
    return runs


@pytest.mark.parametrize("sql", [pytest.param(sql, id=name) for name, sql in ALONE.items()])
def test_a_search_alone_gives_what_it_does_through_datafusion(docs: Engine, sql: str, runs: list[str]) -> None:
    alone = query(docs, sql)
    chosen_first = len(runs)
    # The limit keeps no row away.
    assert alone == query(docs, f"SELECT * FROM ({sql}) AS s LIMIT 1000")
    assert len(alone) == 7
    assert (chosen_first, len(runs) - chosen_first) == ((1, 2) if "filter" in sql else (0, 1))


@pytest.mark.parametrize("sql", [pytest.param(sql, id=name) for name, sql in WITH_DATAFUSION.items()])
def test_what_is_more_than_a_search_is_run_by_datafusion(docs: Engine, sql: str, runs: list[str]) -> None:
    assert query(docs, sql)
    assert runs == ["a query"]


@pytest.mark.parametrize("sql", [ALONE["columns"], WITH_DATAFUSION["an order"]], ids=["alone", "with an order"])
def test_a_statement_ends_before_its_search_does(docs: Engine, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_go_on, best = threading.Event(), threading.Event(), running.best

    def slow(*arguments: Any) -> pa.Table:
        begun.set()
        may_go_on.wait(60)
        return best(*arguments)

    monkeypatch.setattr(running, "best", slow)
    plan = docs.execute(sql, scope=Scope(issuer=ALICE))
    assert isinstance(plan, QueryPlan)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: docs.run(plan.tasks[0], ALICE).read_all())
        try:
            assert begun.wait(10)
            docs.running.cancel(plan.tasks[0].statement, ALICE)
            with pytest.raises(Cancelled):
                reading.result(10)
        finally:
            may_go_on.set()


def test_what_ends_a_search_is_told(docs: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> pa.Table:
        raise OSError("the disk is gone")

    monkeypatch.setattr(running, "best", fails)
    with pytest.raises(Exception, match="the disk is gone"):
        query(docs, ALONE["columns"])
