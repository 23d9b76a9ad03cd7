"""Endpoints of results: creation, reading, cancellation (CancelFlightInfo, CancelQuery) and renewal (RenewFlightEndpoint)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pyarrow as pa
from google.protobuf.timestamp_pb2 import Timestamp
from pyarrow import flight

from lance_flight.backend_values import CancelStatus
from lance_flight.errors import InvalidInput, TicketExpired
from lance_flight.flight.backend import Backend, Planned, Rows
from lance_flight.flight.calls import Call
from lance_flight.flight.metadata import schemas
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as sql_pb
from lance_flight.flight.tickets import NoRowsTicket, RowsTicket, TicketSealer
from lance_flight.flight.wire import (
    CancelFlightInfo,
    CancelQuery,
    RenewFlightEndpoint,
    TicketStatementQuery,
    decode_command,
    encode_command,
    wrap,
)

_R = TypeVar("_R")

_EXPIRATION_TIME = 0x1A
"""Tag of the field in a serialized FlightEndpoint, from its number (3) and its wire type (2, a message)."""
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def _now() -> datetime:
    return datetime.now(UTC)


def _none(call: Call, info: flight.FlightInfo) -> None:
    """Cancel nothing: there are no polled statements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Endpoints whose tickets are sealed by `sealer`; each can be read at the `advertised` locations.

    `cancel_polled` cancels a statement that its client polls, and has no endpoints yet.
    """

    backend: Backend
    sealer: TicketSealer
    advertised: tuple[str, ...] = ()
    cancel_polled: Callable[[Call, flight.FlightInfo], CancelStatus | flight.FlightInfo | None] = _none
    now: Callable[[], datetime] = _now

    def of(self, call: Call, planned: Planned) -> list[flight.FlightEndpoint]:
        """Return an endpoint for each payload of a query."""
        return [
            self._endpoint(call, RowsTicket(payload=payload, expires=planned.expires), planned.endpoint_metadata)
            for payload in planned.payloads
        ]

    def of_no_rows(self, call: Call) -> list[flight.FlightEndpoint]:
        """Return the endpoint of a statement that returns no rows and has been run."""
        return [self._endpoint(call, NoRowsTicket())]

    def read(self, call: Call, ticket: TicketStatementQuery) -> Rows:
        """Return the rows of one endpoint; raise `TicketExpired` if its ticket has expired."""
        match self.sealer.open_ticket(ticket.statement_handle, call.caller.principal):
            case RowsTicket() as opened:
                self._check_time(opened)
                return self.backend.read(call.caller, opened.payload)
            case NoRowsTicket():
                nothing: Rows = pa.RecordBatchReader.from_batches(schemas.NO_ROWS, [])
                return nothing

    def cancel_flight_info(self, call: Call, request: CancelFlightInfo) -> bytes:
        """Stop the query of a FlightInfo and answer a CancelFlightInfoResult."""
        status = self._cancel(call, request.info)
        answer: bytes = actions_pb.CancelFlightInfoResult(status=f"CANCEL_STATUS_{status.name}").SerializeToString()
        return answer

    def cancel_query(self, call: Call, request: CancelQuery) -> bytes:
        """Stop the query of a FlightInfo and answer an ActionCancelQueryResult in an Any."""
        status = self._cancel(call, request.info)
        return wrap(sql_pb.ActionCancelQueryResult(result=f"CANCEL_RESULT_{status.name}"))

    def renew(self, call: Call, request: RenewFlightEndpoint) -> bytes:
        """Return the endpoint with a ticket that expires later."""
        endpoint = _decode(flight.FlightEndpoint.deserialize, request.endpoint, "FlightEndpoint")
        match self._open(call, endpoint.ticket):
            case RowsTicket(payload=payload) as opened:
                self._check_time(opened)
                ticket: RowsTicket | NoRowsTicket = RowsTicket(
                    payload=payload, expires=self.backend.renew(call.caller, payload)
                )
            case NoRowsTicket() as ticket:
                pass
        renewed: bytes = self._endpoint(call, ticket, endpoint.app_metadata).serialize()
        return renewed

    def _cancel(self, call: Call, info: bytes) -> CancelStatus:
        given = _decode(flight.FlightInfo.deserialize, info, "FlightInfo")
        polled = self.cancel_polled(call, given)
        if isinstance(polled, CancelStatus):
            return polled
        endpoints: Iterable[flight.FlightEndpoint] = (given if polled is None else polled).endpoints
        tickets = [self._open(call, endpoint.ticket) for endpoint in endpoints]
        payloads = [ticket.payload for ticket in tickets if isinstance(ticket, RowsTicket)]
        return self.backend.cancel(call.caller, payloads) if payloads else CancelStatus.NOT_CANCELLABLE

    def _open(self, call: Call, ticket: flight.Ticket) -> RowsTicket | NoRowsTicket:
        command = decode_command(ticket.ticket)
        if not isinstance(command, TicketStatementQuery):
            raise InvalidInput(f"a ticket of {type(command).__name__}; expected that of a statement's endpoint")
        return self.sealer.open_ticket(command.statement_handle, call.caller.principal)

    def _check_time(self, ticket: RowsTicket) -> None:
        if ticket.expires is not None and ticket.expires < self.now():
            raise TicketExpired(
                f"this ticket was good until {ticket.expires.isoformat(timespec='seconds')};"
                " expected one that was renewed (RenewFlightEndpoint) by then, or the statement once more"
            )

    def _endpoint(
        self, call: Call, ticket: RowsTicket | NoRowsTicket, app_metadata: bytes = b""
    ) -> flight.FlightEndpoint:
        sealed = TicketStatementQuery(statement_handle=self.sealer.ticket(ticket, call.caller.principal))
        expires = ticket.expires if isinstance(ticket, RowsTicket) else None
        endpoint = flight.FlightEndpoint(encode_command(sealed), self.advertised, None, app_metadata)
        return endpoint if expires is None else _until(expires, endpoint)


def _until(expires: datetime, endpoint: flight.FlightEndpoint) -> flight.FlightEndpoint:
    """Add its expiration time to an endpoint.

    A scalar, which the constructor takes, is made and cast by Arrow's kernels: that is most of an endpoint's time.
    """
    seconds, rest = divmod((expires - _EPOCH) // _MICROSECOND, 1_000_000)
    moment = Timestamp(seconds=seconds, nanos=rest * 1000).SerializeToString()
    return flight.FlightEndpoint.deserialize(endpoint.serialize() + bytes((_EXPIRATION_TIME, len(moment))) + moment)


def _decode(deserialize: Callable[[bytes], _R], data: bytes, name: str) -> _R:
    try:
        return deserialize(data)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{len(data)} bytes that are no {name}: {error}") from error
