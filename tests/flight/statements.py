"""Statements as Flight descriptors, and their results as a plain client reads them."""

from __future__ import annotations

from lance_flight.flight import wire
from lance_flight.flight.wire import Command, encode_command
from pyarrow import flight

SELECT = wire.StatementQuery(query="SELECT numbers")


def descriptor(command: Command) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(encode_command(command))


def statement(sql: str) -> flight.FlightDescriptor:
    return descriptor(wire.StatementQuery(query=sql))


def planned(
    client: flight.FlightClient, sql: str, options: flight.FlightCallOptions | None = None
) -> flight.FlightInfo:
    """The info of a query, or of a statement that has run."""
    return client.get_flight_info(statement(sql), options)


def reader(
    client: flight.FlightClient, sql: str, options: flight.FlightCallOptions | None = None
) -> flight.FlightStreamReader:
    """The result of a query, which has one endpoint."""
    (endpoint,) = planned(client, sql, options).endpoints
    return client.do_get(endpoint.ticket, options)
