"""The pages and what they ask for while they are open."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

import pyarrow.compute as pc
from jinja2 import Environment
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from lance_flight_client.adbc import Credentials
from lance_flight_client.console import tables
from lance_flight_client.console.logins import COOKIE, Login, Logins
from lance_flight_client.console.partition_grid import COLOURS, PartitionGrid
from lance_flight_client.console.queries import TooManyQueries
from lance_flight_client.console.request_checks import CHANGE_HEADER
from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.console.tables import ConsoleTable, listed
from lance_flight_client.errors import ServerError
from lance_flight_client.files.writing import write_file

MOST_SNAPSHOTS = 500
MOST_LISTED = 500
_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "arrow": "application/vnd.apache.arrow.file"}
Page = Callable[[Request, ConsoleServer], Response]


class Pages:
    """The logins and templates that all pages have in common."""

    def __init__(self, logins: Logins, templates: Environment, *, is_secure: bool) -> None:
        self.logins, self.is_secure = logins, is_secure
        self._templates = templates

    def show(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page."""
        login = request.scope["state"].get("login")
        known = {
            "path": request.url.path,
            "uri": self.logins.uri,
            "nonce": request.scope["state"]["nonce"],
            "is_known": login is not None,
            "quote": quote,
        }
        return HTMLResponse(self._templates.get_template(template).render({**known, **values}), status)

    def enter(self, request: Request) -> Response:
        """Take the token of the address, and show the address without it."""
        cookie = self.logins.enter(request.query_params["token"])
        if cookie is None:
            return self.show(
                request, "closed.html", 403, reason="This address has been used already, or is another one's."
            )
        answer = RedirectResponse(request.url.path, 303)
        answer.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=self.is_secure, path="/")
        return answer


def _pages(request: Request) -> Pages:
    found: Pages = request.app.state.pages
    return found


def _login(request: Request) -> Login | None:
    login = _pages(request).logins.find(request.cookies.get(COOKIE))
    request.scope["state"]["login"] = login
    return login


def page(answer: Page) -> Callable[[Request], Response]:
    """Answer a request of a browser that has logged in; it runs in a thread, where the server is waited for."""

    @wraps(answer)
    def answered(request: Request) -> Response:
        pages = _pages(request)
        if request.method == "GET" and "token" in request.query_params:
            return pages.enter(request)
        login = _login(request)
        if login is None:
            reason = "Open the address that lance-flight console has printed: it lets this browser in."
            return pages.show(request, "closed.html", 403, reason=reason)
        if login.server is None:
            return RedirectResponse("/login", 303)
        if request.method != "GET" and CHANGE_HEADER not in request.headers:
            return JSONResponse({"error": f"expected the header {CHANGE_HEADER}"}, 403)
        try:
            return answer(request, login.server)
        except ServerError as exc:
            return pages.show(request, "problem.html", 502, problem=str(exc))

    return answered


def _table(request: Request, server: ConsoleServer) -> ConsoleTable | None:
    return tables.table_named(server, request.path_params["schema"], request.path_params["name"])


def _absent(request: Request) -> Response:
    name = request.path_params["name"]
    return _pages(request).show(request, "problem.html", 404, problem=f"There is no table {name!r} that you may see.")


def login_page(request: Request) -> Response:
    """Ask who is there, of a browser that was let in."""
    if _login(request) is None:
        return _pages(request).show(
            request, "closed.html", 403, reason="Open the address that lance-flight console has printed."
        )
    return _pages(request).show(request, "login.html", problem=None, user="")


async def login(request: Request) -> Response:
    """Take a user with a password, or a token."""
    pages, mine = _pages(request), _login(request)
    if mine is None:
        return pages.show(request, "closed.html", 403, reason="Open the address that lance-flight console has printed.")
    given = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
    user, token = given.get("user"), given.get("token")
    credentials = Credentials(token=token) if token else Credentials(user=user, password=given.get("password", ""))
    try:
        await run_in_threadpool(pages.logins.authenticate, mine, credentials)
    except ServerError as exc:
        return pages.show(request, "login.html", 403, problem=str(exc), user=user or "")
    return RedirectResponse("/", 303)


def logout(request: Request) -> Response:
    """Forget this browser."""
    _pages(request).logins.leave(request.cookies.get(COOKIE))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


@page
def home(request: Request, server: ConsoleServer) -> Response:
    """List the tables; their sizes come one by one."""
    return _pages(request).show(request, "tables.html", tables=tables.tables_of(server))


@page
def summary(request: Request, server: ConsoleServer) -> Response:
    """Return the row of one table in the list of all."""
    table = _table(request, server)
    if table is None:
        return Response(status_code=404)
    return _pages(request).show(request, "summary.html", table=table, summary=tables.summary_of(server, table))


