"""DoAction requests (prepared statements, transactions with savepoints, cancellation, sessions), and the endpoints of metadata.

`_ANSWERS` is the whole of it: a further action is one more entry there, and one in `OFFERED`.

Endpoints of results: creation, reading, cancellation (CancelFlightInfo, CancelQuery) and renewal (RenewFlightEndpoint).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import pyarrow as pa
from google.protobuf.timestamp_pb2 import Timestamp
from pyarrow import flight

from lance_flight.backend_values import CancelStatus, SettingValue
from lance_flight.errors import InvalidInput, NotFound, TicketExpired, Unsupported
from lance_flight.flight import metadata, wire
from lance_flight.flight.backend import Backend, Planned, Rows
from lance_flight.flight.calls import Call
from lance_flight.flight.prepared import PreparedStatements
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as sql_pb
from lance_flight.flight.tickets import NoRowsTicket, RowsTicket, TicketSealer
from lance_flight.flight.wire import (
    Action,
    BeginSavepoint,
    CancelFlightInfo,
    CancelQuery,
    EndSavepoint,
    EndTransaction,
    RenewFlightEndpoint,
    SetSessionOptions,
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
                nothing: Rows = pa.RecordBatchReader.from_batches(metadata.NO_ROWS, [])
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


OFFERED = (
    flight.ActionType("CreatePreparedStatement", "Plan a statement for later, without running it."),
    flight.ActionType("CreatePreparedSubstraitPlan", "Keep a Substrait plan for later, without running it."),
    flight.ActionType("ClosePreparedStatement", "Forget a prepared statement."),
    flight.ActionType("BeginTransaction", "Begin a transaction and return its id."),
    flight.ActionType("EndTransaction", "Commit a transaction or roll it back."),
    flight.ActionType("CancelFlightInfo", "Stop the query of a FlightInfo."),
    flight.ActionType("CancelQuery", "Stop the query of a FlightInfo, as older clients ask for it."),
    flight.ActionType("RenewFlightEndpoint", "Keep the ticket of an endpoint good for longer."),
    flight.ActionType("SetSessionOptions", "Set options of the session."),
    flight.ActionType("GetSessionOptions", "Return all options of the session."),
    flight.ActionType("CloseSession", "End the session and roll its transactions back."),
)


_COMMITS: Mapping[int, bool] = {
    sql_pb.ActionEndTransactionRequest.END_TRANSACTION_COMMIT: True,
    sql_pb.ActionEndTransactionRequest.END_TRANSACTION_ROLLBACK: False,
}
_RELEASES: Mapping[int, bool] = {
    sql_pb.ActionEndSavepointRequest.END_SAVEPOINT_RELEASE: True,
    sql_pb.ActionEndSavepointRequest.END_SAVEPOINT_ROLLBACK: False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """Dispatcher of actions."""

    backend: Backend
    prepared: PreparedStatements
    endpoints: Endpoints

    def run(self, call: Call, name: str, action: Action) -> Iterable[bytes]:
        """Run an action called `name`, and return the bodies of its metadata."""
        answer = _ANSWERS.get(type(action))
        if answer is None:
            raise Unsupported(f"the action {name} is not offered")
        body = answer(self, call, action)
        return () if body is None else (body,)


def set_options(backend: Backend, call: Call, request: SetSessionOptions) -> bytes:
    """Set each option by itself and answer a SetSessionOptionsResult, which names those that could not be set."""
    result = actions_pb.SetSessionOptionsResult()
    for name in sorted(request.session_options):
        try:
            backend.set_option(call.caller, name, _read_value(request.session_options[name]))
        except NotFound:
            result.errors[name].value = actions_pb.SetSessionOptionsResult.INVALID_NAME
        except InvalidInput:
            result.errors[name].value = actions_pb.SetSessionOptionsResult.INVALID_VALUE
    return _encode(result)


def get_options(backend: Backend, call: Call) -> bytes:
    """Answer a GetSessionOptionsResult."""
    options = {name: value_message(value) for name, value in backend.options(call.caller).items()}
    return _encode(actions_pb.GetSessionOptionsResult(session_options=options))


def close_session(backend: Backend, call: Call) -> bytes:
    """End the session and answer a CloseSessionResult."""
    backend.close_session(call.caller)
    return _encode(actions_pb.CloseSessionResult(status=actions_pb.CloseSessionResult.CLOSED))


def value_message(value: SettingValue | None) -> actions_pb.SessionOptionValue:
    """Convert an option's value to its message."""
    match value:
        case None:
            return actions_pb.SessionOptionValue()
        case bool():
            return actions_pb.SessionOptionValue(bool_value=value)
        case int():
            return actions_pb.SessionOptionValue(int64_value=value)
        case float():
            return actions_pb.SessionOptionValue(double_value=value)
        case str():
            return actions_pb.SessionOptionValue(string_value=value)
        case tuple():
            return actions_pb.SessionOptionValue(
                string_list_value=actions_pb.SessionOptionValue.StringListValue(values=value)
            )


