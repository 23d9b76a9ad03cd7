"""Pages of logging in and out."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from lance_flight_client.adbc import Credentials
from lance_flight_client.console.logins import MOST_REQUESTS
from lance_flight_client.console.pages.answering import login_of, pages_of
from lance_flight_client.errors import ServerError

_MOST_FIELDS = 10


def login_page(request: Request) -> Response:
    """Ask who is there, of a browser that was let in."""
    if login_of(request) is None:
        return pages_of(request).closed(request)
    return pages_of(request).show(request, "login.html", problem=None, user="")


async def login(request: Request) -> Response:
    """Take a user with a password, or a token."""
    pages, mine = pages_of(request), login_of(request)
    if mine is None:
        return pages.closed(request)
    body = (await request.body()).decode(errors="replace")
    try:
        given = {name: values[0] for name, values in parse_qs(body, max_num_fields=_MOST_FIELDS).items()}
    except ValueError:
        return pages.problem(request, 400, "the form has too many fields")
    user, token = given.get("user"), given.get("token")
    credentials = Credentials(token=token) if token else Credentials(user=user, password=given.get("password", ""))
    if not mine.requests.acquire(blocking=False):
        return pages.problem(request, 429, f"{MOST_REQUESTS} requests of this browser are under way")
    try:
        await run_in_threadpool(pages.logins.authenticate, mine, credentials)
    except ServerError as exc:
        return pages.show(request, "login.html", 403, problem=str(exc), user=user or "")
    finally:
        mine.requests.release()
    return RedirectResponse("/", 303)


def logout(request: Request) -> Response:
    """Forget this browser."""
    pages = pages_of(request)
    pages.logins.leave(request.cookies.get(pages.cookie))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(pages.cookie, path="/")
    return answer