@page
def table(request: Request, server: ConsoleServer) -> Response:
    """Show the columns of a table, and what there is of it."""
    found = _table(request, server)
    if found is None:
        return _absent(request)
    parts = {
        "indices": listed(server, f"SELECT * FROM {found.sql(metadata='indexes')}"),
        "tags": listed(server, f"SELECT * FROM {found.sql(metadata='tags')}"),
        "branches": listed(server, f"SELECT * FROM {found.sql(metadata='branches')}")
        if found.is_partitioned
        else ([], []),
    }
    return _pages(request).show(
        request,
        "table.html",
        table=found,
        columns=listed(server, f"DESCRIBE {found.sql()}"),
        definition=tables.definition_of(server, found),
        version=tables.newest_version(server, found),
        parts={} if found.is_view else parts,
    )


@page
def partition_map(request: Request, server: ConsoleServer) -> Response:
    """Show the partition map, with the partitions greyed that a condition leaves out."""
    found = _table(request, server)
    if found is None:
        return _absent(request)
    return _pages(request).show(request, "map.html", table=found, **_map(request, server, found))


@page
def map_picture(request: Request, server: ConsoleServer) -> Response:
    """Return the map alone, for the page that is open."""
    found = _table(request, server)
    if found is None:
        return Response(status_code=404)
    shown = _pages(request).show(request, "picture.html", table=found, **_map(request, server, found))
    given = {name: value for name, value in request.query_params.items() if value}
    # The address of the page shows what is looked at: it can be given to others, and come back to.
    shown.headers["HX-Replace-Url"] = f"{request.url.path.removesuffix('/picture')}?{urlencode(given)}"
    return shown


@page
def map_svg(request: Request, server: ConsoleServer) -> Response:
    """Return the map as a picture of its own."""
    found = _table(request, server)
    if found is None:
        return Response(status_code=404)
    shown = _pages(request).show(request, "map.svg", table=found, **_map(request, server, found))
    return Response(shown.body, media_type="image/svg+xml")


def _map(request: Request, server: ConsoleServer, table: ConsoleTable) -> dict[str, Any]:
    given = request.query_params
    where = given.get("where", "").strip()
    version = int(given["at"]) if given.get("at", "").isdigit() else tables.newest_version(server, table)
    values: dict[str, Any] = {
        "where": where,
        "version": version,
        "at": given.get("at", ""),
        "colours": COLOURS,
        "colour": given.get("colour", COLOURS[0]),
        "problem": None,
        "reasons": [],
        "grid": None,
        "spec": None,
        "specs": [],
        "listed": [],
    }
    if not table.is_partitioned or table.is_view:
        return values | {"problem": f"{table.label} has no partitions: every query reads it whole."}
    partitions = tables.partitions_at(server, table, version)
    if not partitions.num_rows:
        return values | {"problem": f"{table.label} has no partitions yet: they come with its first rows."}
    read = None
    if where:
        try:
            read, reasons = tables.read_by(server, table, version, where)
            values["reasons"] = reasons
        except ServerError as exc:
            values["problem"] = str(exc)
    specs = sorted(set(partitions["spec_id"].to_pylist()))
    spec = int(given["spec"]) if given.get("spec", "").isdigit() and int(given["spec"]) in specs else specs[-1]
    shown = partitions.filter(pc.equal(partitions["spec_id"], spec))
    grid = PartitionGrid.of(
        shown, read=read, down=given.get("down"), across=given.get("across"), colour=values["colour"]
    )
    rows = shown.slice(0, MOST_LISTED).to_pylist()
    return values | {
        "grid": grid,
        "colour": grid.colour,
        "spec": spec,
        "specs": specs,
        "total": partitions.num_rows,
        "read": partitions.num_rows if read is None else len(read),
        "listed": [(row, read is None or row["object_id"] in read) for row in rows],
    }


@page
def history(request: Request, server: ConsoleServer) -> Response:
    """Show the snapshots of a table on a time line, and what differs between two of them."""
    found = _table(request, server)
    if found is None:
        return _absent(request)
    given = request.query_params
    rows = (
        []
        if found.is_view
        else server.rows(
            f"SELECT * FROM {found.sql(metadata='snapshots')} ORDER BY version DESC LIMIT {MOST_SNAPSHOTS}"
        ).to_pylist()
    )
    chosen = [int(given[name]) for name in ("a", "b") if given.get(name, "").isdigit()]
    compared: list[tables.PartitionDifference] | None = None
    if len(chosen) == 2 and found.is_partitioned:  # noqa: PLR2004 - two snapshots
        first, second = (tables.partitions_at(server, found, version) for version in sorted(chosen))
        compared = tables.differences(first, second)
    return _pages(request).show(
        request,
        "history.html",
        table=found,
        snapshots=rows,
        dots=_dots(rows),
        chosen=sorted(chosen),
        compared=compared,
    )


