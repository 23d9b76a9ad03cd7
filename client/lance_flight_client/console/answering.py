"""Answers of all pages of the console: who gets in, headers, templates, parameters of addresses and bodies, and errors.

A token is good for one browser; the next one is printed where the console runs. Cookies are random, and credentials are in memory alone.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from jinja2 import Environment
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lance_flight_client.adbc import Credentials
from lance_flight_client.console import tables
from lance_flight_client.console.queries import VIEWS, ConsoleQueries, ConsoleQuery, explained
from lance_flight_client.console.tables import ConsoleLimits, ConsoleServer, ConsoleTable
from lance_flight_client.errors import ServerError

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


MOST_LISTED = 500
MOST_STATEMENTS = 50
"""Statements that one request may run before its last one."""
NOT_LET_IN = "This browser is not let in, or not any more: open the address that lance-flight console has printed."
_MOST_DIGITS = 18
_SURROGATE = re.compile("[\ud800-\udfff]")
Page = Callable[[Request, ConsoleServer], Response]
TablePage = Callable[[Request, ConsoleServer, ConsoleTable], Response]


class InvalidRequest(Exception):
    """An address or a body that no page of the console sends."""


class Pages:
    """The logins and templates that all pages have in common."""

    def __init__(self, logins: Logins, templates: Environment, *, cookie: str, is_secure: bool) -> None:
        self.logins, self.cookie, self.is_secure = logins, cookie, is_secure
        self._templates = templates

    def show(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page."""
        state = request.scope["state"]
        known = {
            "path": path_of(request),
            "uri": self.logins.uri,
            "nonce": state["nonce"],
            "is_known": state.get("login") is not None,
            "quote": quote,
        }
        return HTMLResponse(self._templates.get_template(template).render({**known, **values}), status)

    def problem(self, request: Request, status: int, problem: str) -> Response:
        """Return a problem in the form that is asked for: a page, or for the scripts of one a text or JSON."""
        if "hx-request" in request.headers:
            return PlainTextResponse(problem, status)
        if CHANGE_HEADER in request.headers:
            return JSONResponse({"error": problem}, status)
        return self.show(request, "problem.html", status, problem=problem)

    def refuse_browser(self, request: Request) -> Response:
        """Return what a browser sees that is not let in."""
        if CHANGE_HEADER in request.headers:
            return self.problem(request, 403, NOT_LET_IN)
        return self.show(request, "closed.html", 403, reason=NOT_LET_IN)

    def enter(self, request: Request) -> Response:
        """Take the token of the address, and show the address without it; one that is used is good for its browser still."""
        answer = RedirectResponse(path_of(request), 303)
        cookie = self.logins.enter(request.query_params["token"])
        if cookie is not None:
            answer.set_cookie(self.cookie, cookie, httponly=True, samesite="strict", secure=self.is_secure, path="/")
        elif login_of(request) is None:
            reason = "This address has been used already, or is another one's."
            return self.show(request, "closed.html", 403, reason=reason)
        return answer


def pages_of(request: Request) -> Pages:
    """Return what all pages have in common."""
    pages: Pages = request.app.state.pages
    return pages


