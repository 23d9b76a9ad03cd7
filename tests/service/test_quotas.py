"""Quotas of roles over the wire: who waits, who is refused until when, and what is shown of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_manager import Error

from tests.engine.waiting import until
from tests.service.operated import Operated, operated
from tests.service.principals import connect, refusal, rows, tokens_file

POLICY = """
quota = { statements = 20, per_principal = true }

[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]
quota = { statements = "unlimited" }

[roles.everybody]
members = ["*"]
grants = ["ALL ON t", "ALL ON ingested", "ALL ON bound"]

[roles.pair]
members = ["ann", "bob"]
grants = []
quota = { statements = 1 }

[roles.reader]
members = ["reader"]
grants = []
quota = { bytes_per_hour = "1MB" }

[roles.sender]
members = ["sender"]
grants = []
quota = { bytes_per_hour = "1MB" }

[roles.binder]
members = ["binder"]
grants = []
quota = { bytes_per_hour = "1MB" }

[roles.committer]
members = ["committer"]
grants = []
quota = { bytes_per_hour = "1MB" }

[roles.small]
members = ["small"]
grants = []
quota = { memory = "4MB" }

[roles.shown]
members = ["shown"]
grants = []
quota = { statements = 3, bytes_per_hour = "1GB", memory = "64MB" }

