"""DoAction requests (prepared statements, transactions with savepoints, cancellation, sessions), and the endpoints of results.

`_ANSWERS` is the whole of it: a further action is one more entry there, and one in `OFFERED`.

Endpoints are made, read, cancelled (CancelFlightInfo, CancelQuery) and renewed (RenewFlightEndpoint). A client depends on no state that the
server has of its prepared statements, nor of the values bound to their parameters.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from threading import Lock
from typing import Any, TypeVar, cast

import pyarrow as pa
from google.protobuf.timestamp_pb2 import Timestamp
from pyarrow import flight

from lance_flight.arrow_streams import decode_batch, encode_rows, fixed_bytes
from lance_flight.backend_values import CancelStatus, SettingValue
from lance_flight.errors import InvalidInput, LimitExceeded, NotFound, TicketExpired, Unavailable, Unsupported
from lance_flight.flight import metadata, wire
from lance_flight.flight.backend import Backend, Planned, Rows, SqlOrPlan
from lance_flight.flight.calls import Call, java_parameters
from lance_flight.flight.protocol import flight_actions_pb2 as actions_pb
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.protocol import flight_sql_pb2 as sql_pb
from lance_flight.flight.rows import InputRules, client_schema
from lance_flight.flight.sql_types import result_schema
from lance_flight.flight.tickets import NoRowsTicket, Prepared, RowsTicket, TicketSealer
from lance_flight.flight.wire import (
    Action,
    BeginSavepoint,
    CancelFlightInfo,
    CancelQuery,
    ClosePreparedStatement,
    CreatePreparedStatement,
    CreatePreparedSubstraitPlan,
    EndSavepoint,
    EndTransaction,
    RenewFlightEndpoint,
    SetSessionOptions,
    StatementSubstraitPlan,
    SubstraitPlan,
    TicketStatementQuery,
    decode_command,
    encode_command,
    optional,
    wrap,
)
from lance_flight.lru_cache import LruCache
from lance_flight.model.type_names import type_name

LARGE_BYTES, LARGE_SECONDS = 4 << 20, 15.0
"""Bytes from which on parameters become handles one set after another, and seconds that a set waits for its turn."""
_large = Lock()
_LONGEST_VALUE = 80
"""Characters of a refused value that its error shows."""


class _Family(Enum):
    """Family of types whose values are converted into one another, or are not at all."""

    NUMBER = "number"
    TEXT = "text"
    DAY = "day"
    TIME = "time"
    BOOLEAN = "boolean"
    OTHER = "other"


_FAMILIES: Sequence[tuple[_Family, Sequence[Callable[[pa.DataType], bool]]]] = (
    (_Family.NUMBER, (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)),
    (_Family.TEXT, (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    (_Family.DAY, (pa.types.is_date, pa.types.is_timestamp)),
    (_Family.TIME, (pa.types.is_time,)),
    (_Family.BOOLEAN, (pa.types.is_boolean,)),
)
_CAST = frozenset(
    {
        *((family, family) for family in (_Family.NUMBER, _Family.DAY, _Family.TIME)),
        (_Family.NUMBER, _Family.TEXT),
        (_Family.NUMBER, _Family.BOOLEAN),
        (_Family.BOOLEAN, _Family.NUMBER),
    }
)
"""Families (bound, described) that are cast where every value comes back from it the same: 7.0 is 7, 1 is true, midnight is a date."""
_LEFT = _CAST - {(_Family.NUMBER, _Family.BOOLEAN)}
"""Families whose values are left to the statement where they cannot be cast."""


def fit_values(parameters: pa.RecordBatch, described: pa.Schema) -> pa.RecordBatch:
    """Cast each column of bound values to its described type (null: any), where every value stays the same.

    A number or a moment that the type cannot hold is left to the statement, which compares it by its value and refuses to store it.
    `InvalidInput` names a parameter whose value means nothing as its type: a text that is no number, a number for a date.

    >>> fit_values(pa.record_batch({"1": ["7"], "2": [1.5]}), pa.schema({"$1": pa.int64(), "$2": pa.int64()})).to_pylist()
    [{'1': 7, '2': 1.5}]
    """
    if parameters.num_columns != len(described):
        return parameters  # the statement says how many it has
    if parameters.schema.types == described.types:
        return parameters
    columns = [_fit(column, field) for column, field in zip(parameters.columns, described, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=parameters.schema.names)


def _fit(column: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    if pa.types.is_null(kind) or column.type == kind:
        return column
    values = column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
    families = bound, described = _family(values.type), _family(kind)
    if values.null_count == len(values):
        return pa.nulls(len(column), kind)
    if bound is described is _Family.TEXT or _Family.OTHER in families:
        return column
    if bound is _Family.TEXT:
        return _parse(values, field)
    if bound is described is _Family.DAY and _is_zoned(values.type) != _is_zoned(kind):
        return column
    fitting = _exactly(values, kind) if families in _CAST else None
    if fitting is None and families not in _LEFT and described is not _Family.TEXT:
        raise _refusal(values, field)
    return column if fitting is None else fitting


def _exactly(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Cast values of related types; None unless each of them comes back the same."""
    try:
        fitting = values.cast(kind)
        return fitting if fitting.cast(values.type).equals(values) else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _parse(values: pa.Array, field: pa.Field) -> pa.Array:
    """Read texts as values of the described type; those of moments with a zone, or without, are left to the statement for the other."""
    if _is_read(values, field.type):
        return values.cast(field.type)
    if not _fits(values, field.type):
        raise _refusal(values, field)
    return values


