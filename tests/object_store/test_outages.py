"""An object store that does not answer, or refuses the key of the server: each statement says so, and waits out a short outage."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pyarrow as pa
import pytest
from lance_flight.catalog.storage import filesystems, store
from lance_flight.engine.runtime.cancellation import BUSY
from lance_flight.errors import LanceFlightError, StatementTimeout
from lance_flight.flight.status import flight_error

from tests.engine.waiting import until
from tests.faults.writes import transaction
from tests.object_store import s3_server
from tests.object_store.bucket import Bucket, BucketDatabase
from tests.object_store.s3_server import Fault, Rule, S3Server
from tests.selection import IS_FULL

STATEMENTS = (
    *("SELECT * FROM t", "SELECT * FROM plain", "SELECT count(*) FROM view", "SHOW TABLES", "DESCRIBE t"),
    *(
        "SELECT * FROM t$snapshots",
        "EXPLAIN SELECT * FROM t",
        "INSERT INTO t VALUES (3, 'a')",
        "UPDATE plain SET id = 2",
    ),
    *(
        "DELETE FROM t WHERE id = 1",
        "CREATE TABLE new (id INT)",
        "CREATE TABLE newer AS SELECT * FROM t",
        "DROP TABLE plain",
    ),
    *("VACUUM t", "ALTER TABLE t ADD COLUMN q INT", "ALTER TABLE t COMPACT", "CREATE INDEX i ON t (id) USING btree"),
    *("TRUNCATE TABLE plain", "ALTER TABLE t CREATE BRANCH b"),
)


@pytest.fixture(scope="module")
def stored(s3: S3Server) -> Bucket:
    """A bucket with a table in partitions, a plain one and a view."""
    made = Bucket.made(s3)
    for statement in (
        "CREATE TABLE t (id BIGINT, p VARCHAR) PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE plain (id BIGINT)",
        "INSERT INTO plain VALUES (1)",
        "CREATE VIEW view AS SELECT * FROM t",
    ):
        made.database.run(statement)
    return made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No request is sent again."""
    monkeypatch.setattr(filesystems, "RETRIES", 0)
    monkeypatch.setattr(store, "LANCE_RETRIES", {"client_max_retries": "0"})
    filesystems._s3.cache_clear()
    yield
    filesystems._s3.cache_clear()


def said(database: BucketDatabase, sql: str) -> str:
    """The error of a statement as a client reads it; nothing where it is done."""
    try:
        database.rows(sql)
    except (LanceFlightError, OSError, ValueError) as error:
        return str(flight_error(error))
    return ""


def opened(bucket: Bucket) -> BucketDatabase:
    """A database whose tables are open, so that the next statement meets the store at another step."""
    bucket.faults.set()
    database = bucket.database
    for sql in STATEMENTS[:3]:
        database.rows(sql)
    return database


OUTAGE = "[57P03] [unavailable] the object store of the root failed a request; expected a later try"
UNKNOWN = "[outcome_unknown]"
REFUSED = "[28000] [storage_unauthenticated] the object store of the root refuses the key of the server"


def said_at_once(asked: Sequence[tuple[BucketDatabase, str]]) -> list[str]:
    """What each of several statements says that wait at the same time: Lance sends lists again for seconds, whatever it is told."""
    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(said, *zip(*asked, strict=True)))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("fault", "is_open"), [(Fault.SLOW_DOWN, True), (Fault.RESET, False)], ids=str)
def test_each_statement_says_that_the_store_is_away(stored: Bucket, fault: Fault, *, is_open: bool) -> None:
    bucket = stored.copy()
    asked = [(opened(bucket) if is_open else bucket.database, sql) for sql in STATEMENTS]
    with bucket.failing(Rule(fault=fault, times=10**9)):
        told = said_at_once(asked)
    assert [
        (sql, text) for sql, text in zip(STATEMENTS, told, strict=True) if text != OUTAGE and UNKNOWN not in text
    ] == []