def show(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page."""
    return pages_of(request).show(request, template, status, **values)


def path_of(request: Request) -> str:
    """Return the path as addresses have it: a name may have any character but a slash."""
    return quote(request.scope["path"])


def login_of(request: Request) -> Login | None:
    """Return the login of a request's browser; None if it is not let in."""
    pages = pages_of(request)
    login = pages.logins.find(request.cookies.get(pages.cookie))
    request.scope["state"]["login"] = login
    return login


def absent(request: Request, exc: Exception) -> Response:
    """Answer what is no page."""
    assert isinstance(exc, HTTPException)  # noqa: S101 - the only ones that this is registered for
    if login_of(request) is None:
        return pages_of(request).refuse_browser(request)
    return pages_of(request).problem(request, exc.status_code, f"{request.url.path} is no page of the console.")


def page(answer: Page) -> Callable[[Request], Response]:
    """Answer a request of a browser that has logged in; it runs in a thread, where the server is waited for."""

    @wraps(answer)
    def answered(request: Request) -> Response:
        pages = pages_of(request)
        if request.method == "GET" and "token" in request.query_params:
            return pages.enter(request)
        login = login_of(request)
        if login is None:
            return pages.refuse_browser(request)
        if login.server is None:
            return RedirectResponse("/login", 303)
        if request.method != "GET" and CHANGE_HEADER not in request.headers:
            return pages.problem(request, 403, f"expected the header {CHANGE_HEADER}")
        if not login.requests.acquire(blocking=False):
            return pages.problem(request, 429, f"{MOST_REQUESTS} requests of this browser are under way")
        try:
            return answer(request, login.server)
        except InvalidRequest as exc:
            return pages.problem(request, 400, str(exc))
        except ServerError as exc:
            return pages.problem(request, 404 if str(exc).endswith("(not_found)") else 502, str(exc))
        finally:
            login.requests.release()

    return answered


def table_page(answer: TablePage) -> Callable[[Request], Response]:
    """Answer a request about a table or view that the user may see."""

    @page
    @wraps(answer)
    def of_table(request: Request, server: ConsoleServer) -> Response:
        db_schema, name = request.path_params["schema"], request.path_params["name"]
        table = tables.table_named(server, db_schema, name)
        return no_table(request) if table is None else answer(request, server, table)

    return of_table


def no_table(request: Request) -> Response:
    """Answer that there is no such table."""
    name = request.path_params["name"]
    return pages_of(request).problem(request, 404, f"There is no table {name!r} that you may see.")


def whole_number(request: Request, name: str) -> int | None:
    """Return a whole number of the address; None without it."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise InvalidRequest(f"{name} is {text[:40]!r} in the address; expected a whole number")
    return int(text)


async def query_of(request: Request) -> ConsoleQuery:
    """Return the query of a body: its SQL, the statements before it, its parameters, and whether it is to change what it says."""
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError) as exc:
        raise InvalidRequest("the body is no JSON") from exc
    if not isinstance(given, dict):
        raise InvalidRequest("there is no SQL")
    before, parameters = given.get("before") or [], given.get("parameters") or {}
    if not isinstance(before, list) or len(before) > MOST_STATEMENTS:
        raise InvalidRequest(f"expected at most {MOST_STATEMENTS} statements before the last one")
    if not all(_is_text(sql) for sql in (given.get("sql"), *before)):
        raise InvalidRequest("there is no SQL")
    if not isinstance(parameters, dict) or not all(_is_text(name) for name in parameters):
        raise InvalidRequest("the parameters are no values by name")
    sql, view = given["sql"], given.get("view")
    if view is not None and (not isinstance(view, str) or view not in VIEWS):
        raise InvalidRequest(f"the view is {str(view)[:40]!r}; expected one of {', '.join(VIEWS)}")
    return ConsoleQuery(
        sql if view is None else explained(sql, view),
        writes=view is None and given.get("writes") is True,
        before=before,
        parameters=_parameters(parameters),
        view=view,
    )


def _is_text(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip()) and not _SURROGATE.search(text)


def _parameters(given: Mapping[str, Any]) -> pa.RecordBatch | None:
    """Return one row of parameters: numbers, true, false and null as JSON has them, and any other text as it is."""
    arrays = []
    for name, text in given.items():
        if not isinstance(text, str) or _SURROGATE.search(text):
            raise InvalidRequest(f"the parameter {name[:40]!r} is no text")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        try:
            arrays.append(pa.array([text if isinstance(value, list | dict) else value]))
        except (pa.ArrowException, OverflowError) as exc:
            raise InvalidRequest(f"the parameter {name[:40]!r} is {text[:40]!r}; expected fewer digits") from exc
    return pa.record_batch(arrays, list(given)) if given else None
