"""Dispatch of Flight SQL: decodes the command of a call, and answers it: statements, updates, and metadata.

It knows no transport. The server on pyarrow (`server`) and the one on gRPC's own library (`grpc_server`) call the same methods.

A query is planned in GetFlightInfo and runs in DoGet. Any other statement runs once, in GetFlightInfo: clients prepare
whatever they are given and then ask for its FlightInfo, and some never fetch what they do not expect. The rows of one that
returns a report (maintenance) can be fetched again: they are kept, and it is not run again.
DoPut streams hold updates, the parameters of prepared statements, and rows to store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import flight

from lance_flight.backend_values import IfExists
from lance_flight.errors import InvalidInput
from lance_flight.flight import metadata
from lance_flight.flight.actions import Actions, BoundStatement, Endpoints, PreparedStatements, whole_plan
from lance_flight.flight.backend import Backend, IfNotExists, IngestTarget, Planned, Rows
from lance_flight.flight.calls import NO_OPTIONS, Call
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.rows import InputRules, client_batches, client_schema, read_parameters, read_rows
from lance_flight.flight.sql_types import result_schema
from lance_flight.flight.tickets import SessionCookies, TicketSealer
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
    TableDefinitionOptions,
    TicketStatementQuery,
    decode_action,
    decode_command,
    optional,
)

StatementCommand: TypeAlias = StatementQuery | StatementSubstraitPlan | PreparedStatementQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Runs statements on the backend."""

    backend: Backend
    prepared: PreparedStatements
    endpoints: Endpoints

    def get_flight_info(
        self, call: Call, descriptor: flight.FlightDescriptor, command: StatementCommand
    ) -> flight.FlightInfo:
        """Plan a query, or run any other statement once: `total_records` are then the rows that it affected."""
        outcome = self._execute(call, self._statement(call, command), endpoints=call.endpoints)
        match outcome:
            case Planned():
                return flight.FlightInfo(
                    result_schema(outcome.schema, call.caller),
                    descriptor,
                    self.endpoints.of(call, outcome),
                    outcome.total_records,
                    outcome.total_bytes,
                    outcome.ordered,
                    outcome.app_metadata,
                )
            case int() as rows:
                return flight.FlightInfo(metadata.NO_ROWS, descriptor, self.endpoints.of_no_rows(call), rows)

    def exchange(self, call: Call, command: StatementCommand, parameters: pa.RecordBatch | None) -> Iterator[Rows]:
        """Run a statement with values for its parameters, and return its rows part by part."""
        statement = self._statement(call, command)
        if parameters is not None:
            described = self.backend.describe(call.caller, statement.text, transaction=statement.transaction_id)
            fitting = self.prepared.fit(parameters, client_schema(described.parameters))
            statement = dataclasses.replace(statement, parameters=fitting)
        outcome = self._execute(call, statement)
        if isinstance(outcome, int):
            nothing: Rows = pa.RecordBatchReader.from_batches(metadata.NO_ROWS, [])
            return iter([nothing])
        return (self.backend.read(call.caller, payload) for payload in outcome.payloads)

    def get_schema(self, call: Call, command: StatementCommand) -> pa.Schema:
        """Return the schema of a query's rows, an empty one for any other statement, without running it."""
        statement = self._statement(call, command)
        described = self.backend.describe(call.caller, statement.text, transaction=statement.transaction_id)
        return metadata.NO_ROWS if described.schema is None else result_schema(described.schema, call.caller)

    def _execute(self, call: Call, statement: BoundStatement, *, endpoints: int = 1) -> Planned | int:
        return self.backend.execute(
            call.caller,
            statement.text,
            parameters=statement.parameters,
            endpoints=endpoints,
            transaction=statement.transaction_id,
        )

    def _statement(self, call: Call, command: StatementCommand) -> BoundStatement:
        match command:
            case StatementQuery():
                return BoundStatement(text=command.query, transaction_id=optional(command, "transaction_id"))
            case StatementSubstraitPlan():
                return BoundStatement(text=whole_plan(command), transaction_id=optional(command, "transaction_id"))
            case PreparedStatementQuery(prepared_statement_handle=handle):
                return self.prepared.statement(call, handle)


_E = TypeVar("_E", bound=Enum)

