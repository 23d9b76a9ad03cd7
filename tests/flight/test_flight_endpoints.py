"""Endpoints over the wire: until when their tickets are good, and how they are cancelled and renewed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from lance_flight.backend_values import CancelStatus
from lance_flight.flight import wire
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import Action, encode_command
from pyarrow import flight

from tests.flight.flight_backend import NUMBERS, CannedBackend
from tests.flight.statements import SELECT, act, asking, cancel, planned, renew

PAST, SOON, LATER = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 1, 2))


def test_an_endpoint_says_until_when_it_is_good(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.expires = SOON
    (endpoint,) = planned(client, SELECT.query).endpoints
    assert endpoint.expiration_time.as_py() == SOON
    assert client.do_get(endpoint.ticket).read_all().equals(NUMBERS)


def test_an_endpoint_that_is_good_for_ever_says_nothing(client: flight.FlightClient) -> None:
    (endpoint,) = planned(client, SELECT.query).endpoints
    assert endpoint.expiration_time is None


def test_a_ticket_is_refused_once_it_has_expired(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.expires = PAST
    (endpoint,) = planned(client, SELECT.query).endpoints
    with pytest.raises(ValueError, match=r"\[ticket_expired\] this ticket was good until"):
        client.do_get(endpoint.ticket)
    with pytest.raises(ValueError, match="ticket_expired"):
        renew(client, endpoint)


def test_a_renewed_endpoint_is_good_for_longer(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.expires, backend.renewed = SOON, LATER
    (endpoint,) = planned(client, SELECT.query).endpoints
    renewed = renew(client, endpoint)
    assert renewed.expiration_time.as_py() == LATER
    assert client.do_get(renewed.ticket).read_all().equals(NUMBERS)


@pytest.mark.parametrize("status", CancelStatus)
def test_a_query_is_cancelled_by_its_flight_info(
    client: flight.FlightClient, backend: CannedBackend, status: CancelStatus
) -> None:
    backend.cancel_status = status
    info = planned(client, SELECT.query, asking("lance-flight-endpoints", 2))
    answered = cancel(client, info)
    assert actions_pb.CancelStatus.Name(answered) == f"CANCEL_STATUS_{status.name}"
    older = pb.ActionCancelQueryResult()
    (body,) = act(client, wire.CancelQuery(info=info.serialize()))
    assert AnyMessage.FromString(body).Unpack(older)
    assert older.result == answered
    assert backend.cancelled == [(b"0/2:SELECT numbers", b"1/2:SELECT numbers")] * 2


def test_a_statement_that_has_run_cannot_be_cancelled(client: flight.FlightClient, backend: CannedBackend) -> None:
    backend.updates["DELETE"] = 3
    info = planned(client, "DELETE")
    assert cancel(client, info) == actions_pb.CANCEL_STATUS_NOT_CANCELLABLE
    assert backend.cancelled == []


def foreign() -> bytes:
    """A FlightInfo whose ticket is none of a statement."""
    endpoint = flight.FlightEndpoint(encode_command(wire.GetCatalogs()), [])
    return flight.FlightInfo(NUMBERS.schema, flight.FlightDescriptor.for_command(b""), [endpoint], -1, -1).serialize()  # type: ignore[no-any-return]


BAD = {
    "no FlightInfo": (wire.CancelFlightInfo(info=b"\xff" * 9), "no FlightInfo"),
    "nothing": (wire.CancelQuery(info=b""), "no FlightInfo"),
    "another ticket": (wire.CancelFlightInfo(info=foreign()), "a ticket of CommandGetCatalogs"),
    "no FlightEndpoint": (wire.RenewFlightEndpoint(endpoint=b"\xff" * 9), "no FlightEndpoint"),
    "no ticket": (wire.RenewFlightEndpoint(endpoint=b""), "unknown command type"),
}


@pytest.mark.parametrize(("action", "message"), BAD.values(), ids=BAD.keys())
def test_what_is_no_result_of_ours_is_refused(client: flight.FlightClient, action: Action, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        act(client, action)
