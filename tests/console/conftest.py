"""A browser, a server with tables, and consoles over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lance_flight_client.adbc import NOBODY, Credentials
from lance_flight_client.console.app import ConsoleOptions, RunningConsole, running
from lance_flight_client.console.tables import ConsoleLimits

from tests.console.browsers import CHROMIUM, FLAGS
from tests.service.server_process import Server, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium: the one of this machine, or else the one that Playwright has downloaded.

    Playwright's event loop runs as long as it is open, and later modules of this worker may need one of their own.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@dataclass(frozen=True)
class Console:
    """A running console, the addresses that it announced, and pages of a browser that it has let in."""

    running: RunningConsole
    announced: list[str]
    browser: Callable[[], Browser]
    pages: ExitStack
    contexts: dict[str, BrowserContext] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """What scripts of the pages failed with, and the dialogs that opened."""

    @property
    def base(self) -> str:
        return self.running.address.partition("?")[0]

    def open(self, path: str = "", *, who: str = "", width: int = 1280, scheme: Any = "light") -> Page:
        """Open a page in the browser, or in one of another user, who is let in first."""
        if who not in self.contexts:
            self.contexts[who] = self.browser().new_context(ignore_https_errors=True)
            # It stays open, and with it the process that the pages share.
            self.contexts[who].new_page().goto(self.running.address)
        page = self.contexts[who].new_page()
        self.pages.callback(page.close)
        page.set_default_timeout(15_000)
        page.set_viewport_size({"width": width, "height": 720 if width == 1280 else 800})
        page.emulate_media(color_scheme=scheme)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(dialog.message))
        page.goto(self.base + path)
        return page


Consoles = Callable[..., Console]


@pytest.fixture
def consoles(request: pytest.FixtureRequest) -> Iterator[Consoles]:
    """Starts consoles over servers, and the browser when one of them is opened."""
    with ExitStack() as stack:

        def start(
            uri: str, credentials: Credentials | None = NOBODY, limits: ConsoleLimits | None = None, **options: Any
        ) -> Console:
            announced: list[str] = []
            given = ConsoleOptions(uri=uri, credentials=credentials, limits=limits or ConsoleLimits(), **options)
            started = stack.enter_context(running(given, announced.append))
            console = Console(started, announced, lambda: request.getfixturevalue("browser"), stack)
            stack.callback(lambda: [context.close() for context in console.contexts.values()])
            return console

        yield start


@pytest.fixture
def own_console(consoles: Consoles, server: Server) -> Console:
    """A console of one test."""
    return consoles(server.uri)


@pytest.fixture(scope="module")
def shared_console(server: Server, request: pytest.FixtureRequest) -> Iterator[Console]:
    announced: list[str] = []
    given = ConsoleOptions(uri=server.uri, credentials=NOBODY)
    with running(given, announced.append) as started:
        yield Console(started, announced, lambda: request.getfixturevalue("browser"), ExitStack())


@pytest.fixture
def console(shared_console: Console) -> Iterator[Console]:
    """The console of all tests that do not change it; their pages are closed."""
    with ExitStack() as pages:
        yield replace(shared_console, pages=pages, problems=[])
