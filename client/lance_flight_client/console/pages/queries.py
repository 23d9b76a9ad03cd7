"""The editor's page, and the requests that run, plan and download queries."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from lance_flight.errors import DataError
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from lance_flight_client.console import tables
from lance_flight_client.console.logins import Login
from lance_flight_client.console.pages.answering import (
    NOT_LET_IN,
    InvalidRequest,
    login_of,
    page,
    pages_of,
    sql_of,
    whole_number,
)
from lance_flight_client.console.plans import plan_of
from lance_flight_client.console.queries import TooManyQueries
from lance_flight_client.console.request_checks import CHANGE_HEADER
from lance_flight_client.console.server import ConsoleServer
from lance_flight_client.console.tables import ConsoleTable
from lance_flight_client.files.writing import write_file
from lance_flight_client.output import for_spreadsheets

_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "arrow": "application/vnd.apache.arrow.file"}


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
    return pages_of(request).show(request, "query.html", names=names, limits=server.limits, writes=server.writes)


async def begin_query(request: Request) -> Response:
    """Begin a query, and return its id."""
    pages, mine = pages_of(request), login_of(request)
    if mine is None or mine.server is None or CHANGE_HEADER not in request.headers:
        return JSONResponse({"error": NOT_LET_IN}, 403)
    try:
        sql, writes = await sql_of(request)
        return JSONResponse({"id": mine.queries.begin(mine.server, sql, writes=writes)}, 202)
    except InvalidRequest as exc:
        return pages.problem(request, 400, str(exc))
    except TooManyQueries as exc:
        return pages.problem(request, 429, str(exc))


async def plan(request: Request) -> Response:
    """Return the plan of a query: its tables with their maps, the reasons, and the operators."""
    try:
        request.scope["state"]["sql"], _ = await sql_of(request)
    except InvalidRequest as exc:
        return pages_of(request).problem(request, 400, str(exc))
    return await run_in_threadpool(_planned, request)


@page
def _planned(request: Request, server: ConsoleServer) -> Response:
    return pages_of(request).show(request, "plan.html", fills=None, plan=plan_of(server, request.scope["state"]["sql"]))


@page
def query_state(request: Request, server: ConsoleServer) -> Response:
    """Return the rows of a query beyond those that the page has."""
    query = _query(request)
    if query is None:
        return _no_query(request)
    return JSONResponse(query.state(whole_number(request, "after") or 0))


@page
def query_cancel(request: Request, server: ConsoleServer) -> Response:
    """Cancel a query."""
    query = _query(request)
    if query is None:
        return _no_query(request)
    query.cancel()
    return JSONResponse({}, 202)


@page
def query_download(request: Request, server: ConsoleServer) -> Response:
    """Run a query again, and return all of its rows as a file; it changes nothing, whatever the console may do."""
    query, kind = _query(request), request.path_params["format"]
    if query is None or kind not in _TYPES:
        return _no_query(request)
    mine: Login = request.scope["state"]["login"]
    if not mine.downloads.acquire(blocking=False):
        return pages_of(request).problem(
            request, 429, "Another download of this browser is being made: try it after that."
        )
    handle, path = tempfile.mkstemp(suffix=f".{kind}")
    os.close(handle)
    try:
        _write_rows(server, query.sql, path, kind)
    except DataError as exc:
        Path(path).unlink()
        raise InvalidRequest(f"{str(exc)[0].upper()}{str(exc)[1:]}.") from exc
    except BaseException:
        Path(path).unlink()
        raise
    finally:
        mine.downloads.release()
    return FileResponse(
        path, media_type=_TYPES[kind], filename=f"query.{kind}", background=BackgroundTask(Path(path).unlink)
    )


def _write_rows(server: ConsoleServer, sql: str, path: str, kind: str) -> None:
    with server.answer(sql, writes=False) as answer:
        if not len(answer.schema):
            raise InvalidRequest("The statement has no rows to download.")
        found = answer.schema, answer.batches
        write_file(path, kind, *(for_spreadsheets(*found) if kind == "csv" else found))


def _no_query(request: Request) -> Response:
    return pages_of(request).problem(request, 404, "There is no such query any more: run it again.")


def _query(request: Request) -> Any:
    login: Login = request.scope["state"]["login"]
    return login.queries.find(request.path_params["query"])
