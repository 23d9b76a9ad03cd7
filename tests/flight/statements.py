"""Statements and actions as a plain client sends them, and what comes back."""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from lance_flight.flight import wire
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import Action, Command, encode_action, encode_command
from pyarrow import flight

SELECT = wire.StatementQuery(query="SELECT numbers")

Options = flight.FlightCallOptions | None


def descriptor(command: Command) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(encode_command(command))


def statement(sql: str) -> flight.FlightDescriptor:
    return descriptor(wire.StatementQuery(query=sql))


def asking(name: str, value: object) -> flight.FlightCallOptions:
    """The options of a call with a header."""
    return flight.FlightCallOptions(headers=[(name.encode(), str(value).encode())])


def planned(client: flight.FlightClient, sql: str, options: Options = None) -> flight.FlightInfo:
    """The info of a query, or of a statement that has run."""
    return client.get_flight_info(statement(sql), options)


def reader(client: flight.FlightClient, sql: str, options: Options = None) -> flight.FlightStreamReader:
    """The result of a query, which has one endpoint."""
    (endpoint,) = planned(client, sql, options).endpoints
    return client.do_get(endpoint.ticket, options)


def read(client: flight.FlightClient, info: flight.FlightInfo, options: Options = None) -> pa.Table:
    """The rows of all endpoints."""
    return pa.concat_tables([client.do_get(endpoint.ticket, options).read_all() for endpoint in info.endpoints])


def act(client: flight.FlightClient, action: Action, options: Options = None) -> list[bytes]:
    """The results of an action."""
    return [result.body.to_pybytes() for result in client.do_action(flight.Action(*encode_action(action)), options)]


def begin(client: flight.FlightClient, options: Options = None) -> bytes:
    """The id of a new transaction."""
    (body,) = act(client, wire.BeginTransaction(), options)
    result = pb.ActionBeginTransactionResult()
    assert AnyMessage.FromString(body).Unpack(result)
    return bytes(result.transaction_id)


def prepare(client: flight.FlightClient, sql: str, options: Options = None) -> pb.ActionCreatePreparedStatementResult:
    """What the server says of a statement that it prepares."""
    (body,) = act(client, wire.CreatePreparedStatement(query=sql), options)
    result = pb.ActionCreatePreparedStatementResult()
    assert AnyMessage.FromString(body).Unpack(result)
    return result


def put(client: flight.FlightClient, command: Command, rows: pa.Table | None = None, options: Options = None) -> bytes:
    """The one PutResult that answers rows, or a command without any."""
    rows = pa.table({}) if rows is None else rows
    writer, results = client.do_put(descriptor(command), rows.schema, options)
    with writer:
        writer.write_table(rows)
        writer.done_writing()
        answer = results.read()
        assert results.read() is None
    return bytes(answer)


def count(answer: bytes) -> int:
    """How many rows a PutResult says that were changed."""
    return int(pb.DoPutUpdateResult.FromString(answer).record_count)


def bind(client: flight.FlightClient, handle: bytes, rows: pa.Table) -> bytes:
    """The handle that has the parameters."""
    bound = pb.DoPutPreparedStatementResult.FromString(
        put(client, wire.PreparedStatementQuery(prepared_statement_handle=handle), rows)
    )
    assert bound.HasField("prepared_statement_handle")
    return bytes(bound.prepared_statement_handle)


def cancel(client: flight.FlightClient, info: flight.FlightInfo) -> int:
    """The status that answers the cancellation of a query."""
    (body,) = act(client, wire.CancelFlightInfo(info=info.serialize()))
    return int(actions_pb.CancelFlightInfoResult.FromString(body).status)


def renew(client: flight.FlightClient, endpoint: flight.FlightEndpoint) -> flight.FlightEndpoint:
    """The endpoint that takes the place of another one."""
    (body,) = act(client, wire.RenewFlightEndpoint(endpoint=endpoint.serialize()))
    return flight.FlightEndpoint.deserialize(body)
