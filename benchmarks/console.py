"""First paint of the console's pages in Chromium, a map of many partitions, and a result of many rows.

`uv run --group dev python -m benchmarks.console` runs it. The pages take turns, after one round that warms them up; each is checked for what
it should show. The rows' time is what the page's own thread computes: scripts, styles and layout, without the query and its transport.
There is no peer: the aims are those of people who wait.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from urllib.parse import quote

from lance_flight_client.adbc import NOBODY, connect, execute
from lance_flight_client.console.app import ConsoleOptions, running
from playwright.sync_api import Page, sync_playwright

from benchmarks import servers

CHROMIUM = shutil.which("chromium")
SMALL, LARGE = 36, 10_000
PAINT, MAP = 0.3, 0.5
"""Seconds: the aims."""
ROWS, COLUMNS, DRAWN, NODES = 10_000, 20, 0.3, 2_000
"""The rows of a result, their columns, and the aims: seconds, and nodes of the page."""
DRAWN_ROWS = f"{ROWS:,} rows of {COLUMNS} columns"
QUERY = f"SELECT {', '.join(f'value * {n} AS c{n}' for n in range(1, COLUMNS + 1))} FROM generate_series(1, {ROWS})"


def pages(partitions: int) -> dict[str, tuple[str, str, float]]:
    """Name → path, what it shows, and the aim."""
    return {
        "tables": ("", "small", PAINT),
        f"map of {SMALL} partitions": ("t/public/small/map", f"{SMALL} of {SMALL}", PAINT),
        f"map of {SMALL}, with a condition": ("t/public/small/map?where=a%20%3D%203", f"6 of {SMALL}", PAINT),
        "rows": ("t/public/small/rows", "SELECT * FROM", PAINT),
        "search": ("t/public/small/search", "small has no texts", PAINT),
        "columns": ("t/public/small", "CREATE TABLE", PAINT),
        "partition": ("t/public/small/partition?spec=1&row=0&column=0", "a = 0, b = 0", PAINT),
        "layout": ("t/public/small/layout?by=a", "as now", PAINT),
        "history": ("t/public/small/history", "Choose two snapshots", PAINT),
        "history, two compared": ("t/public/small/history?a=6&b=7", "Between snapshots", PAINT),
        "query": ("query", "Ctrl-Enter", PAINT),
        "activity": ("activity", "Activity", PAINT),
        "operations": ("operations", "Backlog", PAINT),
        f"map of {partitions:,} partitions": ("t/public/large/map", f"{partitions:,} of {partitions:,}", MAP),
        f"map of {partitions:,}, with a condition": ("t/public/large/map?where=a%20%3D%203", f"of {partitions:,}", MAP),
    }


def fill(uri: str, partitions: int) -> None:
    """Make a table with few partitions and one with many, a row in each."""
    with connect(uri) as connection:
        for name, count in (("small", SMALL), ("large", partitions)):
            side = round(count**0.5)
            execute(connection, f"CREATE TABLE {name} (a INT, b INT, x BIGINT) PARTITIONED BY (a, b)")
            rows = f"SELECT CAST(v / {side} AS INT), CAST(v % {side} AS INT), v FROM (SELECT unnest(range(0, {count})) AS v) n"
            execute(connection, f"INSERT INTO {name} {rows}")


def painted(page: Page, address: str, shows: str) -> float:
    """Seconds from the request of a page to its load, once it shows what it should."""
    page.goto(address, wait_until="load")
    if shows not in page.locator("main").inner_text():
        raise AssertionError(f"{address} does not show {shows!r}")
    found = page.evaluate("performance.getEntriesByType('paint').map(each => each.startTime)")
    loaded = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    return float(max(found or [loaded])) / 1000


def drawn(page: Page, base: str) -> tuple[float, float]:
    """CPU seconds of the page's thread until all rows of a result are in the grid, and seconds that a visitor waits for them."""
    page.goto(f"{base}query", wait_until="networkidle")
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        found: float = next(
            each["value"]
            for each in metrics.send("Performance.getMetrics")["metrics"]
            if each["name"] == "TaskDuration"
        )
        return found

    before, began = busy(), page.evaluate("performance.now()")
    page.evaluate(f"location.hash = '#{quote(QUERY)}'")
    page.locator("#tools:not(.away)").wait_for()
    page.locator(f"#state:text('{ROWS:,} rows')").wait_for()
    page.locator("#result tbody tr").nth(10).wait_for()
    waited, worked = page.evaluate("performance.now()") - began, busy() - before
    nodes = page.locator("*").count()
    if nodes > NODES:
        raise AssertionError(f"{ROWS:,} rows are {nodes:,} nodes; expected at most {NODES:,}")
    metrics.detach()
    return worked, waited / 1000


def measure(rounds: int, partitions: int) -> None:
    """Print a line for each page."""
    with (
        tempfile.TemporaryDirectory(prefix="lance-flight-bench-") as place,
        servers.ours(Path(place) / "root") as server,
        sync_playwright() as playwright,
    ):
        fill(server.uri, partitions)
        with running(ConsoleOptions(uri=server.uri, credentials=NOBODY), lambda _: None) as console:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page, base = browser.new_page(viewport={"width": 1280, "height": 860}), console.address.partition("?")[0]
            page.goto(console.address, wait_until="networkidle")
            seconds: dict[str, list[float]] = {}
            for turn in range(rounds + 1):
                for name, (path, shows, _) in pages(partitions).items():
                    taken = painted(page, base + path, shows)
                    page.wait_for_load_state("networkidle")
                    if turn:
                        seconds.setdefault(name, []).append(taken)
                worked, waited = drawn(page, base)
                if turn:
                    seconds.setdefault(DRAWN_ROWS, []).append(worked)
                    seconds.setdefault("the same, with the query and its transport", []).append(waited)
            browser.close()
    aims = {name: aim for name, (_, _, aim) in pages(partitions).items()} | {DRAWN_ROWS: DRAWN}
    for name, all_taken in seconds.items():
        aim, median = aims.get(name), statistics.median(all_taken)
        told = "" if aim is None else f"   aim ≤ {aim * 1000:.0f} ms   {'' if median <= aim else 'missed'}"
        print(f"{name:42} {median * 1000:6.0f} ms{told}")


def main() -> None:
    """Parse the command line, and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=LARGE)
    options = parser.parse_args()
    measure(options.rounds, options.partitions)


if __name__ == "__main__":
    main()
