"""Commands and actions that a client can send: closed unions with short names, decoded and encoded.

They are the generated messages themselves. A map has no order, and the `optional` fields are read by `optional`, which tells
one that is not set from an empty one.

`_COMMANDS` and `_ACTIONS` are the whole protocol: decoding and encoding read nothing else. A command, and the body of
an action of Flight SQL, is a google.protobuf.Any; the body of an action of Flight itself is the bare message.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from lance_flight.errors import InvalidInput
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as sql_pb

GetSqlInfo = sql_pb.CommandGetSqlInfo
GetXdbcTypeInfo = sql_pb.CommandGetXdbcTypeInfo
GetCatalogs = sql_pb.CommandGetCatalogs
GetDbSchemas = sql_pb.CommandGetDbSchemas
GetTables = sql_pb.CommandGetTables
GetTableTypes = sql_pb.CommandGetTableTypes
GetPrimaryKeys = sql_pb.CommandGetPrimaryKeys
GetExportedKeys = sql_pb.CommandGetExportedKeys
GetImportedKeys = sql_pb.CommandGetImportedKeys
GetCrossReference = sql_pb.CommandGetCrossReference

StatementQuery = sql_pb.CommandStatementQuery
StatementUpdate = sql_pb.CommandStatementUpdate
StatementSubstraitPlan = sql_pb.CommandStatementSubstraitPlan
SubstraitPlan = sql_pb.SubstraitPlan
StatementIngest = sql_pb.CommandStatementIngest
TableDefinitionOptions = sql_pb.CommandStatementIngest.TableDefinitionOptions
PreparedStatementQuery = sql_pb.CommandPreparedStatementQuery
PreparedStatementUpdate = sql_pb.CommandPreparedStatementUpdate
TicketStatementQuery = sql_pb.TicketStatementQuery

CreatePreparedStatement = sql_pb.ActionCreatePreparedStatementRequest
CreatePreparedSubstraitPlan = sql_pb.ActionCreatePreparedSubstraitPlanRequest
ClosePreparedStatement = sql_pb.ActionClosePreparedStatementRequest
BeginTransaction = sql_pb.ActionBeginTransactionRequest
EndTransaction = sql_pb.ActionEndTransactionRequest
BeginSavepoint = sql_pb.ActionBeginSavepointRequest
EndSavepoint = sql_pb.ActionEndSavepointRequest
CancelQuery = sql_pb.ActionCancelQueryRequest
CancelFlightInfo = actions_pb.CancelFlightInfoRequest
RenewFlightEndpoint = actions_pb.RenewFlightEndpointRequest
SetSessionOptions = actions_pb.SetSessionOptionsRequest
GetSessionOptions = actions_pb.GetSessionOptionsRequest
CloseSession = actions_pb.CloseSessionRequest

MetadataCommand: TypeAlias = (
    GetSqlInfo
    | GetXdbcTypeInfo
    | GetCatalogs
    | GetDbSchemas
    | GetTables
    | GetTableTypes
    | GetPrimaryKeys
    | GetExportedKeys
    | GetImportedKeys
    | GetCrossReference
)
Command: TypeAlias = (
    MetadataCommand
    | StatementQuery
    | StatementUpdate
    | StatementSubstraitPlan
    | StatementIngest
    | PreparedStatementQuery
    | PreparedStatementUpdate
    | TicketStatementQuery
)
Action: TypeAlias = (
    CreatePreparedStatement
    | CreatePreparedSubstraitPlan
    | ClosePreparedStatement
    | BeginTransaction
    | EndTransaction
    | BeginSavepoint
    | EndSavepoint
    | CancelQuery
    | CancelFlightInfo
    | RenewFlightEndpoint
    | SetSessionOptions
    | GetSessionOptions
    | CloseSession
)


def optional(message: Message, name: str) -> Any:
    """Return the value of an `optional` field; None if it is not set."""
    return getattr(message, name) if message.HasField(name) else None


_M = TypeVar("_M", bound=Message)

_COMMANDS: Mapping[str, type[Command]] = {kind.DESCRIPTOR.full_name: kind for kind in typing.get_args(Command)}
"""Commands by the full names of their messages."""

_ACTIONS: Mapping[str, type[Action]] = {
    kind.DESCRIPTOR.name.removeprefix("Action").removesuffix("Request"): kind for kind in typing.get_args(Action)
}
"""Actions by their names, which are those of their messages."""


def decode_command(data: bytes) -> Command:
    """Decode the command in `FlightDescriptor.cmd` or `Ticket.ticket`.

    Raises `InvalidInput` for bytes that are not a google.protobuf.Any, and for one of an unknown type.
    """
    wrapped = _parse(AnyMessage, data, "a command")
    name = wrapped.type_url.rpartition("/")[2]
    if name not in _COMMANDS:
        expected = ", ".join(sorted(known.rpartition(".")[2] for known in _COMMANDS))
        raise InvalidInput(f"unknown command type {wrapped.type_url!r}; expected one of {expected}")
    return _parse(_COMMANDS[name], wrapped.value, name)


def encode_command(command: Command) -> bytes:
    """Encode `command` for `FlightDescriptor.cmd` or `Ticket.ticket`."""
    return wrap(command)


def decode_action(name: str, body: bytes) -> Action:
    """Decode the action `name` with the body `body`.

    Raises `InvalidInput` for an unknown name, and for a body of another type.
    """
    kind = _ACTIONS.get(name)
    if kind is None:
        raise InvalidInput(f"unknown action {name!r}; expected one of {', '.join(_ACTIONS)}")
    if _is_in_any(kind):
        wrapped = _parse(AnyMessage, body, f"the body of {name}")
        expected = kind.DESCRIPTOR.full_name
        if wrapped.TypeName() != expected:
            raise InvalidInput(f"the body of {name} has type {wrapped.type_url!r}; expected {expected}")
        body = wrapped.value
    return _parse(kind, body, f"the body of {name}")


def encode_action(action: Action) -> tuple[str, bytes]:
    """Encode `action` as its name and its body."""
    kind = type(action)
    name = next(name for name, known in _ACTIONS.items() if known is kind)
    return name, wrap(action) if _is_in_any(kind) else action.SerializeToString(deterministic=True)


def wrap(message: Message) -> bytes:
    """Encode `message` in a google.protobuf.Any."""
    wrapped = AnyMessage()
    wrapped.Pack(message, deterministic=True)
    data: bytes = wrapped.SerializeToString()
    return data


def _is_in_any(kind: type[Action]) -> bool:
    """Return whether an action belongs to Flight SQL, not to Flight itself."""
    return kind.DESCRIPTOR.file is sql_pb.DESCRIPTOR


def _parse(kind: type[_M], data: bytes, what: str) -> _M:
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        expected = kind.DESCRIPTOR.full_name
        raise InvalidInput(f"{what} of {len(data)} bytes does not decode as {expected}: {error}") from error
    return message
