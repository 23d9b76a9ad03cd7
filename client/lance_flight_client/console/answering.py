"""Answers of all pages: templates, parameters of addresses and bodies, and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from lance_flight_client.console import tables
from lance_flight_client.console.access import CHANGE_HEADER, MOST_REQUESTS, Login, Logins
from lance_flight_client.console.queries import VIEWS, ConsoleQuery, explained
from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.console.tables import ConsoleTable
from lance_flight_client.errors import ServerError

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
