"""The console: its addresses, the ASGI application, and the HTTP server that runs it in this process."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import uvicorn
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lance_flight_client.adbc import Credentials
from lance_flight_client.console import pages
from lance_flight_client.console.answering import Logins, Pages, RequestChecks, absent
from lance_flight_client.console.partitions import readable_bytes
from lance_flight_client.console.tables import ConsoleLimits

ROUTES = (
    Route("/", pages.home),
    Route("/login", pages.login_page, methods=["GET"]),
    Route("/login", pages.login, methods=["POST"]),
    Route("/logout", pages.logout, methods=["POST"]),
    Route("/t/{schema}/{name}", pages.columns),
    Route("/t/{schema}/{name}/parts", pages.parts),
    Route("/t/{schema}/{name}/summary", pages.summary),
    Route("/t/{schema}/{name}/rows", pages.table_rows),
    Route("/t/{schema}/{name}/rows/summary", pages.rows_summary),
    Route("/t/{schema}/{name}/search", pages.search),
    Route("/t/{schema}/{name}/map", pages.partition_map),
    Route("/t/{schema}/{name}/map/picture", pages.map_picture),
    Route("/t/{schema}/{name}/map/listing", pages.map_listing),
    Route("/t/{schema}/{name}/map.svg", pages.map_svg),
    Route("/t/{schema}/{name}/layout", pages.layout),
    Route("/t/{schema}/{name}/layout/candidates", pages.layout_candidates),
    Route("/t/{schema}/{name}/partition", pages.partition),
    Route("/t/{schema}/{name}/partition/details", pages.partition_details),
    Route("/t/{schema}/{name}/history", pages.history),
    Route("/query", pages.query_page, methods=["GET"]),
    Route("/query", pages.begin_query, methods=["POST"]),
    Route("/query/history", pages.query_history),
    Route("/functions", pages.functions),
    Route("/query/{query}.{format}", pages.query_download),
    Route("/query/{query}", pages.query_state),
    Route("/query/{query}/value", pages.query_value),
    Route("/query/{query}/operators", pages.query_operators),
    Route("/query/{query}/plan", pages.query_plan),
    Route("/query/{query}/cancel", pages.query_cancel, methods=["POST"]),
    Route("/operations", pages.operations),
    Route("/operations/{listing}", pages.operations_listing),
    Route("/operations/{schema}/{name}", pages.backlog),
    Route("/operations/{schema}/{name}/{kind}", pages.maintain, methods=["POST"]),
    Route("/activity", pages.activity),
    Route("/activity/rows", pages.activity_rows),
    Route("/activity/{statement}/kill", pages.kill, methods=["POST"]),
)


HERE = Path(__file__).parent
_SIZES = re.compile(r"(\A|_)bytes\Z|memory_limit")
"""Matches the columns of listings that are numbers of bytes."""


def templates() -> Environment:
    """Return the templates, which escape whatever they are given."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["bytes"] = lambda size: "–" if size is None else readable_bytes(size)
    made.filters["number"] = lambda value: "–" if value is None else f"{value:,}"
    made.filters["moment"] = lambda value: "–" if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"
    made.filters["cell"] = _cell
    return made


def _cell(value: Any, name: str) -> Any:
    """Return a value of a listing as it is shown in a column of a name."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return readable_bytes(value) if isinstance(value, int) and _SIZES.search(name) else "" if value is None else value


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """Hosts that browsers may call the console by, and whether they do so by TLS."""

    hosts: Collection[str]
    is_secure: bool = False
    port: int = 0

    @property
    def cookie(self) -> str:
        """The name of the cookie, which is the console's own: browsers send those of one host to all of its ports."""
        return f"lance_flight_console_{self.port}"


def application(logins: Logins, address: ConsoleAddress) -> Starlette:
    """Return the application for some logins."""
    app = Starlette(
        routes=[*ROUTES, Mount("/static", StaticFiles(directory=HERE / "static"), name="static")],
        exception_handlers={HTTPException: absent},
        middleware=[Middleware(RequestChecks, hosts=address.hosts, is_secure=address.is_secure)],
    )
    app.state.pages = Pages(logins, templates(), cookie=address.cookie, is_secure=address.is_secure)
    return app


_START_SECONDS = 10
_MOST_CONNECTIONS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """Options of the console: where it listens, which server it asks, as whom (None: each browser says it), and its limits."""

    uri: str
    credentials: Credentials | None
    host: str = "127.0.0.1"
    port: int = 0
    hosts: Sequence[str] = ()
    certificate: str | None = None
    key: str | None = None
    writes: bool = False
    limits: ConsoleLimits = field(default_factory=ConsoleLimits)

    @property
    def is_secure(self) -> bool:
        """True if browsers speak TLS with it."""
        return self.certificate is not None


class RunningConsole:
    """A console that listens; `address` lets the next browser in."""

    def __init__(self, options: ConsoleOptions, announce: Callable[[str], None]) -> None:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        self._socket = socket.create_server((options.host, options.port), family=family, reuse_port=False)
        # Connections inherit it; asyncio sets it only for sockets whose protocol is named.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = self._socket.getsockname()[1]
        named = options.hosts or (options.host, "localhost")
        hosts = [f"[{name}]" if ":" in name else name for name in named]
        self._base = f"{'https' if options.is_secure else 'http'}://{hosts[0]}:{port}/"
        self._logins = Logins(
            options.uri,
            options.credentials,
            options.limits,
            writes=options.writes,
            announce=lambda token: announce(f"{self._base}?token={token}"),
        )
        allowed = [f"{name}:{port}" for name in hosts] + ([*hosts] if port in (80, 443) else [])
        config = uvicorn.Config(
            application(self._logins, ConsoleAddress(allowed, options.is_secure, port)),
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=2,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        )
        # Here, so that a certificate which cannot be read is an error of who starts it.
        config.load()
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="console", daemon=True)

    @property
    def address(self) -> str:
        """The address for the next browser."""
        return f"{self._base}?token={self._logins.token}"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End what browsers have begun."""
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)


@contextmanager
def running(options: ConsoleOptions, announce: Callable[[str], None]) -> Iterator[RunningConsole]:
    """Run a console beside the block; each further address is announced when the one before is used."""
    console = RunningConsole(options, announce)
    console.start()
    try:
        yield console
    finally:
        console.stop()
