"""Sessions of writes through a server whose next call comes to another one, as behind one address: nothing is committed by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from lance_flight_client.errors import ServerError
from lance_flight_client.spark.connector.writing.server_sessions import SharedSession
from lance_flight_client.spark.options import ReadOptions

from tests.service.server_process import Server, serving


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    root = tmp_path_factory.mktemp("sessions") / "root"
    with serving(root) as first, serving(root) as second:
        first.run("CREATE TABLE t (x BIGINT, p VARCHAR) PARTITIONED BY (p)")
        first.run("INSERT INTO t VALUES (1, 'a')")
        yield first, second


def begun(server: Server) -> SharedSession:
    return SharedSession.begin(ReadOptions.parse({"uri": server.uri, "table": "t"}))


def moved(session: SharedSession, server: Server) -> SharedSession:
    """The same session, whose calls come to another server."""
    return replace(session, access=replace(session.access, uri=server.uri))


def test_a_statement_of_a_transaction_is_refused_elsewhere(servers: tuple[Server, Server]) -> None:
    session = begun(servers[0])
    session.run("BEGIN ISOLATION LEVEL SERIALIZABLE")
    with pytest.raises(ServerError, match=r"\[conflict\]"):
        moved(session, servers[1]).run("DELETE FROM t")
    session.run("ROLLBACK")
    session.close()
    assert servers[1].rows("SELECT x FROM t") == [(1,)]


def test_rows_for_a_temporary_table_are_refused_elsewhere(servers: tuple[Server, Server]) -> None:
    session = begun(servers[0])
    session.run("CREATE TEMPORARY TABLE staged (x BIGINT)")
    rows = pa.record_batch({"x": [2]})
    with pytest.raises(ServerError, match=r"\[conflict\].*temporary tables"):
        moved(session, servers[1]).send("staged", rows.schema, iter([rows]))
    session.send("staged", rows.schema, iter([rows]))
    session.run("INSERT INTO t SELECT x, 'b' FROM public.staged")
    session.close()
    assert sorted(servers[1].rows("SELECT x FROM t")) == [(1,), (2,)]
