"""HTTP server of the REST catalog, in a thread of the server process.

From a request to its operation and back: admission, the bounded body, a thread of its own, and the answer in chunks.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import tempfile
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import anyio
import anyio.from_thread
import anyio.to_thread
import h11
import uvicorn
from anyio.abc import TaskGroup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as HttpRoute
from uvicorn.protocols.http.h11_impl import H11Protocol

from lance_flight import audit
from lance_flight.audit import Subject
from lance_flight.connections import Tls, bracket_host, holder_of
from lance_flight.errors import (
    InvalidInput,
    LimitExceeded,
    NotFound,
    Refused,
    StatementTimeout,
    Unauthenticated,
    Unsupported,
)
from lance_flight.flight.authentication import Authentication, Principal
from lance_flight.flight.backend import Backend, Caller
from lance_flight.flight.calls import InFlight, client_of
from lance_flight.flight.rows import InputRules
from lance_flight.rest.call import Declared, RestAnswer, RestCall, declarations, is_lancedb
from lance_flight.rest.errors import answer_error
from lance_flight.rest.names import DELIMITER, parse_id
from lance_flight.rest.routes import ROUTES, Body, Route, document

_START_SECONDS, _MOST_CONNECTIONS = 10.0, 1_000
_MOST_HEADER_BYTES = 64 << 10
IDLE_SECONDS = 20.0
"""Time between two looks at a connection; without a request from one to the next it is closed."""


def application(served: ServedBackend) -> Starlette:
    """Return the application of a door: each route with and without a slash at its end."""
    threads = anyio.CapacityLimiter(max(served.in_flight.most, 1))
    described = document()

    async def openapi(_: Request) -> Response:
        return JSONResponse(described)

    async def absent(request: Request, error: Exception) -> Response:
        what = f"{request.method} {request.url.path[:200]}"
        # LanceDB's clients take any 404 for a table that is not there.
        is_method = isinstance(error, HTTPException) and error.status_code == 405  # noqa: PLR2004 - the status of HTTP
        is_operation = is_method or request.url.path.startswith("/v1/")
        unknown = (
            Unsupported(f"{what} is no operation of this server") if is_operation else NotFound(f"no route {what}")
        )
        status, body = answer_error(unknown, request.url.path[:200])
        return JSONResponse(body, status)

    routes = [HttpRoute("/v1/openapi.json", openapi)]
    for route in ROUTES:
        endpoint = Endpoint(route, served, threads)
        routes += [HttpRoute(path, endpoint, methods=[route.method]) for path in (route.path, f"{route.path}/")]
    app = Starlette(routes=routes, exception_handlers={HTTPException: absent})
    app.router.redirect_slashes = False
    return app


class _BoundedProtocol(H11Protocol):
    """HTTP connection that is closed if no request comes, or only a part of its headers."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Look at the connection from now on."""
        super().connection_made(transport)
        self._served = -1
        self._look()

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        is_idle = self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete)
        before, self._served = self._served, id(self.cycle) if is_idle else -1
        if is_idle and before == self._served:
            self.transport.close()
            return
        self.loop.call_later(IDLE_SECONDS, self._look)


class RestServer:
    """Serves the catalog on `host`:`port` (0: any free port) from its creation on; raises `InvalidInput` if it cannot listen."""

    title = "REST catalog"

    def __init__(self, served: ServedBackend, host: str, port: int, tls: Tls | None = None) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as exc:
            raise InvalidInput(
                f"cannot listen on {host}:{port} for REST: {exc.strerror}; expected another --rest-port"
            ) from exc
        # Connections inherit it; asyncio sets it only for sockets whose protocol is named.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._uri = f"http{'' if tls is None else 's'}://{bracket_host(host)}:{self._socket.getsockname()[1]}"
        self._config = uvicorn.Config(
            application(served),
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
            http=_BoundedProtocol,
            ws="none",
            lifespan="off",
            timeout_keep_alive=2 * round(IDLE_SECONDS),
            timeout_graceful_shutdown=2,
        )
        self._config.load()
        if tls is not None:
            self._config.ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.renew(tls)
        self._server = uvicorn.Server(self._config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="rest", daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        """Return the address of this server: `http://host:port`, or `https://host:port`."""
        return self._uri

    def renew(self, tls: Tls) -> None:
        """Use other certificates for new connections."""
        context = self._config.ssl
        if context is None:
            return
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("certificate", "key")]
            for file, content in zip(files, (tls.certificate, tls.key), strict=True):
                file.touch(mode=0o600)
                file.write_bytes(content)
            context.load_cert_chain(*map(str, files))
        if tls.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=tls.client_ca.decode())

    def stopping(self) -> None:
        """Do nothing: new calls are refused, and running ones end by themselves."""

    def stop(self) -> None:
        """Take no new requests, and give running ones two seconds to end."""
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)


Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

