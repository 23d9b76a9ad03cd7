"""SHOW PARTITIONS … READ BY: the partition tables that a query with this condition reads, and no row of them."""

from __future__ import annotations

import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policies.access import Access, Grant, GrantedTables, Privilege
from lance_flight.engine.query.policies.restrictions import Condition
from lance_flight.engine.query.scan_planning import plan_scan
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.runtime.running_statement import Issuer

from tests.engine.database import open_engine

ROWS = "SELECT v AS x, 's' || CAST(v % 3 AS INT) AS s FROM (SELECT unnest(range(0, 50)) AS v) AS n"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = open_engine(tmp_path_factory.mktemp("root"))
    engine.update("CREATE TABLE t (x BIGINT, s VARCHAR) PARTITIONED BY (bucket(4, x), s)")
    engine.update(f"INSERT INTO t {ROWS}")
    engine.update("ALTER TABLE t SET PARTITIONED BY (s)")
    engine.update(f"INSERT INTO t {ROWS} WHERE v < 10")
    engine.update("CREATE TABLE u (x BIGINT)")
    return engine


CONDITIONS = {
    "s = 's1'": 5,
    "x = 3": 6,
    "x = 3 AND s = 's0' -- a comment": 2,
    "s IN ('s0', 's2') OR x IS NULL": 15,
    "1 = 0": 0,
    "TRUE": 15,
    "s LIKE 's%' AND upper(s) = 'S1'": 5,
}


def read(engine: Engine, condition: str, table: str = "t") -> list[str]:
    found: list[str] = engine.query(f"SHOW PARTITIONS {table} READ BY {condition}")["object_id"].to_pylist()
    return found


@pytest.mark.parametrize("condition", CONDITIONS)
def test_they_are_those_that_a_scan_is_planned_over(engine: Engine, condition: str) -> None:
    planned = plan_scan(engine.root.table(TableName("public", "t")), condition)
    assert sorted(read(engine, condition)) == sorted(each.object_id for each in planned.tables)
    holding = engine.query(f"SELECT DISTINCT _partition FROM t WHERE {condition}").column(0).to_pylist()
    assert set(holding) <= set(read(engine, condition))


def test_an_older_snapshot_has_its_own(engine: Engine) -> None:
    first = engine.query("SELECT version AS v FROM t$snapshots ORDER BY version LIMIT 1 OFFSET 1")["v"][0].as_py()
    assert len(read(engine, "s = 's1'", f'"t@{first}"')) == 4


QUERIES = {
    "SELECT * FROM t WHERE s = 's1'": 5,
    "SELECT count(*) FROM t a JOIN t b ON a.x = b.x WHERE a.s = 's1' AND b.s = 's2'": 10,
    "WITH a AS (SELECT * FROM t WHERE x = 3) SELECT s FROM a UNION ALL SELECT s FROM t WHERE s = 's0' AND x = 4": 7,
    "SELECT * FROM u": 0,
    "SELECT * FROM t WHERE 1 = 0": 0,
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_whole_query_reads_what_its_scans_read(engine: Engine, query: str) -> None:
    found = read(engine, f"QUERY {query}")
    assert len(found) == len(set(found)) == QUERIES[query]


def test_a_column_may_be_called_query(engine: Engine) -> None:
    engine.update("CREATE TABLE q (query BIGINT) PARTITIONED BY (query)")
    engine.update("INSERT INTO q VALUES (1), (2)")
    assert len(read(engine, "query = 1", "q")) == 1


def test_a_policy_hides_partitions_here_too(engine: Engine) -> None:
    only = Grant(
        privileges=frozenset({Privilege.SELECT}),
        tables=GrantedTables("public", "t"),
        condition=Condition.parse("s = 's1'"),
    )
    scope = Scope(issuer=Issuer(principal="alice"), access=Access("alice", (only,)))
    plan = engine.plan("SHOW PARTITIONS t READ BY TRUE", scope=scope)
    assert plan is not None
    mine = engine.run(plan.tasks[0], scope.issuer, scope.access).read_all()["object_id"].to_pylist()
    assert sorted(mine) == sorted(read(engine, "s = 's1'"))
