"""`system.queries`, `system.sessions` and KILL over the wire."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.service.server_process import Server, serving

LONG = "SELECT value % 1000003 AS x, count(*) AS n FROM generate_series(1, 2000000000) GROUP BY 1"
RUNNING = "SELECT id, state FROM system.queries WHERE sql LIKE '%1000003%' AND sql NOT LIKE '%system.queries%'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("system") / "root") as running:
        yield running


@pytest.fixture
def long_running(server: Server) -> Iterator[Future[str]]:
    """A query that runs until somebody ends it; what its client is told then."""

    def run() -> str:
        with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(LONG)
            with pytest.raises(Error) as raised:
                cursor.fetch_arrow_table()
            return str(raised.value)

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(run)


def id_when(server: Server, state: str) -> str:
    """The id of the long query as soon as it is in a state."""
    waiting = threading.Event()
    for _ in range(500):
        for statement, found in server.rows(RUNNING):
            if found == state:
                return str(statement)
        waiting.wait(0.01)
    pytest.fail(f"the query is not {state}")


def test_a_statement_that_runs_is_listed_and_killed(server: Server, long_running: Future[str]) -> None:
    statement = id_when(server, "running")
    ((principal, kind, seconds, session),) = server.rows(
        f"SELECT principal, kind, seconds, session FROM system.queries WHERE id = '{statement}'"
    )
    assert (principal, kind) == ("anonymous", "query")
    assert seconds > 0
    assert server.rows(f"SELECT statements, open_transactions FROM system.sessions WHERE id = '{session}'") == [(1, 0)]
    assert server.run(f"KILL '{statement}'") == 1
    assert "[cancelled]" in long_running.result(timeout=10)
    assert server.rows(RUNNING) == []


def test_a_session_is_listed_with_its_settings(server: Server) -> None:
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT isolation, open_transactions FROM system.sessions WHERE open_transactions > 0")
        assert cursor.fetchall() == [("snapshot", 1)]
