"""Bytes that are no Flight SQL: each is answered with what is wrong, and the server stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import StatementIngest, StatementQuery, TableDefinitionOptions, encode_command
from pyarrow import flight

from tests.flight.statements import descriptor
from tests.service.server_process import Server, files

Bytes = pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"SELECT 1", id="text"),
        pytest.param(b"\x0a\xff\xff\xff\xff\x0f", id="a length beyond the end"),
        pytest.param(b"\x00" * 64, id="zeros"),
        pytest.param(b"\xff" * 64, id="ones"),
        pytest.param(encode_command(StatementQuery(query="SELECT 1"))[:-3], id="a command cut off"),
        pytest.param(b"\x0a\x2dtype.googleapis.com/google.protobuf.Timestamp\x12\x00", id="another message"),
    ],
)


def answered(call: Callable[[], Any]) -> str:
    """Make a call that must fail with an answer of ours."""
    with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, flight.FlightError)) as raised:
        call()
    message = str(raised.value)
    assert "[internal]" not in message
    assert "Traceback" not in message
    return message


@pytest.fixture(autouse=True)
def unharmed(server: Server) -> Any:
    """After each call the server answers, and nothing was written."""
    before = files(server.root)
    yield
    assert server.value("SELECT 41 + 1") == 42
    assert files(server.root) == before


@Bytes
def test_a_descriptor_that_is_no_command_is_refused(server: Server, data: bytes) -> None:
    command = flight.FlightDescriptor.for_command(data)
    assert "[invalid_input]" in answered(lambda: server.client.get_flight_info(command))
    assert "[invalid_input]" in answered(lambda: server.client.get_schema(command))


@Bytes
def test_a_ticket_that_is_no_command_is_refused(server: Server, data: bytes) -> None:
    assert "[invalid_input]" in answered(lambda: server.client.do_get(flight.Ticket(data)).read_all())


def upload(server: Server, command: flight.FlightDescriptor) -> None:
    writer, answers = server.client.do_put(command, pa.schema({"id": pa.int64()}))
    with writer:
        writer.write_batch(pa.record_batch({"id": [1]}))
        writer.done_writing()
        answers.read()


@Bytes
def test_an_upload_under_no_command_is_refused(server: Server, data: bytes) -> None:
    assert "[invalid_input]" in answered(lambda: upload(server, flight.FlightDescriptor.for_command(data)))


@Bytes
@pytest.mark.parametrize("action", ["CreatePreparedStatement", "ClosePreparedStatement", "BeginTransaction"])
def test_an_action_with_a_body_that_is_none_is_refused(server: Server, action: str, data: bytes) -> None:
    message = answered(lambda: list(server.client.do_action(flight.Action(action, data))))
    assert any(f"[{code}]" in message for code in ("invalid_input", "invalid_ticket", "invalid_sql", "unsupported"))


def test_an_unknown_action_is_refused_by_name(server: Server) -> None:
    assert "NoSuchAction" in answered(lambda: list(server.client.do_action(flight.Action("NoSuchAction", b""))))


INGESTS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": ({"options": {"partitoin_by": "id"}}, "'partitoin_by'"),
    "a temporary table": ({"temporary": True}, "temporary"),
    "another catalog": ({"catalog": "other"}, "'other'"),
}


@pytest.mark.parametrize(("named", "says"), INGESTS.values(), ids=INGESTS)
def test_an_ingest_that_leaves_its_meaning_open_is_refused(server: Server, named: dict[str, Any], says: str) -> None:
    made = TableDefinitionOptions(if_not_exist=1, if_exists=1)
    command = descriptor(StatementIngest(table="x", table_definition_options=made, **named))
    assert says in answered(lambda: upload(server, command))


def test_a_statement_that_is_not_utf8_is_refused(server: Server) -> None:
    command = pb.CommandStatementQuery(query="SELECT 'xyz'").SerializeToString().replace(b"xyz", b"\xff\xfe\xfd")
    url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    data = b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(command)]) + command
    answered(lambda: server.client.get_flight_info(flight.FlightDescriptor.for_command(data)))
