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


ROWS = pa.record_batch({"x": [2], "p": ["b"]})
TABLE = NamedTable("public", "t")


def put(session: SharedSession, ingest: str, part: str, rows: pa.RecordBatch = ROWS, **options: str) -> None:
    session.send(TABLE, {"shared": ingest, "part": part, **options}, rows.schema, iter([rows]))


def test_parts_of_a_shared_ingest_are_refused_elsewhere(servers: tuple[Server, Server]) -> None:
    session = begun(servers[0])
    put(session, "s", "first")
    with pytest.raises(ServerError, match=r"\[conflict\].*a shared ingest"):
        put(moved(session, servers[1]), "s", "second")
    session.run("COMMIT WRITE 's' INTO t PARTS ('first')")
    session.close()
    assert sorted(servers[1].rows("SELECT x FROM t")) == [(1,), (2,)]
    servers[0].run("DELETE FROM t WHERE x = 2")


REFUSED = {
    "a part that was not stored": ("COMMIT WRITE 's' INTO t PARTS ('first', 'other')", "part 'other'.*was not stored"),
    "another ingest": ("COMMIT WRITE 'other' INTO t PARTS ('first')", r"no shared ingest 'other' into table 't'"),
    "another table": ("COMMIT WRITE 's' INTO u PARTS ('first')", r"no shared ingest 's' into table 'u'"),
    "no parts": ("COMMIT WRITE 's' INTO t", "expected PARTS"),
    "a word after it": ("COMMIT WRITE 's' INTO t PARTS ('first') OVERWRITE ALL", "expected the end of the statement"),
    "another version": ("COMMIT WRITE 's' INTO t VERSION 1 PARTS ()", "at version"),
    "a condition that fails": ("COMMIT WRITE 's' INTO t PARTS ('first') REPLACING WHERE nope = 1", "nope"),
    "inside a transaction": (("BEGIN", "COMMIT WRITE 's' INTO t PARTS ('first')"), "inside a transaction"),
    "rows that have changed": (
        ("UPDATE t SET x = 1 WHERE p = 'a'", "COMMIT WRITE 's' INTO t PARTS ('first') REPLACING WHERE p = 'a'"),
        "changed by another writer",
    ),
    "rows that were compared and have changed": (
        ("INSERT INTO t VALUES (1, 'a')", "COMMIT WRITE 's' INTO t PARTS ('first') READING WHERE p = 'a'"),
        "changed by another writer",
    ),
    "a partition that has changed": (
        ("INSERT INTO t VALUES (5, 'b')", "COMMIT WRITE 's' INTO t PARTS ('first') OVERWRITE PARTITIONS"),
        "another writer",
    ),
}


@pytest.mark.sample(20)
@pytest.mark.parametrize(("statements", "message"), REFUSED.values(), ids=REFUSED)
def test_a_shared_ingest_that_is_refused_shows_nothing(
    servers: tuple[Server, Server], statements: str | tuple[str, ...], message: str
) -> None:
    server, session = servers[0], begun(servers[0])
    server.run("DELETE FROM t")
    server.run("INSERT INTO t VALUES (1, 'a')")
    server.run("CREATE TABLE IF NOT EXISTS u (x BIGINT)")
    put(session, "s", "first")
    *before, last = (statements,) if isinstance(statements, str) else statements
    session.run(*before)
    expected = sorted(server.rows("SELECT x, p FROM t"))
    with pytest.raises(ServerError, match=message):
        session.run(last)
    session.close()
    assert sorted(server.rows("SELECT x, p FROM t")) == expected
    assert not [row for row in server.rows("VERIFY TABLE t") if "differ" in str(row)]


def test_a_part_is_stored_once_and_says_its_options(servers: tuple[Server, Server]) -> None:
    session = begun(servers[0])
    put(session, "s", "first")
    for options, message in {
        (("part", "first"),): "stored before",
        (("part", "second"), ("version", "1")): "at version",
        (("part", "second"), ("version", "one")): "expected the number of a version",
        (("part", "second"), ("partition_by", "p")): "expected shared, part",
        (("part", ""),): "expected 1 to",
    }.items():
        with pytest.raises(ServerError, match=message):
            session.send(TABLE, {"shared": "s", **dict(options)}, ROWS.schema, iter([ROWS]))
    with pytest.raises(ServerError, match="column 'q' is not in the table"):
        put(session, "s", "third", ROWS.rename_columns(["x", "q"]))
    session.close()
    with pytest.raises(ServerError, match="session that is its client's alone"):
        put(replace(session, cookies={}), "s", "first")


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
    sent = files(server.root)
    assert server.value(f"SELECT count(*) FROM {table}") == 0
    write.commit([attempts[0][1], attempts[1][0], write.write([])], None)
    assert server.rows(f"SELECT id, k FROM {table} ORDER BY id") == [(10, 10), (11, 0), (20, 20), (21, 0)]
    assert len(server.rows(f'SELECT * FROM "{table}$snapshots"')) == 2
    written = {name for name in files(server.root) - sent if name.endswith(".lance")}
    assert not {name for name in written if "/__manifest/" not in name}, "rows were written again"
    with pytest.raises(ServerError, match="session"):
        write.commit([attempts[0][0]], None)
    other = planned(server, table)
    other.write([parts[0]])
    other.abort()
    server.run(f"DROP TABLE {table}")
    assert files(server.root) == before


