"""Sessions of writes through a server whose next call comes to another one, as behind one address: nothing is committed by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight_client.errors import ServerError
from lance_flight_client.spark.connector.backends import backend_of
from lance_flight_client.spark.connector.relations import ServerTable, load
from lance_flight_client.spark.connector.server_writes import ServerWrite, SharedSession
from lance_flight_client.spark.options import NamedTable, ReadOptions
from lance_flight_client.spark.types import spark_schema

from tests.service.server_process import Server, files, serving


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


def planned(server: Server, table: str) -> ServerWrite:
    options = {"uri": server.uri}
    relation = load(options, backend_of(options), NamedTable("public", table))
    assert isinstance(relation, ServerTable)
    return ServerWrite.begin(relation, spark_schema(relation.source), Replaces.NOTHING, None)


def lost(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows of an executor that ends after its first batch."""
    yield batch
    raise OSError("the executor was lost")


def test_rows_that_tasks_send_again_are_stored_once(servers: tuple[Server, Server]) -> None:
    server, table = servers[0], "sent"
    before = files(server.root)
    server.run(f"CREATE TABLE {table} (id BIGINT, k BIGINT) PARTITIONED BY (k)")
    write = planned(server, table)
    parts = [pa.record_batch({"id": [n, n + 1], "k": [n, 0]}) for n in (10, 20)]
    failed = pa.record_batch({"id": [99, 99], "k": [99, 99]})
    with pytest.raises(OSError, match="lost"):
        write.write(lost(failed))
    attempts = [[write.write([part]) for _ in range(2)] for part in parts]
    assert server.value(f"SELECT count(*) FROM {table}") == 0
    write.commit([attempts[0][1], attempts[1][0], write.write([])], None)
    assert server.rows(f"SELECT id, k FROM {table} ORDER BY id") == [(10, 10), (11, 0), (20, 20), (21, 0)]
    assert len(server.rows(f'SELECT * FROM "{table}$snapshots"')) == 2
    with pytest.raises(ServerError, match="session"):
        write.commit([attempts[0][0]], None)
    other = planned(server, table)
    other.write([parts[0]])
    other.abort()
    server.run(f"DROP TABLE {table}")
    assert files(server.root) == before
