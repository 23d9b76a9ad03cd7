"""A client of the server on gRPC's library: plain messages over a channel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import grpc
import pyarrow as pa
from lance_flight.flight import wire
from lance_flight.flight.grpc_server import SERVICE, encode
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol.flight_messages_pb2 import FlightData, PollInfo
from lance_flight.flight.wire import encode_action, encode_command
from pyarrow import flight

PATIENCE = 30.0
Headers = Sequence[tuple[str, str]]


def statement(sql: str) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(encode_command(wire.StatementQuery(query=sql)))


@dataclass(frozen=True)
class GrpcClient(AbstractContextManager["GrpcClient"]):
    """One connection, and the headers of its calls."""

    channel: grpc.Channel
    headers: Headers = ()

    @staticmethod
    def to(uri: str, headers: Headers = (), **options: Any) -> GrpcClient:
        pairs = [("grpc.max_receive_message_length", -1), *options.items()]
        return GrpcClient(grpc.insecure_channel(uri.partition("://")[2], options=pairs), headers)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.channel.close()

    def call(self, rpc: str, messages: Iterable[bytes]) -> Iterator[bytes]:
        answers: Iterator[bytes] = self.channel.stream_stream(SERVICE + rpc)(
            iter(messages), timeout=PATIENCE, metadata=self.headers
        )
        return answers

    def one(self, rpc: str, message: bytes) -> bytes:
        (answer,) = self.call(rpc, [message])
        return answer

    def poll(self, descriptor: flight.FlightDescriptor | bytes) -> PollInfo:
        sent = descriptor if isinstance(descriptor, bytes) else descriptor.serialize()
        return PollInfo.FromString(self.one("PollFlightInfo", sent))

    def info(self, sql: str) -> flight.FlightInfo:
        return flight.FlightInfo.deserialize(self.one("GetFlightInfo", statement(sql).serialize()))

    def read(self, ticket: flight.Ticket) -> pa.Table:
        return table_of(self.call("DoGet", [ticket.serialize()]))

    def rows(self, sql: str) -> list[dict[str, object]]:
        """Poll a statement to its end, and read its endpoints."""
        answer = self.poll(statement(sql))
        while answer.HasField("flight_descriptor"):
            answer = self.poll(answer.flight_descriptor)
        info = flight.FlightInfo.deserialize(answer.info)
        return [row for endpoint in info.endpoints for row in self.read(endpoint.ticket).to_pylist()]

    def act(self, action: wire.Action) -> list[bytes]:
        name, body = encode_action(action)
        results = self.call("DoAction", [flight.Action(name, body).serialize()])
        return [flight.Result.deserialize(result).body.to_pybytes() for result in results]

    def cancel(self, info: bytes) -> int:
        """Cancel the statement of an info; the number of the status."""
        (answer,) = self.act(wire.CancelFlightInfo(info=info))
        return actions_pb.CancelFlightInfoResult.FromString(answer).status

    def exchange(self, sql: str, rows: pa.RecordBatch | None = None) -> pa.Table:
        return table_of(self.call("DoExchange", stream_of(statement(sql), rows)))


def stream_of(descriptor: flight.FlightDescriptor, rows: pa.RecordBatch | None = None) -> list[bytes]:
    """The messages of a stream of rows; the first one has the descriptor."""
    begun = FlightData(flight_descriptor=descriptor.serialize()).SerializeToString()
    if rows is None:
        return [begun]
    return [begun + encode(rows.schema.serialize()), encode(rows.serialize())]


def table_of(messages: Iterable[bytes]) -> pa.Table:
    """The rows of an answer, which begins with their schema."""
    parts = [FlightData.FromString(message) for message in messages]
    stream = b"".join(
        b"\xff\xff\xff\xff" + len(part.data_header).to_bytes(4, "little") + part.data_header + part.data_body
        for part in parts
    )
    with pa.ipc.open_stream(stream) as reader:
        return reader.read_all()


def refused(messages: Iterator[bytes]) -> tuple[grpc.StatusCode, str]:
    """The status of a call that must fail."""
    try:
        found = list(messages)
    except grpc.RpcError as error:
        return error.code(), error.details()
    raise AssertionError(f"answered: {found}")


def status(messages: Iterator[bytes]) -> grpc.StatusCode:
    """How a call ends."""
    with suppress(grpc.RpcError):
        list(messages)
    code: grpc.StatusCode = messages.code()  # type: ignore[attr-defined]
    return code