def _dots(snapshots: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the places of snapshots on a line from the oldest to the newest, 0 to 1000."""
    moments = [row["committed_at"].timestamp() for row in snapshots]
    first, last = min(moments, default=0.0), max(moments, default=0.0)
    span = last - first or 1.0
    return [{**row, "x": round(1000 * (at - first) / span)} for row, at in zip(snapshots, moments, strict=True)]


@page
def query_page(request: Request, server: ConsoleServer) -> Response:
    """Show the editor; its SQL is in the fragment of the address, which no server sees."""
    names: dict[str, list[str]] = {each.label: [] for each in tables.tables_of(server)}
    columns = server.rows(
        "SELECT table_schema, table_name, column_name FROM information_schema.columns"
        " WHERE table_schema <> 'information_schema'"
    )
    for row in columns.to_pylist():
        label = ConsoleTable(row["table_schema"], row["table_name"]).label
        names.setdefault(label, []).append(row["column_name"])
    return _pages(request).show(
        request, "query.html", names=json.dumps(names), limits=server.limits, writes=server.writes
    )


async def begin_query(request: Request) -> Response:
    """Begin a query, and return its id."""
    login = _login(request)
    if login is None or login.server is None or CHANGE_HEADER not in request.headers:
        return JSONResponse({"error": "this browser has not logged in"}, 403)
    given = await request.json()
    sql = given.get("sql") if isinstance(given, dict) else None
    if not isinstance(sql, str) or not sql.strip():
        return JSONResponse({"error": "there is no SQL"}, 400)
    try:
        return JSONResponse({"id": login.queries.begin(login.server, sql)}, 202)
    except TooManyQueries as exc:
        return JSONResponse({"error": str(exc)}, 429)


@page
def query_state(request: Request, server: ConsoleServer) -> Response:
    """Return the rows of a query beyond those that the page has."""
    query = _query(request)
    after = request.query_params.get("after", "0")
    if query is None or not after.isdigit():
        return JSONResponse({"error": "there is no such query"}, 404)
    return JSONResponse(query.state(int(after)))


@page
def query_cancel(request: Request, server: ConsoleServer) -> Response:
    """Cancel a query."""
    query = _query(request)
    if query is None:
        return JSONResponse({"error": "there is no such query"}, 404)
    query.cancel()
    return JSONResponse({}, 202)


@page
def query_download(request: Request, server: ConsoleServer) -> Response:
    """Run a query again, and return all of its rows as a file; it changes nothing, whatever the console may do."""
    query, kind = _query(request), request.path_params["format"]
    if query is None or kind not in _TYPES:
        return JSONResponse({"error": "there is no such query"}, 404)
    handle, path = tempfile.mkstemp(suffix=f".{kind}")
    os.close(handle)
    reading = server.reading()
    try:
        with reading.answer(query.sql) as answer:
            write_file(path, kind, answer.schema, answer.batches)
    except BaseException:
        Path(path).unlink()
        raise
    finally:
        reading.close()
    return FileResponse(
        path, media_type=_TYPES[kind], filename=f"query.{kind}", background=BackgroundTask(Path(path).unlink)
    )


def _query(request: Request) -> Any:
    login: Login = request.scope["state"]["login"]
    return login.queries.find(request.path_params["query"])


@page
def activity(request: Request, server: ConsoleServer) -> Response:
    """Show what runs, what ended, and sessions."""
    return _pages(request).show(request, "activity.html", **_activity(server))


@page
def activity_rows(request: Request, server: ConsoleServer) -> Response:
    """Return the tables of the page, as they are now."""
    return _pages(request).show(request, "activity_rows.html", **_activity(server))


def _activity(server: ConsoleServer) -> dict[str, Any]:
    return {
        "running": server.rows("SELECT * FROM system.queries ORDER BY began DESC LIMIT 100").to_pylist(),
        "ended": server.rows(
            "SELECT * FROM system.statements WHERE kind <> 'prepare' ORDER BY began DESC LIMIT 200"
        ).to_pylist(),
        "sessions": server.rows("SELECT * FROM system.sessions ORDER BY began DESC LIMIT 100").to_pylist(),
    }


@page
def kill(request: Request, server: ConsoleServer) -> Response:
    """Cancel a statement of the server."""
    number = request.path_params["statement"]
    if not number.isalnum():
        return JSONResponse({"error": "there is no such statement"}, 404)
    server.rows(f"KILL '{number}'")
    return _pages(request).show(request, "activity_rows.html", **_activity(server))


ROUTES = (
    Route("/", home),
    Route("/login", login_page, methods=["GET"]),
    Route("/login", login, methods=["POST"]),
    Route("/logout", logout, methods=["POST"]),
    Route("/t/{schema}/{name}", table),
    Route("/t/{schema}/{name}/summary", summary),
    Route("/t/{schema}/{name}/map", partition_map),
    Route("/t/{schema}/{name}/map/picture", map_picture),
    Route("/t/{schema}/{name}/map.svg", map_svg),
    Route("/t/{schema}/{name}/history", history),
    Route("/query", query_page, methods=["GET"]),
    Route("/query", begin_query, methods=["POST"]),
    Route("/query/{query}.{format}", query_download),
    Route("/query/{query}", query_state),
    Route("/query/{query}/cancel", query_cancel, methods=["POST"]),
    Route("/activity", activity),
    Route("/activity/rows", activity_rows),
    Route("/activity/{statement}/kill", kill, methods=["POST"]),
)
