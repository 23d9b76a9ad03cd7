"""A second Flight SQL server, on gRPC's own library: it offers PollFlightInfo and DoExchange, which LanceDB's clients call.

pyarrow's server knows no PollFlightInfo. Both servers have one dispatch, one admission of callers, and one count of running calls;
a ticket of one is good for the other. The one on pyarrow sends more rows a second.

A call is on a thread from its headers on. Its credential is looked at before its first message is read.

Rows as FlightData, the messages of a Flight stream: the parts of an Arrow IPC message, each in a field.

pyarrow puts them together in its own server alone. A message is joined from its parts in one copy.

PollFlightInfo is for statements that outlive the call that began them. The first poll begins a statement on a thread of its own, and names a descriptor to poll again while it is not done. A query is done once
its rows can be read; any other statement once it has run. A statement that its client does not poll for a minute ends, as if the client were gone.

A statement counts as a running call of its holder until it is done (`calls.InFlight`). What was answered is kept for clients that have
lost the answer, for as long as there is room.
"""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
import pyarrow as pa
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp
from pyarrow import flight

from lance_flight.backend_values import CancelStatus
from lance_flight.connections import Tls, bracket_host
from lance_flight.errors import (
    AlreadyExists,
    Cancelled,
    InvalidInput,
    LanceFlightError,
    LimitExceeded,
    NotFound,
    Refused,
    StatementTimeout,
    StorageFull,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from lance_flight.flight.actions import OFFERED
from lance_flight.flight.authentication import API_KEY, AUTHORIZATION, with_api_key
from lance_flight.flight.calls import MIDDLEWARE, SET_COOKIE, Call, Handshake, InFlight, call_of
from lance_flight.flight.dispatch import Dispatch, Tell, command_of
from lance_flight.flight.protocol import flight_messages_pb2 as messages_pb
from lance_flight.flight.protocol.flight_messages_pb2 import FlightData, PollInfo
from lance_flight.flight.rows import refuse_dictionaries
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.status import describe_error, nearest
from lance_flight.flight.wire import TicketStatementQuery, encode_command
from lance_flight.lru_cache import LruCache
from lance_flight.protobuf_wire import encode_varint

FIRST_SECONDS, NEXT_SECONDS = 1.0, 2.0
"""Longest time that the first poll of a statement waits for it, and a later one: some clients poll again at once."""
IDLE_SECONDS = 60.0
"""Time without a poll after which a statement ends, and after which what became of it is forgotten."""
MOST_RUNNING = 1000
"""Most statements that run at the same time; `running_calls` bounds them, too."""
MOST_ANSWERS, MOST_ANSWER_BYTES = 1024, 64 << 20
"""Most answers that are kept, and most bytes of them together."""
_HANDLE_BYTES = 24


class Polls:
    """Polls of one statement, and what the engine asks and tells while it runs: it keeps this long after, and never the answer."""

    def __init__(self) -> None:
        self.progress = 0.0
        self.is_cancelled = False
        self._running, self._last = 0, time.monotonic()
        self._lock = threading.Lock()

    def is_gone(self) -> bool:
        """Return whether the statement was cancelled, or its client has stopped polling."""
        with self._lock:
            is_idle = not self._running and time.monotonic() - self._last > IDLE_SECONDS
        return self.is_cancelled or is_idle

    def report_progress(self, progress: float) -> None:
        """Note how much of the work is done."""
        self.progress = min(max(progress, 0.0), 1.0)

    def count(self, by: int) -> None:
        """Count a poll that begins, or ends."""
        with self._lock:
            self._running += by
            self._last = time.monotonic()


class PolledStatement:
    """A statement that a client polls: who began it, its polls, and its `outcome` once it is known, a FlightInfo in bytes or an error."""

    def __init__(self, call: Call) -> None:
        self.handle = secrets.token_bytes(_HANDLE_BYTES)
        self.principal, self.holder = call.caller.principal, call.caller.holder
        self.polls = Polls()
        self.outcome: bytes | Exception | None = None
        self._done = threading.Event()

    @property
    def descriptor(self) -> flight.FlightDescriptor:
        """Return the descriptor to poll again."""
        return flight.FlightDescriptor.for_command(encode_command(TicketStatementQuery(statement_handle=self.handle)))

    def wait(self, seconds: float) -> None:
        """Wait for the outcome, at most so long."""
        self.polls.count(1)
        try:
            self._done.wait(seconds)
        finally:
            self.polls.count(-1)

    @property
    def size(self) -> int:
        """Return the bytes of the outcome."""
        return len(self.outcome) if isinstance(self.outcome, bytes) else 0

    def end(self, outcome: bytes | Exception) -> None:
        """Set the outcome."""
        if isinstance(outcome, Exception):
            outcome = (
                Cancelled("the statement was cancelled") if self.polls.is_cancelled else outcome.with_traceback(None)
            )
        self.outcome = outcome
        self._done.set()

    def answer(self) -> PollInfo:
        """Return what a poll is told; raise the error by which the statement has failed."""
        outcome = self.outcome
        if isinstance(outcome, Exception):
            raise outcome.with_traceback(None)
        if outcome is not None:
            return PollInfo(info=outcome, progress=1.0)
        # Some clients want an info from the beginning: it is what they can cancel.
        begun = flight.FlightInfo(None, self.descriptor, [], -1, -1)
        return PollInfo(
            info=begun.serialize(),
            flight_descriptor=self.descriptor.serialize(),
            progress=self.polls.progress,
            expiration_time=Timestamp(seconds=int(time.time() + IDLE_SECONDS)),
        )


class PolledStatements:
    """All statements that clients poll, each found by its random handle and for its own principal alone."""

    def __init__(self, in_flight: InFlight) -> None:
        self._in_flight = in_flight
        self._running: dict[bytes, PolledStatement] = {}
        self._answered: LruCache[bytes, PolledStatement] = LruCache(
            MOST_ANSWERS, most_weight=MOST_ANSWER_BYTES, weigh=lambda item: item.size, idle_seconds=IDLE_SECONDS
        )
        self._threads = ThreadPoolExecutor(min(in_flight.most, MOST_RUNNING), "polled-statement")
        self._changed = threading.Lock()

    def poll(self, dispatch: Dispatch, call: Call, descriptor: flight.FlightDescriptor) -> PollInfo:
        """Begin the statement of a descriptor, or return the state of one that has begun."""
        command = command_of(descriptor)
        if isinstance(command, TicketStatementQuery):
            statement = self._find(command.statement_handle, call.caller.principal)
            if statement is None:
                raise NotFound(
                    f"no statement to poll: it was begun by another principal or on another server, or nobody polled it for {IDLE_SECONDS:g}"
                    " seconds; expected a new one"
                )
            statement.wait(NEXT_SECONDS)
            return statement.answer()
        statement = self._begin(call, lambda begun: dispatch.flight_info(begun, descriptor, lambda _: None))
        statement.wait(FIRST_SECONDS)
        return statement.answer()

    def cancel(self, call: Call, info: flight.FlightInfo) -> CancelStatus | flight.FlightInfo | None:
        """Cancel the statement that a poll has told of with an info; its final info if it is done, None for an info of another kind."""
        descriptor = info.descriptor
        if descriptor.descriptor_type != flight.DescriptorType.CMD or info.endpoints:
            return None
        command = command_of(descriptor)
        if not isinstance(command, TicketStatementQuery):
            return None
        statement = self._find(command.statement_handle, call.caller.principal)
        if statement is None or isinstance(statement.outcome, Exception):
            return CancelStatus.NOT_CANCELLABLE
        if statement.outcome is not None:
            return flight.FlightInfo.deserialize(statement.outcome)
        statement.polls.is_cancelled = True
        return CancelStatus.CANCELLING

    def close(self) -> None:
        """Cancel all running statements."""
        with self._changed:
            for statement in self._running.values():
                statement.polls.is_cancelled = True

    def _find(self, handle: bytes, principal: str) -> PolledStatement | None:
        with self._changed:
            statement = self._running.get(handle) or self._answered.get(handle)
        return statement if statement is not None and statement.principal == principal else None

    def _begin(self, call: Call, run: Callable[[Call], flight.FlightInfo]) -> PolledStatement:
        statement = PolledStatement(call)
        polls = statement.polls
        caller = dataclasses.replace(call.caller, is_gone=polls.is_gone, progressed=polls.report_progress)
        begun = dataclasses.replace(call, caller=caller, is_cancelled=polls.is_gone, offered=None)
        self._in_flight.enter()
        try:
            self._in_flight.hold(statement.holder)
        except BaseException:
            self._in_flight.leave()
            raise
        with self._changed:
            self._running[statement.handle] = statement
        # Threads that are used again have one arena of the allocator each, and not one a statement.
        self._threads.submit(self._run, statement, begun, run)
        return statement

    def _run(self, statement: PolledStatement, call: Call, run: Callable[[Call], flight.FlightInfo]) -> None:
        outcome: bytes | Exception = Cancelled("the statement was cancelled")
        try:
            outcome = run(call).serialize()
        except Exception as error:  # noqa: BLE001 - who polls gets it, and it is logged there
            outcome = error
        finally:
            statement.end(outcome)
            with self._changed:
                self._running.pop(statement.handle, None)
                self._answered.put(statement.handle, statement, owner=statement.holder)
            self._in_flight.leave(statement.holder)


_HEADER, _BODY = b"\x12", b"\xc2\x3e"
"""Tags of `data_header` (2) and `data_body` (1000), both of the wire type 2."""
_CONTINUATION = b"\xff\xff\xff\xff"
_PREFIX = 8
"""Bytes in front of the metadata of an IPC message: a mark, and the length of the metadata."""
_ALIGNMENT = 8


def encode(message: pa.Buffer) -> bytes:
    """Encode a schema or a batch that was serialized as an IPC message."""
    whole = memoryview(message)
    end = _PREFIX + int.from_bytes(whole[len(_CONTINUATION) : _PREFIX], "little")
    header, body = whole[_PREFIX:end], whole[end:]
    parts: list[bytes | memoryview] = [_HEADER, encode_varint(len(header)), header]
    return b"".join([*parts, _BODY, encode_varint(len(body)), body] if len(body) else parts)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A batch of a stream, as pyarrow's readers hand it out."""

    data: pa.RecordBatch


class SentRows:
    """Rows that a client sends, read as pyarrow's `MetadataRecordBatchReader`; `descriptor` came with the first message.

    Columns with dictionaries are refused. Each message is decoded by itself: a body that is shorter or longer than its metadata
    says is refused, and nothing of it is read as another message.
    """

    def __init__(self, messages: Iterator[bytes]) -> None:
        self._messages = messages
        first = next(messages, None)
        if first is None:
            raise InvalidInput("the stream ended before its first message; expected one with a descriptor")
        begun = _parse(first)
        if not begun.flight_descriptor:
            raise InvalidInput("the first message has no descriptor; expected CMD with a command")
        try:
            self.descriptor = flight.FlightDescriptor.deserialize(begun.flight_descriptor)
        except pa.ArrowInvalid as error:
            raise InvalidInput(f"the first message has no descriptor that can be read: {error}") from error
        self._pending = begun if begun.data_header else None
        self._schema: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows; `ArrowInvalid` where the client has sent none, as pyarrow's reader raises."""
        if self._schema is None:
            begun, self._pending = self._pending or self._next(), None
            if begun is None:
                raise pa.ArrowInvalid("the client sent no schema")
            try:
                self._schema = pa.ipc.read_schema(_message(begun))
            except (pa.ArrowException, OSError) as error:
                raise InvalidInput(f"the schema of the rows cannot be read: {error}") from error
            refuse_dictionaries(self._schema, "the rows of this call", "this port takes no dictionaries")
        return self._schema

    def __iter__(self) -> Iterator[Chunk]:
        """Yield the batches that were sent; none where there is no schema."""
        try:
            schema = self.schema
        except pa.ArrowInvalid:
            return
        while (sent := self._next()) is not None:
            if sent.data_header:
                yield Chunk(pa.ipc.read_record_batch(_message(sent), schema))

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the batches as a reader."""
        return pa.RecordBatchReader.from_batches(self.schema, (chunk.data for chunk in self))

    def _next(self) -> FlightData | None:
        data = next(self._messages, None)
        return None if data is None else _parse(data)


def _parse(data: bytes) -> FlightData:
    try:
        return FlightData.FromString(data)
    except DecodeError as error:
        raise InvalidInput(f"a message of {len(data)} bytes that is no FlightData: {error}") from error


def _message(sent: FlightData) -> pa.Buffer:
    """Return the IPC message in a FlightData, as Arrow reads it."""
    header = sent.data_header + bytes(-len(sent.data_header) % _ALIGNMENT)
    return pa.py_buffer(b"".join([_CONTINUATION, len(header).to_bytes(4, "little"), header, sent.data_body]))


SERVICE = "/arrow.flight.protocol.FlightService/"
REUSED_CONNECTION = "arrow-flight-reuse-connection://?"
"""Location of endpoints that are read over the connection on which they were told."""
NAMESPACE, SEPARATOR = "namespace-path", "$"
MESSAGE_SECONDS = 60.0
"""Longest time that a call waits for the next message of its client."""
_WATCH_SECONDS = 1.0
_CLOSING_SECONDS = 1.0
_MOST_STREAMS = 128
"""Most calls at the same time over one connection."""
_IDLE_MILLISECONDS, _HANDSHAKE_MILLISECONDS = 3_600_000, 10_000
"""Times after which a connection without calls is closed, and one without the settings of HTTP/2."""
_MESSAGE_BYTES = 4 << 20
"""Size of the messages that large batches are sent in."""
_IDENTITY_ALONE = 1
"""Set of the compressions that are understood: none, since gRPC unpacks a message before anybody has looked at a credential."""

_CODES: Mapping[type[LanceFlightError], grpc.StatusCode] = {
    InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    NotFound: grpc.StatusCode.NOT_FOUND,
    Unsupported: grpc.StatusCode.UNIMPLEMENTED,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Refused: grpc.StatusCode.PERMISSION_DENIED,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    Cancelled: grpc.StatusCode.CANCELLED,
    StatementTimeout: grpc.StatusCode.DEADLINE_EXCEEDED,
    LimitExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    StorageFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    LanceFlightError: grpc.StatusCode.UNKNOWN,
}


class _Context:
    """Context of a call, with the methods of pyarrow's `ServerCallContext` that `call_of` calls."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context
        self._middleware: dict[str, Any] = {}
        self._added: list[tuple[str, str]] = []
        self.peer = context.peer

    def begin(self, server: FlightSqlServer, method: flight.FlightMethod) -> None:
        """Admit the call, or raise `Unauthenticated`."""
        headers: dict[str, list[Any]] = {}
        for name, value in self._context.invocation_metadata():
            headers.setdefault(name, []).append(value)
        given = with_api_key(headers)
        if server.is_open and API_KEY in headers:
            # It proves nothing, and many clients may have the same: only the connection tells their sessions apart.
            given.pop(AUTHORIZATION)
        self._middleware[MIDDLEWARE] = server.admission.admit(method, given)
        for name, factory in server.further_middleware.items():
            begun = factory.start_call(flight.CallInfo(method), given)
            if begun is not None:
                self._middleware[name] = begun

    def end(self, error: BaseException | None) -> None:
        """End the middleware of the call."""
        for begun in self._middleware.values():
            begun.call_completed(error)

    def send_headers(self) -> None:
        """Send the headers of the answer, in front of its first message."""
        headers = [pair for begun in self._middleware.values() for pair in (begun.sending_headers() or {}).items()]
        self._context.send_initial_metadata([*self._added, *headers])

    def call(self) -> Call:
        """Return the call with the schema that its headers name."""
        call = call_of(self)
        sent = self.get_middleware(MIDDLEWARE).headers.get(NAMESPACE)
        if not sent:
            return call
        if SEPARATOR in sent[-1]:
            raise InvalidInput(
                f"header {NAMESPACE} is {sent[-1]!r}, a path of several parts; expected the name of one schema"
            )
        return dataclasses.replace(call, caller=dataclasses.replace(call.caller, db_schema=sent[-1]))

    def get_middleware(self, name: str) -> Any:
        return self._middleware.get(name)

    def peer_identity(self) -> bytes:
        """Return the name in the certificate of the client; empty without one."""
        identity: bytes = next(iter(self._context.peer_identities() or ()), b"")
        return identity

    def is_cancelled(self) -> bool:
        """Return whether the client is gone."""
        return not self._context.is_active()

    def add_header(self, name: str, value: str) -> None:
        """Add a header to the answer."""
        self._added.append((name, value))


@dataclass(frozen=True, slots=True, eq=False)
class _Messages:
    """Messages of a client, each within `MESSAGE_SECONDS`; also what `Handshake` reads and writes."""

    server: GrpcServer
    context: grpc.ServicerContext
    incoming: Iterator[bytes]

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self.server.watching(self.context):
            return next(self.incoming)

    def only(self) -> bytes:
        """Return the one message of a call that has one."""
        message = next(self, None)
        if message is None:
            raise InvalidInput("the call ended before its message")
        return message


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers of the service's calls, message by message."""

    dispatch: Dispatch
    polled: PolledStatements
    greeting: Handshake | None

    def handshake(self, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """Handshake: exchanges a password for a token."""
        if self.greeting is None:
            raise Unsupported("a Handshake, where clients are known by their certificates")
        handshake_messages = _HandshakeMessages(messages)
        self.greeting.answer(handshake_messages, handshake_messages)
        yield from handshake_messages.written or [b""]

    def list_actions(self, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """ListActions: lists the actions that `do_action` runs."""
        call_of(context)
        for offered in OFFERED:
            kind = messages_pb.ActionType(type=offered.type, description=offered.description)
            yield kind.SerializeToString()

    def descriptor(self, message: bytes) -> flight.FlightDescriptor:
        """Decode the descriptor of a call."""
        return _decode(flight.FlightDescriptor.deserialize, message, "a FlightDescriptor")

    def flight_info(self, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """GetFlightInfo: returns the schema and the endpoints of a result."""
        call, descriptor = context.call(), self.descriptor(messages.only())
        yield self.dispatch.flight_info(call, descriptor, _teller(context)).serialize()

    def poll(self, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """PollFlightInfo: begins a statement, or returns the state of one that has begun."""
        call, descriptor = context.call(), self.descriptor(messages.only())
        with self.dispatch.telling_session(call, _teller(context)):
            answer = self.polled.poll(self.dispatch, call, descriptor)
        yield answer.SerializeToString()

    def schema(self, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """GetSchema: returns the schema of a result."""
        call, descriptor = context.call(), self.descriptor(messages.only())
        yield self.dispatch.schema(call, descriptor).serialize()

    def do_get(self, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """DoGet: streams the rows of one endpoint."""
        call = context.call()
        ticket = _decode(flight.Ticket.deserialize, messages.only(), "a Ticket")
        sent = self.dispatch.rows(call, ticket)
        yield encode(sent.schema.serialize())
        yield from _encode(sent.messages())

    def do_put(self, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """DoPut: runs an update, binds parameters, or stores rows."""
        call, rows = context.call(), SentRows(messages)
        answer = self.dispatch.put(call, rows.descriptor, rows, _teller(context))
        yield messages_pb.PutResult(app_metadata=answer).SerializeToString()

    def do_exchange(self, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """DoExchange: runs a statement with the parameters in the stream, and streams its rows."""
        call, rows = context.call(), SentRows(messages)
        for number, sent in enumerate(self.dispatch.exchange(call, rows.descriptor, rows, _teller(context))):
            if not number:
                yield encode(sent.schema.serialize())
            yield from _encode(sent.messages())

    def do_action(self, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """DoAction: runs an action."""
        call = context.call()
        action = _decode(flight.Action.deserialize, messages.only(), "an Action")
        for body in self.dispatch.act(call, action, _teller(context)):
            yield flight.Result(body).serialize()


class GrpcServer:
    """Serves what `server` serves at `host`:`port` (0: any free port), with at most `threads` calls at the same time.

    A message of a client has at most `message_limit` bytes. `answers` may be a class that reads other commands as well.
    """

    title = "SQL for LanceDB's clients"

    def __init__(
        self,
        server: FlightSqlServer,
        *,
        host: str,
        port: int,
        threads: int,
        message_limit: int,
        tls: Tls | None = None,
        answers: type[Answers] = Answers,
    ) -> None:
        self._served, self._host, self._tls = server, host, tls
        self._polled = polled = PolledStatements(server.in_flight)
        endpoints = dataclasses.replace(
            server.dispatch.endpoints, advertised=(REUSED_CONNECTION,), cancel_polled=polled.cancel
        )
        dispatch = server.dispatch.with_endpoints(endpoints)
        self._answers = answers(dispatch=dispatch, polled=polled, greeting=server.handshake)
        self._waiting: dict[int, tuple[float, grpc.ServicerContext]] = {}
        self._stopping = threading.Event()
        self._server = grpc.server(
            ThreadPoolExecutor(threads, "grpc-flight"),
            maximum_concurrent_rpcs=threads,
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", message_limit),
                ("grpc.max_concurrent_streams", _MOST_STREAMS),
                ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
                ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ALONE),
            ],
        )
        self._server.add_generic_rpc_handlers([_Methods(self)])
        address = f"{bracket_host(host)}:{port}"
        try:
            self.port: int = (
                self._server.add_insecure_port(address)
                if tls is None
                else self._server.add_secure_port(address, self._credentials(tls))
            )
        except RuntimeError as exc:
            raise InvalidInput(f"cannot listen on {address} for LanceDB's clients (lancedb_sql_port): {exc}") from exc
        self._server.start()
        threading.Thread(target=self._watch, name="grpc-watch", daemon=True).start()

    @property
    def uri(self) -> str:
        """Return the address of this server: `grpc://host:port`, or `grpc+tls://host:port`."""
        return f"grpc{'' if self._tls is None else '+tls'}://{bracket_host(self._host)}:{self.port}"

    def renew(self, tls: Tls) -> None:
        """Show other certificates to clients that connect from now on."""
        self._tls = tls

    def stopping(self) -> None:
        """Cancel the statements that clients poll."""
        self._polled.close()

    def stop(self) -> None:
        """Close the port and every connection."""
        self._stopping.set()
        self._server.stop(_CLOSING_SECONDS).wait(_CLOSING_SECONDS)

    def watching(self, context: grpc.ServicerContext) -> _Watched:
        """Cancel the call if the block takes longer than a client may take over a message."""
        return _Watched(self._waiting, context)

    def serve(self, rpc: _Rpc, incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Answer a call: its messages, or the status of its error."""
        ours = _Context(context)
        # No variable here may hold an error: it would hold this frame, and with it the rows that are being sent.
        try:
            yield from self._answer_call(rpc, ours, _Messages(self, context, incoming))
        except (GeneratorExit, KeyboardInterrupt, SystemExit, grpc.RpcError) as error:
            ours.end(error)
            raise
        except BaseException as error:  # noqa: BLE001 - each becomes an answer, a panic of native code too
            ours.end(error)
            known, text = describe_error(error)
            code = grpc.StatusCode.INTERNAL if known is None else nearest(known, _CODES)
            del known
        else:
            ours.end(None)
            return
        context.abort(code, text)

    def _answer_call(self, rpc: _Rpc, context: _Context, messages: _Messages) -> Iterator[bytes]:
        """Admit a call and yield its answer, with the headers in front of it."""
        context.begin(self._served, rpc.method)
        answer = rpc.answer(self._answers, context, messages)
        first = [next(answer, None)]
        context.send_headers()
        if first[0] is not None:
            yield first.pop()  # type: ignore[misc]
        yield from answer

    def _watch(self) -> None:
        while not self._stopping.wait(_WATCH_SECONDS):
            now = time.monotonic()
            for deadline, context in list(self._waiting.values()):
                if deadline < now:
                    context.cancel()

    def _credentials(self, tls: Tls) -> grpc.ServerCredentials:
        shown = tls

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal shown
            if self._tls is None or self._tls is shown:
                return None
            shown = self._tls
            return _certificates(shown)

        return grpc.dynamic_ssl_server_credentials(_certificates(tls), renewed, tls.client_ca is not None)


class _Watched:
    """Registers a call as one that waits for a message, while the block runs."""

    __slots__ = ("_context", "_waiting")

    def __init__(self, waiting: dict[int, tuple[float, grpc.ServicerContext]], context: grpc.ServicerContext) -> None:
        self._waiting, self._context = waiting, context

    def __enter__(self) -> None:
        self._waiting[id(self._context)] = time.monotonic() + MESSAGE_SECONDS, self._context

    def __exit__(self, *_: object) -> None:
        self._waiting.pop(id(self._context), None)


class _HandshakeMessages:
    """Reader and writer for `Handshake.answer`, over the messages of the call."""

    def __init__(self, messages: _Messages) -> None:
        self._messages = messages
        self.written: list[bytes] = []

    def read(self) -> bytes:
        sent = next(self._messages, None)
        payload: bytes = b"" if sent is None else messages_pb.HandshakeRequest.FromString(sent).payload
        return payload

    def write(self, payload: bytes) -> None:
        self.written.append(messages_pb.HandshakeResponse(payload=payload).SerializeToString())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rpc:
    """A call of the service: how it is answered, what pyarrow calls it, and whether its answer is a stream."""

    answer: Callable[[Answers, _Context, _Messages], Iterator[bytes]]
    method: flight.FlightMethod
    is_stream: bool = True


_RPCS: Mapping[str, _Rpc] = {
    "Handshake": _Rpc(answer=Answers.handshake, method=flight.FlightMethod.HANDSHAKE),
    "ListActions": _Rpc(answer=Answers.list_actions, method=flight.FlightMethod.LIST_ACTIONS),
    "GetFlightInfo": _Rpc(answer=Answers.flight_info, method=flight.FlightMethod.GET_FLIGHT_INFO, is_stream=False),
    "PollFlightInfo": _Rpc(answer=Answers.poll, method=flight.FlightMethod.GET_FLIGHT_INFO, is_stream=False),
    "GetSchema": _Rpc(answer=Answers.schema, method=flight.FlightMethod.GET_SCHEMA, is_stream=False),
    "DoGet": _Rpc(answer=Answers.do_get, method=flight.FlightMethod.DO_GET),
    "DoPut": _Rpc(answer=Answers.do_put, method=flight.FlightMethod.DO_PUT),
    "DoExchange": _Rpc(answer=Answers.do_exchange, method=flight.FlightMethod.DO_EXCHANGE),
    "DoAction": _Rpc(answer=Answers.do_action, method=flight.FlightMethod.DO_ACTION),
}


class _Methods(grpc.GenericRpcHandler):
    """Finds the handler of a call.

    All of them read a stream: gRPC's library calls such a handler before the first message is there.
    """

    def __init__(self, server: GrpcServer) -> None:
        self._handlers = {SERVICE + name: _handler(server, rpc) for name, rpc in _RPCS.items()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a method; None for one that is not offered."""
        return self._handlers.get(handler_call_details.method)


def _handler(server: GrpcServer, rpc: _Rpc) -> grpc.RpcMethodHandler:
    stream = partial(server.serve, rpc)
    if rpc.is_stream:
        return grpc.stream_stream_rpc_method_handler(stream)

    def one(incoming: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        (message,) = stream(incoming, context)
        return message

    return grpc.stream_unary_rpc_method_handler(one)


def _encode(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Encode batches in messages of `_MESSAGE_BYTES`, of which nothing here keeps anything: gRPC holds copies of each until it is sent."""
    for batch in batches:
        rows = max(batch.num_rows * _MESSAGE_BYTES // max(batch.nbytes, 1), 1)
        for start in range(0, max(batch.num_rows, 1), rows):
            yield encode(batch.slice(start, rows).serialize())


def _teller(context: _Context) -> Tell:
    return partial(context.add_header, SET_COOKIE)


def _decode(deserialize: Callable[[bytes], Any], data: bytes, what: str) -> Any:
    try:
        return deserialize(data)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise InvalidInput(f"the message of {len(data)} bytes is not {what}: {error}") from error


def _certificates(tls: Tls) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(tls.key, tls.certificate)], tls.client_ca)