def _read_value(message: actions_pb.SessionOptionValue) -> SettingValue | None:
    match message.WhichOneof("option_value"):
        case None:
            return None
        case "string_list_value":
            return tuple(message.string_list_value.values)
        case name:
            return cast("SettingValue", getattr(message, name))


def _encode(
    message: actions_pb.SetSessionOptionsResult | actions_pb.GetSessionOptionsResult | actions_pb.CloseSessionResult,
) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def begin_transaction(backend: Backend, call: Call) -> bytes:
    """Begin a transaction and answer an ActionBeginTransactionResult in an Any."""
    return wrap(sql_pb.ActionBeginTransactionResult(transaction_id=backend.begin(call.caller)))


def end_transaction(backend: Backend, call: Call, request: EndTransaction) -> None:
    """Commit a transaction or roll it back."""
    if request.action not in _COMMITS:
        raise InvalidInput(f"EndTransaction has action {request.action}; expected 1 (commit) or 2 (rollback)")
    backend.end(call.caller, request.transaction_id, commit=_COMMITS[request.action])


def begin_savepoint(backend: Backend, call: Call, request: BeginSavepoint) -> bytes:
    """Create a savepoint in a transaction and answer an ActionBeginSavepointResult in an Any."""
    savepoint = backend.begin_savepoint(call.caller, request.transaction_id, request.name)
    return wrap(sql_pb.ActionBeginSavepointResult(savepoint_id=savepoint))


def end_savepoint(backend: Backend, call: Call, request: EndSavepoint) -> None:
    """Release a savepoint or roll back to it."""
    if request.action not in _RELEASES:
        raise InvalidInput(f"EndSavepoint has action {request.action}; expected 1 (release) or 2 (rollback)")
    backend.end_savepoint(call.caller, request.savepoint_id, release=_RELEASES[request.action])


_ANSWERS: Mapping[type[Action], Callable[[Actions, Call, Any], bytes | None]] = {
    wire.CreatePreparedStatement: lambda actions, call, request: actions.prepared.create(call, request),
    wire.CreatePreparedSubstraitPlan: lambda actions, call, request: actions.prepared.create(call, request),
    wire.ClosePreparedStatement: lambda actions, call, request: actions.prepared.close(call, request),
    wire.BeginTransaction: lambda actions, call, _: begin_transaction(actions.backend, call),
    wire.EndTransaction: lambda actions, call, request: end_transaction(actions.backend, call, request),
    wire.BeginSavepoint: lambda actions, call, request: begin_savepoint(actions.backend, call, request),
    wire.EndSavepoint: lambda actions, call, request: end_savepoint(actions.backend, call, request),
    wire.CancelFlightInfo: lambda actions, call, request: actions.endpoints.cancel_flight_info(call, request),
    wire.CancelQuery: lambda actions, call, request: actions.endpoints.cancel_query(call, request),
    wire.RenewFlightEndpoint: lambda actions, call, request: actions.endpoints.renew(call, request),
    wire.SetSessionOptions: lambda actions, call, request: set_options(actions.backend, call, request),
    wire.GetSessionOptions: lambda actions, call, _: get_options(actions.backend, call),
    wire.CloseSession: lambda actions, call, _: close_session(actions.backend, call),
}