def _fits(values: pa.Array, kind: pa.DataType) -> bool:
    """Return whether texts are ones of values of this type, or other values are the same in it."""
    if _family(values.type) is not _Family.TEXT:
        return (_family(values.type), _family(kind)) in _CAST and _exactly(values, kind) is not None
    if not pa.types.is_timestamp(kind):
        return _is_read(values, kind)
    return any(_is_read(values, pa.timestamp(unit, zone)) for unit in (kind.unit, "ns") for zone in (None, "UTC"))


def _is_read(values: pa.Array, kind: pa.DataType) -> bool:
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _refusal(values: pa.Array, field: pa.Field) -> InvalidInput:
    """Return an error that names a value which is none of the described type, found by halves among many."""
    while len(values) > 1:
        half = len(values) // 2
        first = values.slice(0, half)
        values = values.slice(half) if _fits(first, field.type) or first.null_count == half else first
    shown = repr(values[0].as_py())
    shown = shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}…"
    return InvalidInput(
        f"parameter {field.name} is {shown} ({type_name(values.type)}); expected {type_name(field.type)}, which the statement takes there:"
        " bind such a value, or write a CAST of the parameter"
    )


def _family(kind: pa.DataType) -> _Family:
    return next((family for family, tests in _FAMILIES if any(test(kind) for test in tests)), _Family.OTHER)