_IF_NOT_EXISTS: Mapping[int, IfNotExists] = {
    TableDefinitionOptions.TABLE_NOT_EXIST_OPTION_CREATE: IfNotExists.CREATE,
    TableDefinitionOptions.TABLE_NOT_EXIST_OPTION_FAIL: IfNotExists.FAIL,
}
_IF_EXISTS: Mapping[int, IfExists] = {
    TableDefinitionOptions.TABLE_EXISTS_OPTION_FAIL: IfExists.FAIL,
    TableDefinitionOptions.TABLE_EXISTS_OPTION_APPEND: IfExists.APPEND,
    TableDefinitionOptions.TABLE_EXISTS_OPTION_REPLACE: IfExists.REPLACE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """Handles DoPut commands; each method returns the app_metadata of the one PutResult."""

    backend: Backend
    prepared: PreparedStatements
    inputs: InputRules

    def statement_update(self, call: Call, command: StatementUpdate) -> bytes:
        """Run a statement. Its stream has no schema, which must not be looked for."""
        return self._run(call, BoundStatement(text=command.query, transaction_id=optional(command, "transaction_id")))

    def statement_substrait_plan(self, call: Call, command: StatementSubstraitPlan) -> bytes:
        """Run a plan; its stream has no schema either."""
        return self._run(
            call, BoundStatement(text=whole_plan(command), transaction_id=optional(command, "transaction_id"))
        )

    def prepared_statement_update(
        self, call: Call, command: PreparedStatementUpdate, reader: flight.MetadataRecordBatchReader
    ) -> bytes:
        """Run a prepared statement, once for each row of parameters in the stream, if it has any."""
        parameters = read_parameters(reader, call, self.inputs)
        return self._run(call, self.prepared.statement(call, command.prepared_statement_handle, parameters))

    def prepared_statement_query(
        self, call: Call, command: PreparedStatementQuery, reader: flight.MetadataRecordBatchReader
    ) -> bytes:
        """Bind parameters to a prepared statement."""
        return self.prepared.bind(call, command.prepared_statement_handle, read_parameters(reader, call, self.inputs))

    def statement_ingest(self, call: Call, command: StatementIngest, reader: flight.MetadataRecordBatchReader) -> bytes:
        """Store the rows of the stream, and answer after the commit."""
        target = ingest_target(command, call.ingest_options)
        try:
            rows = reader.to_reader()
        except (OSError, pa.ArrowInvalid) as error:
            raise InvalidInput(f"no schema before the rows for table {command.table!r}: {error}") from error
        whole = read_rows(rows, call, self.inputs, f"the rows for table {command.table!r}")
        transaction = optional(command, "transaction_id")
        return _update_result(self.backend.ingest(call.caller, target, whole, transaction=transaction))

    def _run(self, call: Call, statement: BoundStatement) -> bytes:
        return _update_result(
            self.backend.update(
                call.caller, statement.text, parameters=statement.parameters, transaction=statement.transaction_id
            )
        )


def ingest_target(command: StatementIngest, headers: Mapping[str, str] = NO_OPTIONS) -> IngestTarget:
    """Return the target of an ingest; raise `InvalidInput` for what the protocol leaves open and a server may not guess.

    `headers` are options from headers; options of the command override those of the same name.
    """
    if not command.table:
        raise InvalidInput("an ingest names no table")
    options = command.table_definition_options
    return IngestTarget(
        table=command.table,
        catalog=optional(command, "catalog"),
        schema=optional(command, "schema"),
        if_not_exists=_choose(_IF_NOT_EXISTS, options.if_not_exist, "if_not_exist"),
        if_exists=_choose(_IF_EXISTS, options.if_exists, "if_exists"),
        temporary=command.temporary,
        options=tuple({**headers, **dict(sorted(command.options.items()))}.items()),
    )


def _choose(known: Mapping[int, _E], number: int, name: str) -> _E:
    if number not in known:
        expected = ", ".join(f"{code} ({option.value})" for code, option in known.items())
        raise InvalidInput(f"table_definition_options.{name} is {number}; expected one of {expected}")
    return known[number]


def _update_result(rows: int) -> bytes:
    answer: bytes = pb.DoPutUpdateResult(record_count=rows).SerializeToString()
    return answer


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
        """Run an action and return the bodies of its metadata."""
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
