"""Access to the console: logins of browsers, checks of every request, and headers of every answer.

A token is good for one browser; the next one is printed where the console runs. Cookies are random, and credentials are in memory alone.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


CHANGE_HEADER = "x-lance-flight-console"
"""A header that no form of another site can send."""
MOST_BODY = 1 << 20
_LONGEST_LENGTH = 10
_SAFE = ("GET", "HEAD")


class RequestChecks:
    """Middleware: allowed hosts (against DNS rebinding), the origin of changes, sizes, and a content security policy."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], *, is_secure: bool) -> None:
        self._app, self._hosts, self._is_secure = app, frozenset(hosts), is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, nonce = Headers(scope=scope), secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._protect(MutableHeaders(scope=message), nonce)
            await send(message)

        problem = self._problem(scope["method"], headers)
        if problem is not None:
            await PlainTextResponse(problem, status_code=403)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _problem(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if host not in self._hosts:
            return f"host {host[:100]!r} is not one of this console; expected {', '.join(sorted(self._hosts))}"
        if method in _SAFE:
            return None
        length = headers.get("content-length", "")
        # Few digits, which `int` takes whatever they are.
        if not (length.isascii() and length.isdigit() and len(length) < _LONGEST_LENGTH) or int(length) > MOST_BODY:
            return f"the request has no length, or more than {MOST_BODY} bytes"
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        scheme = "https" if self._is_secure else "http"
        is_ours = origin == f"{scheme}://{host}" if origin is not None else site == "same-origin"
        if not is_ours or site not in (None, "same-origin"):
            return "the request was not made by a page of this console"
        return None

    def _protect(self, headers: MutableHeaders, nonce: str) -> None:
        headers["Content-Security-Policy"] = (
            f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self';"
            " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "same-origin"
        headers["X-Frame-Options"] = "DENY"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        headers.setdefault("Cache-Control", "no-store")
        if self._is_secure:
            headers["Strict-Transport-Security"] = "max-age=31536000"
