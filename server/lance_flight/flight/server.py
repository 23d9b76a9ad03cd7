"""The Flight SQL server: decode, dispatch, stream.

Each method here is one RPC of the protocol. It names the call, decodes the command and hands both to the part that
answers it; errors leave through `status`. Who the caller is comes from `calls`.
"""

from __future__ import annotations

import logging
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import pyarrow as pa
from pyarrow import flight

from lance_flight.errors import InvalidInput, Unsupported
from lance_flight.flight.actions import OFFERED, Actions
from lance_flight.flight.backend import Backend, Rows
from lance_flight.flight.calls import (
    MIDDLEWARE,
    SET_COOKIE,
    Call,
    CallMiddlewareFactory,
    InFlight,
    call_of,
)
from lance_flight.flight.encryption import Tls
from lance_flight.flight.endpoints import Endpoints
from lance_flight.flight.handshakes import Handshake
from lance_flight.flight.identity.authentication import OPEN, Authentication
from lance_flight.flight.inputs import InputRules
from lance_flight.flight.metadata import results as metadata
from lance_flight.flight.metadata.sql_types import result_schema
from lance_flight.flight.normalise import client_batches, client_schema
from lance_flight.flight.prepared import PreparedStatements, no_bindings
from lance_flight.flight.statements import Statements
from lance_flight.flight.status import guarded_stream, handler, schema_handler
from lance_flight.flight.tickets import SessionCookies, TicketSealer
from lance_flight.flight.updates import Updates
from lance_flight.flight.wire import (
    Command,
    GetSqlInfo,
    MetadataCommand,
    PreparedStatementQuery,
    PreparedStatementUpdate,
    StatementIngest,
    StatementQuery,
    StatementSubstraitPlan,
    StatementUpdate,
    TicketStatementQuery,
    decode_action,
    decode_command,
)
from lance_flight.lru_cache import LruCache

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
        self._backend, self._cookies = backend, SessionCookies(sealer=sealer, home=shared.replica)
        self._endpoints = Endpoints(backend=backend, sealer=sealer, advertised=tuple(advertise))
        self._statements = Statements(backend=backend, prepared=prepared, endpoints=self._endpoints)
        self._actions = Actions(backend=backend, prepared=prepared, endpoints=self._endpoints)
        self._updates = Updates(backend=backend, prepared=prepared, inputs=shared.inputs)
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
        super().__init__(
            (_bracket(host), port),
            auth_handler=None if authentication.has_certificates else handshake,
            tls_certificates=None if tls is None else [(tls.certificate, tls.key)],
            verify_client=tls is not None and tls.client_ca is not None,
            root_certificates=None if tls is None else tls.client_ca,
            middleware={
                MIDDLEWARE: CallMiddlewareFactory(
                    self.in_flight, backend, authentication, handshake, self._cookies, proxy_secret=proxy_secret
                ),
                **middleware,
            },
        )

    @property
    def uri(self) -> str:
        """Return the address of this server: `grpc://host:port`, or `grpc+tls://host:port`."""
        return f"grpc{'' if self.tls is None else '+tls'}://{_bracket(self._host)}:{self.port}"

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
        call, command = call_of(context), _command(descriptor)
        if isinstance(command, GetSqlInfo):
            self._backend.connected(call.caller)
        with self._telling_session(context, call):
            match command:
                case StatementQuery() | StatementSubstraitPlan() | PreparedStatementQuery():
                    return self._statements.get_flight_info(call, descriptor, command)
                case command if isinstance(command, MetadataCommand):
                    endpoint = flight.FlightEndpoint(descriptor.command, ())
                    return flight.FlightInfo(metadata.schema_of(command), descriptor, [endpoint])
                case command:
                    raise _wrong_rpc(command, "GetFlightInfo")

    @schema_handler
    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """GetSchema: returns the schema of a result, without running anything."""
        call = call_of(context)
        match _command(descriptor):
            case StatementQuery() | StatementSubstraitPlan() | PreparedStatementQuery() as command:
                return flight.SchemaResult(self._statements.get_schema(call, command))
            case command if isinstance(command, MetadataCommand):
                return flight.SchemaResult(metadata.schema_of(command))
            case command:
                raise _wrong_rpc(command, "GetSchema")

    @handler
    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        """DoGet: streams the rows of one endpoint."""
        call = call_of(context)
        match decode_command(ticket.ticket):
            case TicketStatementQuery() as command:
                rows = self._endpoints.read(call, command)
                return _stream(call, rows, result_schema(rows.schema, call.caller))
            case command if isinstance(command, MetadataCommand):
                built = metadata.build(command, self._backend, call.caller).to_reader()
                return _stream(call, built, client_schema(built.schema))
            case command:
                raise _wrong_rpc(command, "DoGet")

    @handler
    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """DoPut: runs an update, binds parameters to a prepared statement, or stores rows; one PutResult answers each."""
        call = call_of(context)
        # The headers leave with the first message: it is written once they are there.
        with self._telling_session(context, call):
            match _command(descriptor):
                case StatementUpdate() as command:
                    answer = self._updates.statement_update(call, command)
                case StatementSubstraitPlan() as command:
                    answer = self._updates.statement_substrait_plan(call, command)
                case PreparedStatementUpdate() as command:
                    answer = self._updates.prepared_statement_update(call, command, reader)
                case PreparedStatementQuery() as command:
                    answer = self._updates.prepared_statement_query(call, command, reader)
                case StatementIngest() as command:
                    answer = self._updates.statement_ingest(call, command, reader)
                case command:
                    raise _wrong_rpc(command, "DoPut")
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
        call = call_of(context)
        with self._telling_session(context, call):
            asked = decode_action(action.type, action.body.to_pybytes())
            return iter(self._actions.run(call, action.type, asked))

    @contextmanager
    def _telling_session(self, context: flight.ServerCallContext, call: Call) -> Iterator[None]:
        """Set the cookie of the caller's session as it is after the block, also where that fails."""
        if call.offered is not None:
            self._backend.offer(call.caller, call.offered)
        try:
            yield
        finally:
            state = self._backend.state(call.caller)
            cookie = None if state is None else call.cookie(self._cookies, state)
            if cookie is not None:
                context.add_header(SET_COOKIE, cookie)

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


def _bracket(host: str) -> str:
    """Return a host as it is written in a URI, with IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def _command(descriptor: flight.FlightDescriptor) -> Command:
    if descriptor.descriptor_type != flight.DescriptorType.CMD:
        raise InvalidInput(f"a descriptor of type {descriptor.descriptor_type.name}; expected CMD with a command")
    return decode_command(descriptor.command)


def _wrong_rpc(command: Command, rpc: str) -> Exception:
    return InvalidInput(f"{type(command).__name__} does not belong in {rpc}")


def _stream(call: Call, rows: Rows, sent: pa.Schema) -> flight.RecordBatchStream:
    messages = client_batches(rows, rows.schema, sent)
    batches = guarded_stream(messages if isinstance(rows, pa.RecordBatchReader) else rows.sent(messages))
    options = pa.ipc.IpcWriteOptions(compression=call.compression)
    return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(sent, batches), options=options)
