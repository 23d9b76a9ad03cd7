"""The dispatch that ships, over the answers of one of Arrow's integration scenarios.

Some scenarios send plain Flight commands. Flight SQL has none, so they are put into a statement on their way in; all
that follows is the dispatch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from lance_flight.flight.commands import StatementQuery
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.conformance import backends
from tests.flight.flight_backend import KEY, CannedBackend

HEADER = "x-middleware"

BACKENDS: Mapping[str, Callable[[], CannedBackend]] = {
    "app_metadata_flight_info_endpoint": backends.AppMetadata,
    "flight_sql": backends.FlightSql,
    "flight_sql:ingestion": backends.Ingestion,
    "middleware": backends.Middleware,
    "ordered": backends.Ordered,
    "session_options": backends.SessionOptions,
}


class EchoedHeader(flight.ServerMiddleware):
    """Returns a header of a call with its answer."""

    def __init__(self, value: str) -> None:
        super().__init__()
        self._value = value

    def sending_headers(self) -> dict[str, str]:
        return {HEADER: self._value}


class EchoedHeaders(flight.ServerMiddlewareFactory):
    """Looks for that header."""

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[str]]) -> EchoedHeader | None:
        values = headers.get(HEADER)
        return None if values is None else EchoedHeader(values[0])


class ConformanceServer(FlightSqlServer):
    """Answers one scenario at `port` (0: any free port)."""

    def __init__(self, scenario: str, *, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(BACKENDS[scenario](), KEY, host=host, port=port, middleware={HEADER: EchoedHeaders()})

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        return super().get_flight_info(context, _in_flight_sql(descriptor))


def _in_flight_sql(descriptor: flight.FlightDescriptor) -> flight.FlightDescriptor:
    """A plain command as a statement with its text; one of Flight SQL as it is."""
    with contextlib.suppress(DecodeError):
        if AnyMessage.FromString(descriptor.command).type_url:
            return descriptor
    statement = StatementQuery(query=descriptor.command.decode())
    return flight.FlightDescriptor.for_command(encode_command(statement))
