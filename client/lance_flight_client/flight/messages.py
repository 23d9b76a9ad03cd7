"""Messages of Flight SQL as clients send them, and the texts of a server's errors."""

from __future__ import annotations

import re

import pyarrow as pa
from pyarrow import flight

_PACKAGE = "type.googleapis.com/arrow.flight.protocol.sql."
_APPEND_OR_FAIL = bytes([1 << 3, 2, 2 << 3, 2])
"""TableDefinitionOptions: a table that is not there is an error, and rows are added to one that is."""
_AROUND = re.compile(
    r"^Flight (?:error|returned \w+ error)[^:]*: |[.;]? (?:Detail|gRPC client debug context): .*", re.DOTALL
)
ANSWERS = (flight.FlightError, pa.ArrowException, KeyError)
"""What pyarrow makes of the errors that a server answers."""


def message_of(exc: BaseException) -> str:
    """Return the message of a server's error, without the text that gRPC and Arrow add."""
    text = str(exc.args[0] if exc.args else exc)
    return _AROUND.sub("", text).strip()


def statement(sql: str) -> flight.FlightDescriptor:
    """Return a CommandStatementQuery, whose first field is the query."""
    return _command("CommandStatementQuery", _text_field(1, sql))


def temporary_ingest(table: str) -> flight.FlightDescriptor:
    """Return a CommandStatementIngest of rows for a temporary table of the session, which is there."""
    return _command("CommandStatementIngest", _field(1, _APPEND_OR_FAIL) + _text_field(2, table) + bytes([5 << 3, 1]))


def _command(name: str, message: bytes) -> flight.FlightDescriptor:
    """Return a message in a google.protobuf.Any."""
    return flight.FlightDescriptor.for_command(_text_field(1, _PACKAGE + name) + _field(2, message))


def _text_field(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message that has a length: its number and kind, the length, the content."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])
