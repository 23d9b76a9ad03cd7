"""Logins of browsers that have opened its address with the token of the moment, each with its own credentials.

A token is good for one browser; the next one is printed where the console runs. Cookies are random, and credentials are in memory alone.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from lance_flight_client.adbc import Credentials
from lance_flight_client.console.queries import ConsoleQueries
from lance_flight_client.console.server import ConsoleLimits, ConsoleServer

MOST_LOGINS = 100
MOST_REQUESTS = 16
"""Requests of one browser that are answered at once: fewer than the threads that all share."""
IDLE_SECONDS = 12 * 3600


@dataclass(slots=True)
class Login:
    """A browser: its server, None until it has said who asks, and the queries that it has begun."""

    server: ConsoleServer | None
    queries: ConsoleQueries = field(default_factory=ConsoleQueries)
    requests: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_REQUESTS))
    downloads: threading.Semaphore = field(default_factory=threading.Semaphore)
    used: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        """Cancel what runs, and close the connections."""
        self.queries.close()
        if self.server is not None:
            self.server.close()


class Logins:
    """The browsers that are known, by their cookies. Safe to share among threads."""

    def __init__(
        self,
        uri: str,
        credentials: Credentials | None,
        limits: ConsoleLimits,
        *,
        writes: bool,
        announce: Callable[[str], None],
    ) -> None:
        self.uri, self._credentials, self._limits, self._writes = uri, credentials, limits, writes
        self._announce = announce
        self._known: OrderedDict[str, Login] = OrderedDict()
        self._lock = threading.Lock()
        self.token = secrets.token_urlsafe(24)

    def enter(self, token: str) -> str | None:
        """Return the cookie of a new browser for a token, which is spent by that; None for a wrong one."""
        with self._lock:
            if not secrets.compare_digest(token.encode(), self.token.encode()):
                return None
            self.token, cookie = secrets.token_urlsafe(24), secrets.token_urlsafe(32)
            self._known[cookie] = Login(None if self._credentials is None else self._server(self._credentials))
            gone = [self._known.popitem(last=False)[1] for _ in range(len(self._known) - MOST_LOGINS)]
        for login in gone:
            login.close()
        self._announce(self.token)
        return cookie

    def find(self, cookie: str | None) -> Login | None:
        """Return the login of a cookie, unless it was idle for half a day."""
        with self._lock:
            login = self._known.get(cookie or "")
            if login is None:
                return None
            if time.monotonic() - login.used <= IDLE_SECONDS:
                login.used = time.monotonic()
                return login
            del self._known[cookie or ""]
        login.close()
        return None

    def authenticate(self, login: Login, credentials: Credentials) -> None:
        """Give a login its credentials; `ServerError` where the server does not let them in."""
        server = self._server(credentials)
        server.rows("SELECT 1")
        if login.server is not None:
            login.server.close()
        login.server = server

    def leave(self, cookie: str | None) -> None:
        """Forget a browser."""
        with self._lock:
            login = self._known.pop(cookie or "", None)
        if login is not None:
            login.close()

    def _server(self, credentials: Credentials) -> ConsoleServer:
        return ConsoleServer(self.uri, credentials, self._limits, self._writes)
