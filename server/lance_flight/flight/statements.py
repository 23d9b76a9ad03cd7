"""Statements through GetFlightInfo, GetSchema and DoGet.

A query is planned in GetFlightInfo and runs in DoGet. Any other statement runs once, in GetFlightInfo: clients prepare
whatever they are given and then ask for its FlightInfo, and some never fetch what they do not expect. The rows of one that
returns a report (maintenance) can be fetched again: they are kept, and it is not run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyarrow import flight

from lance_flight.flight.backend import Backend, Planned
from lance_flight.flight.calls import Call
from lance_flight.flight.endpoints import Endpoints
from lance_flight.flight.metadata import schemas
from lance_flight.flight.metadata.sql_types import result_schema
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
        statement = self._statement(call, command)
        outcome = self.backend.execute(
            call.caller,
            statement.text,
            parameters=statement.parameters,
            endpoints=call.endpoints,
            transaction=statement.transaction_id,
        )
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

    def get_schema(self, call: Call, command: StatementCommand) -> pa.Schema:
        """Return the schema of a query's rows, an empty one for any other statement, without running it."""
        statement = self._statement(call, command)
        described = self.backend.describe(call.caller, statement.text, transaction=statement.transaction_id)
        return schemas.NO_ROWS if described.schema is None else result_schema(described.schema, call.caller)

    def _statement(self, call: Call, command: StatementCommand) -> BoundStatement:
        match command:
            case StatementQuery():
                return BoundStatement(text=command.query, transaction_id=optional(command, "transaction_id"))
            case StatementSubstraitPlan():
                return BoundStatement(text=whole_plan(command), transaction_id=optional(command, "transaction_id"))
            case PreparedStatementQuery(prepared_statement_handle=handle):
                return self.prepared.statement(call, handle)
