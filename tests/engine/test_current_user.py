"""CURRENT_USER and SESSION_USER: who asks, as a constant of the statement."""

from __future__ import annotations

import pytest
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policies.access import Access
from lance_flight.engine.query.statement_context import Scope
from lance_flight.errors import SqlError

ALICE, BOB = (Scope(access=Access(name)) for name in ("alice", "bob"))


@pytest.fixture(autouse=True)
def tables(engine: Engine) -> None:
    engine.update("CREATE TABLE t (id BIGINT, owner VARCHAR) PARTITIONED BY (owner)")
    engine.update("INSERT INTO t VALUES (1, 'alice'), (2, 'bob'), (3, 'carol')")


def rows(engine: Engine, sql: str, scope: Scope) -> list[tuple[object, ...]]:
    """The rows of a query, each endpoint asked for by the same principal."""
    plan = engine.plan(sql, scope=scope, endpoints=4)
    assert plan is not None
    parts = [engine.run(task, access=scope.access).read_all() for task in plan.tasks]
    assert all(part.schema == plan.schema for part in parts)
    return [tuple(row.values()) for part in parts for row in part.to_pylist()]


QUERIES = {
    "alone": ("SELECT CURRENT_USER", [("alice",)]),
    "in lower case": ("SELECT current_user", [("alice",)]),
    "of the session": ("SELECT SESSION_USER", [("alice",)]),
    "in a filter": ("SELECT id FROM t WHERE owner = CURRENT_USER", [(1,)]),
    "turned round": ("SELECT id FROM t WHERE owner NOT IN (CURRENT_USER, 'bob')", [(3,)]),
    "in an expression": ("SELECT upper(CURRENT_USER) || id FROM t WHERE id = 2", [("ALICE2",)]),
    "as an alias": ("SELECT CURRENT_USER AS me, count(*) AS n FROM t", [("alice", 3)]),
    "in a join": ("SELECT a.id FROM t a JOIN t b ON a.owner = b.owner WHERE b.owner = CURRENT_USER", [(1,)]),
}


@pytest.mark.parametrize(("sql", "expected"), QUERIES.values(), ids=QUERIES.keys())
def test_a_query_knows_who_asks(engine: Engine, sql: str, expected: list[tuple[object, ...]]) -> None:
    assert rows(engine, sql, ALICE) == expected


def test_nobody_is_anonymous(engine: Engine) -> None:
    assert rows(engine, "SELECT CURRENT_USER", Scope()) == [("anonymous",)]


def test_it_prunes_partitions(engine: Engine) -> None:
    assert "partitions: 1 / 3" in str(rows(engine, "EXPLAIN SELECT id FROM t WHERE owner = CURRENT_USER", BOB))


def test_changes_know_who_asks(engine: Engine) -> None:
    assert engine.update("INSERT INTO t VALUES (4, CURRENT_USER)", scope=BOB) == 1
    assert engine.update("UPDATE t SET id = id + 10 WHERE owner = CURRENT_USER", scope=BOB) == 2
    assert engine.update("DELETE FROM t WHERE owner = CURRENT_USER", scope=ALICE) == 1
    assert engine.update("CREATE TABLE mine AS SELECT id, CURRENT_USER AS owner FROM t", scope=ALICE) == 3
    assert sorted(rows(engine, "SELECT id, owner FROM t", ALICE)) == [(3, "carol"), (12, "bob"), (14, "bob")]
    assert {owner for _, owner in rows(engine, "SELECT id, owner FROM mine", BOB)} == {"alice"}


def test_a_column_cannot_be_computed_from_who_asks(engine: Engine) -> None:
    with pytest.raises(SqlError):
        engine.update("ALTER TABLE t ADD COLUMN who VARCHAR AS (CURRENT_USER)", scope=ALICE)
