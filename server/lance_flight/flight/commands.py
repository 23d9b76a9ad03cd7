"""Messages that a client can send: a closed union of commands and one of actions, by short names.

They are the generated messages themselves. A map has no order, and the `optional` fields are read by `optional`, which tells
one that is not set from an empty one.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from google.protobuf.message import Message

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
