"""SetSessionOptions, GetSessionOptions and CloseSession."""

from __future__ import annotations

from typing import cast

from lance_flight.backend_values import SettingValue
from lance_flight.errors import InvalidInput, NotFound
from lance_flight.flight.backend import Backend
from lance_flight.flight.calls import Call
from lance_flight.flight.protocol import flight_actions_pb2 as pb
from lance_flight.flight.wire import SetSessionOptions


def set_options(backend: Backend, call: Call, request: SetSessionOptions) -> bytes:
    """Set each option by itself and answer a SetSessionOptionsResult, which names those that could not be set."""
    result = pb.SetSessionOptionsResult()
    for name in sorted(request.session_options):
        try:
            backend.set_option(call.caller, name, _read_value(request.session_options[name]))
        except NotFound:
            result.errors[name].value = pb.SetSessionOptionsResult.INVALID_NAME
        except InvalidInput:
            result.errors[name].value = pb.SetSessionOptionsResult.INVALID_VALUE
    return _encode(result)


def get_options(backend: Backend, call: Call) -> bytes:
    """Answer a GetSessionOptionsResult."""
    options = {name: value_message(value) for name, value in backend.options(call.caller).items()}
    return _encode(pb.GetSessionOptionsResult(session_options=options))


def close(backend: Backend, call: Call) -> bytes:
    """End the session and answer a CloseSessionResult."""
    backend.close_session(call.caller)
    return _encode(pb.CloseSessionResult(status=pb.CloseSessionResult.CLOSED))


def value_message(value: SettingValue | None) -> pb.SessionOptionValue:
    """Convert an option's value to its message."""
    match value:
        case None:
            return pb.SessionOptionValue()
        case bool():
            return pb.SessionOptionValue(bool_value=value)
        case int():
            return pb.SessionOptionValue(int64_value=value)
        case float():
            return pb.SessionOptionValue(double_value=value)
        case str():
            return pb.SessionOptionValue(string_value=value)
        case tuple():
            return pb.SessionOptionValue(string_list_value=pb.SessionOptionValue.StringListValue(values=value))


def _read_value(message: pb.SessionOptionValue) -> SettingValue | None:
    match message.WhichOneof("option_value"):
        case None:
            return None
        case "string_list_value":
            return tuple(message.string_list_value.values)
        case name:
            return cast("SettingValue", getattr(message, name))


def _encode(message: pb.SetSessionOptionsResult | pb.GetSessionOptionsResult | pb.CloseSessionResult) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data
