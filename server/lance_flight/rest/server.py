"""HTTP server of the REST catalog, in a thread of the server process."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
import threading
from pathlib import Path

import anyio
import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as HttpRoute
from uvicorn.protocols.http.h11_impl import H11Protocol

from lance_flight.connections import bracket_host
from lance_flight.errors import InvalidInput, NotFound, Unsupported
from lance_flight.flight.encryption import Tls
from lance_flight.rest.dispatch import Endpoint, ServedBackend
from lance_flight.rest.errors import answer_error
from lance_flight.rest.routes import ROUTES, document

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
