"""Statements through GetFlightInfo, GetSchema and DoGet.

A query is planned in GetFlightInfo and runs in DoGet. Any other statement runs once, in GetFlightInfo: clients prepare
whatever they are given and then ask for its FlightInfo, and some never fetch what they do not expect. The rows of one that
returns a report (maintenance) can be fetched again: they are kept, and it is not run again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyarrow import flight

from lance_flight.flight.backend import Backend, Planned, Rows
from lance_flight.flight.calls import Call
from lance_flight.flight.endpoints import Endpoints
from lance_flight.flight.metadata import schemas
from lance_flight.flight.metadata.sql_types import result_schema
from lance_flight.flight.normalise import client_schema
from lance_flight.flight.prepared import BoundStatement, PreparedStatements, whole_plan
from lance_flight.flight.wire import PreparedStatementQuery, StatementQuery, StatementSubstraitPlan, optional

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
                return flight.FlightInfo(schemas.NO_ROWS, descriptor, self.endpoints.of_no_rows(call), rows)

    def exchange(self, call: Call, command: StatementCommand, parameters: pa.RecordBatch | None) -> Iterator[Rows]:
        """Run a statement with values for its parameters, and return its rows part by part."""
        statement = self._statement(call, command)
        if parameters is not None:
            described = self.backend.describe(call.caller, statement.text, transaction=statement.transaction_id)
            fitting = self.prepared.fit(parameters, client_schema(described.parameters))
            statement = dataclasses.replace(statement, parameters=fitting)
        outcome = self._execute(call, statement)
        if isinstance(outcome, int):
            nothing: Rows = pa.RecordBatchReader.from_batches(schemas.NO_ROWS, [])
            return iter([nothing])
        return (self.backend.read(call.caller, payload) for payload in outcome.payloads)

    def get_schema(self, call: Call, command: StatementCommand) -> pa.Schema:
        """Return the schema of a query's rows, an empty one for any other statement, without running it."""
        statement = self._statement(call, command)
        described = self.backend.describe(call.caller, statement.text, transaction=statement.transaction_id)
        return schemas.NO_ROWS if described.schema is None else result_schema(described.schema, call.caller)

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
