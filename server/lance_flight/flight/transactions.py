"""BeginTransaction and EndTransaction."""

from __future__ import annotations

from collections.abc import Mapping

from lance_flight.errors import InvalidInput
from lance_flight.flight.backend import Backend
from lance_flight.flight.calls import Call
from lance_flight.flight.commands import EndTransaction
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import wrap

_COMMITS: Mapping[int, bool] = {
    pb.ActionEndTransactionRequest.END_TRANSACTION_COMMIT: True,
    pb.ActionEndTransactionRequest.END_TRANSACTION_ROLLBACK: False,
}


def begin(backend: Backend, call: Call) -> bytes:
    """Begin a transaction and answer an ActionBeginTransactionResult in an Any."""
    return wrap(pb.ActionBeginTransactionResult(transaction_id=backend.begin(call.caller)))


def end(backend: Backend, call: Call, request: EndTransaction) -> None:
    """Commit a transaction or roll it back."""
    if request.action not in _COMMITS:
        raise InvalidInput(f"EndTransaction has action {request.action}; expected 1 (commit) or 2 (rollback)")
    backend.end(call.caller, request.transaction_id, commit=_COMMITS[request.action])
