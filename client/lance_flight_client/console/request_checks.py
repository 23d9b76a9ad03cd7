"""Checks of every request (an allowed host, changes from our own pages alone) and the headers of every answer that keep a browser inside."""

from __future__ import annotations

import secrets
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
