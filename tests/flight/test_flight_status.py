"""What a client gets for every error, in every RPC, byte for byte."""

from __future__ import annotations

import logging
from collections.abc import Callable

import adbc_driver_flightsql.dbapi as flightsql
import grpc
import pyarrow as pa
import pytest
from lance_flight.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    LanceFlightError,
    NotFound,
    QuotaExceeded,
    Refused,
    SchemaError,
    SqlError,
    StorageDenied,
    StorageFull,
    StorageUnauthenticated,
    TicketError,
    Unsupported,
    without_middle,
)
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.status import handler
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.flight.flight_backend import CannedBackend
from tests.flight.statements import SELECT, descriptor

ERRORS: dict[str, tuple[LanceFlightError, str, str]] = {
    "InvalidInput": (SqlError("no column x"), "INVALID_ARGUMENT", "[42000] [invalid_sql] no column x"),
    "control characters": (SqlError("no \x1b[31mx\n"), "INVALID_ARGUMENT", "[42000] [invalid_sql] no \\x1b[31mx\n"),
    "a long value": (
        SqlError("y" * 5_000_000),
        "INVALID_ARGUMENT",
        without_middle(f"[42000] [invalid_sql] {'y' * 5_000}", 2_400),
    ),
    "with problems": (
        SchemaError("table t", ["no column a", "no column b"]),
        "INVALID_ARGUMENT",
        "[42P16] [invalid_schema] table t: no column a; no column b",
    ),
    "TicketError": (TicketError("altered"), "INVALID_ARGUMENT", "[26000] [invalid_ticket] altered"),
    "NotFound": (NotFound("no table 'x'"), "NOT_FOUND", "[42S02] [not_found] no table 'x'"),
    "Unsupported": (Unsupported("not offered"), "UNIMPLEMENTED", "[0A000] [unsupported] not offered"),
    "Refused": (Refused("not you"), "PERMISSION_DENIED", "[42501] [refused] not you"),
    "AlreadyExists": (AlreadyExists("table t"), "INVALID_ARGUMENT", "[42S01] [already_exists] table t"),
    "Conflict": (Conflict("run it again"), "UNKNOWN", "[40001] [conflict] run it again"),
    "StorageFull": (StorageFull("no space is left"), "UNKNOWN", "[53100] [storage_full] no space is left"),
    "StorageDenied": (StorageDenied("read-only"), "UNKNOWN", "[58030] [storage_denied] read-only"),
    "StorageUnauthenticated": (StorageUnauthenticated("no key"), "UNKNOWN", "[28000] [storage_unauthenticated] no key"),
    "Corrupt": (Corrupt("no spec"), "UNKNOWN", "[XX001] [corrupt] no spec"),
    "QuotaExceeded": (QuotaExceeded("used up"), "UNKNOWN", "[53400] [quota_exceeded] used up"),
    "LanceFlightError": (LanceFlightError("another one"), "UNKNOWN", "[HY000] [error] another one"),
}


def call(server: FlightSqlServer, rpc: str) -> grpc.RpcError:
    """The error of one bare gRPC call with `SELECT` as its descriptor."""
    command = encode_command(SELECT)
    sent = b"\x08\x02\x12" + bytes([len(command)]) + command
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(f"/arrow.flight.protocol.FlightService/{rpc}")(sent, timeout=10)
    return caught.value


def words(error: grpc.RpcError) -> str:
    """Everything in an error that a client can read."""
    return f"{error.details()} {error.trailing_metadata()}"