@pytest.mark.usefixtures("impatient")
def test_an_outage_in_the_middle_is_neither_corrupt_nor_a_missing_table(stored: Bucket) -> None:
    statements = ("SELECT * FROM t", "SELECT * FROM plain", "INSERT INTO plain VALUES (2)")
    cases = [(path, sql) for path in (r"/data/", r"_versions/", r"/_transactions/") for sql in statements]
    with ExitStack() as stack:
        asked = []
        for path, sql in cases:
            bucket = stored.copy()
            asked.append((bucket.database, sql))
            stack.enter_context(bucket.failing(Rule(fault=Fault.SLOW_DOWN, method="GET|HEAD", path=path, times=10**9)))
        told = said_at_once(asked)
    assert [
        (*case, text)
        for case, text in zip(cases, told, strict=True)
        if text not in {"", OUTAGE} and UNKNOWN not in text
    ] == []


@pytest.mark.usefixtures("impatient")
def test_a_store_that_is_not_there_is_an_outage(stored: Bucket) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = unused.getsockname()[1]
    for endpoint in (f"http://127.0.0.1:{closed}", "http://no-such-host.invalid"):
        for sql in STATEMENTS[:8]:
            assert said(replace(stored, endpoint=endpoint).database, sql) == OUTAGE, (endpoint, sql)


def test_a_short_outage_is_waited_out(stored: Bucket) -> None:
    """More requests in a row fail than a library sends again by itself."""
    bucket = stored.copy()
    for sql in (*(["SELECT * FROM t"] if IS_FULL else []), "INSERT INTO plain VALUES (2)"):
        bucket.faults.set(Rule(fault=Fault.SLOW_DOWN, times=4))
        assert said(bucket.database, sql) == ""
        assert bucket.faults.injected[Fault.SLOW_DOWN] == 4
    assert sorted(bucket.database.rows("SELECT id FROM plain")) == [(1,), (2,)]


ENDING = (
    *(
        sql
        for sql in STATEMENTS
        if not sql.startswith(("VACUUM", "ALTER", "EXPLAIN", "DROP", "TRUNCATE", "CREATE TABLE new "))
    ),
    *(
        "SELECT max(id) FROM t GROUP BY p",
        "SELECT * FROM t JOIN plain ON t.id = plain.id",
        "SELECT (SELECT max(id) FROM t)",
    ),
    "MERGE INTO t USING plain ON t.id = plain.id WHEN MATCHED THEN UPDATE SET id = 7 WHEN NOT MATCHED THEN INSERT *",
)
DEFINING = (
    *("DROP TABLE plain", "ALTER TABLE t ADD COLUMN q INT", "ALTER TABLE plain RENAME TO u", "DROP VIEW view"),
    *("CREATE OR REPLACE VIEW view AS SELECT 1 AS one FROM t", "CREATE SCHEMA s", "TRUNCATE TABLE plain"),
    *(
        "ALTER TABLE t CREATE TAG a",
        "DROP INDEX i ON t",
        "ALTER TABLE t DROP PARTITION (p = 'a')",
        "CREATE TABLE new (id INT)",
    ),
    *(
        "ALTER TABLE t DETACH PARTITION (p = 'a') TO parted",
        "VACUUM t",
        "ALTER TABLE t SET PARTITIONED BY (bucket(2, id))",
    ),
)
"""Statements that read no data: they meet a store that answers nothing."""
ROWS = pa.table({"id": [7], "p": ["c"]})
KEPT = ("SELECT * FROM t ORDER BY id", "SELECT * FROM plain", "SHOW TABLES")
READS = ("SELECT * FROM t", "DESCRIBE t", "SELECT * FROM t$snapshots")


@pytest.mark.parametrize("sql", READS)
def test_a_query_ends_with_its_time_while_requests_are_sent_again(stored: Bucket, sql: str) -> None:
    bucket = stored.copy()
    filesystems._s3.cache_clear()  # clients stop to send again once much has failed
    database = opened(bucket)
    engine = database.engine
    engine.apply(replace(engine.limits, statement_timeout=0.1))
    bucket.faults.set(Rule(fault=Fault.SLOW_DOWN, times=10**9))
    began = time.monotonic()
    assert (
        said(database, sql)
        == "[57014] [statement_timeout] the statement was ended after 0.1 s, which the session or the server gives it"
    )
    assert time.monotonic() - began < 2
    bucket.faults.set()
    engine.apply(replace(engine.limits, statement_timeout=0))
    assert said(database, sql) == ""


