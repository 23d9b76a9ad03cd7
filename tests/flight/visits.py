"""Calls to a server with and without an identity, and what they are refused with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from lance_flight.flight import wire
from lance_flight.flight.actions import value_message
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.flight.flight_backend import NUMBERS
from tests.flight.handshakes import Unanswered
from tests.flight.statements import SELECT, act, descriptor, put

INSERT = wire.StatementUpdate(query="INSERT")

NO_ROWS = pa.schema([])


@dataclass(frozen=True)
class Visit:
    """A client, the header of its calls, and the ticket and handle that it comes with."""

    client: flight.FlightClient
    options: flight.FlightCallOptions
    ticket: flight.Ticket
    handle: bytes

    @property
    def info(self) -> bytes:
        """A FlightInfo with the ticket."""
        endpoints = [flight.FlightEndpoint(self.ticket, [])]
        made: bytes = flight.FlightInfo(NO_ROWS, descriptor(SELECT), endpoints).serialize()
        return made

    def act(self, action: wire.Action) -> list[bytes]:
        return act(self.client, action, self.options)

    def put(self, command: wire.Command, rows: pa.Table | None = None) -> None:
        put(self.client, command, rows, self.options)

    def exchange(self) -> None:
        writer, reader = self.client.do_exchange(descriptor(SELECT), self.options)
        with writer:
            writer.done_writing()
            reader.read_chunk()


def info(visit: Visit, command: wire.Command) -> flight.FlightInfo:
    return visit.client.get_flight_info(descriptor(command), visit.options)


def metadata_ticket(command: wire.Command) -> flight.Ticket:
    return flight.Ticket(encode_command(command))


FREE = {
    "Handshake": lambda v: v.client.authenticate(Unanswered(), v.options),
    "GetFlightInfo of a query": lambda v: info(v, SELECT),
    "GetFlightInfo of an update": lambda v: info(v, wire.StatementQuery(query="INSERT")),
    "GetFlightInfo of metadata": lambda v: info(v, wire.GetSqlInfo(info=())),
    "GetSchema": lambda v: v.client.get_schema(descriptor(SELECT), v.options),
    "DoGet of metadata": lambda v: v.client.do_get(metadata_ticket(wire.GetCatalogs()), v.options).read_all(),
    "DoPut of an update": lambda v: v.put(INSERT),
    "DoPut of rows": lambda v: v.put(
        wire.StatementIngest(
            table="t", table_definition_options=wire.TableDefinitionOptions(if_not_exist=1, if_exists=2)
        ),
        NUMBERS,
    ),
    "CreatePreparedStatement": lambda v: v.act(wire.CreatePreparedStatement(query="SELECT numbers")),
    "BeginTransaction": lambda v: v.act(wire.BeginTransaction()),
    "EndTransaction": lambda v: v.act(wire.EndTransaction(transaction_id=b"tx 1", action=1)),
    "BeginSavepoint": lambda v: v.act(wire.BeginSavepoint(transaction_id=b"tx 1", name="here")),
    "EndSavepoint": lambda v: v.act(wire.EndSavepoint(savepoint_id=b"sp 1", action=1)),
    "SetSessionOptions": lambda v: v.act(wire.SetSessionOptions(session_options={"a": value_message("b")})),
    "GetSessionOptions": lambda v: v.act(wire.GetSessionOptions()),
    "CloseSession": lambda v: v.act(wire.CloseSession()),
    "an unknown action": lambda v: list(v.client.do_action(flight.Action("Nonsense", b""), v.options)),
    "ListActions": lambda v: v.client.list_actions(v.options),
    "ListFlights": lambda v: list(v.client.list_flights(b"", v.options)),
    "DoExchange": lambda v: v.exchange(),
}


REFUSALS = (flight.FlightError, pa.ArrowException, OSError)


def refusal(call: Callable[[Visit], object], visit: Visit) -> str | None:
    """The code of the error that a call ends with; None where it is accepted."""
    try:
        call(visit)
    except REFUSALS as error:
        found = re.search(r"\[([a-z_]+)\]", str(error))
        return found[1] if found else str(error)
    return None
