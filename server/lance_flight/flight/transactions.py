"""BeginTransaction and EndTransaction, BeginSavepoint and EndSavepoint."""

from __future__ import annotations

from collections.abc import Mapping

from lance_flight.errors import InvalidInput
from lance_flight.flight.backend import Backend
from lance_flight.flight.calls import Call
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import BeginSavepoint, EndSavepoint, EndTransaction, wrap

_COMMITS: Mapping[int, bool] = {
    pb.ActionEndTransactionRequest.END_TRANSACTION_COMMIT: True,
    pb.ActionEndTransactionRequest.END_TRANSACTION_ROLLBACK: False,
}
_RELEASES: Mapping[int, bool] = {
    pb.ActionEndSavepointRequest.END_SAVEPOINT_RELEASE: True,
    pb.ActionEndSavepointRequest.END_SAVEPOINT_ROLLBACK: False,
}


def begin(backend: Backend, call: Call) -> bytes:
    """Begin a transaction and answer an ActionBeginTransactionResult in an Any."""
    return wrap(pb.ActionBeginTransactionResult(transaction_id=backend.begin(call.caller)))


def end(backend: Backend, call: Call, request: EndTransaction) -> None:
    """Commit a transaction or roll it back."""
    if request.action not in _COMMITS:
        raise InvalidInput(f"EndTransaction has action {request.action}; expected 1 (commit) or 2 (rollback)")
    backend.end(call.caller, request.transaction_id, commit=_COMMITS[request.action])


def begin_savepoint(backend: Backend, call: Call, request: BeginSavepoint) -> bytes:
    """Create a savepoint in a transaction and answer an ActionBeginSavepointResult in an Any."""
    savepoint = backend.begin_savepoint(call.caller, request.transaction_id, request.name)
    return wrap(pb.ActionBeginSavepointResult(savepoint_id=savepoint))


def end_savepoint(backend: Backend, call: Call, request: EndSavepoint) -> None:
    """Release a savepoint or roll back to it."""
    if request.action not in _RELEASES:
        raise InvalidInput(f"EndSavepoint has action {request.action}; expected 1 (release) or 2 (rollback)")
    backend.end_savepoint(call.caller, request.savepoint_id, release=_RELEASES[request.action])
