"""Prepared statements, created, bound and closed without server state that a client depends on."""

from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass

import pyarrow as pa

from lance_flight.arrow_streams import decode_batch, encode_rows
from lance_flight.decoded_sizes import fixed_bytes
from lance_flight.errors import InvalidInput, Unavailable
from lance_flight.flight.backend import Backend, SqlOrPlan
from lance_flight.flight.bound_values import fit_values
from lance_flight.flight.calls import Call
from lance_flight.flight.commands import (
    ClosePreparedStatement,
    CreatePreparedStatement,
    CreatePreparedSubstraitPlan,
    StatementSubstraitPlan,
    SubstraitPlan,
    optional,
)
from lance_flight.flight.inputs import InputRules
from lance_flight.flight.java_parameters import java_parameters
from lance_flight.flight.metadata.column_metadata import result_schema
from lance_flight.flight.normalise import client_schema
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.tickets import Prepared, TicketSealer
from lance_flight.flight.wire import wrap
from lance_flight.lru_cache import LruCache

MOST_BINDINGS = 1024
MOST_BINDING_BYTES = 64 << 20


def no_bindings() -> LruCache[str, bytes]:
    """Make the cache of parameters by the identity of their prepared statement.

    The protocol answers a binding with a new handle that carries the parameters. Clients older than that answer ignore it, so that
    this server remembers them for the old handle, for as long as there is room.
    """
    return LruCache(MOST_BINDINGS, most_weight=MOST_BINDING_BYTES, weigh=len)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundStatement:
    """SQL text, or a plan, with the transaction and the parameters that it is run with."""

    text: SqlOrPlan
    transaction_id: bytes | None = None
    parameters: pa.RecordBatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStatements:
    """Operations on prepared statements: creation, binding of parameters, and closing.

    Only the `replica` that made a handle knows whether it remembers the parameters that were bound last: another one refuses a handle without any,
    rather than run the statement with older ones.
    """

    backend: Backend
    sealer: TicketSealer
    bindings: LruCache[str, bytes]
    replica: str
    inputs: InputRules

    def create(self, call: Call, request: CreatePreparedStatement | CreatePreparedSubstraitPlan) -> bytes:
        """Plan a statement and answer an ActionCreatePreparedStatementResult in an Any, without running it."""
        text = request.query if isinstance(request, CreatePreparedStatement) else whole_plan(request)
        transaction = optional(request, "transaction_id")
        described = self.backend.describe(call.caller, text, transaction=transaction)
        parameters = client_schema(described.parameters)
        prepared = Prepared(
            text=text, replica=self.replica, transaction_id=transaction, described=_compressed(parameters)
        )
        result = pb.ActionCreatePreparedStatementResult(
            prepared_statement_handle=self.sealer.handle(prepared, call.caller.principal),
            parameter_schema=_message(java_parameters(parameters) if call.caller.is_java else parameters),
            is_update=described.schema is None,
        )
        if described.schema is not None:
            result.dataset_schema = _message(result_schema(described.schema, call.caller))
        return wrap(result)

    def bind(self, call: Call, handle: bytes, parameters: pa.RecordBatch | None) -> bytes:
        """Bind parameters in place of earlier ones and answer a DoPutPreparedStatementResult with the new handle."""
        prepared = self.sealer.open_handle(handle, call.caller.principal)
        if parameters is None:
            raise InvalidInput("no parameters to bind; expected a record batch with one column for each")
        encoded = encode_rows(self._fitting(prepared, parameters))
        if prepared.parameters is None:
            # Its client may ignore the handle in the answer.
            self._check_made_here(prepared)
            self.bindings.put(prepared.identity, encoded, owner=call.caller.holder)
        bound = self.sealer.handle(dataclasses.replace(prepared, parameters=encoded), call.caller.principal)
        answer: bytes = pb.DoPutPreparedStatementResult(prepared_statement_handle=bound).SerializeToString()
        return answer

    def statement(self, call: Call, handle: bytes, given: pa.RecordBatch | None = None) -> BoundStatement:
        """Return the statement of `handle`, with the parameters `given`, else those in the handle, else those remembered for it."""
        prepared = self.sealer.open_handle(handle, call.caller.principal)
        encoded = prepared.parameters
        if encoded is None and given is None:
            if prepared.described is not None:
                self._check_made_here(prepared)
            encoded = self.bindings.get(prepared.identity)
        bound = None if encoded is None else decode_batch(encoded)
        return BoundStatement(
            text=prepared.text,
            transaction_id=None
            if prepared.transaction_id is None
            else self.backend.current(call.caller, prepared.transaction_id),
            parameters=bound if given is None else self._fitting(prepared, given),
        )

    def close(self, call: Call, request: ClosePreparedStatement) -> None:
        """Drop the parameters that are remembered for a statement."""
        prepared = self.sealer.open_handle(request.prepared_statement_handle, call.caller.principal)
        self.bindings.pop(prepared.identity)

    def _fitting(self, prepared: Prepared, parameters: pa.RecordBatch) -> pa.RecordBatch:
        """Cast bound values to the types by which the statement was described to its client; NULLs of a vector take its bytes."""
        if prepared.described is None:
            return parameters
        described = pa.ipc.read_schema(pa.py_buffer(zlib.decompress(prepared.described)))
        self.inputs.check_parameters(parameters.num_rows * sum(fixed_bytes(kind) for kind in described.types))
        return fit_values(parameters, described)

    def _check_made_here(self, prepared: Prepared) -> None:
        if prepared.replica != self.replica:
            raise Unavailable(
                "the statement was prepared on another server, or before this one was started again, and its parameters are kept"
                " there; expected it to be prepared again"
            )


def whole_plan(command: StatementSubstraitPlan | CreatePreparedSubstraitPlan) -> SubstraitPlan:
    """Return the plan of a command; raise `InvalidInput` for a command without one."""
    if not command.HasField("plan"):
        raise InvalidInput("the command has no plan; expected a SubstraitPlan")
    return command.plan


def _compressed(parameters: pa.Schema) -> bytes | None:
    """Encode the types of parameters for a handle, which is sent with every call: types that repeat take little room."""
    return zlib.compress(_message(parameters), 1) if len(parameters) else None


def _message(schema: pa.Schema) -> bytes:
    message: bytes = schema.serialize().to_pybytes()
    return message