WIDER = pa.record_batch({"x": [2, 3], "p": ["a", "c"], "more": ["m", None]})
ADDED = "BEGIN WRITE 's' INTO t ADD COLUMN more VARCHAR"


@pytest.fixture
def evolving(servers: tuple[Server, Server]) -> Iterator[tuple[Server, SharedSession]]:
    """A server with a table of its own, and a session."""
    server = servers[0]
    server.run("CREATE OR REPLACE TABLE t (x BIGINT, p VARCHAR) PARTITIONED BY (p)")
    server.run("INSERT INTO t VALUES (1, 'a'), (5, 'b')")
    session = begun(server)
    yield server, session
    session.close()


COMMITTED = {
    "added": ("COMMIT WRITE 's' INTO t PARTS ('w')", [(1, "a", None), (2, "a", "m"), (3, "c", None), (5, "b", None)]),
    "in place of partitions": (
        "COMMIT WRITE 's' INTO t PARTS ('w') OVERWRITE PARTITIONS",
        [(2, "a", "m"), (3, "c", None), (5, "b", None)],
    ),
    "in place of rows": (
        "COMMIT WRITE 's' INTO t PARTS ('w') REPLACING WHERE x = 1 AND more IS NULL",
        [(2, "a", "m"), (3, "c", None), (5, "b", None)],
    ),
    "in place of all": ("COMMIT WRITE 's' INTO t PARTS ('w') REPLACING", [(2, "a", "m"), (3, "c", None)]),
    "beside others": (
        "COMMIT WRITE 's' INTO t PARTS ('w') READING WHERE more = 'm'",
        [(1, "a", None), (2, "a", "m"), (3, "c", None), (5, "b", None)],
    ),
    "without rows": ("COMMIT WRITE 's' INTO t PARTS ()", [(1, "a", None), (5, "b", None)]),
}


@pytest.mark.parametrize(("statement", "held"), COMMITTED.values(), ids=COMMITTED)
def test_columns_of_a_shared_ingest_are_committed_with_its_rows(
    evolving: tuple[Server, SharedSession], statement: str, held: list[tuple[object, ...]]
) -> None:
    server, session = evolving
    before = server.rows('SELECT max(version) FROM "t$snapshots"')[0][0]
    session.run(ADDED)
    put(session, "s", "w", WIDER)
    assert sorted(server.rows("SELECT * FROM t")) == [(1, "a"), (5, "b")]
    session.run(statement)
    assert sorted(server.rows("SELECT x, p, more FROM t")) == held
    (done,) = server.rows(f"SELECT operation FROM \"t$snapshots\" WHERE version > {before} AND operation <> 'metadata'")
    assert done[0].startswith("add column more")
    server.run("INSERT INTO t VALUES (9, 'd', 'n')")
    assert server.rows("SELECT more FROM t WHERE x = 9") == [("n",)]


NOT_COMMITTED = {
    "columns that others have changed": (
        "ALTER TABLE t ADD COLUMN other INT",
        "COMMIT WRITE 's' INTO t PARTS ('w')",
        "columns of table",
    ),
    "rows that others have changed": (
        "UPDATE t SET x = 7 WHERE p = 'a'",
        "COMMIT WRITE 's' INTO t PARTS ('w') REPLACING WHERE p = 'a'",
        "changed by another writer",
    ),
    "a second one of the name": ("SELECT 1", ADDED, "has begun already"),
    "a part that was not stored": ("SELECT 1", "COMMIT WRITE 's' INTO t PARTS ('w', 'v')", "part 'v'"),
}


@pytest.mark.parametrize(("meanwhile", "statement", "message"), NOT_COMMITTED.values(), ids=NOT_COMMITTED)
def test_columns_of_a_shared_ingest_that_is_refused_are_not_there(
    evolving: tuple[Server, SharedSession], meanwhile: str, statement: str, message: str
) -> None:
    server, session = evolving
    session.run(ADDED)
    put(session, "s", "w", WIDER)
    if not meanwhile.startswith("SELECT"):
        server.run(meanwhile)
    expected = sorted(server.rows("SELECT * FROM t"))
    with pytest.raises(ServerError, match=message):
        session.run(statement)
    session.close()
    assert sorted(server.rows("SELECT * FROM t")) == expected
    assert not server.rows(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 't' AND column_name = 'more'"
    )


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (
            ("CREATE TABLE IF NOT EXISTS u (x BIGINT)", "BEGIN WRITE 's' INTO u ADD COLUMN y INT"),
            "expected ALTER TABLE",
        ),
        (("BEGIN WRITE 's' INTO t ADD COLUMN y INT AS (x + 1)",), "expected ALTER TABLE"),
        (("BEGIN WRITE 's' INTO t",), "expected ADD COLUMN"),
        (("BEGIN WRITE 's' INTO t VERSION 99 ADD COLUMN y INT",), "99"),
        (("BEGIN WRITE 's' INTO t ADD COLUMN x INT",), "'x'"),
        (("BEGIN", "BEGIN WRITE 's' INTO t ADD COLUMN y INT"), "inside a transaction"),
    ],
)
def test_a_write_that_cannot_change_columns_begins_nothing(
    evolving: tuple[Server, SharedSession], statements: tuple[str, ...], message: str
) -> None:
    server, session = evolving
    *before, last = statements
    session.run(*before)
    with pytest.raises(ServerError, match=message):
        session.run(last)
    assert sorted(server.rows("SELECT * FROM t")) == [(1, "a"), (5, "b")]