@pytest.mark.parametrize(("is_open", "path"), [(True, ""), (False, ""), (True, "/data/")])
def test_a_statement_ends_with_its_time_while_the_store_hangs(
    stored: Bucket, monkeypatch: pytest.MonkeyPatch, path: str, *, is_open: bool
) -> None:
    monkeypatch.setattr(s3_server, "DELAY_SECONDS", 4.0)
    bucket = stored.copy()
    before = [bucket.database.rows(sql) for sql in KEPT]
    statements = ENDING if path else (*ENDING, *DEFINING)
    asked = [(opened(bucket) if is_open else bucket.database, sql) for sql in statements]
    for database, _ in asked:
        database.engine.apply(replace(database.engine.limits, statement_timeout=0.3))
    took: dict[str, float] = {}

    def timed(database: BucketDatabase, sql: str) -> str:
        began = time.monotonic()
        told = said(database, sql)
        took[sql] = time.monotonic() - began
        return told

    with bucket.failing(Rule(fault=Fault.DELAY, path=path, times=10**9)), ThreadPoolExecutor(len(asked)) as pool:
        told = dict(zip(statements, pool.map(timed, *zip(*asked, strict=True)), strict=True))
    late = [sql for sql in statements if took[sql] > 2 or (not path and "[statement_timeout]" not in told[sql])]
    assert [(sql, took[sql], told[sql]) for sql in late] == []
    until(lambda: not any(thread.name == BUSY for thread in threading.enumerate()))
    assert [bucket.database.rows(sql) for sql in KEPT] == before, "what was given up shows nothing later"


@pytest.mark.parametrize("change", ["INSERT INTO t VALUES (7, 'c')", "DROP TABLE t", "an ingest"])
def test_a_transaction_and_an_ingest_end_with_their_time_while_the_store_hangs(
    stored: Bucket, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(s3_server, "DELAY_SECONDS", 3.0)
    bucket = stored.copy()
    database = bucket.database
    before = [database.rows(sql) for sql in KEPT]
    engine = database.engine
    with transaction(database) as mine:
        mine.run("INSERT INTO t VALUES (6, 'a')")
        engine.apply(replace(engine.limits, statement_timeout=0.3))
        began = time.monotonic()
        with bucket.failing(Rule(fault=Fault.DELAY, times=10**9)), pytest.raises(StatementTimeout):
            _ = database.ingest("t", ROWS, "append") if change == "an ingest" else mine.run(change)
        assert time.monotonic() - began < 2
        engine.apply(replace(engine.limits, statement_timeout=0))
        if change == "an ingest":
            mine.end(commit=False)
        else:
            with pytest.raises(LanceFlightError, match="can only be rolled back: the statement was ended"):
                mine.end(commit=True)
    until(lambda: not any(thread.name == BUSY for thread in threading.enumerate()))
    assert [bucket.database.rows(sql) for sql in KEPT] == before


class _Refusing(BaseHTTPRequestHandler):
    """Answers each request with one error."""

    status: ClassVar[int]
    code: ClassVar[str]

    def refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = f"<?xml version='1.0'?><Error><Code>{self.code}</Code><Message>no</Message></Error>".encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = refuse  # noqa: N815 - the names that the base class calls

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def refusing(status: int, code: str) -> Iterator[str]:
    """A store that refuses everything."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Refusing,), {"status": status, "code": code}))
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"])
def test_a_key_that_the_store_refuses_is_no_outage(stored: Bucket, code: str) -> None:
    with refusing(403, code) as endpoint:
        for sql in STATEMENTS:
            told = said(replace(stored, endpoint=endpoint).database, sql)
            assert told.startswith(REFUSED), sql
            assert "later try" not in told
