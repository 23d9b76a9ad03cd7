"""A browser, a server with tables, and consoles over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lance_flight_client.adbc import NOBODY, Credentials
from lance_flight_client.console.server import ConsoleLimits
from lance_flight_client.console.serving import ConsoleOptions, RunningConsole, running

from tests.console.browsers import CHROMIUM
from tests.service.server_process import Server, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
MONTHS = 12


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("console") / "root") as running_server:
        fill(running_server)
        yield running_server


def fill(server: Server) -> None:
    """Trips by month and site in three snapshots, a plain table with hostile text, and a view."""
    server.run("CREATE TABLE trips (id BIGINT, month INT, site VARCHAR, miles DOUBLE) PARTITIONED BY (month, site)")
    rows = [
        {"id": n, "month": 1 + n % MONTHS, "site": ("Oslo", "Lima", "Rome")[n // MONTHS % 3], "miles": float(n)}
        for n in range(600)
    ]
    server.ingest("trips", pa.Table.from_pylist(rows), mode="append")
    server.run("INSERT INTO trips VALUES (1000, 1, 'Oslo', 1), (1001, 2, 'Bern', 2)")
    server.run("ALTER TABLE trips CREATE TAG summer")
    server.run("CREATE TABLE words (id BIGINT, word VARCHAR)")
    server.run(f"INSERT INTO words VALUES (1, '{HOSTILE}'), (2, NULL)")
    server.run("CREATE VIEW oslo AS SELECT id FROM trips WHERE site = 'Oslo'")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium: the one of this machine, or else the one that Playwright has downloaded."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


@dataclass(frozen=True)
class Console:
    """A running console, the addresses that it announced, and pages of browsers."""

    running: RunningConsole
    announced: list[str]
    browser: Callable[[], Browser]
    pages: ExitStack

    @property
    def base(self) -> str:
        return self.running.address.partition("?")[0]

    def open(self, path: str = "", **options: Any) -> Page:
        """Open a page in a browser of its own, which is let in first; errors of scripts fail the test at its end."""
        context = self.browser().new_context(**options)
        self.pages.callback(context.close)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.problems = []  # type: ignore[attr-defined]
        page.on("pageerror", lambda error: page.problems.append(str(error)))  # type: ignore[attr-defined]
        page.on("dialog", lambda dialog: page.problems.append(dialog.message))  # type: ignore[attr-defined]
        page.goto(self.running.address)
        if path:
            page.goto(self.base + path)
        return page


@pytest.fixture
def consoles(request: pytest.FixtureRequest) -> Iterator[Callable[..., Console]]:
    """Starts consoles over servers, and the browser when one of them is opened."""

    def browser() -> Browser:
        started: Browser = request.getfixturevalue("browser")
        return started

    with ExitStack() as stack:

        def start(
            uri: str, credentials: Credentials | None = NOBODY, limits: ConsoleLimits | None = None, **options: Any
        ) -> Console:
            announced: list[str] = []
            given = ConsoleOptions(uri=uri, credentials=credentials, limits=limits or ConsoleLimits(), **options)
            return Console(stack.enter_context(running(given, announced.append)), announced, browser, stack)

        yield start


@pytest.fixture
def console(consoles: Callable[..., Console], server: Server) -> Console:
    return consoles(server.uri)
