"""DoPut streams: updates, the parameters of prepared statements, and rows to store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import pyarrow as pa
from pyarrow import flight

from lance_flight.backend_values import IfExists
from lance_flight.errors import InvalidInput
from lance_flight.flight.backend import Backend, IfNotExists, IngestTarget
from lance_flight.flight.calls import NO_OPTIONS, Call
from lance_flight.flight.inputs import InputRules, read_parameters, read_rows
from lance_flight.flight.prepared import BoundStatement, PreparedStatements, whole_plan
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import (
    PreparedStatementQuery,
    PreparedStatementUpdate,
    StatementIngest,
    StatementSubstraitPlan,
    StatementUpdate,
    TableDefinitionOptions,
    optional,
)

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
