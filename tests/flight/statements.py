"""A statement as a Flight descriptor."""

from __future__ import annotations

from lance_flight.flight import commands
from lance_flight.flight.commands import Command
from lance_flight.flight.wire import encode_command
from pyarrow import flight

SELECT = commands.StatementQuery(query="SELECT numbers")


def descriptor(command: Command) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(encode_command(command))
