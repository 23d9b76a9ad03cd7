"""Prepared statements, and what a server may answer to a hostile message for them."""

from __future__ import annotations

from google.protobuf.any_pb2 import Any
from lance_flight.flight import wire
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import encode_action
from pyarrow import flight

INTO = wire.StatementIngest(
    table="fed", table_definition_options=wire.TableDefinitionOptions(if_not_exist=1, if_exists=2)
)

ANSWERED = {
    "OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "PERMISSION_DENIED", "UNAUTHENTICATED", "UNKNOWN", "INTERNAL",
    "ALREADY_EXISTS", "CANCELLED",
}  # fmt: skip
"""INTERNAL is what gRPC and Arrow say of bytes that are no message of theirs; our own would say [internal]."""


def prepared(client: flight.FlightClient, sql: str) -> bytes:
    """The handle of a statement."""
    request = encode_action(wire.CreatePreparedStatement(query=sql))
    (answer,) = client.do_action(flight.Action(*request))
    created = pb.ActionCreatePreparedStatementResult()
    assert Any.FromString(answer.body.to_pybytes()).Unpack(created)
    handle: bytes = created.prepared_statement_handle
    return handle
