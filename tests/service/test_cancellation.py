"""Statements that are ended from outside, over the wire: the client hears of it at once, and the work really stops."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from datafusion import SessionContext
from datafusion.substrait import Serde
from lance_flight.flight import wire
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.engine.waiting import until
from tests.flight.statements import cancel, planned, reader
from tests.service.server_process import Server, serving

LONGEST_REST = 10.0
"""Seconds within which a server stops the work of a statement that is over; a pair of batches takes longer where nothing asks."""
PATIENCE = flight.FlightCallOptions(timeout=30)
"""Ends a call that nothing else has ended, so that its test fails and does not hang."""
TICKS = os.sysconf("SC_CLK_TCK")
NUMBERS = "generate_series(1, 2000000000)"
LONG = {
    "a sort": f"SELECT * FROM (SELECT value * 7919 % 10000019 AS x FROM {NUMBERS}) AS t ORDER BY x",
    "an aggregate": f"SELECT value * 7919 % 10000019 AS x, count(*) AS n FROM {NUMBERS} GROUP BY 1",
    "a join": f"SELECT count(*) AS n FROM {NUMBERS} AS a JOIN {NUMBERS} AS b ON a.value = -b.value",
    "a product": "SELECT count(*) AS n FROM generate_series(1, 100000) AS a JOIN generate_series(1, 100000) AS b"
    " ON a.value + b.value < 0",
    "sums of a product": "SELECT sum(a.value * b.value) AS n FROM generate_series(1, 30000000) AS a, generate_series(1, 1000) AS b",
    "a recursion": "WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM a) SELECT count(*) AS n FROM a",
    "a stream": f"SELECT value FROM {NUMBERS}",
    "an insert": f"INSERT INTO kept SELECT value AS id FROM {NUMBERS}",
    "a delete": f"DELETE FROM kept WHERE id IN (SELECT -value FROM {NUMBERS})",
}
PAIRS = "big AS a CROSS JOIN big AS b"
NEVER = "big AS a JOIN big AS b ON sin(a.v) * b.v > 1e9"
NEVER_OF_ONE = "a.one = b.one AND sin(a.v) * b.v > 1e9"
FLOATS = "SELECT sum(sin(a.v) * sin(b.v)) AS s"
VECTOR = f"[{', '.join(['0.5'] * 64)}]"
PRODUCTS = {
    "sums": f"{FLOATS} FROM {PAIRS}",
    "a count": f"SELECT count(*) AS n FROM {PAIRS}, generate_series(1, 1000000) AS c",
    "series": f"SELECT sum(sin(a.value) * sin(b.value)) AS s FROM {NUMBERS} AS a, generate_series(1, 1000) AS b",
    "a condition that nothing passes": f"SELECT count(*) AS n FROM {NEVER}",
    "an outer join": "SELECT count(b.v) AS n FROM big AS a LEFT JOIN big AS b ON sin(a.v) * b.v > 1e9",
    "a join in WHERE": "SELECT count(*) AS n FROM big AS a, big AS b WHERE sin(a.v) * b.v > 1e9",
    "many searches": f"SELECT id FROM vector_search('vectors', 'e', k => 5, queries => [{', '.join([VECTOR] * 200)}])",
    "a sort by a distance": f"SELECT a.id FROM vectors AS a, vectors AS b ORDER BY array_distance(a.e, {VECTOR}) + b.id LIMIT 5",
    "groups": f"SELECT sin(a.v) * sin(b.v) > 0 AS g, count(*) AS n FROM {PAIRS} GROUP BY 1",
    "distinct rows": f"SELECT DISTINCT sin(a.v) * sin(b.v) > 0 AS g FROM {PAIRS}",
    "sorted rows": f"SELECT a.v, b.v AS w FROM {PAIRS} ORDER BY sin(a.v) * sin(b.v) LIMIT 3",
    "skipped rows": f"SELECT a.v, b.v AS w FROM {PAIRS} LIMIT 3 OFFSET 9999999999",
    "a window of a product": f"SELECT sum(n) OVER () AS n FROM (SELECT count(*) AS n, sum(sin(a.v + b.v)) AS s FROM {PAIRS} GROUP BY a.id % 3)",
    "a union": f"SELECT sum(s) AS s FROM ({FLOATS} FROM {PAIRS} UNION ALL SELECT 1.0)",
    "a subquery as a value": f"SELECT ({FLOATS} FROM {PAIRS}) AS s",
    "EXISTS": "SELECT count(*) AS n FROM big AS a WHERE EXISTS (SELECT 1 FROM big AS b WHERE sin(a.v) * b.v > 1e9)",
    "NOT EXISTS": "SELECT count(*) AS n FROM big AS a WHERE NOT EXISTS (SELECT 1 FROM big AS b WHERE sin(a.v) * b.v > 1e9)",
    "EXISTS as a value": "SELECT count(*) AS n FROM big AS a WHERE EXISTS (SELECT 1 FROM big AS b WHERE sin(a.v) * b.v > 1e9) OR a.v < 0",
    "NOT IN over one key": "SELECT count(*) AS n FROM big AS a WHERE one NOT IN (SELECT b.one FROM big AS b"
    " WHERE a.word = b.word AND sin(a.v) * b.v > 1e9)",
    "NOT IN of a view": "SELECT n FROM missing",
    "a recursion of one key": "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT a.one AS x FROM r JOIN big AS a ON a.one = r.x"
    " JOIN big AS b ON a.one = b.one AND sin(a.v) * b.v > 1e9) SELECT count(*) AS n FROM r",
    "EXISTS as a value over one key": f"SELECT count(*) AS n FROM big AS a JOIN big AS b ON {NEVER_OF_ONE}"
    " WHERE a.v < 0 OR EXISTS (SELECT 1 FROM big AS c WHERE a.one = c.one AND sin(a.v) * c.v > 1e9)",
    "a subquery as a value over one key": f"SELECT (SELECT a.v FROM big AS a JOIN big AS b ON {NEVER_OF_ONE}) AS s",
    "unnested lists": "SELECT sum(sin(x) * sin(y)) AS s FROM (SELECT unnest(range(0, 99999)) AS x), (SELECT v AS y FROM big)",
    "lists of a product": f"SELECT sum(sin(x)) AS s FROM (SELECT unnest([a.v, b.v]) AS x FROM {PAIRS})",
    "a recursion of products": "WITH RECURSIVE r AS (SELECT 1.0 AS x UNION ALL SELECT a.v + b.v AS x FROM r JOIN big AS a"
    " ON a.v > r.x JOIN big AS b ON sin(a.v) * b.v > 1e9) SELECT count(*) AS n FROM r",
    "EXISTS over one key": "SELECT count(*) AS n FROM big AS a WHERE EXISTS (SELECT 1 FROM big AS b WHERE a.one = b.one AND sin(a.v) * b.v > 1e9)",
    "an outer join of one key": "SELECT sum(sin(a.v) * sin(b.v)) AS s FROM big AS a LEFT JOIN big AS b ON a.one = b.one",
    "rows of a subquery as a value": "SELECT (SELECT max(a.v) FROM big AS a, big AS b WHERE a.v + b.v < 0) AS s, id FROM kept",
    "a compared subquery": f"SELECT count(*) AS n FROM big WHERE v > ({FLOATS} FROM {PAIRS})",
    "one key": "SELECT sum(sin(a.v) * sin(b.v)) AS s FROM big AS a JOIN big AS b ON a.one = b.one",
    "one key and a condition": "SELECT count(*) AS n FROM big AS a JOIN big AS b ON a.one = b.one AND sin(a.v) * b.v > 1e9",
    "a window": "SELECT max(y) AS y FROM (SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN 1000000 PRECEDING AND 1000000 FOLLOWING) AS y"
    " FROM generate_series(1, 30000000) AS t(x)) AS w",
    "an update": f"UPDATE kept SET id = 4 WHERE id < ({FLOATS} FROM {PAIRS})",
    "a delete": "DELETE FROM kept WHERE EXISTS (SELECT 1 FROM big AS a, big AS b WHERE sin(a.v) * b.v > 1e9 + kept.id)",
    "a merge": f"MERGE INTO kept USING ({FLOATS} FROM {PAIRS}) AS s ON kept.id = s.s WHEN MATCHED THEN DELETE",
    "a new table": f"CREATE TABLE made AS {FLOATS} FROM {PAIRS}",
    "a view": "SELECT s FROM product",
    "an insert": f"INSERT INTO kept SELECT CAST(s AS BIGINT) AS id FROM ({FLOATS} FROM {PAIRS})",
}


SENT = ("sums", "one key and a condition", "EXISTS over one key")
"""Those that are sent as plans of Substrait, too."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("cancelled") / "root") as running:
        running.ingest("kept", pa.table({"id": [1, 2, 3]}), partition_by="bucket(2, id)")
        ids = range(300_000)
        running.ingest(
            "big", pa.table({"id": ids, "v": [float(n) for n in ids], "one": [1] * len(ids), "word": ["x"] * len(ids)})
        )
        vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.25] * 64 * 40_000, pa.float32()), 64)
        running.ingest("vectors", pa.table({"id": ids[:40_000], "e": vectors}), partition_by="bucket(2, id)")
        running.run(f"CREATE VIEW product AS {PRODUCTS['sums']}")
        running.run(f"CREATE VIEW missing AS {PRODUCTS['NOT IN over one key']}")
        yield running


