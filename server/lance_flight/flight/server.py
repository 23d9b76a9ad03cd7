"""The Flight SQL server on pyarrow, and its life from the first connection to the last call.

Each method here is one RPC of the protocol. It names the call and hands it to the `dispatch`; errors leave through
`status`. Who the caller is comes from `calls`.

Life of a server, from the first connection to the last call, with a self-check by a call.

`FlightServerBase.serve` takes over the signals of the process and `shutdown` waits for running calls without an end,
so neither is called as it is: the caller owns the signals, and sets an event (a `SignalEvent` in their handlers).
"""

from __future__ import annotations

import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import flight

from lance_flight.connections import Tls, bracket_host
from lance_flight.errors import Unsupported
from lance_flight.flight.actions import OFFERED, PreparedStatements, no_bindings
from lance_flight.flight.authentication import OPEN, Authentication
from lance_flight.flight.backend import Backend
from lance_flight.flight.calls import (
    MIDDLEWARE,
    SET_COOKIE,
    CallMiddlewareFactory,
    Handshake,
    InFlight,
    call_of,
)
from lance_flight.flight.dispatch import Dispatch
from lance_flight.flight.rows import InputRules
from lance_flight.flight.status import guarded_stream, handler, schema_handler
from lance_flight.flight.tickets import TicketSealer
from lance_flight.flight.wire import GetTableTypes, encode_command
from lance_flight.lru_cache import LruCache
from lance_flight.threads import SignalEvent

if TYPE_CHECKING:
    from lance_flight.flight.tls import TlsFiles

REPLICA_BYTES = 4

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """State that a server hands to its successor; `replica` is their random name among the servers of a root."""

    in_flight: InFlight = field(default_factory=InFlight)
    replica: str = field(default_factory=lambda: secrets.token_hex(REPLICA_BYTES))
    bindings: LruCache[str, bytes] = field(default_factory=no_bindings)
    inputs: InputRules = field(default_factory=InputRules)