def _is_zoned(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


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
            text=text, replica=self.replica, transaction_id=transaction, described=_compress_types(parameters)
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
        with _one_at_a_time(parameters.nbytes):
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
        return self.fit(parameters, pa.ipc.read_schema(pa.py_buffer(zlib.decompress(prepared.described))))

    def fit(self, parameters: pa.RecordBatch, described: pa.Schema) -> pa.RecordBatch:
        """Cast bound values to the types of their parameters; `LimitExceeded` where NULLs of large types are too many."""
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


def _compress_types(parameters: pa.Schema) -> bytes | None:
    """Encode the types of parameters for a handle, which is sent with every call: types that repeat take little room."""
    return zlib.compress(_message(parameters), 1) if len(parameters) else None


def _message(schema: pa.Schema) -> bytes:
    message: bytes = schema.serialize().to_pybytes()
    return message


@contextmanager
def _one_at_a_time(size: int) -> Iterator[None]:
    """Let large parameters become handles one after another: each takes several times its size meanwhile."""
    if size < LARGE_BYTES:
        yield
        return
    if not _large.acquire(timeout=LARGE_SECONDS):
        raise LimitExceeded(
            "many clients bind large parameters at this moment; expected a later try, an ingest, or smaller parameters"
        )
    try:
        yield
    finally:
        _large.release()


_R = TypeVar("_R")

_EXPIRATION_TIME = 0x1A
"""Tag of the field in a serialized FlightEndpoint, from its number (3) and its wire type (2, a message)."""
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def _now() -> datetime:
    return datetime.now(UTC)


def _none(call: Call, info: flight.FlightInfo) -> None:
    """Cancel nothing: there are no polled statements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Endpoints whose tickets are sealed by `sealer`; each can be read at the `advertised` locations.

    `cancel_polled` cancels a statement that its client polls, and has no endpoints yet.
    """

    backend: Backend
    sealer: TicketSealer
    advertised: tuple[str, ...] = ()
    cancel_polled: Callable[[Call, flight.FlightInfo], CancelStatus | flight.FlightInfo | None] = _none
    now: Callable[[], datetime] = _now

    def of(self, call: Call, planned: Planned) -> list[flight.FlightEndpoint]:
        """Return an endpoint for each payload of a query."""
        return [
            self._endpoint(call, RowsTicket(payload=payload, expires=planned.expires), planned.endpoint_metadata)
            for payload in planned.payloads
        ]

    def of_no_rows(self, call: Call) -> list[flight.FlightEndpoint]:
        """Return the endpoint of a statement that returns no rows and has been run."""
        return [self._endpoint(call, NoRowsTicket())]

    def read(self, call: Call, ticket: TicketStatementQuery) -> Rows:
        """Return the rows of one endpoint; raise `TicketExpired` if its ticket has expired."""
        match self.sealer.open_ticket(ticket.statement_handle, call.caller.principal):
            case RowsTicket() as opened:
                self._check_time(opened)
                return self.backend.read(call.caller, opened.payload)
            case NoRowsTicket():
                nothing: Rows = pa.RecordBatchReader.from_batches(metadata.NO_ROWS, [])
                return nothing

    def cancel_flight_info(self, call: Call, request: CancelFlightInfo) -> bytes:
        """Stop the query of a FlightInfo and answer a CancelFlightInfoResult."""
        status = self._cancel(call, request.info)
        answer: bytes = actions_pb.CancelFlightInfoResult(status=f"CANCEL_STATUS_{status.name}").SerializeToString()
        return answer

    def cancel_query(self, call: Call, request: CancelQuery) -> bytes:
        """Stop the query of a FlightInfo and answer an ActionCancelQueryResult in an Any."""
        status = self._cancel(call, request.info)
        return wrap(sql_pb.ActionCancelQueryResult(result=f"CANCEL_RESULT_{status.name}"))

    def renew(self, call: Call, request: RenewFlightEndpoint) -> bytes:
        """Return the endpoint with a ticket that expires later."""
        endpoint = _decode(flight.FlightEndpoint.deserialize, request.endpoint, "FlightEndpoint")
        match self._open(call, endpoint.ticket):
            case RowsTicket(payload=payload) as opened:
                self._check_time(opened)
                ticket: RowsTicket | NoRowsTicket = RowsTicket(
                    payload=payload, expires=self.backend.renew(call.caller, payload)
                )
            case NoRowsTicket() as ticket:
                pass
        renewed: bytes = self._endpoint(call, ticket, endpoint.app_metadata).serialize()
        return renewed

    def _cancel(self, call: Call, info: bytes) -> CancelStatus:
        given = _decode(flight.FlightInfo.deserialize, info, "FlightInfo")
        polled = self.cancel_polled(call, given)
        if isinstance(polled, CancelStatus):
            return polled
        endpoints: Iterable[flight.FlightEndpoint] = (given if polled is None else polled).endpoints
        tickets = [self._open(call, endpoint.ticket) for endpoint in endpoints]
        payloads = [ticket.payload for ticket in tickets if isinstance(ticket, RowsTicket)]
        return self.backend.cancel(call.caller, payloads) if payloads else CancelStatus.NOT_CANCELLABLE

    def _open(self, call: Call, ticket: flight.Ticket) -> RowsTicket | NoRowsTicket:
        command = decode_command(ticket.ticket)
        if not isinstance(command, TicketStatementQuery):
            raise InvalidInput(f"a ticket of {type(command).__name__}; expected that of a statement's endpoint")
        return self.sealer.open_ticket(command.statement_handle, call.caller.principal)

    def _check_time(self, ticket: RowsTicket) -> None:
        if ticket.expires is not None and ticket.expires < self.now():
            raise TicketExpired(
                f"this ticket was good until {ticket.expires.isoformat(timespec='seconds')};"
                " expected one that was renewed (RenewFlightEndpoint) by then, or the statement once more"
            )

    def _endpoint(
        self, call: Call, ticket: RowsTicket | NoRowsTicket, app_metadata: bytes = b""
    ) -> flight.FlightEndpoint:
        sealed = TicketStatementQuery(statement_handle=self.sealer.ticket(ticket, call.caller.principal))
        expires = ticket.expires if isinstance(ticket, RowsTicket) else None
        endpoint = flight.FlightEndpoint(encode_command(sealed), self.advertised, None, app_metadata)
        return endpoint if expires is None else _until(expires, endpoint)


def _until(expires: datetime, endpoint: flight.FlightEndpoint) -> flight.FlightEndpoint:
    """Add its expiration time to an endpoint.

    A scalar, which the constructor takes, is made and cast by Arrow's kernels: that is most of an endpoint's time.
    """
    seconds, rest = divmod((expires - _EPOCH) // _MICROSECOND, 1_000_000)
    moment = Timestamp(seconds=seconds, nanos=rest * 1000).SerializeToString()
    return flight.FlightEndpoint.deserialize(endpoint.serialize() + bytes((_EXPIRATION_TIME, len(moment))) + moment)


def _decode(deserialize: Callable[[bytes], _R], data: bytes, name: str) -> _R:
    try:
        return deserialize(data)
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{len(data)} bytes that are no {name}: {error}") from error


OFFERED = (
    flight.ActionType("CreatePreparedStatement", "Plan a statement for later, without running it."),
    flight.ActionType("CreatePreparedSubstraitPlan", "Keep a Substrait plan for later, without running it."),
    flight.ActionType("ClosePreparedStatement", "Forget a prepared statement."),
    flight.ActionType("BeginTransaction", "Begin a transaction and return its id."),
    flight.ActionType("EndTransaction", "Commit a transaction or roll it back."),
    flight.ActionType("CancelFlightInfo", "Stop the query of a FlightInfo."),
    flight.ActionType("CancelQuery", "Stop the query of a FlightInfo, as older clients ask for it."),
    flight.ActionType("RenewFlightEndpoint", "Keep the ticket of an endpoint good for longer."),
    flight.ActionType("SetSessionOptions", "Set options of the session."),
    flight.ActionType("GetSessionOptions", "Return all options of the session."),
    flight.ActionType("CloseSession", "End the session and roll its transactions back."),
)


_COMMITS: Mapping[int, bool] = {
    sql_pb.ActionEndTransactionRequest.END_TRANSACTION_COMMIT: True,
    sql_pb.ActionEndTransactionRequest.END_TRANSACTION_ROLLBACK: False,
}
_RELEASES: Mapping[int, bool] = {
    sql_pb.ActionEndSavepointRequest.END_SAVEPOINT_RELEASE: True,
    sql_pb.ActionEndSavepointRequest.END_SAVEPOINT_ROLLBACK: False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """Dispatcher of actions."""

    backend: Backend
    prepared: PreparedStatements
    endpoints: Endpoints

    def run(self, call: Call, name: str, action: Action) -> Iterable[bytes]:
        """Run an action called `name`, and return the bodies of its metadata."""
        answer = _ANSWERS.get(type(action))
        if answer is None:
            raise Unsupported(f"the action {name} is not offered")
        body = answer(self, call, action)
        return () if body is None else (body,)


def set_options(backend: Backend, call: Call, request: SetSessionOptions) -> bytes:
    """Set each option by itself and answer a SetSessionOptionsResult, which names those that could not be set."""
    result = actions_pb.SetSessionOptionsResult()
    for name in sorted(request.session_options):
        try:
            backend.set_option(call.caller, name, _read_value(request.session_options[name]))
        except NotFound:
            result.errors[name].value = actions_pb.SetSessionOptionsResult.INVALID_NAME
        except InvalidInput:
            result.errors[name].value = actions_pb.SetSessionOptionsResult.INVALID_VALUE
    return _encode(result)


def get_options(backend: Backend, call: Call) -> bytes:
    """Answer a GetSessionOptionsResult."""
    options = {name: value_message(value) for name, value in backend.options(call.caller).items()}
    return _encode(actions_pb.GetSessionOptionsResult(session_options=options))


def close_session(backend: Backend, call: Call) -> bytes:
    """End the session and answer a CloseSessionResult."""
    backend.close_session(call.caller)
    return _encode(actions_pb.CloseSessionResult(status=actions_pb.CloseSessionResult.CLOSED))


def value_message(value: SettingValue | None) -> actions_pb.SessionOptionValue:
    """Convert an option's value to its message."""
    match value:
        case None:
            return actions_pb.SessionOptionValue()
        case bool():
            return actions_pb.SessionOptionValue(bool_value=value)
        case int():
            return actions_pb.SessionOptionValue(int64_value=value)
        case float():
            return actions_pb.SessionOptionValue(double_value=value)
        case str():
            return actions_pb.SessionOptionValue(string_value=value)
        case tuple():
            return actions_pb.SessionOptionValue(
                string_list_value=actions_pb.SessionOptionValue.StringListValue(values=value)
            )


def _read_value(message: actions_pb.SessionOptionValue) -> SettingValue | None:
    match message.WhichOneof("option_value"):
        case None:
            return None
        case "string_list_value":
            return tuple(message.string_list_value.values)
        case name:
            return cast("SettingValue", getattr(message, name))


def _encode(
    message: actions_pb.SetSessionOptionsResult | actions_pb.GetSessionOptionsResult | actions_pb.CloseSessionResult,
) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def begin_transaction(backend: Backend, call: Call) -> bytes:
    """Begin a transaction and answer an ActionBeginTransactionResult in an Any."""
    return wrap(sql_pb.ActionBeginTransactionResult(transaction_id=backend.begin(call.caller)))


def end_transaction(backend: Backend, call: Call, request: EndTransaction) -> None:
    """Commit a transaction or roll it back."""
    if request.action not in _COMMITS:
        raise InvalidInput(f"EndTransaction has action {request.action}; expected 1 (commit) or 2 (rollback)")
    backend.end(call.caller, request.transaction_id, commit=_COMMITS[request.action])


def begin_savepoint(backend: Backend, call: Call, request: BeginSavepoint) -> bytes:
    """Create a savepoint in a transaction and answer an ActionBeginSavepointResult in an Any."""
    savepoint = backend.begin_savepoint(call.caller, request.transaction_id, request.name)
    return wrap(sql_pb.ActionBeginSavepointResult(savepoint_id=savepoint))


def end_savepoint(backend: Backend, call: Call, request: EndSavepoint) -> None:
    """Release a savepoint or roll back to it."""
    if request.action not in _RELEASES:
        raise InvalidInput(f"EndSavepoint has action {request.action}; expected 1 (release) or 2 (rollback)")
    backend.end_savepoint(call.caller, request.savepoint_id, release=_RELEASES[request.action])


_ANSWERS: Mapping[type[Action], Callable[[Actions, Call, Any], bytes | None]] = {
    wire.CreatePreparedStatement: lambda actions, call, request: actions.prepared.create(call, request),
    wire.CreatePreparedSubstraitPlan: lambda actions, call, request: actions.prepared.create(call, request),
    wire.ClosePreparedStatement: lambda actions, call, request: actions.prepared.close(call, request),
    wire.BeginTransaction: lambda actions, call, _: begin_transaction(actions.backend, call),
    wire.EndTransaction: lambda actions, call, request: end_transaction(actions.backend, call, request),
    wire.BeginSavepoint: lambda actions, call, request: begin_savepoint(actions.backend, call, request),
    wire.EndSavepoint: lambda actions, call, request: end_savepoint(actions.backend, call, request),
    wire.CancelFlightInfo: lambda actions, call, request: actions.endpoints.cancel_flight_info(call, request),
    wire.CancelQuery: lambda actions, call, request: actions.endpoints.cancel_query(call, request),
    wire.RenewFlightEndpoint: lambda actions, call, request: actions.endpoints.renew(call, request),
    wire.SetSessionOptions: lambda actions, call, request: set_options(actions.backend, call, request),
    wire.GetSessionOptions: lambda actions, call, _: get_options(actions.backend, call),
    wire.CloseSession: lambda actions, call, _: close_session(actions.backend, call),
}
