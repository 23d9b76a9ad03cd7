"""DoAction requests: prepared statements, transactions, cancellation of queries, and sessions.

`_ANSWERS` is the whole of it: a further action is one more entry there, and one in `OFFERED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyarrow import flight

from lance_flight.errors import Unsupported
from lance_flight.flight import sessions, transactions, wire
from lance_flight.flight.backend import Backend
from lance_flight.flight.calls import Call
from lance_flight.flight.endpoints import Endpoints
from lance_flight.flight.prepared import PreparedStatements
from lance_flight.flight.wire import Action

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


_ANSWERS: Mapping[type[Action], Callable[[Actions, Call, Any], bytes | None]] = {
    wire.CreatePreparedStatement: lambda actions, call, request: actions.prepared.create(call, request),
    wire.CreatePreparedSubstraitPlan: lambda actions, call, request: actions.prepared.create(call, request),
    wire.ClosePreparedStatement: lambda actions, call, request: actions.prepared.close(call, request),
    wire.BeginTransaction: lambda actions, call, _: transactions.begin(actions.backend, call),
    wire.EndTransaction: lambda actions, call, request: transactions.end(actions.backend, call, request),
    wire.BeginSavepoint: lambda actions, call, request: transactions.begin_savepoint(actions.backend, call, request),
    wire.EndSavepoint: lambda actions, call, request: transactions.end_savepoint(actions.backend, call, request),
    wire.CancelFlightInfo: lambda actions, call, request: actions.endpoints.cancel_flight_info(call, request),
    wire.CancelQuery: lambda actions, call, request: actions.endpoints.cancel_query(call, request),
    wire.RenewFlightEndpoint: lambda actions, call, request: actions.endpoints.renew(call, request),
    wire.SetSessionOptions: lambda actions, call, request: sessions.set_options(actions.backend, call, request),
    wire.GetSessionOptions: lambda actions, call, _: sessions.get_options(actions.backend, call),
    wire.CloseSession: lambda actions, call, _: sessions.close(actions.backend, call),
}