class FlightSqlServer(flight.FlightServerBase):
    """Serves Flight SQL from `backend` at `host`:`port` (0: any free port) from its creation on.

    `key` (32 bytes) signs tickets and prepared handles; servers that share it can answer for each other. Endpoints name
    no location unless `advertise` lists addresses that clients can reach. `authentication` lets callers in; `middleware` sees every
    call beside our own. With `tls` connections are encrypted. `takes_dictionaries` says whether ingests may have dictionaries
    (see `dictionaries`).

    Where clients are told by their certificates there is no Handshake: pyarrow says whose certificate it is to a server
    without a handler of Handshakes alone.
    """

    def __init__(
        self,
        backend: Backend,
        key: bytes,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: Sequence[str] = (),
        middleware: Mapping[str, flight.ServerMiddlewareFactory] = MappingProxyType({}),
        authentication: Authentication = OPEN,
        inputs: InputRules | None = None,
        running_calls: int = sys.maxsize,
        proxy_secret: str = "",
        tls: Tls | None = None,
        shared: Shared | None = None,
    ) -> None:
        sealer = TicketSealer(key)
        shared = shared or Shared(in_flight=InFlight(running_calls), inputs=inputs or InputRules())
        prepared = PreparedStatements(
            backend=backend, sealer=sealer, bindings=shared.bindings, replica=shared.replica, inputs=shared.inputs
        )
        self._backend = backend
        self.dispatch = Dispatch.over(
            backend, sealer, replica=shared.replica, prepared=prepared, inputs=shared.inputs, advertised=advertise
        )
        self._host = host
        self._another = partial(
            FlightSqlServer,
            backend,
            key,
            host=host,
            advertise=advertise,
            middleware=middleware,
            authentication=authentication,
            proxy_secret=proxy_secret,
            shared=shared,
        )
        self.in_flight, self.inputs = shared.in_flight, shared.inputs
        handshake = Handshake(authentication)
        self.tls = tls
        self.is_open = authentication.is_open
        self.handshake = None if authentication.has_certificates else handshake
        self.admission = CallMiddlewareFactory(
            self.in_flight, backend, authentication, handshake, self.dispatch.cookies, proxy_secret=proxy_secret
        )
        self.further_middleware = middleware
        super().__init__(
            (bracket_host(host), port),
            auth_handler=self.handshake,
            tls_certificates=None if tls is None else [(tls.certificate, tls.key)],
            verify_client=tls is not None and tls.client_ca is not None,
            root_certificates=None if tls is None else tls.client_ca,
            middleware={MIDDLEWARE: self.admission, **middleware},
        )

    @property
    def uri(self) -> str:
        """Return the address of this server: `grpc://host:port`, or `grpc+tls://host:port`."""
        return f"grpc{'' if self.tls is None else '+tls'}://{bracket_host(self._host)}:{self.port}"

    def successor(self, tls: Tls) -> FlightSqlServer:
        """Start a server with other certificates at the same address, which must be free; it takes over the state of this one."""
        return self._another(port=self.port, tls=tls)

    def roll_back_open(self) -> int:
        """Roll back every open transaction without a running statement, before the server ends; return their number."""
        return self._backend.roll_back_open()

    @handler
    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """GetFlightInfo: returns the schema and the endpoints of a result; a statement that is no query runs here."""
        return self.dispatch.flight_info(call_of(context), descriptor, partial(context.add_header, SET_COOKIE))

    @schema_handler
    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """GetSchema: returns the schema of a result, without running anything."""
        return self.dispatch.schema(call_of(context), descriptor)

    @handler
    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """DoGet: streams the rows of one endpoint."""
        call = call_of(context)
        sent = self.dispatch.rows(call, ticket)
        batches = guarded_stream(sent.messages())
        options = pa.ipc.IpcWriteOptions(compression=call.compression)
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(sent.schema, batches), options=options)

    @handler
    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """DoPut: runs an update, binds parameters to a prepared statement, or stores rows; one PutResult answers each."""
        # The headers leave with the first message: it is written once they are there.
        answer = self.dispatch.put(call_of(context), descriptor, reader, partial(context.add_header, SET_COOKIE))
        try:
            writer.write(answer)
        except OSError as exc:
            # The stream has no other error for a client that is gone, and what it asked for is done.
            log.info("a client left before the answer to its DoPut: %s", exc)

    @handler
    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """DoAction: runs an action (see `actions`), or answers another server."""
        request = context.get_middleware(MIDDLEWARE).request
        if request is not None:
            return iter((self._backend.answer_peer(request),))
        return iter(self.dispatch.act(call_of(context), action, partial(context.add_header, SET_COOKIE)))

    @handler
    def list_actions(self, context: flight.ServerCallContext) -> Sequence[flight.ActionType]:
        """ListActions: lists the actions that `do_action` runs."""
        call_of(context)
        return OFFERED

    @handler
    def list_flights(self, context: flight.ServerCallContext, criteria: bytes) -> Iterator[flight.FlightInfo]:
        """ListFlights: not part of Flight SQL."""
        raise Unsupported("ListFlights is not offered; ask for tables with CommandGetTables")

    @handler
    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """DoExchange: not part of Flight SQL."""
        raise Unsupported("DoExchange is not offered")


CLOSING_SECONDS = 2.0
"""Time that connections have to close after the last call."""
CERTIFICATE_SECONDS = 2.0
"""Interval between checks of the certificate files."""
SIGNAL_SECONDS = 1.0
"""Longest delay of a signal that the system delivers to another thread than the main one, which is not woken by it then."""
TAKING_OVER_SECONDS = 10.0
"""Longest wait for an address to become free for the successor of a server."""
_TAKING_OVER_STEP = 0.002

_log = logging.getLogger(__name__)