@pytest.mark.parametrize(("error", "code", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_of_a_handler(
    server: FlightSqlServer, backend: CannedBackend, error: LanceFlightError, code: str, message: str
) -> None:
    backend.failures[SELECT.query] = error
    answer = call(server, "GetFlightInfo")
    assert answer.code().name == code
    assert answer.details().startswith(f"{message}. Detail: ")
    # gRPC's clients read a `google.rpc.Status` there, and end with an error of their own where it is another status.
    assert "grpc-status-details-bin" not in dict(answer.trailing_metadata())
    assert "Traceback" not in words(answer)
    assert ".py" not in words(answer)
    answer = call(server, "GetSchema")
    assert answer.code().name == ("UNKNOWN" if code == "PERMISSION_DENIED" else code)
    assert answer.details().startswith(f"{message}. Detail: Python exception: ")
    assert "Traceback" not in words(answer)


@pytest.mark.parametrize(("error", "code", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_for_adbc(
    adbc: flightsql.Connection, backend: CannedBackend, error: LanceFlightError, code: str, message: str
) -> None:
    backend.failures[SELECT.query] = error
    with adbc.cursor() as cursor, pytest.raises(flightsql.Error) as caught:
        cursor.execute(SELECT.query)
    said = {"PERMISSION_DENIED": "UNAUTHORIZED", "UNIMPLEMENTED": "NOT_IMPLEMENTED"}.get(code, code)
    assert str(caught.value).startswith(f"{said}: [FlightSQL] {message}. Detail: ")


@pytest.mark.parametrize(("error", "code", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_in_the_middle_of_a_stream(
    client: flight.FlightClient, backend: CannedBackend, error: LanceFlightError, code: str, message: str
) -> None:
    backend.failures[f"read {SELECT.query}"] = error
    info = client.get_flight_info(descriptor(SELECT))
    reader = client.do_get(info.endpoints[0].ticket)
    assert reader.read_chunk().data.num_rows == 4
    with pytest.raises((pa.ArrowException, KeyError, NotImplementedError, flight.FlightError)) as caught:
        reader.read_chunk()
    assert str(caught.value).startswith(f"{message}. Detail: Python exception: ")
    assert f"{'UNKNOWN' if code == 'PERMISSION_DENIED' else code}:" in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("rpc", ["GetFlightInfo", "GetSchema"])
def test_an_unexpected_error_is_logged_and_not_told(
    server: FlightSqlServer, backend: CannedBackend, caplog: pytest.LogCaptureFixture, rpc: str
) -> None:
    backend.failures[SELECT.query] = TypeError("a secret of the house")
    answer = call(server, rpc)
    assert answer.details().startswith(
        "[XX000] [internal] unexpected TypeError; the server's log has it under reference "
    )
    assert "secret" not in words(answer)
    assert "Traceback" not in words(answer)
    reference = answer.details().split("reference ")[1][:8]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert reference in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a secret of the house"


def test_an_unexpected_error_in_the_middle_of_a_stream_is_not_told(
    client: flight.FlightClient, backend: CannedBackend
) -> None:
    backend.failures[f"read {SELECT.query}"] = TypeError("a secret of the house")
    info = client.get_flight_info(descriptor(SELECT))
    with pytest.raises(flight.FlightServerError, match=r"^\[XX000\] \[internal\] unexpected TypeError") as caught:
        client.do_get(info.endpoints[0].ticket).read_all()
    assert "secret" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


UNOFFERED: dict[str, tuple[Callable[[flight.FlightClient], object], str]] = {
    "ListFlights": (lambda client: list(client.list_flights()), "ListFlights is not offered"),
    "DoExchange": (
        lambda client: client.do_exchange(flight.FlightDescriptor.for_command(b""))[1].read_all(),
        "DoExchange is not offered",
    ),
}


@pytest.mark.parametrize(("attempt", "message"), UNOFFERED.values(), ids=UNOFFERED.keys())
def test_what_is_not_flight_sql_is_unimplemented(
    client: flight.FlightClient, attempt: Callable[[flight.FlightClient], object], message: str
) -> None:
    with pytest.raises(NotImplementedError, match=rf"^\[0A000\] \[unsupported\] {message}") as caught:
        attempt(client)
    assert "Traceback" not in str(caught.value)


class Panic(BaseException):
    """What native code raises when it panics: not an `Exception`."""


def test_a_panic_of_native_code_is_answered_without_a_traceback() -> None:
    @handler
    def method() -> None:
        raise Panic("unaligned memory")

    with pytest.raises(flight.FlightInternalError, match="unexpected Panic") as caught:
        method()
    assert caught.value.__cause__ is None
