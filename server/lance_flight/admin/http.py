"""HTTP server of `/healthz`, `/readyz` and `/metrics`, on a port of its own."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from typing import ClassVar

from lance_flight.admin.readiness import Readiness
from lance_flight.connections import bracket_host
from lance_flight.errors import InvalidInput

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
