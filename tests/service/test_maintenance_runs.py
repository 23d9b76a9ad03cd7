"""Maintenance runs once, when it is executed, by whichever way; its rows are what was done, however often they are fetched."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.flight import wire
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from pyarrow import flight

from tests.flight.statements import cancel, count, descriptor, planned, prepare, put, renew, statement
from tests.service.commands import run
from tests.service.server_process import Server, files
from tests.stock import manifest, stored_tables

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "p": list("ababab")})


@pytest.fixture
def many(server: Server, template: str, table: str) -> str:
    return server.copy(template, table)


@pytest.fixture(scope="module")
def template(server: Server) -> str:
    """A table of two partitions of three files each, under an index that knows the first of them, and a spec that is older."""
    server.run("CREATE TABLE aged (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    server.ingest("aged", ROWS.slice(0, 2), "append")
    server.run("CREATE INDEX i ON aged (id) WITH (min_rows = 1)")
    for start in (2, 4):
        server.ingest("aged", ROWS.slice(start, 2), "append")
    server.run("ALTER TABLE aged SET PARTITIONED BY (bucket(2, id))")
    return "aged"


def executed(server: Server, sql: str) -> None:
    with server.connection.cursor() as cursor:
        cursor.execute(sql)


def updated(server: Server, sql: str) -> None:
    with server.connection.cursor() as cursor:
        cursor.adbc_statement.set_sql_query(sql)
        assert cursor.adbc_statement.execute_update() > 0


def planned_raw(server: Server, sql: str) -> None:
    planned(server.client, sql)


def handle_of(server: Server, sql: str) -> bytes:
    return bytes(prepare(server.client, sql).prepared_statement_handle)


def prepared_query(server: Server, sql: str) -> None:
    server.client.get_flight_info(
        descriptor(wire.PreparedStatementQuery(prepared_statement_handle=handle_of(server, sql)))
    )


def prepared_update(server: Server, sql: str) -> None:
    command = wire.PreparedStatementUpdate(prepared_statement_handle=handle_of(server, sql))
    assert count(put(server.client, command)) > 0


def by_the_command(server: Server, sql: str) -> None:
    done = run("sql", "--uri", server.uri, sql)
    assert done.returncode == 0, done.stderr


WAYS = {
    "a cursor that is closed": executed,
    "execute_update": updated,
    "GetFlightInfo": planned_raw,
    "a prepared query": prepared_query,
    "a prepared update": prepared_update,
    "the command line": by_the_command,
}


def is_compacted(server: Server, table: str) -> bool:
    return all(len(each.dataset.get_fragments()) == 1 for each in stored_tables(server.root / table))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_it_is_done_when_it_is_executed(server: Server, many: str, way: Callable[..., Any]) -> None:
    assert not is_compacted(server, many)
    way(server, f"ALTER TABLE {many} COMPACT")
    assert is_compacted(server, many)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_change_that_returns_its_rows_is_made_once(server: Server, many: str, way: Callable[..., Any]) -> None:
    before = server.rows(f"SELECT * FROM {many} WHERE id = 0")
    version = manifest(server.root / many).version
    way(server, f"INSERT INTO {many} VALUES (-1, 'new') RETURNING id, upper(p)")
    assert server.rows(f"SELECT p FROM {many} WHERE id = -1") == [("new",)]
    way(server, f"UPDATE {many} SET id = id - 1 WHERE id < 0 RETURNING *")
    assert server.rows(f"SELECT id FROM {many} WHERE id < 0") == [(-2,)]
    way(server, f"DELETE FROM {many} WHERE id < 0 RETURNING *")
    assert server.rows(f"SELECT * FROM {many} WHERE id <= 0") == before
    assert manifest(server.root / many).version == version + 3


def test_the_rows_of_a_change_are_those_of_its_commit(server: Server, other: Server, many: str) -> None:
    info = planned(server.client, f"UPDATE {many} SET p = 'z' WHERE id = 1 RETURNING id, p")
    server.run(f"DELETE FROM {many} WHERE id = 1")
    for each in (server, other, server):
        assert fetched(each, info) == [{"id": 1, "p": "z"}]
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {many} VALUES (?, 'q') RETURNING id", [1])
        assert cursor.fetchall() == [(1,)]
        connection.rollback()
    assert server.rows(f"SELECT * FROM {many} WHERE id = 1") == []


REPORTS = {
    "COMPACT": "ALTER TABLE {t} COMPACT",
    "REINDEX": "REINDEX {t}",
    "REWRITE": "ALTER TABLE {t} REWRITE PARTITIONS",
    "VERIFY": "VERIFY TABLE {t}",
    "VACUUM": "VACUUM {t} DRY RUN",
    "REPAIR": "REPAIR TABLE {t} DRY RUN",
    "MIGRATE": "MIGRATE TABLE {t} DRY RUN",
}


def fetched(server: Server, info: flight.FlightInfo) -> list[dict[str, Any]]:
    (endpoint,) = info.endpoints
    rows = server.client.do_get(endpoint.ticket).read_all()
    assert rows.schema.equals(info.schema)
    return list(rows.to_pylist())


def test_its_rows_are_what_was_done_wherever_they_are_fetched(server: Server, other: Server, many: str) -> None:
    info = planned(server.client, f"ALTER TABLE {many} COMPACT")
    assert cancel(server.client, info) == actions_pb.CANCEL_STATUS_NOT_CANCELLABLE
    # What runs once more finds something to do.
    for _ in range(2):
        server.ingest(many, ROWS, "append")
    before = files(server.root / many)
    first = fetched(server, info)
    assert [(row["files_before"], row["files_after"]) for row in first] == [(3, 1)] * 2
    renewed = renew(other.client, info.endpoints[0])
    for each in (server, other):
        assert each.client.do_get(renewed.ticket).read_all().to_pylist() == fetched(each, info) == first
    assert files(server.root / many) == before


def in_a_transaction(server: Server, sql: str) -> None:
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor, pytest.raises(Error, match="commit"):
        cursor.execute(sql)


def adbc_prepares(server: Server, sql: str) -> None:
    with server.connection.cursor() as cursor:
        assert len(cursor.adbc_execute_schema(sql)) > 0


NOTHING_RUNS = {
    "CreatePreparedStatement": handle_of,
    "GetSchema": lambda server, sql: server.client.get_schema(statement(sql)),
    "GetSchema of a prepared one": lambda server, sql: server.client.get_schema(
        descriptor(wire.PreparedStatementQuery(prepared_statement_handle=handle_of(server, sql)))
    ),
    "adbc_execute_schema": adbc_prepares,
    "EXPLAIN": lambda server, sql: server.refuses(f"EXPLAIN {sql}"),
    "EXPLAIN ANALYZE": lambda server, sql: server.refuses(f"EXPLAIN ANALYZE {sql}"),
    "inside a transaction": in_a_transaction,
}


@pytest.mark.parametrize("way", NOTHING_RUNS.values(), ids=NOTHING_RUNS)
def test_what_only_looks_at_a_statement_runs_nothing(server: Server, many: str, way: Callable[..., Any]) -> None:
    before = files(server.root)
    for sql in REPORTS.values():
        way(server, sql.format(t=many))
    if way is not in_a_transaction:
        way(server, f"INSERT INTO {many} VALUES (1, 'a') RETURNING id")
    assert files(server.root) == before


def test_it_runs_once_for_each_execution_of_a_prepared_statement(server: Server, many: str) -> None:
    handle = handle_of(server, f"ALTER TABLE {many} COMPACT")
    command = wire.PreparedStatementQuery(prepared_statement_handle=handle)
    for rows in (2, 0):
        info = server.client.get_flight_info(descriptor(command))
        assert info.schema.names[0] == "object_id"
        version = manifest(server.root / many).version
        assert len(fetched(server, info)) == rows
        assert manifest(server.root / many).version == version


def test_an_update_counts_the_rows_of_the_report(server: Server, many: str) -> None:
    for rows in (2, 0):
        assert count(put(server.client, wire.StatementUpdate(query=f"ALTER TABLE {many} COMPACT"))) == rows


def test_who_gives_up_waiting_has_it_run_once_all_the_same(server: Server, many: str) -> None:
    version = manifest(server.root / many).version
    patience = flight.FlightCallOptions(timeout=0.05)
    command = statement(f"ALTER TABLE {many} COMPACT")
    with suppress(flight.FlightTimedOutError):
        server.client.get_flight_info(command, patience)
    assert len(server.rows(f"ALTER TABLE {many} COMPACT")) in {0, 2}
    assert is_compacted(server, many)
    compactions = [row for row in server.rows(f"SELECT version, operation FROM {many}$snapshots") if row[0] > version]
    assert [row for row in compactions if str(row[1]).startswith("compact ")] != []
    assert len([row for row in compactions if str(row[1]).startswith("compact ")]) == 1
