"""Whose statements, sessions, servers and events a principal sees, and what of them he may end."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.audit import AuditEvent, AuditTrail, EventKind, Subject
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.access import UNLIMITED, Access, Grant, GrantedTables, Privilege
from lance_flight.engine.query.statement_context import Scope
from lance_flight.engine.query.tables import system_tables
from lance_flight.engine.runtime.running_statement import Issuer, StatementKind
from lance_flight.engine.runtime.statement_registry import MOST_ENDED, MOST_TEXT
from lance_flight.errors import Cancelled, NotFound

from tests.engine.database import Database, open_engine
from tests.engine.waiting import until

READ = Grant(privileges=frozenset({Privilege.SELECT}), tables=GrantedTables())
ALL = Grant(privileges=frozenset({Privilege.SELECT, Privilege.ADMIN}), tables=GrantedTables())
ALICE, BOB = Access("alice", (READ,)), Access("bob", (READ,))
ADMIN = Access("carol", (ALL,))


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_engine(tmp_path, target_partitions=1)


def scope(access: Access) -> Scope:
    return Scope(issuer=Issuer(principal=access.principal), access=access)


def begun(engine: Engine, access: Access) -> str:
    """The id of a query that waits for its reader."""
    plan = engine.plan("SELECT 1 AS one", scope=scope(access))
    assert plan is not None
    return plan.tasks[0].statement


def table_of(engine: Engine, access: Access, sql: str) -> pa.Table:
    plan = engine.plan(sql, scope=scope(access))
    assert plan is not None
    return engine.run(plan.tasks[0], Issuer(principal=access.principal), access).read_all()


def seen(engine: Engine, access: Access) -> set[str]:
    """Whose statements a principal sees, but for the one that looks."""
    found = table_of(engine, access, "SELECT principal FROM system.queries WHERE state = 'planned'")
    return set(found["principal"].to_pylist())


class Lines:
    """A sink that writes nothing."""

    lost = 0

    def put(self, line: str) -> Callable[[float], bool]:
        return lambda _: True


SEEN = [
    pytest.param(ALICE, {"alice"}, id="own ones"),
    pytest.param(ADMIN, {"alice", "bob"}, id="all, for an administrator"),
    pytest.param(UNLIMITED, {"alice", "bob"}, id="all, where nothing is restricted"),
]


@pytest.mark.parametrize(("access", "expected"), SEEN)
def test_a_principal_sees(engine: Engine, access: Access, expected: set[str]) -> None:
    begun(engine, ALICE)
    begun(engine, BOB)
    assert seen(engine, access) == expected


@pytest.mark.parametrize("access", [ALICE, ADMIN], ids=["his own", "anybody's, as an administrator"])
def test_a_principal_ends(engine: Engine, access: Access) -> None:
    statement = begun(engine, ALICE)
    assert engine.update(f"KILL '{statement}'", scope=scope(access)) == 1
    assert "alice" not in seen(engine, UNLIMITED)


@pytest.mark.parametrize(
    ("access", "expected"), [(ALICE, 0), (ADMIN, 1), (UNLIMITED, 1)], ids=["reader", "admin", "all"]
)
def test_only_administrators_see_servers_and_the_audit_trail(
    engine: Engine, access: Access, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail = AuditTrail()
    trail.begin(Lines())
    trail.record(AuditEvent(kind=EventKind.DDL, subject=Subject(principal="bob", sql="hush"), reason="x" * 9_999))
    monkeypatch.setattr(system_tables, "trail", trail)
    audited = table_of(engine, access, "SELECT * FROM system.audit").to_pylist()
    assert [(row["event"], row["principal"], len(row["reason"])) for row in audited] == [
        ("ddl", "bob", 2_000)
    ] * expected
    assert "hush" not in str(audited)
    servers = table_of(engine, access, "SELECT * FROM system.servers").to_pylist()
    assert [(row["process"], row["statements"], row["memory_bytes"] > 1 << 20) for row in servers] == [
        (os.getpid(), 1, True)
    ] * expected


def test_a_statement_of_another_principal_is_as_if_it_were_not_there(engine: Engine) -> None:
    statement = begun(engine, ALICE)
    with pytest.raises(NotFound, match=f"no statement '{statement}' is running"):
        engine.update(f"KILL '{statement}'", scope=scope(BOB))
    assert seen(engine, UNLIMITED) == {"alice"}


def ended(engine: Engine, access: Access) -> list[tuple[str, str, str]]:
    found = table_of(engine, access, "SELECT principal, sql, outcome FROM system.statements")
    return [tuple(row.values()) for row in found.to_pylist()]


def test_statements_that_ended_are_remembered_with_their_outcomes(engine: Engine) -> None:
    table_of(engine, ALICE, "SELECT 1 AS one")
    with pytest.raises(NotFound):
        engine.plan("SELECT * FROM nothing", scope=scope(BOB))
    begun(engine, BOB)
    assert ended(engine, ALICE) == [("alice", "SELECT 1 AS one", "ok")]
    assert ended(engine, BOB) == [("bob", "SELECT * FROM nothing", "not_found")]
    assert {row[0] for row in ended(engine, ADMIN)} == {"alice", "bob"}


def test_what_is_remembered_is_bounded(engine: Engine) -> None:
    running = engine.running
    for number in range(MOST_ENDED + 10):
        with running.enter(StatementKind.QUERY, f"SELECT {number} -- {'long ' * 1000}", Issuer(principal="alice")):
            pass
    found = running.ended_records()
    assert len(found) == MOST_ENDED
    assert (len(found[0].sql), found[0].sql[:10], found[0].sql[-1]) == (MOST_TEXT + 1, "SELECT 10 ", "…")


GOING_ON = (
    "EXPLAIN ANALYZE SELECT t.id, sum(a.value * b.value) FROM t, generate_series(1, 200000) AS a,"
    " generate_series(1, 200000) AS b WHERE t.id < 2 AND a.value + b.value > t.id GROUP BY t.id"
)


def test_operators_of_explain_analyze_count_while_it_runs(engine: Engine) -> None:
    engine.update("CREATE TABLE t (id BIGINT, part BIGINT) PARTITIONED BY (part)")
    engine.update("INSERT INTO t VALUES (0, 0), (1, 1), (5, 1)")
    scans = "SELECT rows, table_name, partitions_scanned, partitions_total FROM system.operators WHERE rows > 0 AND table_name = 't'"
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(table_of, engine, ALICE, GOING_ON)
        try:
            until(lambda: table_of(engine, ALICE, scans).num_rows)
            joined = "SELECT depth FROM system.operators WHERE operator LIKE '%Join%' AND rows > 10000"
            until(lambda: table_of(engine, ADMIN, joined).num_rows)
            found = [tuple(row.values()) for row in table_of(engine, ALICE, scans).to_pylist()]
            depths = table_of(engine, ALICE, "SELECT depth FROM system.operators ORDER BY number")["depth"].to_pylist()
            of_others = table_of(engine, BOB, "SELECT * FROM system.operators").num_rows
        finally:
            for statement in table_of(engine, ALICE, "SELECT id FROM system.queries WHERE sql LIKE 'EXPLAIN%'")["id"]:
                engine.update(f"KILL '{statement}'", scope=scope(ALICE))
        with pytest.raises(Cancelled):
            answer.result()
    assert found == [(2, "t", 2, 2)]
    assert depths[0] == 0
    assert all(0 < deeper <= depth + 1 for depth, deeper in pairwise(depths))
    assert of_others == 0
    assert table_of(engine, UNLIMITED, "SELECT * FROM system.operators").num_rows == 0


@pytest.fixture
def asked_alone(tmp_path: Path) -> Database:
    """A root with one table."""
    database = Database(tmp_path)
    database.run("CREATE TABLE t (id BIGINT) PARTITIONED BY (bucket(2, id))")
    return database


def test_a_statement_sees_itself(asked_alone: Database) -> None:
    assert asked_alone.rows("SELECT state, kind, principal FROM system.queries") == [("running", "query", "anonymous")]


def test_the_tables_stand_in_no_list_and_beside_those_of_a_root(asked_alone: Database) -> None:
    assert asked_alone.rows("SHOW TABLES") == [("public", "t", True)]
    assert asked_alone.value("SELECT count(*) AS n FROM t, system.sessions AS s WHERE s.open_transactions < 0") == 0
