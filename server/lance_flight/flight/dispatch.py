"""Dispatch of Flight SQL: decodes the command of a call, and hands it to the part that answers it.

It knows no transport. The server on pyarrow (`server`) and the one on gRPC's own library (`grpc_server`) call the same methods.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyarrow import flight

from lance_flight.errors import InvalidInput
from lance_flight.flight.actions import Actions
from lance_flight.flight.backend import Backend, Rows
from lance_flight.flight.calls import Call
from lance_flight.flight.endpoints import Endpoints
from lance_flight.flight.inputs import InputRules, read_parameters
from lance_flight.flight.metadata import results as metadata
from lance_flight.flight.metadata.sql_types import result_schema
from lance_flight.flight.normalise import client_batches, client_schema
from lance_flight.flight.prepared import PreparedStatements
from lance_flight.flight.statements import Statements
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

Tell: TypeAlias = Callable[[str], object]
"""Sends the cookie of the caller's session with the answer to a call."""


@dataclass(frozen=True, slots=True)
class OutgoingRows:
    """Rows of a result and the schema that they are sent in; `messages` converts them."""

    rows: Rows
    schema: pa.Schema

    def messages(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in messages of a size that clients accept, counted as an open stream of their client."""
        made = client_batches(self.rows, self.rows.schema, self.schema)
        return made if isinstance(self.rows, pa.RecordBatchReader) else self.rows.send(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """Parts that answer commands, and the cookies of sessions."""

    backend: Backend
    cookies: SessionCookies
    endpoints: Endpoints
    statements: Statements
    actions: Actions
    updates: Updates

    @staticmethod
    def over(
        backend: Backend,
        sealer: TicketSealer,
        *,
        replica: str,
        prepared: PreparedStatements,
        inputs: InputRules,
        advertised: Sequence[str] = (),
    ) -> Dispatch:
        """Return the dispatch over a backend, whose endpoints can be read at the `advertised` locations."""
        endpoints = Endpoints(backend=backend, sealer=sealer, advertised=tuple(advertised))
        return Dispatch(
            backend=backend,
            cookies=SessionCookies(sealer=sealer, home=replica),
            endpoints=endpoints,
            statements=Statements(backend=backend, prepared=prepared, endpoints=endpoints),
            actions=Actions(backend=backend, prepared=prepared, endpoints=endpoints),
            updates=Updates(backend=backend, prepared=prepared, inputs=inputs),
        )

    def with_endpoints(self, endpoints: Endpoints) -> Dispatch:
        """Return this dispatch with other endpoints."""
        return dataclasses.replace(
            self,
            endpoints=endpoints,
            statements=dataclasses.replace(self.statements, endpoints=endpoints),
            actions=dataclasses.replace(self.actions, endpoints=endpoints),
        )

    def flight_info(self, call: Call, descriptor: flight.FlightDescriptor, tell: Tell) -> flight.FlightInfo:
        """Return the schema and the endpoints of a result; a statement that is no query runs here."""
        command = command_of(descriptor)
        if isinstance(command, GetSqlInfo):
            self.backend.begin_session(call.caller)
        with self.telling_session(call, tell):
            match command:
                case StatementQuery() | StatementSubstraitPlan() | PreparedStatementQuery():
                    return self.statements.get_flight_info(call, descriptor, command)
                case command if isinstance(command, MetadataCommand):
                    endpoint = flight.FlightEndpoint(descriptor.command, self.endpoints.advertised)
                    return flight.FlightInfo(metadata.schema_of(command), descriptor, [endpoint])
                case command:
                    raise wrong_rpc(command, "GetFlightInfo")

    def schema(self, call: Call, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """Return the schema of a result, without running anything."""
        match command_of(descriptor):
            case StatementQuery() | StatementSubstraitPlan() | PreparedStatementQuery() as command:
                return flight.SchemaResult(self.statements.get_schema(call, command))
            case command if isinstance(command, MetadataCommand):
                return flight.SchemaResult(metadata.schema_of(command))
            case command:
                raise wrong_rpc(command, "GetSchema")

    def rows(self, call: Call, ticket: flight.Ticket) -> OutgoingRows:
        """Return the rows of one endpoint."""
        match decode_command(ticket.ticket):
            case TicketStatementQuery() as command:
                rows = self.endpoints.read(call, command)
                return OutgoingRows(rows, result_schema(rows.schema, call.caller))
            case command if isinstance(command, MetadataCommand):
                built = metadata.build(command, self.backend, call.caller).to_reader()
                return OutgoingRows(built, client_schema(built.schema))
            case command:
                raise wrong_rpc(command, "DoGet")

    def put(
        self, call: Call, descriptor: flight.FlightDescriptor, rows: flight.MetadataRecordBatchReader, tell: Tell
    ) -> bytes:
        """Run an update, bind parameters to a prepared statement, or store rows; return the metadata of the one PutResult."""
        with self.telling_session(call, tell):
            match command_of(descriptor):
                case StatementUpdate() as command:
                    return self.updates.statement_update(call, command)
                case StatementSubstraitPlan() as command:
                    return self.updates.statement_substrait_plan(call, command)
                case PreparedStatementUpdate() as command:
                    return self.updates.prepared_statement_update(call, command, rows)
                case PreparedStatementQuery() as command:
                    return self.updates.prepared_statement_query(call, command, rows)
                case StatementIngest() as command:
                    return self.updates.statement_ingest(call, command, rows)
                case command:
                    raise wrong_rpc(command, "DoPut")

    def exchange(
        self, call: Call, descriptor: flight.FlightDescriptor, rows: flight.MetadataRecordBatchReader, tell: Tell
    ) -> Iterator[OutgoingRows]:
        """Run a statement with the parameters that came with it, and return its rows part by part; one without rows has an empty part."""
        with self.telling_session(call, tell):
            command = command_of(descriptor)
            if not isinstance(command, StatementQuery | StatementSubstraitPlan | PreparedStatementQuery):
                raise wrong_rpc(command, "DoExchange")
            parts = self.statements.exchange(call, command, read_parameters(rows, call, self.updates.inputs))
        for part in parts:
            yield OutgoingRows(part, result_schema(part.schema, call.caller))

    def act(self, call: Call, action: flight.Action, tell: Tell) -> Iterable[bytes]:
        """Run an action and return the bodies of its results."""
        with self.telling_session(call, tell):
            return self.actions.run(call, action.type, decode_action(action.type, action.body.to_pybytes()))

    @contextmanager
    def telling_session(self, call: Call, tell: Tell) -> Iterator[None]:
        """Set the cookie of the caller's session as it is after the block, also where that fails."""
        if call.offered is not None:
            self.backend.offer(call.caller, call.offered)
        try:
            yield
        finally:
            state = self.backend.state(call.caller)
            cookie = None if state is None else call.cookie(self.cookies, state)
            if cookie is not None:
                tell(cookie)


def command_of(descriptor: flight.FlightDescriptor) -> Command:
    """Decode the command of a descriptor; raise `InvalidInput` for a descriptor without one."""
    if descriptor.descriptor_type != flight.DescriptorType.CMD:
        raise InvalidInput(f"a descriptor of type {descriptor.descriptor_type.name}; expected CMD with a command")
    return decode_command(descriptor.command)


def wrong_rpc(command: Command, rpc: str) -> Exception:
    """Return the error for a command that does not belong in a call."""
    return InvalidInput(f"{type(command).__name__} does not belong in {rpc}")