def serve_until(
    server: FlightSqlServer,
    stop: threading.Event | SignalEvent,
    *,
    grace: Callable[[], float],
    ready: Callable[[str], None] | None = None,
    stopping: Callable[[], None] | None = None,
    certificates: TlsFiles | None = None,
    renewed: Callable[[Tls], None] = lambda _: None,
    is_replaced: Callable[[], bool] = lambda: False,
) -> bool:
    """Serve until `stop` is set, then refuse new calls and give running ones the seconds that `grace` then says to end.

    The rows of a query that is planned can be fetched for as long as other calls run. `ready` is called with the server's
    URI once connections are accepted, `stopping` when no more calls are to come. When its `certificates` change, a successor
    takes the server's place, and `renewed` is called with them. One that `is_replaced` tells its clients to connect anew instead of refusing their calls: another server takes
    them. Transactions that are open at the end are rolled back. The answer is whether every call has
    ended; if one has not, the interpreter would wait for it when it exits: end the process with `os._exit`.
    """
    if ready is not None:
        ready(server.uri)
    while not stop.wait(SIGNAL_SECONDS if certificates is None else CERTIFICATE_SECONDS):
        changed = None if certificates is None or server.tls is None else certificates.read_changed(server.tls)
        if changed is not None:
            server = replace_server(server, changed)
            renewed(changed)
    closing = _closing(server) if is_replaced() else None
    if closing is None:
        server.in_flight.close()
    if stopping is not None:
        stopping()
    _log.info("stopping, calls in flight: %d", len(server.in_flight))
    seconds = grace()
    is_done = server.in_flight.wait(seconds)
    rolled_back = server.roll_back_open()
    if rolled_back:
        _log.warning("open transactions were rolled back: %d", rolled_back)
    if not is_done:
        _log.warning("calls did not end within %s seconds: %d", seconds, len(server.in_flight))
        return False
    # It waits without an end where gRPC holds a connection for open. The calls of one that is replaced go on until then.
    closing_seconds = CLOSING_SECONDS if closing is None else seconds
    closing = closing or _closing(server)
    closing.join(closing_seconds)
    return not closing.is_alive()


def replace_server(server: FlightSqlServer, tls: Tls) -> FlightSqlServer:
    """Replace a server that accepts no more connections by one with other certificates.

    Calls that run on the old one end there, as they would have. gRPC keeps an address to one server: connections that are
    made in the milliseconds between the two are refused, and drivers try again.
    """
    _closing(server)
    deadline = time.monotonic() + TAKING_OVER_SECONDS
    while True:
        try:
            successor = server.successor(tls)
        except (OSError, pa.ArrowException):
            if time.monotonic() > deadline:
                raise
            time.sleep(_TAKING_OVER_STEP)
        else:
            _log.info("new certificates are in use at %s", successor.uri)
            return successor


def _closing(server: FlightSqlServer) -> threading.Thread:
    """Shut a server down for new connections, in a thread that lives until its last call has ended."""
    closing = threading.Thread(target=server.shutdown, name="flight-shutdown", daemon=True)
    closing.start()
    return closing


_EVERY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - what is listened on, as it is called
_UNTRACED = (b"traceparent", b"00-11111111111111111111111111111111-1111111111111111-00")
"""Trace context that is not sampled, so that parent-based samplers make no span for the check."""

_ASKED = flight.FlightDescriptor.for_command(encode_command(GetTableTypes()))


class SelfCheck:
    """Calls the server at `uri`. Its certificate need not be valid for this machine, and no credential is needed."""

    def __init__(self, uri: str, *, timeout: float) -> None:
        scheme, _, address = uri.partition("://")
        host, _, port = address.rpartition(":")
        self._client = flight.connect(
            f"{scheme}://{_EVERY.get(host, host)}:{port}",
            disable_server_verification=scheme.endswith("+tls"),
            # A proxy that the environment names is for the way out.
            generic_options=[("grpc.enable_http_proxy", 0)],
        )
        self._options = flight.FlightCallOptions(timeout=timeout, headers=[_UNTRACED])

    def is_answered(self) -> bool:
        """Return whether GetFlightInfo is answered in time; a refusal for the missing credential counts.

        Not ListActions: where that is cancelled, as by a server that is stopping, pyarrow interrupts its own process.
        """
        try:
            self._client.get_flight_info(_ASKED, self._options)
        except flight.FlightUnauthenticatedError:
            return True
        except flight.FlightError:
            return False
        return True
