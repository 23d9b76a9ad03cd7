"""What a server gives to its clients, and that it goes on serving when they want more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.flight import wire
from pyarrow import flight

from tests.engine.waiting import until
from tests.flight.statements import descriptor, reader
from tests.service.server_process import Server, files, serving

READERS, CLIENTS = 32, 12
MIB = 1 << 20
BIG = "SELECT value, repeat('x', 200) AS word FROM generate_series(1, 2000000000)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    limits = {
        "running-statements": 2,
        "waiting-statements": 3,
        "server-memory-limit": 64 * MIB,
        "stream-memory-limit": 4096 * MIB,
        "ingest-idle-timeout": 0.3,
        "batch-limit": MIB,
        "parameter-limit": MIB,
        "statement-timeout": 30,
    }
    options = [text for name, value in limits.items() for text in (f"--{name}", str(value))]
    with serving(tmp_path_factory.mktemp("limits") / "root", *options) as running:
        running.ingest("t", pa.table({"id": list(range(1000))}), partition_by="bucket(4, id)")
        yield running


def refused(cursor: dbapi.Cursor, sql: str) -> str:
    """Run a query that must fail; what the server says."""
    with pytest.raises(Error) as raised:
        fetched(cursor, sql)
    return str(raised.value).replace("[FlightSQL]", "")


def fetched(cursor: dbapi.Cursor, sql: str) -> pa.Table:
    """All rows of a query."""
    cursor.execute(sql)
    return cursor.fetch_arrow_table()


def test_slow_readers_do_not_keep_others_from_their_turn(server: Server) -> None:
    with ExitStack() as stack:
        slow = []
        for _ in range(READERS):
            client = stack.enter_context(flight.connect(server.uri))
            slow.append(reader(client, BIG))
            assert slow[-1].read_chunk().data.num_rows
        assert server.value("SELECT count(*) AS n FROM t") == 1000
        assert server.run("INSERT INTO t VALUES (1000)") == 1
        assert server.run("DELETE FROM t WHERE id = 1000") == 1
        for each in slow:
            assert each.read_chunk().data.num_rows
            each.cancel()


def test_who_finds_too_many_waiting_is_refused(server: Server) -> None:
    """Two work, three wait: of twelve at once the others are told to come later."""

    def run(_: int) -> str:
        with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '1'")
            return refused(cursor, "SELECT count(*) AS n FROM generate_series(1, 2000000000) AS t (v) WHERE sin(v) > 2")

    with ThreadPoolExecutor(CLIENTS) as pool:
        codes = Counter(re.findall(r"\[([a-z_]+)\]", said)[0] for said in pool.map(run, range(CLIENTS)))
    assert codes.keys() == {"limit_exceeded", "statement_timeout"}
    assert server.value("SELECT count(*) AS n FROM t") == 1000


MANY = "generate_series(1, 20000000)"
STARVING = f"SELECT count(*) AS n FROM {MANY} AS a JOIN {MANY} AS b ON a.value = b.value + 1"


def test_a_statement_without_memory_fails_by_itself(server: Server) -> None:
    assert "[out_of_memory]" in server.refuses(STARVING)
    assert server.value("SELECT count(*) AS n FROM t") == 1000


def test_a_sort_spills(server: Server) -> None:
    with flight.connect(server.uri) as client:
        sorted_rows = reader(client, "SELECT value * 7919 % 20000003 AS x FROM generate_series(1, 20000000) ORDER BY x")
        first = sorted_rows.read_chunk().data.column(0)
        assert first[:3].to_pylist() == [1, 2, 3]
        sorted_rows.cancel()


INGEST = wire.StatementIngest(
    table="t", table_definition_options=wire.TableDefinitionOptions(if_not_exist=2, if_exists=2)
)


def test_an_ingest_whose_client_sends_nothing_is_given_up(server: Server) -> None:
    """Its client is told when it goes on; what it held is free long before."""
    stored = files(server.root)
    with flight.connect(server.uri) as client:
        writer, _ = client.do_put(descriptor(INGEST), pa.schema({"id": pa.int64()}))
        writer.write_batch(pa.record_batch({"id": list(range(5000))}))
        ingests = "SELECT count(*) AS n FROM system.queries WHERE kind = 'ingest'"
        until(lambda: server.value(ingests) == 1)
        until(lambda: server.value(ingests) == 0)
        assert files(server.root) == stored
        with pytest.raises(flight.FlightError, match=r"\[limit_exceeded\] the client has sent no rows for 0.3 seconds"):
            send_until_refused(writer)
    assert server.value("SELECT count(*) AS n FROM t") == 1000


def send_until_refused(writer: flight.FlightStreamWriter) -> None:
    """Go on sending rows."""
    for _ in range(1000):
        writer.write_batch(pa.record_batch({"id": [1]}))
    writer.close()


def test_a_batch_that_is_too_large_is_refused(server: Server) -> None:
    with pytest.raises(Error, match=r"\[limit_exceeded\] a record batch of 1600000 bytes; expected at most 1048576"):
        server.ingest("t", pa.table({"id": pa.array(range(200_000), pa.int64())}), "append")
    small = pa.table({"id": pa.array(range(200_000), pa.int64())}).to_reader(max_chunksize=10_000)
    assert server.ingest("many", small, "create") == 200_000


def test_parameters_that_are_too_large_are_refused(server: Server) -> None:
    assert "[limit_exceeded] more than 1048576 bytes of parameters" in server.refuses(
        "SELECT length($1) AS n", ["x" * 2 * MIB]
    )
    assert server.value("SELECT length($1) AS n", ["x" * 1000]) == 1000