CLIENT_VERSION = "0.3.0"
"""Version of LanceDB's server that its clients take this one for: with searches of several vectors and structured text queries, without multipart writes."""
JSON_SECONDS = 30.0
"""Longest time for a whole body of JSON."""
MOST_JSON = 64 << 20
ARROW_STREAM = "application/vnd.apache.arrow.stream"
MOST_HEADERS = MOST_PARAMETERS = 100
SMALL_BYTES = 64 << 10
"""Size of a last part of an answer that is sent once its operation is over, and of parts that are joined."""
MOST_BYTES = 4 << 20
"""Most bytes of a body that are handed to the HTTP server at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedBackend:
    """Server behind an endpoint; `waits` returns the seconds for the next part of a body, and of an answer."""

    backend: Backend
    authentication: Authentication
    in_flight: InFlight
    rules: InputRules
    waits: Callable[[], tuple[float, float]] = lambda: (300.0, 3600.0)
    proxy_secret: str = ""
    declared: Declared = field(default_factory=declarations)


class Endpoint:
    """ASGI application of one route."""

    def __init__(self, route: Route, served: ServedBackend, threads: anyio.CapacityLimiter) -> None:
        self._route, self._served, self._threads = route, served, threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange = _Exchange(scope, receive, send, self._served.waits())
        async with anyio.create_task_group() as group:
            await exchange.read_ready()
            if self._is_json(exchange) and exchange.is_whole:
                group.start_soon(exchange.watch)
            work = partial(self._answer, exchange, group)
            left = await anyio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=False)
            group.cancel_scope.cancel()
        await exchange.put(left)

    def _answer(self, exchange: _Exchange, group: TaskGroup) -> Sequence[Message]:
        """Run the operation on this thread, and send its answer, or its error; return what is left to send, if that is little."""
        held: list[str] = []
        entered = False
        try:
            audit.enter(Subject(client=exchange.peer))
            self._served.in_flight.enter()
            entered = True
            return exchange.answer(self._route.run(self._call(exchange, group, held)))
        except Exception as error:  # noqa: BLE001 - each becomes an answer
            agent = exchange.headers.get("user-agent", [""])[-1]
            status, said = answer_error(error, exchange.path, is_lancedb=is_lancedb(agent))
            if exchange.is_begun:
                # The answer cannot be taken back: a connection that ends before its last chunk tells the client.
                return ()
            return exchange.answer(RestAnswer(said, status=status))
        finally:
            if entered:
                self._served.in_flight.leave(*held)

    def _call(self, exchange: _Exchange, group: TaskGroup, held: list[str]) -> RestCall:
        """Admit a request, and then read its body: one without a token takes no memory."""
        if sum(map(len, exchange.repeated.values())) > MOST_PARAMETERS:
            raise InvalidInput(f"the address has more than {MOST_PARAMETERS} parameters; expected fewer")
        principal = self._admit(exchange.headers)
        peer = client_of(exchange.headers, self._served.proxy_secret) or exchange.peer
        holder = holder_of(principal.name, peer)
        self._served.in_flight.hold(holder)
        held.append(holder)
        audit.enter(Subject(principal=principal.name, client=peer))
        if self._is_json(exchange):
            exchange.read_json(min(MOST_JSON, self._served.rules.parameter_limit), group)
        host = peer.rpartition(":")[0]
        caller = Caller(
            principal=principal.name,
            groups=principal.groups,
            proof=principal.proof.value,
            peer=peer,
            connection=exchange.peer,
            session=f"rest {host} {principal.name}",
            is_connection=True,
            is_gone=exchange.gone.is_set,
        )
        path = dict(exchange.scope.get("path_params", {}))
        delimiter = exchange.query.get("delimiter", DELIMITER)
        return RestCall(
            backend=self._served.backend,
            caller=caller,
            rules=self._served.rules,
            parts=parse_id(path.pop("id", ""), delimiter),
            path=path,
            query=exchange.query,
            repeated=exchange.repeated,
            headers={name: values[-1] for name, values in exchange.headers.items()},
            delimiter=delimiter,
            json=exchange.json,
            declared=self._served.declared,
            read=exchange.read,
        )

    def _is_json(self, exchange: _Exchange) -> bool:
        return self._route.body is Body.JSON or (self._route.body is Body.EITHER and not exchange.has_rows)

    def _admit(self, headers: Mapping[str, Sequence[str]]) -> Principal:
        """Return the principal of a request: `x-api-key` is a token, like one in `Authorization`."""
        if headers.get("origin") or headers.get("sec-fetch-site"):
            # Any page could make a browser drop the tables of a server on the same machine that asks for no token.
            raise Refused("the request comes from a page in a browser; expected a program")
        keys = headers.get("x-api-key", ())
        if keys and headers.get("authorization"):
            raise Unauthenticated("the request has x-api-key and Authorization; expected one of them")
        if keys:
            headers = {**headers, "authorization": [f"Bearer {key}" for key in keys]}
        principal = self._served.authentication.admit(headers)
        if principal is None:
            raise Unauthenticated("the request has no token; expected x-api-key, or Authorization: Bearer")
        return principal


@dataclass(slots=True)
class _Exchange:
    """A request and its answer over ASGI; the methods without `async` are called on the thread of the operation."""

    scope: Scope
    receive: Receive
    _send: Send
    waits: tuple[float, float]
    json: Mapping[str, Any] = field(default_factory=dict)
    is_begun: bool = False
    gone: Event = field(default_factory=Event)
    headers: dict[str, list[str]] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)
    _parts: deque[memoryview] = field(default_factory=deque)
    _here: int = 0
    _has_more: bool = True

    def __post_init__(self) -> None:
        for name, value in self.scope["headers"][:MOST_HEADERS]:
            self.headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        text = self.scope.get("query_string", b"").decode("latin-1")
        for name, value in parse_qsl(text):
            self.repeated.setdefault(name, []).append(value)
        self.query = {name: values[-1] for name, values in self.repeated.items()}

    @property
    def path(self) -> str:
        """The path of the request, as errors name it."""
        return str(self.scope["path"])

    @property
    def peer(self) -> str:
        """The address at the other end, as gRPC writes it."""
        host, port = self.scope.get("client") or ("unknown", 0)
        return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"

    async def _next(self, seconds: float) -> None:
        """Wait for the next part of the body."""
        try:
            async with asyncio.timeout(seconds or None):
                await self._receive()
        except TimeoutError:
            raise StatementTimeout(f"the next part of the body did not come within {seconds:g} seconds") from None

    async def _receive(self) -> None:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            self.gone.set()
            raise InvalidInput("the client went away before the end of the body; nothing was stored")
        self._has_more = message.get("more_body", False)
        part = bytes(message.get("body", b""))
        self._parts.append(memoryview(part))
        self._here += len(part)

    async def read_ready(self) -> None:
        """Take the part of the body that is here already, which the HTTP server holds anyway: most bodies are whole then."""
        with suppress(TimeoutError, InvalidInput):  # that the client is gone is raised where the body is needed
            async with asyncio.timeout(0):
                await self._receive()

    @property
    def has_rows(self) -> bool:
        """True if the body is an Arrow stream, as its type says."""
        return self.headers.get("content-type", [""])[-1] == ARROW_STREAM

    @property
    def is_whole(self) -> bool:
        """True if no part of the body is still to come."""
        return not self._has_more

    def read_json(self, most: int, group: TaskGroup) -> None:
        """Read the whole body as a JSON object, and notice from then on when the client goes away."""
        if self._has_more:
            anyio.from_thread.run(self._read_whole, most, group)
        text = self._take(self._here)
        if len(text) > most:
            raise LimitExceeded(f"the body has more than {most} bytes; expected fewer")
        if not text.strip():
            return
        try:
            self.json = json.loads(text)
            if b"\\ud" in text.lower():
                json.dumps(self.json, ensure_ascii=False).encode()  # half of a pair is no text
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"the body is no JSON: {type(error).__name__}; expected an object") from None
        if not isinstance(self.json, dict):
            raise InvalidInput("the body is no JSON object")

    async def _read_whole(self, most: int, group: TaskGroup) -> None:
        try:
            async with asyncio.timeout(JSON_SECONDS):
                while self._has_more and self._here <= most:
                    await self._next(0)
        except TimeoutError:
            raise StatementTimeout(f"the body did not come within {JSON_SECONDS:g} seconds") from None
        group.start_soon(self.watch)

    async def watch(self) -> None:
        """Notice when the client goes away."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    def read(self, size: int) -> bytearray:
        """Return at most so many bytes of the body; fewer only at its end."""
        if self._has_more and not 0 <= size <= self._here:
            anyio.from_thread.run(self._fill, size)
        return self._take(self._here if size < 0 else size)

    def _take(self, size: int) -> bytearray:
        """Take bytes off the parts that are here, in one copy; each part goes once it is taken."""
        found = bytearray(min(size, self._here))
        at = 0
        while at < len(found):
            part = self._parts.popleft()
            taken = min(len(part), len(found) - at)
            found[at : at + taken] = part[:taken]
            at += taken
            if taken < len(part):
                self._parts.appendleft(part[taken:])
        self._here -= len(found)
        return found

    async def _fill(self, size: int) -> None:
        """Wait until so many bytes of the body are here, or all."""
        while self._has_more and (size < 0 or self._here < size):
            await self._next(self.waits[0])

    def answer(self, answer: RestAnswer) -> Sequence[Message]:
        """Send an answer, and return the last messages if they are small; an error before its first part is raised before anything is sent."""
        body = _join_small(answer.body())
        chunk, following = next(body, b""), next(body, None)
        headers = self._headers(answer)
        if following is None:
            headers["content-length"] = str(len(chunk))
        fields = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        messages: list[Message] = [{"type": "http.response.start", "status": int(answer.status), "headers": fields}]
        self.is_begun = True
        while following is not None:
            messages += _body_messages(chunk)
            anyio.from_thread.run(self.put, messages)
            messages = []
            chunk, following = following, next(body, None)
        messages += _body_messages(chunk)
        messages[-1]["more_body"] = False
        if len(chunk) > SMALL_BYTES:
            anyio.from_thread.run(self.put, messages)
            return ()
        return messages

    def _headers(self, answer: RestAnswer) -> dict[str, str]:
        headers = {
            "content-type": answer.content_type,
            "cache-control": "no-store",
            "phalanx-version": CLIENT_VERSION,
            **answer.headers,
        }
        request = self.headers.get("x-request-id")
        if request and request[-1].isascii() and request[-1].isprintable():
            headers["x-request-id"] = request[-1][:100]
        # A body that was not read to its end cannot be followed by another request.
        return headers | {"connection": "close"} if self._has_more else headers

    async def put(self, messages: Sequence[Message]) -> None:
        """Send messages, each in its time."""
        for message in messages:
            async with asyncio.timeout(self.waits[1] or None):
                await self._send(message)


def _body_messages(chunk: bytes) -> list[Message]:
    """Return the messages of a chunk: the HTTP server copies each twice, and waits behind each until its client has taken most of it."""
    view = memoryview(chunk)
    parts = [view[at : at + MOST_BYTES] for at in range(0, len(view), MOST_BYTES)] or [view]
    return [{"type": "http.response.body", "body": part, "more_body": True} for part in parts]


def _join_small(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield chunks, small ones together: each is handed to another thread."""
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        if waiting and size + len(chunk) > SMALL_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
        waiting.append(chunk)
        size += len(chunk)
    if waiting:
        yield b"".join(waiting)
