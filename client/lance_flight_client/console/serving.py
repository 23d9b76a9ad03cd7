"""The console as an HTTP server of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn

from lance_flight_client.adbc import Credentials
from lance_flight_client.console.app import ConsoleAddress, application
from lance_flight_client.console.logins import Logins
from lance_flight_client.console.server import ConsoleLimits

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