[roles.changed]
members = ["changed"]
grants = []
quota = { bytes_per_hour = 1000 }
"""
NAMES = ("owner", "ann", "bob", "reader", "sender", "binder", "committer", "small", "shown", "changed", "other")
MANY = "SELECT value FROM generate_series(1, 1000000)"
"""Eight megabytes."""
LONG = "SELECT value % 1000003 AS x, count(*) AS n FROM generate_series(1, 2000000000) GROUP BY 1"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quotas")


@pytest.fixture(scope="module")
def running(place: Path) -> Iterator[Operated]:
    (place / "policy").write_text(POLICY)
    tokens = tokens_file(place / "tokens", NAMES)
    arguments = ["--tokens-file", tokens, "--policy-file", str(place / "policy"), "--waiting-statements", "8"]
    with operated(place / "root", *arguments) as made:
        rows(made.server.uri, "owner", "CREATE TABLE t (n BIGINT) PARTITIONED BY (bucket(2, n))")
        rows(made.server.uri, "owner", "CREATE TABLE bound (s VARCHAR)")
        yield made


@pytest.fixture(scope="module")
def uri(running: Operated) -> str:
    return running.server.uri


def states(uri: str, principal: str) -> list[tuple[str, str]]:
    """The statements of a principal: their states and ids, as an administrator sees them."""
    return [
        (str(state), str(statement))
        for state, statement in rows(
            uri, "owner", f"SELECT state, id FROM system.queries WHERE principal = '{principal}' ORDER BY state"
        )
    ]


def test_the_statements_of_a_role_wait_for_each_other_and_for_nobody_else(uri: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        long = pool.submit(refusal, uri, "ann", LONG)
        until(lambda: [state for state, _ in states(uri, "ann")] == ["running"])
        waiting = [pool.submit(rows, uri, "bob", "SELECT 1") for _ in range(2)]
        until(lambda: [state for state, _ in states(uri, "bob")] == ["queued"] * 2)
        assert rows(uri, "other", "SELECT 2") == [(2,)]
        # A fourth of the queue is for those who wait for one quota.
        said = refusal(uri, "bob", "SELECT 3")
        assert "[53400] [quota_exceeded] role 'pair' has a quota of statements = 1" in said
        assert "2 wait" in said
        assert not any(each.done() for each in waiting)
        ((_, running),) = states(uri, "ann")
        rows(uri, "owner", f"KILL '{running}'")
        assert "[cancelled]" in long.result()
        assert [each.result() for each in waiting] == [[(1,)], [(1,)]]


def check_bytes(said: str, role: str) -> None:
    """An error names the role, the quota, its value, and when it is free again: within an hour and a minute."""
    assert f"[53400] [quota_exceeded] role '{role}' has a quota of bytes_per_hour = 1000000, and " in said
    found = re.search(r"from (\S+) on", said)
    assert found is not None
    now = datetime.now(UTC)
    assert now + timedelta(minutes=50) < datetime.fromisoformat(found[1]) < now + timedelta(minutes=62)


def test_a_stream_ends_where_the_bytes_of_its_role_are_used_up(uri: str) -> None:
    check_bytes(refusal(uri, "reader", MANY), "reader")
    check_bytes(refusal(uri, "reader", "SELECT 1"), "reader")
    with connect(uri, "other") as connection, connection.cursor() as cursor:
        cursor.execute(MANY)
        assert cursor.fetch_arrow_table().num_rows == 1_000_000
    ((allowed, used, free_at),) = rows(
        uri, "owner", "SELECT allowed, used, free_at FROM system.quotas WHERE role = 'reader'"
    )
    assert allowed == 1_000_000
    # Beyond it by less than one batch.
    assert 1_000_000 <= used < 1_100_000
    assert free_at > datetime.now(free_at.tzinfo)


def test_an_ingest_beyond_the_bytes_of_its_role_stores_nothing(uri: str) -> None:
    batches = pa.table({"n": range(500_000)}).to_reader(max_chunksize=50_000)
    with connect(uri, "sender") as connection, connection.cursor() as cursor:
        with pytest.raises(Error) as raised:
            cursor.adbc_ingest("ingested", batches, mode="create")
        check_bytes(str(raised.value), "sender")
    assert "not_found" in refusal(uri, "owner", "SELECT * FROM ingested")


def test_parameters_are_bytes_as_well(uri: str) -> None:
    insert, text = "INSERT INTO bound VALUES (?)", "x" * 1_100_000
    assert rows(uri, "binder", insert, (text,)) == []
    check_bytes(refusal(uri, "binder", insert, (text,)), "binder")
    assert rows(uri, "owner", "SELECT count(*) FROM bound") == [(1,)]


def test_a_transaction_can_be_ended_when_the_bytes_are_used_up(uri: str) -> None:
    with connect(uri, "committer") as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (42)")
        cursor.execute(MANY)
        with pytest.raises(Error, match="quota_exceeded"):
            cursor.fetch_arrow_table()
        cursor.execute("COMMIT")
    assert rows(uri, "owner", "SELECT n FROM t WHERE n = 42") == [(42,)]


STARVING = "SELECT count(*) AS n FROM generate_series(1, 400000) AS a JOIN generate_series(1, 400000) AS b ON a.value = b.value"


def test_the_memory_of_a_role_bounds_its_statements_alone(uri: str) -> None:
    assert "[out_of_memory]" in refusal(uri, "small", STARVING)
    assert rows(uri, "other", STARVING) == [(400_000,)]


def test_a_principal_sees_its_quotas_and_an_administrator_all(uri: str) -> None:
    sql = "SELECT role, principal, resource, allowed, used FROM system.quotas"
    rows(uri, "shown", "SELECT value FROM generate_series(1, 1000)")
    (used, memory, statements) = rows(uri, "shown", sql)
    assert used[:4] == ("shown", None, "bytes_per_hour", 10**9)
    assert used[4] >= 8000
    assert (memory, statements) == (
        ("shown", None, "memory", 64 * 10**6, None),
        ("shown", None, "statements", 3, 0),
    )
    assert rows(uri, "other", sql) == [(None, "other", "statements", 20, 0)], "such a query takes no turn"
    seen = rows(uri, "owner", "SELECT DISTINCT role FROM system.quotas WHERE role IN ('shown', 'other')")
    assert seen == [("shown",)]


def test_a_changed_quota_holds_at_once_for_what_is_used_already(uri: str, place: Path) -> None:
    assert "quota_exceeded" in refusal(uri, "changed", MANY)
    policy = place / "policy"
    policy.write_text(POLICY.replace("bytes_per_hour = 1000 ", 'bytes_per_hour = "1GB" '))
    assert rows(uri, "changed", "SELECT 1") == [(1,)]
    ((used,),) = rows(uri, "changed", "SELECT used FROM system.quotas WHERE resource = 'bytes_per_hour'")
    assert used > 1000
    policy.write_text(POLICY)


def test_refusals_are_counted(running: Operated, uri: str) -> None:
    rows(uri, "other", "SELECT 1")
    before = _refusals(running)
    refusal(uri, "changed", MANY)
    refusal(uri, "changed", "SELECT 1")
    assert _refusals(running) == before + 2


def _refusals(running: Operated) -> float:
    _, page = running.page("/metrics")
    found = re.search(r'^lance_flight_quota_refusals_total\{resource="bytes_per_hour"\} (\S+)$', page, re.MULTILINE)
    assert found is not None
    return float(found[1])
