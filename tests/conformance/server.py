"""The dispatch that ships, over the answers of one of Arrow's integration scenarios.

Some scenarios send plain Flight commands. Flight SQL has none, so they are put into a statement on their way in; all
that follows is the dispatch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from lance_flight.flight.authentication import (
    OPEN,
    Authentication,
    Basic,
    Bearer,
    Credential,
    Principal,
    Proof,
)
from lance_flight.flight.calls import call_of
from lance_flight.flight.grpc_server import Answers, GrpcServer
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.wire import StatementQuery, encode_command
from pyarrow import flight

from tests.conformance import backends
from tests.flight.flight_backend import KEY, CannedBackend

HEADER = "x-middleware"
AUTH = "auth:basic_proto"
EXPIRATION_TIME = b"expiration_time"

BACKENDS: Mapping[str, Callable[[], CannedBackend]] = {
    AUTH: CannedBackend,
    "app_metadata_flight_info_endpoint": backends.AppMetadata,
    "expiration_time:cancel_flight_info": backends.ExpirationTime,
    "expiration_time:do_get": backends.ExpirationTime,
    "expiration_time:list_actions": backends.ExpirationTime,
    "expiration_time:renew_flight_endpoint": backends.ExpirationTime,
    "flight_sql": backends.FlightSql,
    "flight_sql:extension": backends.FlightSql,
    "flight_sql:ingestion": backends.Ingestion,
    "middleware": backends.Middleware,
    "ordered": backends.Ordered,
    "session_options": backends.SessionOptions,
}

POLLED_BACKENDS: Mapping[str, Callable[[], backends.Polled]] = {
    "location:reuse_connection": backends.Polled,
    "poll_flight_info": backends.Polled,
}
"""Scenarios of the server on gRPC's library."""


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


class OneUser:
    """Knows one user by one password, and gives one token for it."""

    USER, PASSWORD, TOKEN = "arrow", "flight", "the token of arrow"

    def principal(self, credential: Credential) -> Principal | None:
        if credential in (Basic(user=self.USER, password=self.PASSWORD), Bearer(token=self.TOKEN)):
            return Principal(name=self.USER, proof=Proof.SESSION_TOKEN)
        return None

    def token(self, principal: Principal) -> str:
        return self.TOKEN


class ConformanceServer(FlightSqlServer):
    """Answers one scenario at `port` (0: any free port)."""

    def __init__(self, scenario: str, *, host: str = "127.0.0.1", port: int = 0) -> None:
        user = OneUser()
        super().__init__(
            BACKENDS[scenario](),
            KEY,
            host=host,
            port=port,
            middleware={HEADER: EchoedHeaders()},
            authentication=Authentication(authenticators=(user,), granter=user) if scenario == AUTH else OPEN,
        )
        self._scenario = scenario

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        if descriptor.command == EXPIRATION_TIME:
            return self._put_together(context, [str(number) for number in range(len(backends.EXPIRATIONS))])
        return super().get_flight_info(context, _in_flight_sql(descriptor))

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """All that are offered; one scenario calls an action without a name to be told who it is."""
        if self._scenario == AUTH and not action.type:
            return iter([call_of(context).caller.principal.encode()])
        return super().do_action(context, action)

    def list_actions(self, context: flight.ServerCallContext) -> Sequence[flight.ActionType]:
        """All that are offered; one scenario wants to see two of them, and no others."""
        offered = super().list_actions(context)
        if self._scenario != "expiration_time:list_actions":
            return offered
        return [action for action in offered if action.type in {"CancelFlightInfo", "RenewFlightEndpoint"}]

    def _put_together(self, context: flight.ServerCallContext, statements: Sequence[str]) -> flight.FlightInfo:
        """One info with the endpoints of several statements, which expire at times of their own."""
        infos = [super(ConformanceServer, self).get_flight_info(context, _statement(sql)) for sql in statements]
        endpoints = [endpoint for info in infos for endpoint in info.endpoints]
        return flight.FlightInfo(infos[0].schema, infos[0].descriptor, endpoints)


class PlainAnswers(Answers):
    """Answers plain commands as statements, too; a statement that is slow ends once it is polled again."""

    dispatch: Any

    def descriptor(self, message: bytes) -> flight.FlightDescriptor:
        given = super().descriptor(message)
        found = _in_flight_sql(given)
        if found is given:
            self.dispatch.backend.go.set()
        return found


@contextlib.contextmanager
def serving_polls(scenario: str) -> Iterator[GrpcServer]:
    """Serve a scenario of the calls that pyarrow's server does not offer."""
    with FlightSqlServer(POLLED_BACKENDS[scenario](), KEY) as server:
        running = GrpcServer(server, host="127.0.0.1", port=0, threads=8, message_limit=1 << 20, answers=PlainAnswers)
        try:
            yield running
        finally:
            running.stop()


def _in_flight_sql(descriptor: flight.FlightDescriptor) -> flight.FlightDescriptor:
    """A plain command as a statement with its text; one of Flight SQL as it is."""
    with contextlib.suppress(DecodeError):
        if AnyMessage.FromString(descriptor.command).type_url:
            return descriptor
    return _statement(descriptor.command.decode())


def _statement(sql: str) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(encode_command(StatementQuery(query=sql)))
