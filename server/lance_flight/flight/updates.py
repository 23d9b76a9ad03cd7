"""DoPut streams: updates, the parameters of prepared statements, and rows to store."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import pyarrow as pa
from pyarrow import flight

from lance_flight.backend_values import IfExists
from lance_flight.errors import InvalidInput, LimitExceeded
from lance_flight.flight.backend import Backend, IfNotExists, IngestTarget
from lance_flight.flight.calls import NO_OPTIONS, Call
from lance_flight.flight.commands import (
    PreparedStatementQuery,
    PreparedStatementUpdate,
    StatementIngest,
    StatementSubstraitPlan,
    StatementUpdate,
    TableDefinitionOptions,
    optional,
)
from lance_flight.flight.dictionaries import decoded, decoded_schema, refuse_dictionaries
from lance_flight.flight.prepared import BoundStatement, PreparedStatements, whole_plan
from lance_flight.flight.protocol import flight_sql_pb2 as pb

NO_BOUND = sys.maxsize

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


@dataclass(slots=True, kw_only=True)
class InputRules:
    """Bounds of the input of clients, the bytes of parameters and whether columns may be dictionary-encoded, which may change while a server runs."""

    parameter_limit: int = NO_BOUND
    takes_dictionaries: bool = False


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
        parameters = _parameters(reader, call, self.inputs.parameter_limit)
        return self._run(call, self.prepared.statement(call, command.prepared_statement_handle, parameters))

    def prepared_statement_query(
        self, call: Call, command: PreparedStatementQuery, reader: flight.MetadataRecordBatchReader
    ) -> bytes:
        """Bind parameters to a prepared statement."""
        return self.prepared.bind(
            call, command.prepared_statement_handle, _parameters(reader, call, self.inputs.parameter_limit)
        )

    def statement_ingest(self, call: Call, command: StatementIngest, reader: flight.MetadataRecordBatchReader) -> bytes:
        """Store the rows of the stream, and answer after the commit."""
        target = ingest_target(command, call.ingest_options)
        try:
            rows = reader.to_reader()
        except (OSError, pa.ArrowInvalid) as error:
            raise InvalidInput(f"no schema before the rows for table {command.table!r}: {error}") from error
        what = f"the rows for table {command.table!r}"
        _check_names(rows.schema, what)
        if not self.inputs.takes_dictionaries:
            refuse_dictionaries(rows.schema, what, "this server takes no dictionaries (dictionary_ingest)")
        schema = decoded_schema(rows.schema)
        whole = pa.RecordBatchReader.from_batches(schema, decoded(_to_the_end(rows, call, what), schema))
        transaction = optional(command, "transaction_id")
        return _update_result(self.backend.ingest(call.caller, target, whole, transaction=transaction))

    def _run(self, call: Call, statement: BoundStatement) -> bytes:
        return _update_result(
            self.backend.update(
                call.caller, statement.text, parameters=statement.parameters, transaction=statement.transaction_id
            )
        )


def _to_the_end(batches: Iterable[pa.RecordBatch], call: Call, what: str) -> Iterator[pa.RecordBatch]:
    """Yield the validated batches of a stream; raise an error if it ends because the client disconnected, which gRPC reports as its end.

    Each batch is validated in full: Arrow trusts its offsets, and those that point outside of it crash the process.
    """
    try:
        for batch in batches:
            batch.validate(full=True)
            yield batch
    except flight.FlightError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(f"{what} cannot be read: {error}") from error
    if call.is_cancelled():
        raise InvalidInput(f"the client went away before the end of {what}; nothing was stored")


def _check_names(fields: Iterable[pa.Field], what: str) -> None:
    """Refuse names that are no valid text, which Arrow does not check."""
    for field in fields:
        try:
            _ = field.name
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{what} have a column whose name is not UTF-8") from error
        if field.type.num_fields:
            _check_names((field.type.field(place) for place in range(field.type.num_fields)), what)


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


def _parameters(
    reader: flight.MetadataRecordBatchReader, call: Call, most_bytes: int = NO_BOUND
) -> pa.RecordBatch | None:
    """Read all rows of parameters into one batch; None for a stream without columns, or without even a schema."""
    what = "the parameters of a statement"
    # A stream without a schema has no rows either; whether its client went away is asked at its end, below.
    with contextlib.suppress(OSError, pa.ArrowInvalid):
        _check_names(reader.schema, what)
        refuse_dictionaries(reader.schema, what, "parameters are no dictionaries")
    sent = (chunk.data for chunk in reader if chunk.data is not None)
    batches, size = [], 0
    for batch in _to_the_end(sent, call, what):
        batches.append(batch)
        # Each column counts: those that a client lets share their bytes are copied apart later.
        size += batch.nbytes
        if size > most_bytes:
            raise LimitExceeded(f"more than {most_bytes} bytes of parameters (parameter_limit); expected an ingest")
    if not batches or batches[0].num_columns == 0:
        return None
    return pa.concat_batches(batches)


def _update_result(rows: int) -> bytes:
    answer: bytes = pb.DoPutUpdateResult(record_count=rows).SerializeToString()
    return answer
