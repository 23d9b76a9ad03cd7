"""HTTP server of `/healthz`, `/readyz` and `/metrics`, on a port of its own, and the readiness that it tells.

Readiness of a server for calls, shared by the HTTP and gRPC health checks.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Lock, Thread
from typing import ClassVar

from lance_flight.connections import bracket_host
from lance_flight.errors import InvalidInput

PROBE_SECONDS = 5.0
"""Seconds that a probe may take before the server counts as not ready."""


class Phase(Enum):
    """Phase of a server's life; each value is the reason for taking no calls, empty for `SERVING`."""

    STARTING = "the server is starting"
    SERVING = ""
    STOPPING = "the server is stopping"


class Readiness:
    """Readiness for calls: the server's phase, and a probe of its data. Safe to share among threads.

    `probe` raises what keeps the server from its data; it runs at most once at a time, however many checks arrive meanwhile.

    >>> readiness = Readiness(lambda: None)
    >>> readiness.obstacle()
    'the server is starting'
    >>> readiness.enter(Phase.SERVING)
    >>> readiness.obstacle() is None
    True
    """

    def __init__(self, probe: Callable[[], object], *, patience: float = PROBE_SECONDS) -> None:
        self._probe = probe
        self._patience = patience
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._running: Future[object] | None = None
        self._lock = Lock()
        self._phase = Phase.STARTING

    def enter(self, phase: Phase) -> None:
        """Set the phase of the server's life."""
        self._phase = phase

    def obstacle(self) -> str | None:
        """Return the reason why no calls are taken; None while they are."""
        return self._phase.value or self._failure()

    def reaches_root(self) -> bool:
        """Return whether the probe finds nothing that keeps the server from its data."""
        return self._failure() is None

    def _failure(self) -> str | None:
        with self._lock:
            if self._running is None or self._running.done():
                self._running = self._pool.submit(self._probe)
            running = self._running
        try:
            failure = running.exception(self._patience)
        except TimeoutError:
            return f"the root did not answer within {self._patience:g} seconds"
        return None if failure is None else f"the root cannot be listed: {type(failure).__name__}"


PLAIN = "text/plain; charset=utf-8"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response: its status, its text and the type of it."""

    status: HTTPStatus
    body: str
    content_type: str = PLAIN


Page = Callable[[], HttpResponse]


class AdminServer:
    """Serves pages on `host`:`port` (0: any free port) from its creation on; raises `InvalidInput` if it cannot listen."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        handler = type("_PagesHandler", (_Handler,), {"pages": pages})
        try:
            self._http = (_OverIpv6 if ":" in host else _Listener)((host, port), handler)
        except OSError as exc:
            raise InvalidInput(f"cannot listen on {host}:{port} for administration: {exc.strerror}") from exc
        self._host = host
        Thread(target=self._http.serve_forever, name="admin-http", daemon=True).start()

    @property
    def url(self) -> str:
        """Return the address of this server: `http://host:port`."""
        return f"http://{bracket_host(self._host)}:{self._http.server_port}"

    def close(self) -> None:
        """Stop the server."""
        self._http.shutdown()
        self._http.server_close()


def health_pages(readiness: Readiness) -> Mapping[str, Page]:
    """Return the pages `/healthz` (200 while the process lives) and `/readyz` (503 with the reason while no calls are taken)."""

    def ready() -> HttpResponse:
        obstacle = readiness.obstacle()
        if obstacle is not None:
            return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, f"{obstacle}\n")
        return HttpResponse(HTTPStatus.OK, "ok\n")

    return {"/healthz": lambda: HttpResponse(HTTPStatus.OK, "ok\n"), "/readyz": ready}


class _Listener(ThreadingHTTPServer):
    """HTTP server that does not resolve the name of its host, which may take long and is not used."""

    def server_bind(self) -> None:
        """Bind the socket without looking up the host's name."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


class _OverIpv6(_Listener):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    """Handler of GET and HEAD requests for the pages."""

    pages: ClassVar[Mapping[str, Page]]
    timeout = 10.0
    server_version, sys_version = "lance-flight", ""

    def do_GET(self) -> None:
        """Send the page of this path; a 404 with the list of pages for an unknown path."""
        page = self.pages.get(self.path.partition("?")[0])
        answer = HttpResponse(HTTPStatus.NOT_FOUND, "\n".join([*self.pages, ""])) if page is None else page()
        body = answer.body.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *values: object) -> None:
        """Log requests at debug level, because probes come every few seconds."""
        _log.debug(format, *values)
