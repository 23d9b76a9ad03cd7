"""SetSessionOptions, GetSessionOptions and CloseSession."""

from __future__ import annotations

from lance_flight.errors import InvalidInput, NotFound
from lance_flight.flight.backend import Backend
from lance_flight.flight.calls import Call
from lance_flight.flight.commands import SetSessionOptions
from lance_flight.flight.protocol import flight_actions_pb2 as pb
from lance_flight.flight.wire import write_session_value


def set_options(backend: Backend, call: Call, request: SetSessionOptions) -> bytes:
    """Set each option by itself and answer a SetSessionOptionsResult, which names those that could not be set."""
    result = pb.SetSessionOptionsResult()
    for name, value in request.session_options:
        try:
            backend.set_option(call.caller, name, value)
        except NotFound:
            result.errors[name].value = pb.SetSessionOptionsResult.INVALID_NAME
        except InvalidInput:
            result.errors[name].value = pb.SetSessionOptionsResult.INVALID_VALUE
    return _encoded(result)


def get_options(backend: Backend, call: Call) -> bytes:
    """Answer a GetSessionOptionsResult."""
    result = pb.GetSessionOptionsResult()
    for name, value in backend.options(call.caller).items():
        write_session_value(result.session_options[name], value)
    return _encoded(result)


def close(backend: Backend, call: Call) -> bytes:
    """End the session and answer a CloseSessionResult."""
    backend.close_session(call.caller)
    return _encoded(pb.CloseSessionResult(status=pb.CloseSessionResult.CLOSED))


def _encoded(message: pb.SetSessionOptionsResult | pb.GetSessionOptionsResult | pb.CloseSessionResult) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data
