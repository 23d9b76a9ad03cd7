"""Rows as FlightData, the messages of a Flight stream: the parts of an Arrow IPC message, each in a field.

pyarrow puts them together in its own server alone. A message is joined from its parts in one copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import DecodeError
from pyarrow import flight

from lance_flight.errors import InvalidInput
from lance_flight.flight.inputs import refuse_dictionaries
from lance_flight.flight.protocol.flight_messages_pb2 import FlightData
from lance_flight.protobuf_wire import encode_varint

_HEADER, _BODY = b"\x12", b"\xc2\x3e"
"""Tags of `data_header` (2) and `data_body` (1000), both of the wire type 2."""
_CONTINUATION = b"\xff\xff\xff\xff"
_PREFIX = 8
"""Bytes in front of the metadata of an IPC message: a mark, and the length of the metadata."""
_ALIGNMENT = 8


def encode(message: pa.Buffer) -> bytes:
    """Encode a schema or a batch that was serialized as an IPC message."""
    whole = memoryview(message)
    end = _PREFIX + int.from_bytes(whole[len(_CONTINUATION) : _PREFIX], "little")
    header, body = whole[_PREFIX:end], whole[end:]
    parts: list[bytes | memoryview] = [_HEADER, encode_varint(len(header)), header]
    return b"".join([*parts, _BODY, encode_varint(len(body)), body] if len(body) else parts)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A batch of a stream, as pyarrow's readers hand it out."""

    data: pa.RecordBatch


class SentRows:
    """Rows that a client sends, read as pyarrow's `MetadataRecordBatchReader`; `descriptor` came with the first message.

    Columns with dictionaries are refused. Each message is decoded by itself: a body that is shorter or longer than its metadata
    says is refused, and nothing of it is read as another message.
    """

    def __init__(self, messages: Iterator[bytes]) -> None:
        self._messages = messages
        first = next(messages, None)
        if first is None:
            raise InvalidInput("the stream ended before its first message; expected one with a descriptor")
        begun = _parse(first)
        if not begun.flight_descriptor:
            raise InvalidInput("the first message has no descriptor; expected CMD with a command")
        try:
            self.descriptor = flight.FlightDescriptor.deserialize(begun.flight_descriptor)
        except pa.ArrowInvalid as error:
            raise InvalidInput(f"the first message has no descriptor that can be read: {error}") from error
        self._pending = begun if begun.data_header else None
        self._schema: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows; `ArrowInvalid` where the client has sent none, as pyarrow's reader raises."""
        if self._schema is None:
            begun, self._pending = self._pending or self._next(), None
            if begun is None:
                raise pa.ArrowInvalid("the client sent no schema")
            try:
                self._schema = pa.ipc.read_schema(_message(begun))
            except (pa.ArrowException, OSError) as error:
                raise InvalidInput(f"the schema of the rows cannot be read: {error}") from error
            refuse_dictionaries(self._schema, "the rows of this call", "this port takes no dictionaries")
        return self._schema

    def __iter__(self) -> Iterator[Chunk]:
        """Yield the batches that were sent; none where there is no schema."""
        try:
            schema = self.schema
        except pa.ArrowInvalid:
            return
        while (sent := self._next()) is not None:
            if sent.data_header:
                yield Chunk(pa.ipc.read_record_batch(_message(sent), schema))

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a reader."""
        return pa.RecordBatchReader.from_batches(self.schema, (chunk.data for chunk in self))

    def _next(self) -> FlightData | None:
        data = next(self._messages, None)
        return None if data is None else _parse(data)


def _parse(data: bytes) -> FlightData:
    try:
        return FlightData.FromString(data)
    except DecodeError as error:
        raise InvalidInput(f"a message of {len(data)} bytes that is no FlightData: {error}") from error


def _message(sent: FlightData) -> pa.Buffer:
    """Return the IPC message in a FlightData, as Arrow reads it."""
    header = sent.data_header + bytes(-len(sent.data_header) % _ALIGNMENT)
    return pa.py_buffer(b"".join([_CONTINUATION, len(header).to_bytes(4, "little"), header, sent.data_body]))
