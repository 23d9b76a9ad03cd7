"""Pictures of the console's pages, of the demo's tables: `uv run python -m tests.console.screenshots DIRECTORY`.

Each page is drawn in light and dark, 1280 and 390 pixels wide; `console-*.png` are those of the documents.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from lance_flight_client.adbc import NOBODY
from lance_flight_client.console.app import ConsoleOptions, running
from playwright.sync_api import Page, sync_playwright

from tests.console.browsers import CHROMIUM
from tests.service.server_process import COMMAND, serving

WHERE = "origin <> 'LGA' AND time_hour >= '2013-06-01' AND time_hour < '2013-09-01'"
SQL = """SELECT carrier, count(*) AS flights, round(avg(arr_delay), 1) AS delay
FROM flights WHERE origin = 'JFK' GROUP BY carrier ORDER BY flights DESC"""
MAP = f"t/public/flights/map?down=origin&where={quote(WHERE)}"
QUERY = f"query?chart=bar&x=carrier&y=delay#{quote(SQL)}"
ROWS = "t/public/flights/rows?is=%5B%22origin%22%2C%22JFK%22%5D&sort=arr_delay&down=1"
PAGES = {
    "tables": "",
    "rows": ROWS,
    "search": "t/public/airports/search?words=island&text=name",
    "operations": "operations",
    "columns": "t/public/flights",
    "map": MAP,
    "partition": "t/public/flights/partition?spec=1&row=6&column=1",
    "layout": "t/public/flights/layout?by=carrier",
    "buckets": "t/public/flights_by_carrier/map",
    "history": "t/public/flights/history?a=7&b=8",
    "query": QUERY,
    "plan": f"query?view=plan#{quote(SQL)}",
    "measured": f"query?view=measure#{quote(SQL)}",
    "error": f"query#{quote('SELECT wind FROM flights')}",
    "wrong": f"t/public/flights/map?where={quote('wind > 3')}",
    "plain": "t/public/airlines/history",
    "absent": "t/public/nothing",
    "activity": "activity",
}
HISTORY = (
    "ALTER TABLE flights CREATE TAG summer",
    "ALTER TABLE flights CREATE BRANCH draft",
    'INSERT INTO "flights@draft" SELECT * FROM flights WHERE distance > 4900',
    "DELETE FROM flights WHERE distance < 90",
)
"""What the demo's table gets for a history with a branch."""
LONG = """SELECT a.carrier, count(*) AS pairs
FROM flights a JOIN flights b ON a.dest = b.dest AND a.arr_time < b.dep_time
WHERE a.origin = 'JFK' GROUP BY a.carrier"""
"""A query that runs for a while."""
SETTLED = 500
"""Milliseconds after the last request in which a page is drawn."""


def take(page: Page, address: str, file: Path, *, is_whole: bool = False) -> None:
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(SETTLED)
    page.screenshot(path=file, full_page=is_whole)
    print(file)  # noqa: T201 - a program


def take_running(page: Page, address: str, file: Path) -> None:
    """Draw the operators of a query while it runs."""
    page.goto(address)
    page.locator("section.tree .cost", has_text=re.compile(r"\d,\d{3},\d{3} rows")).until()
    page.screenshot(path=file)
    page.get_by_role("button", name="Cancel").click()
    print(file)  # noqa: T201 - a program


def main(directory: Path) -> None:
    """Load the demo, and draw its pages."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        subprocess.run([COMMAND, "demo", "--no-serve", "--root", str(root)], check=True, capture_output=True)
        with (
            serving(root, is_forked=False) as server,
            running(ConsoleOptions(uri=server.uri, credentials=NOBODY), lambda _: None) as console,
            sync_playwright() as playwright,
        ):
            for statement in HISTORY:
                server.run(statement)
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            base = console.address.partition("?")[0]
            for scheme in ("light", "dark"):
                for width in (1280, 390):
                    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 860})
                    page.goto(console.address)
                    for name, path in PAGES.items():
                        take(page, base + path, directory / f"{name}-{scheme}-{width}.png", is_whole=True)
            page = browser.new_page(viewport={"width": 1180, "height": 700})
            page.goto(console.address)
            for name, path, height in (("map", MAP, 520), ("query", QUERY, 700), ("rows", ROWS, 700)):
                page.set_viewport_size({"width": 1000 if name == "map" else 1180, "height": height})
                take(page, base + path, directory / f"console-{name}.png")
            page.set_viewport_size({"width": 1180, "height": 600})
            take_running(page, f"{base}query?view=measure#{quote(LONG)}", directory / "console-operators.png")
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