def seconds_used(server: Server) -> float:
    """The CPU time of a server."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def open_files(server: Server) -> int:
    """How many files, sockets and the like a server has open."""
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def rests(server: Server) -> None:
    """Wait until a server does nothing any more."""

    def is_idle() -> bool:
        before = seconds_used(server)
        threading.Event().wait(0.2)
        return seconds_used(server) - before <= 0.03

    began = time.monotonic()
    until(lambda: is_idle() and is_idle())  # one that waits for a turn on a busy machine is not idle
    assert time.monotonic() - began < LONGEST_REST


def read_for(seconds: float, client: flight.FlightClient, sql: str) -> None:
    """Run a query, and give each of its calls up after some time."""
    patience = flight.FlightCallOptions(timeout=seconds)
    for chunk in reader(client, sql, patience):
        assert chunk.data.num_rows


def fetched(cursor: dbapi.Cursor, sql: str | bytes) -> pa.Table:
    """All rows of a query."""
    cursor.execute(sql)
    return cursor.fetch_arrow_table()


def at_work(server: Server) -> None:
    """Wait until a server has worked for a while."""
    begun = seconds_used(server)
    until(lambda: seconds_used(server) - begun > 0.3)


def by_the_protocol(server: Server, info: flight.FlightInfo) -> None:
    """Cancel a query as drivers do."""
    assert cancel(server.client, info) == actions_pb.CANCEL_STATUS_CANCELLED


def by_sql(server: Server, _: flight.FlightInfo) -> None:
    """Kill the one query that runs, as it is listed."""
    listed = (
        "SELECT id, principal, kind, session FROM system.queries WHERE state = 'running' AND sql NOT LIKE '%system%'"
    )
    ((statement, principal, kind, session),) = server.rows(listed)
    assert (principal, kind) == ("anonymous", "query")
    assert server.rows("SELECT statements FROM system.sessions WHERE id = ?", [session]) == [(1,)]
    assert server.run(f"KILL '{statement}'") == 1
    assert server.rows(listed) == []


@pytest.mark.parametrize(
    ("name", "end"), [("a sort", by_the_protocol), ("a stream", by_the_protocol), ("an aggregate", by_sql)]
)
def test_a_query_is_cancelled_by_another_connection(
    server: Server, name: str, end: Callable[[Server, flight.FlightInfo], None]
) -> None:
    with flight.connect(server.uri) as client, ThreadPoolExecutor(1) as pool:
        info = planned(client, LONG[name])
        (endpoint,) = info.endpoints
        reading: Future[pa.Table] = pool.submit(lambda: client.do_get(endpoint.ticket, PATIENCE).read_all())
        at_work(server)
        end(server, info)
        with pytest.raises(flight.FlightError, match=r"\[cancelled\]"):
            reading.result(timeout=10)
        with pytest.raises(flight.FlightCancelledError, match="was cancelled"):
            client.do_get(endpoint.ticket)
    rests(server)


def test_adbc_cancels_what_it_waits_for(server: Server) -> None:
    with (
        dbapi.connect(server.uri, autocommit=True) as connection,
        connection.cursor() as cursor,
        ThreadPoolExecutor(1) as pool,
    ):
        reading = pool.submit(fetched, cursor, LONG["an aggregate"])
        at_work(server)
        cursor.adbc_cancel()
        with pytest.raises(Error, match=r"(?i)cancel"):
            reading.result(timeout=10)
    rests(server)


@pytest.mark.parametrize("name", LONG)
def test_a_client_that_goes_away_leaves_nothing_running(server: Server, name: str) -> None:
    assert server.value("SELECT count(*) AS n FROM kept") == 3
    rests(server)
    before = open_files(server)
    with flight.connect(server.uri) as client, pytest.raises(flight.FlightTimedOutError):
        read_for(0.7, client, LONG[name])
    rests(server)
    until(lambda: open_files(server) <= before)
    assert server.value("SELECT count(*) AS n FROM kept") == 3


def as_plan(server: Server, sql: str) -> bytes:
    """A query over `big` in Substrait."""
    context = SessionContext()
    schema = server.query("SELECT * FROM big LIMIT 0").schema
    context.register_record_batches("big", [[pa.RecordBatch.from_pylist([], schema=schema)]])
    return Serde.serialize_bytes(sql, context)


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("name", "is_sent"), [*((name, False) for name in PRODUCTS), *((name, True) for name in SENT)], ids=str
)
def test_a_product_that_is_ended_leaves_nothing_running(server: Server, name: str, *, is_sent: bool) -> None:
    statement = as_plan(server, PRODUCTS[name]) if is_sent else PRODUCTS[name]
    with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '0.3'")
        with pytest.raises(Error, match=r"\[statement_timeout\]"):
            fetched(cursor, statement)
    rests(server)
    assert server.value("SELECT sum(id) AS n FROM kept") == 6


def test_a_statement_that_has_run_cannot_be_cancelled(server: Server) -> None:
    info = planned(server.client, "CREATE TABLE IF NOT EXISTS kept (id BIGINT)")
    assert cancel(server.client, info) == actions_pb.CANCEL_STATUS_NOT_CANCELLABLE


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("impatient") / "root"
    with serving(root) as patient:
        patient.ingest("kept", pa.table({"id": [1, 2, 3]}), partition_by="bucket(2, id)")
    with serving(root, "--statement-timeout", "1") as running:
        yield running


def test_a_statement_that_takes_too_long_is_ended(impatient: Server) -> None:
    said = impatient.refuses(LONG["a delete"])
    assert "[statement_timeout] the statement was ended after 1 s" in said
    rests(impatient)
    assert impatient.value("SELECT count(*) AS n FROM kept") == 3


def test_a_slow_reader_is_not_what_takes_too_long(impatient: Server) -> None:
    with flight.connect(impatient.uri) as client:
        info = planned(client, "SELECT value FROM generate_series(1, 5000000)")
        rows = 0
        for chunk in client.do_get(info.endpoints[0].ticket):
            rows += chunk.data.num_rows
            threading.Event().wait(0.002)
        assert rows == 5_000_000


def test_clients_can_ask_for_the_timeouts(impatient: Server) -> None:
    asked = wire.GetSqlInfo(info=(pb.FLIGHT_SQL_SERVER_STATEMENT_TIMEOUT, pb.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT))
    ticket = flight.Ticket(encode_command(asked))
    assert impatient.client.do_get(ticket).read_all()["value"].to_pylist() == [1_000, 3_600_000]


def test_a_session_may_not_allow_more(impatient: Server) -> None:
    with dbapi.connect(impatient.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '60'")
        with pytest.raises(Error, match=r"ended after 1 s"):
            fetched(cursor, LONG["an aggregate"])
