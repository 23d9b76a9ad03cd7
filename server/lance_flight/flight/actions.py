"""DoAction requests: prepared statements, transactions with savepoints, cancellation of queries, and sessions.

`_ANSWERS` is the whole of it: a further action is one more entry there, and one in `OFFERED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pyarrow import flight

from lance_flight.backend_values import SettingValue
from lance_flight.errors import InvalidInput, NotFound, Unsupported
from lance_flight.flight import wire
from lance_flight.flight.backend import Backend
from lance_flight.flight.calls import Call
from lance_flight.flight.endpoints import Endpoints
from lance_flight.flight.prepared import PreparedStatements
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as sql_pb
from lance_flight.flight.wire import Action, BeginSavepoint, EndSavepoint, EndTransaction, SetSessionOptions, wrap

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
        """Run an action called `name`, and return the bodies of its results."""
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
