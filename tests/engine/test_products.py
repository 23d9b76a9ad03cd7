"""Which queries look at pairs of rows: they are planned so that they can be ended, and answer the same."""

from __future__ import annotations

import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query import runner
from lance_flight.engine.query.runner import join_filters
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.statement_context import StatementContext

from tests.engine.database import open_engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = open_engine(tmp_path_factory.mktemp("products"))
    engine.update("CREATE TABLE t (k BIGINT, x BIGINT) PARTITIONED BY (bucket(4, k))")
    engine.update("INSERT INTO t SELECT v, v FROM (SELECT unnest(range(0, 60)) AS v) AS n")
    return engine


QUERIES = [
    pytest.param("SELECT count(*) AS n FROM t a JOIN t b ON a.x + b.x < 0", True, 0, id="no equality"),
    pytest.param("SELECT count(*) AS n FROM t a CROSS JOIN t b", True, 3600, id="no condition"),
    pytest.param("SELECT count(*) AS n FROM t a LEFT JOIN t b ON a.x > b.x", True, 1771, id="an outer one"),
    pytest.param("SELECT count(*) AS n FROM t a, t b WHERE a.x = b.x", True, 60, id="an equality"),
    pytest.param("SELECT count(*) AS n FROM t WHERE x IN (SELECT x + 30 FROM t)", False, 30, id="rows of one side"),
    ("SELECT count(*) AS n FROM t, (SELECT max(x) AS m FROM t) s WHERE x < m", False, 59),
    pytest.param("SELECT count(*) AS n FROM t WHERE x < (SELECT avg(x) FROM t)", False, 30, id="a scalar subquery"),
    pytest.param("SELECT count(*) AS n FROM t", False, 60, id="no join"),
]


@pytest.mark.parametrize(("sql", "expected", "answer"), QUERIES)
def test_a_join_of_pairs_is_found(engine: Engine, sql: str, expected: bool, answer: int) -> None:  # noqa: FBT001
    asked = QuerySession(StatementContext(root=engine.root, target_partitions=2))
    assert (
        join_filters(asked.optimiser.optimise(asked.frame(sql)), asked.optimiser.datafusion) is not None
    ) is expected
    assert engine.query(sql).to_pylist() == [{"n": answer}]


def test_a_join_that_datafusion_cannot_plan_again_is_run_all_the_same(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        # It numbers subqueries from 1 on again, and may find the number taken.
        message = "Optimizer rule 'scalar_subquery_to_join' failed"
        raise RuntimeError(message)

    monkeypatch.setattr(runner, "join_filters", failing)
    assert engine.query("SELECT count(*) AS n FROM t a JOIN t b ON a.x > b.x").to_pylist() == [{"n": 1770}]
