"""Page of what the server does, and what ends a statement."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from lance_flight_client.console import tables
from lance_flight_client.console.pages.answering import page, pages_of
from lance_flight_client.console.server import OWN, ConsoleServer
from lance_flight_client.errors import ServerError


@page
def activity(request: Request, server: ConsoleServer) -> Response:
    """Show what runs, what ended, and sessions."""
    return pages_of(request).show(request, "activity.html", **_activity(server))


@page
def activity_rows(request: Request, server: ConsoleServer) -> Response:
    """Return the tables of the page, as they are now."""
    return pages_of(request).show(request, "activity_rows.html", **_activity(server))


def _activity(server: ConsoleServer) -> dict[str, Any]:
    theirs = f"sql NOT LIKE '{OWN}%'"
    return {
        "problem": None,
        "writes": server.writes,
        "running": server.rows(
            f"SELECT * FROM system.queries WHERE {theirs} ORDER BY began DESC LIMIT 100"
        ).to_pylist(),
        "ended": server.rows(
            f"SELECT * FROM system.statements WHERE kind <> 'prepare' AND {theirs} ORDER BY began DESC LIMIT 200"
        ).to_pylist(),
        "sessions": server.rows("SELECT * FROM system.sessions ORDER BY began DESC LIMIT 100").to_pylist(),
    }


@page
def kill(request: Request, server: ConsoleServer) -> Response:
    """Cancel a statement of the server."""
    number = request.path_params["statement"]
    problem = None
    try:
        with server.answer(f"{OWN}KILL {tables.text_literal(number)}"):
            pass
    except ServerError as exc:
        problem = str(exc)
    return pages_of(request).show(request, "activity_rows.html", **_activity(server) | {"problem": problem})
