"""Maintenance runs once, when it is executed, by whichever way; its rows are what was done, however often they are fetched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from google.protobuf import any_pb2
from lance_flight.flight import wire
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import encode_action, encode_command
from pyarrow import flight

from tests.catalog.aging import age, file_names
from tests.service.commands import run
from tests.service.server_process import Server, files, serving
from tests.stock import manifest, manifest_rows, stored_tables

ROWS = pa.table({"id": pa.array(range(6), pa.int64()), "p": list("ababab")})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("maintenance_runs") / "root") as running:
        yield running


@pytest.fixture(scope="module")
def other(server: Server) -> Iterator[Server]:
    with serving(server.root) as running:
        yield running


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


def described(command: wire.Command) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(encode_command(command))


def planned(server: Server, sql: str) -> flight.FlightInfo:
    return server.client.get_flight_info(described(wire.StatementQuery(query=sql)))


def prepared(server: Server, sql: str) -> pb.ActionCreatePreparedStatementResult:
    (result,) = server.client.do_action(flight.Action(*encode_action(wire.CreatePreparedStatement(query=sql))))
    found = pb.ActionCreatePreparedStatementResult()
    assert any_pb2.Any.FromString(result.body.to_pybytes()).Unpack(found)
    return found


def handle_of(server: Server, sql: str) -> bytes:
    return bytes(prepared(server, sql).prepared_statement_handle)


def prepared_query(server: Server, sql: str) -> None:
    server.client.get_flight_info(
        described(wire.PreparedStatementQuery(prepared_statement_handle=handle_of(server, sql)))
    )


def put(server: Server, command: wire.Command) -> int:
    writer, reader = server.client.do_put(described(command), pa.schema([]))
    with writer:
        writer.done_writing()
        return int(pb.DoPutUpdateResult.FromString(reader.read().to_pybytes()).record_count)


def prepared_update(server: Server, sql: str) -> None:
    command = wire.PreparedStatementUpdate(prepared_statement_handle=handle_of(server, sql))
    assert put(server, command) > 0


def by_the_command(server: Server, sql: str) -> None:
    done = run("sql", "--uri", server.uri, sql)
    assert done.returncode == 0, done.stderr


WAYS = {
    "a cursor that is closed": executed,
    "execute_update": updated,
    "GetFlightInfo": planned,
    "a prepared query": prepared_query,
    "a prepared update": prepared_update,
    "the command line": by_the_command,
}


@dataclass(frozen=True)
class Case:
    """A statement, what has to be there before it, and whether it has been done."""

    sql: str
    is_done: Callable[[Server, str], bool]
    before: Callable[[Server, str], None] = lambda *_: None


def aged(server: Server, table: str) -> None:
    server.query(f"ALTER TABLE {table} COMPACT")
    age(server.root / table, hours=200)
    NAMES[table] = file_names(server.root / table)


def damaged(server: Server, table: str) -> None:
    shutil.rmtree(server.root / table / stored_tables(server.root / table)[0].row["location"])


def tables_in(server: Server, table: str) -> int:
    return sum(row["object_type"] == "table" for row in manifest_rows(server.root / table))


NAMES: dict[str, set[str]] = {}
CASES = {
    "COMPACT": Case(
        "ALTER TABLE {t} COMPACT",
        lambda server, t: all(len(each.dataset.get_fragments()) == 1 for each in stored_tables(server.root / t)),
    ),
    "REINDEX": Case("REINDEX {t}", lambda server, t: server.value(f"SELECT rows - indexed_rows FROM {t}$indexes") == 0),
    "REWRITE": Case(
        "ALTER TABLE {t} REWRITE PARTITIONS",
        lambda server, t: {each.spec_id for each in stored_tables(server.root / t)} == {2},
    ),
    "VACUUM": Case("VACUUM {t}", lambda server, t: file_names(server.root / t) < NAMES[t], aged),
    "REPAIR": Case("REPAIR TABLE {t}", lambda server, t: tables_in(server, t) == 1, damaged),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_done_when_it_is_executed(server: Server, many: str, case: Case, way: Callable[..., Any]) -> None:
    case.before(server, many)
    assert not case.is_done(server, many)
    way(server, case.sql.format(t=many))
    assert case.is_done(server, many)


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


@dataclass(frozen=True)
class Report:
    """What a server that has ended planned, and the rows that it returned."""

    info: flight.FlightInfo
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module")
def reports(server: Server, template: str) -> dict[str, Report]:
    """Each report of a table of its own, to whose table more rows came afterwards."""
    found = {}
    with serving(server.root) as brief:
        for name, sql in REPORTS.items():
            table = server.copy(template, f"reported_{name.lower()}")
            info = planned(brief, sql.format(t=table))
            found[name] = Report(info, fetched(brief, info))
            # Whatever runs once more finds something to do.
            server.ingest(table, ROWS, "append")
            server.ingest(table, ROWS, "append")
            before = files(server.root / table)
            assert fetched(brief, info) == found[name].rows
            assert files(server.root / table) == before
    return found


@pytest.mark.parametrize("name", REPORTS)
def test_its_rows_are_the_same_whenever_and_wherever_they_are_fetched_and_nothing_runs_again(
    server: Server, other: Server, reports: dict[str, Report], name: str
) -> None:
    info, first = reports[name].info, reports[name].rows
    before = files(server.root)
    for each in (server, other, other):
        assert fetched(each, info) == first
        renewed = renew(each, info.endpoints[0])
        assert each.client.do_get(renewed.ticket).read_all().to_pylist() == first
        assert renewed.expiration_time.as_py() > info.endpoints[0].expiration_time.as_py()
    assert files(server.root) == before


def renew(server: Server, endpoint: flight.FlightEndpoint) -> flight.FlightEndpoint:
    action = flight.Action(*encode_action(wire.RenewFlightEndpoint(endpoint=endpoint.serialize())))
    (result,) = server.client.do_action(action)
    return flight.FlightEndpoint.deserialize(result.body.to_pybytes())


def in_a_transaction(server: Server, sql: str) -> None:
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor, pytest.raises(Error, match="commit"):
        cursor.execute(sql)


def adbc_prepares(server: Server, sql: str) -> None:
    with server.connection.cursor() as cursor:
        assert len(cursor.adbc_execute_schema(sql)) > 0


NOTHING_RUNS = {
    "CreatePreparedStatement": prepared,
    "GetSchema": lambda server, sql: server.client.get_schema(described(wire.StatementQuery(query=sql))),
    "GetSchema of a prepared one": lambda server, sql: server.client.get_schema(
        described(wire.PreparedStatementQuery(prepared_statement_handle=handle_of(server, sql)))
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
    assert files(server.root) == before


def test_it_runs_once_for_each_execution_of_a_prepared_statement(server: Server, many: str) -> None:
    handle = handle_of(server, f"ALTER TABLE {many} COMPACT")
    command = wire.PreparedStatementQuery(prepared_statement_handle=handle)
    for count in (2, 0):
        info = server.client.get_flight_info(described(command))
        assert info.schema.names[0] == "object_id"
        version = manifest(server.root / many).version
        assert len(fetched(server, info)) == count
        assert manifest(server.root / many).version == version


def test_an_update_counts_the_rows_of_the_report(server: Server, many: str) -> None:
    for count in (2, 0):
        assert put(server, wire.StatementUpdate(query=f"ALTER TABLE {many} COMPACT")) == count


def test_what_has_run_is_not_cancelled_and_can_still_be_read(server: Server, many: str) -> None:
    info = planned(server, f"ALTER TABLE {many} COMPACT")
    action = flight.Action(*encode_action(wire.CancelFlightInfo(info=info.serialize())))
    (result,) = server.client.do_action(action)
    status = actions_pb.CancelFlightInfoResult.FromString(result.body.to_pybytes()).status
    assert status == actions_pb.CANCEL_STATUS_NOT_CANCELLABLE
    assert len(fetched(server, info)) == 2
    assert server.rows(f"SELECT sql FROM system.queries WHERE sql LIKE '%{many} COMPACT'") == []


def test_who_gives_up_waiting_has_it_run_once_all_the_same(server: Server, many: str) -> None:
    version = manifest(server.root / many).version
    patience = flight.FlightCallOptions(timeout=0.05)
    command = described(wire.StatementQuery(query=f"ALTER TABLE {many} COMPACT"))
    with suppress(flight.FlightTimedOutError):
        server.client.get_flight_info(command, patience)
    assert len(server.rows(f"ALTER TABLE {many} COMPACT")) in {0, 2}
    assert CASES["COMPACT"].is_done(server, many)
    compactions = [row for row in server.rows(f"SELECT version, operation FROM {many}$snapshots") if row[0] > version]
    assert [row for row in compactions if str(row[1]).startswith("compact ")] != []
    assert len([row for row in compactions if str(row[1]).startswith("compact ")]) == 1


def test_a_ticket_of_a_server_with_another_key_is_refused(server: Server, many: str, tmp_path: Path) -> None:
    info = planned(server, f"ALTER TABLE {many} COMPACT")
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    with (
        serving(server.root, "--ticket-key-file", str(key)) as stranger,
        pytest.raises(ValueError, match=r"\[invalid_ticket\]"),
    ):
        fetched(stranger, info)
