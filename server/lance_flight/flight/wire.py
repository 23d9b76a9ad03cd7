"""Bytes ⇄ the commands and actions of `lance_flight.flight.commands`.

`_COMMANDS` and `_ACTIONS` are the whole protocol: decoding and encoding read nothing else. A command, and the body of
an action of Flight SQL, is a google.protobuf.Any; the body of an action of Flight itself is the bare message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from lance_flight.errors import InvalidInput
from lance_flight.flight import commands
from lance_flight.flight.commands import Action, Command, SessionValue
from lance_flight.flight.fields import Nested, read_message, write_message
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as sql_pb

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ActionKind:
    message: type[Message]
    value: type[Action]
    in_any: bool


def decode_command(data: bytes) -> Command:
    """The command in `FlightDescriptor.cmd` or `Ticket.ticket`.

    Raises `InvalidInput` for bytes that are not a google.protobuf.Any, and for one of an unknown type.
    """
    wrapped = _parse(AnyMessage, data, "a command")
    name = wrapped.type_url.rpartition("/")[2]
    if name not in _COMMANDS:
        expected = ", ".join(sorted(known.rpartition(".")[2] for known in _COMMANDS))
        raise InvalidInput(f"unknown command type {wrapped.type_url!r}; expected one of {expected}")
    message, kind = _COMMANDS[name]
    return read_message(_parse(message, wrapped.value, name), kind, _NESTED)


def encode_command(command: Command) -> bytes:
    """The bytes of `command`, for `FlightDescriptor.cmd` or `Ticket.ticket`."""
    return wrap(_filled(_MESSAGES[type(command)], command))


def decode_action(name: str, body: bytes) -> Action:
    """The action `name` with the body `body`.

    Raises `InvalidInput` for an unknown name, and for a body of another type.
    """
    kind = _ACTIONS.get(name)
    if kind is None:
        raise InvalidInput(f"unknown action {name!r}; expected one of {', '.join(_ACTIONS)}")
    if kind.in_any:
        wrapped = _parse(AnyMessage, body, f"the body of {name}")
        if wrapped.TypeName() != kind.message.DESCRIPTOR.full_name:
            raise InvalidInput(
                f"the body of {name} has type {wrapped.type_url!r}; expected {kind.message.DESCRIPTOR.full_name}"
            )
        body = wrapped.value
    return read_message(_parse(kind.message, body, f"the body of {name}"), kind.value, _NESTED)


def encode_action(action: Action) -> tuple[str, bytes]:
    """The name and the body of `action`."""
    name, kind = next((name, kind) for name, kind in _ACTIONS.items() if kind.value is type(action))
    message = _filled(kind.message, action)
    return name, wrap(message) if kind.in_any else message.SerializeToString(deterministic=True)


def wrap(message: Message) -> bytes:
    """The bytes of `message` in a google.protobuf.Any."""
    wrapped = AnyMessage()
    wrapped.Pack(message, deterministic=True)
    data: bytes = wrapped.SerializeToString()
    return data


def _parse(kind: type[_M], data: bytes, what: str) -> _M:
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        expected = kind.DESCRIPTOR.full_name
        raise InvalidInput(f"{what} of {len(data)} bytes does not decode as {expected}: {error}") from error
    return message


def _filled(kind: type[Message], value: Command | Action) -> Message:
    message = kind()
    write_message(value, message, _NESTED)
    return message


def _read_session_value(message: Message) -> SessionValue:
    value = cast("actions_pb.SessionOptionValue", message)
    which = value.WhichOneof("option_value")
    if which is None:
        return None
    if which == "string_list_value":
        return tuple(value.string_list_value.values)
    return cast("SessionValue", getattr(value, which))


def write_session_value(message: Message, value: SessionValue) -> None:
    """Fill a SessionOptionValue."""
    target = cast("actions_pb.SessionOptionValue", message)
    match value:
        case None:
            target.Clear()
        case bool():
            target.bool_value = value
        case int():
            target.int64_value = value
        case float():
            target.double_value = value
        case str():
            target.string_value = value
        case tuple():
            target.string_list_value.values.extend(value)
            target.string_list_value.SetInParent()


def _nested(kind: type) -> Nested:
    return Nested(
        read=lambda message: read_message(message, kind, _NESTED),
        write=lambda message, value: write_message(value, message, _NESTED),
    )


def _in_any(message: type[Message], value: type[Action]) -> _ActionKind:
    return _ActionKind(message=message, value=value, in_any=True)


def _bare(message: type[Message], value: type[Action]) -> _ActionKind:
    return _ActionKind(message=message, value=value, in_any=False)


_NESTED: Mapping[str, Nested] = {
    sql_pb.SubstraitPlan.DESCRIPTOR.full_name: _nested(commands.SubstraitPlan),
    sql_pb.CommandStatementIngest.TableDefinitionOptions.DESCRIPTOR.full_name: _nested(commands.TableDefinitionOptions),
    actions_pb.SessionOptionValue.DESCRIPTOR.full_name: Nested(read=_read_session_value, write=write_session_value),
}

_MESSAGES: Mapping[type[Command], type[Message]] = {
    commands.GetSqlInfo: sql_pb.CommandGetSqlInfo,
    commands.GetXdbcTypeInfo: sql_pb.CommandGetXdbcTypeInfo,
    commands.GetCatalogs: sql_pb.CommandGetCatalogs,
    commands.GetDbSchemas: sql_pb.CommandGetDbSchemas,
    commands.GetTables: sql_pb.CommandGetTables,
    commands.GetTableTypes: sql_pb.CommandGetTableTypes,
    commands.GetPrimaryKeys: sql_pb.CommandGetPrimaryKeys,
    commands.GetExportedKeys: sql_pb.CommandGetExportedKeys,
    commands.GetImportedKeys: sql_pb.CommandGetImportedKeys,
    commands.GetCrossReference: sql_pb.CommandGetCrossReference,
    commands.StatementQuery: sql_pb.CommandStatementQuery,
    commands.StatementUpdate: sql_pb.CommandStatementUpdate,
    commands.StatementSubstraitPlan: sql_pb.CommandStatementSubstraitPlan,
    commands.StatementIngest: sql_pb.CommandStatementIngest,
    commands.PreparedStatementQuery: sql_pb.CommandPreparedStatementQuery,
    commands.PreparedStatementUpdate: sql_pb.CommandPreparedStatementUpdate,
    commands.TicketStatementQuery: sql_pb.TicketStatementQuery,
}
_COMMANDS: Mapping[str, tuple[type[Message], type[Command]]] = {
    message.DESCRIPTOR.full_name: (message, kind) for kind, message in _MESSAGES.items()
}

_ACTIONS: Mapping[str, _ActionKind] = {
    "CreatePreparedStatement": _in_any(sql_pb.ActionCreatePreparedStatementRequest, commands.CreatePreparedStatement),
    "CreatePreparedSubstraitPlan": _in_any(
        sql_pb.ActionCreatePreparedSubstraitPlanRequest, commands.CreatePreparedSubstraitPlan
    ),
    "ClosePreparedStatement": _in_any(sql_pb.ActionClosePreparedStatementRequest, commands.ClosePreparedStatement),
    "BeginTransaction": _in_any(sql_pb.ActionBeginTransactionRequest, commands.BeginTransaction),
    "EndTransaction": _in_any(sql_pb.ActionEndTransactionRequest, commands.EndTransaction),
    "BeginSavepoint": _in_any(sql_pb.ActionBeginSavepointRequest, commands.BeginSavepoint),
    "EndSavepoint": _in_any(sql_pb.ActionEndSavepointRequest, commands.EndSavepoint),
    "CancelQuery": _in_any(sql_pb.ActionCancelQueryRequest, commands.CancelQuery),
    "CancelFlightInfo": _bare(actions_pb.CancelFlightInfoRequest, commands.CancelFlightInfo),
    "RenewFlightEndpoint": _bare(actions_pb.RenewFlightEndpointRequest, commands.RenewFlightEndpoint),
    "SetSessionOptions": _bare(actions_pb.SetSessionOptionsRequest, commands.SetSessionOptions),
    "GetSessionOptions": _bare(actions_pb.GetSessionOptionsRequest, commands.GetSessionOptions),
    "CloseSession": _bare(actions_pb.CloseSessionRequest, commands.CloseSession),
}
