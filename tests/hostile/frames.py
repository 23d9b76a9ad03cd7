"""What goes over the wire below any Flight library: messages and streams of our own making."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import grpc
import pyarrow as pa

SERVICE = "/arrow.flight.protocol.FlightService/"
SECONDS = 20.0


def varint(number: int) -> bytes:
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message that has a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def descriptor(command: bytes) -> bytes:
    """A FlightDescriptor with a command."""
    return b"\x08\x02" + field(2, command)


def action(name: str, body: bytes) -> bytes:
    """An Action."""
    return field(1, name.encode()) + field(2, body)


def frames(command: bytes, batches: Sequence[pa.RecordBatch]) -> list[bytes]:
    """The FlightData messages of a DoPut: the schema under a descriptor, then each batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    made = [
        field(2, message.metadata.to_pybytes()) + field(1000, message.body.to_pybytes() if message.body else b"")
        for message in pa.ipc.MessageReader.open_stream(sink.getvalue())
    ]
    return [field(1, descriptor(command)) + made[0], *made[1:]]


Metadata = Sequence[tuple[str, str]]


def call(channel: grpc.Channel, rpc: str, messages: Sequence[bytes], metadata: Metadata = ()) -> tuple[str, str]:
    """Call an RPC with raw messages: the name of the status that it ends with, and its words."""
    try:
        for _ in _answers(channel, rpc, messages, metadata):
            pass
    except grpc.RpcError as error:
        return error.code().name, str(error.details())
    return "OK", ""


def _answers(channel: grpc.Channel, rpc: str, messages: Sequence[bytes], metadata: Metadata) -> Iterator[bytes]:
    if rpc in {"DoPut", "DoExchange", "Handshake"}:
        yield from channel.stream_stream(SERVICE + rpc)(iter(messages), timeout=SECONDS, metadata=metadata)
    elif rpc in {"DoGet", "DoAction", "ListFlights", "ListActions"}:
        yield from channel.unary_stream(SERVICE + rpc)(messages[0], timeout=SECONDS, metadata=metadata)
    else:
        yield channel.unary_unary(SERVICE + rpc)(messages[0], timeout=SECONDS, metadata=metadata)
