"""The console as an ASGI application."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from lance_flight_client.console.logins import Logins
from lance_flight_client.console.pages.answering import Pages, absent
from lance_flight_client.console.pages.routes import ROUTES
from lance_flight_client.console.partition_grid import readable_bytes
from lance_flight_client.console.request_checks import RequestChecks

HERE = Path(__file__).parent


def templates() -> Environment:
    """Return the templates, which escape whatever they are given."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["bytes"] = lambda size: "–" if size is None else readable_bytes(size)
    made.filters["number"] = lambda value: "–" if value is None else f"{value:,}"
    made.filters["moment"] = lambda value: "–" if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"
    return made


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """Hosts that browsers may call the console by, and whether they do so by TLS."""

    hosts: Collection[str]
    is_secure: bool = False
    port: int = 0

    @property
    def cookie(self) -> str:
        """The name of the cookie, which is the console's own: browsers send those of one host to all of its ports."""
        return f"lance_flight_console_{self.port}"


def application(logins: Logins, address: ConsoleAddress) -> Starlette:
    """Return the application for some logins."""
    app = Starlette(
        routes=[*ROUTES, Mount("/static", StaticFiles(directory=HERE / "static"), name="static")],
        exception_handlers={HTTPException: absent},
        middleware=[Middleware(RequestChecks, hosts=address.hosts, is_secure=address.is_secure)],
    )
    app.state.pages = Pages(logins, templates(), cookie=address.cookie, is_secure=address.is_secure)
    return app
