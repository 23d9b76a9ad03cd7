"""The console in a real browser: what a newcomer does in the first minutes, by mouse and by keys, and what hostile text does not do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axe_playwright_python.sync_playwright import Axe
from lance_flight_client.console import partition_grid
from lance_flight_client.console.server import ConsoleLimits
from playwright.sync_api import Page, expect

from tests.console.conftest import HOSTILE, Console
from tests.service.server_process import Server

LONG = "SELECT sum(a.value * b.value) FROM generate_series(1, 30000000) a, generate_series(1, 1000) b"


@pytest.fixture(autouse=True)
def _no_problems(request: pytest.FixtureRequest) -> Any:
    """No script fails in any page of a test, and no dialog opens."""
    opened: list[Page] = []
    if "console" in request.fixturenames:
        console: Console = request.getfixturevalue("console")
        original = console.open
        object.__setattr__(
            console, "open", lambda *args, **named: opened.append(original(*args, **named)) or opened[-1]
        )
    yield
    assert [problem for page in opened for problem in page.problems] == []  # type: ignore[attr-defined]


def type_sql(page: Page, sql: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)


def test_a_newcomer_looks_at_partitions_queries_and_compares_snapshots(console: Console) -> None:
    page = console.open()
    assert "token" not in page.url
    row = page.locator("tr", has=page.get_by_role("link", name="trips"))
    expect(row).to_contain_text("602")
    expect(row).to_contain_text("37")
    row.get_by_role("link", name="trips").click()
    expect(page.get_by_role("status")).to_contain_text("37 of 37 partitions")
    assert page.locator("svg.map rect").count() == 37
    page.get_by_label("WHERE").fill("site = 'Oslo' AND month < 8")
    expect(page.get_by_role("status")).to_contain_text("7 of 37 partitions would be read")
    assert page.locator("svg.map rect.off").count() == 30
    expect(page.get_by_label("Why", exact=True)).to_contain_text("used: site = 'Oslo'")
    assert "where=site" in page.url
    page.get_by_role("link", name="run this query").click()
    expect(page.locator("#result tbody tr")).to_have_count(120)
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("#result")).to_contain_text("partitions: 7 / 37")
    page.goto(console.base + "t/public/trips/history")
    page.get_by_role("link", name="compare").nth(0).click()
    page.get_by_role("link", name="with this").nth(0).click()
    expect(page.locator("#compared")).to_contain_text("month = 2, site = Bern")
    expect(page.locator("#compared tr", has_text="month = 1, site = Oslo")).to_contain_text("changed")
    page.get_by_role("link", name="query as of").first.click()
    expect(page.locator("#state")).to_contain_text("100 rows")


def test_an_address_shows_what_another_looked_at(console: Console) -> None:
    first = console.open("t/public/trips/map")
    first.get_by_label("WHERE").fill("month = 3")
    expect(first.get_by_role("status")).to_contain_text("3 of 37")
    path = first.url.removeprefix(console.base)
    second = console.open(path)
    expect(second.get_by_label("WHERE")).to_have_value("month = 3")
    expect(second.get_by_role("status")).to_contain_text("3 of 37")


def test_a_wrong_condition_is_said_beside_the_map(console: Console) -> None:
    page = console.open("t/public/trips/map")
    page.get_by_label("WHERE").fill("wind > 3")
    expect(page.get_by_role("alert")).to_contain_text("No field named wind")
    assert page.locator("svg.map rect").count() == 37
    page.get_by_label("WHERE").fill("site = 'Rome'")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("status")).to_contain_text("12 of 37")


def test_the_map_is_coloured_and_arranged_as_one_likes(console: Console) -> None:
    page = console.open("t/public/trips/map")
    page.get_by_label("colour").select_option("bytes")
    expect(page.locator("figcaption")).to_contain_text("more bytes")
    page.get_by_label("down").select_option("site")
    expect(page.locator("figcaption")).to_contain_text("site down, month across")
    page.get_by_text("As a table (37)").click()
    expect(page.locator("#picture table tbody tr")).to_have_count(37)


def test_a_large_map_is_drawn_on_a_canvas(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_grid, "MOST_SVG_CELLS", 20)
    page = console.open("t/public/trips/map?where=month%20%3D%203")
    canvas = page.locator("canvas.map")
    expect(canvas).to_have_attribute("aria-label", "Map of 37 partitions")
    drawn = """canvas => {
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
        const found = new Set()
        for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] === 255) found.add([...pixels.slice(at, at + 3)].join())
        return found.size
    }"""
    assert canvas.evaluate(drawn) >= 3
    page.get_by_label("WHERE").fill("month = 4")
    expect(page.get_by_role("status")).to_contain_text("3 of 37")
    assert page.locator("canvas.map").evaluate(drawn) >= 3


def test_keys_are_enough(console: Console) -> None:
    page = console.open("t/public/trips/map")
    page.locator("h1").click()
    page.keyboard.press("/")
    page.keyboard.type("month = 5")
    expect(page.get_by_role("status")).to_contain_text("3 of 37")
    page.goto(console.base + "query")
    page.keyboard.type("SELECT 41 + 1 AS answer")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result")).to_contain_text("42")
    assert page.evaluate("decodeURIComponent(location.hash)") == "#SELECT 41 + 1 AS answer"


def test_names_are_completed(console: Console) -> None:
    page = console.open("query")
    page.keyboard.type("SELECT * FROM tri")
    expect(page.locator(".cm-tooltip-autocomplete")).to_contain_text("trips")


def test_a_long_query_is_cancelled(console: Console, server: Server) -> None:
    page = console.open("query")
    type_sql(page, LONG)
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#state")).to_contain_text("running")
    activity = console.open("activity")
    expect(activity.locator("#activity")).to_contain_text("sum(a.value * b.value)")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("cancelled")
    running = "SELECT count(*) FROM system.queries WHERE sql LIKE 'SELECT sum(a.value%' AND state = 'running'"
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    assert server.value(running) == 0


def test_a_running_statement_is_killed(console: Console) -> None:
    page = console.open("query")
    type_sql(page, LONG)
    page.get_by_role("button", name="Run").click()
    activity = console.open("activity")
    activity.locator("tr", has_text="sum(a.value").get_by_role("button", name="Kill").click()
    expect(page.get_by_role("alert")).to_contain_text("cancelled")


def test_limits_hold(consoles: Callable[..., Console], server: Server) -> None:
    page = consoles(server.uri, limits=ConsoleLimits(rows=50, seconds=1.0)).open("query")
    type_sql(page, "SELECT id FROM trips")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#state")).to_contain_text("50 rows")
    expect(page.locator("#state")).to_contain_text("there are more")
    assert page.locator("#result tbody tr").count() == 50
    type_sql(page, LONG)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("after 1 seconds (statement_timeout)")


def test_nothing_is_changed_unless_writes_are_wanted(
    console: Console, consoles: Callable[..., Console], server: Server
) -> None:
    page = console.open("query")
    type_sql(page, "DROP TABLE words")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("the session reads only")
    assert server.value("SELECT count(*) FROM words") == 2
    writing = consoles(server.uri, writes=True).open("query")
    type_sql(writing, "CREATE TABLE made (id BIGINT)")
    writing.get_by_role("button", name="Run").click()
    expect(writing.locator("#state")).to_contain_text("0 rows affected")
    assert server.run("DROP TABLE made") == 0


def test_text_of_others_stays_text(console: Console) -> None:
    page = console.open("query")
    type_sql(page, "SELECT * FROM words ORDER BY id")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#result tbody tr").nth(0)).to_contain_text(HOSTILE)
    expect(page.locator("#result tbody tr").nth(1)).to_contain_text("NULL")
    page.goto(console.base + "activity")
    expect(page.locator("#activity")).to_contain_text("SELECT * FROM words")
    assert page.locator("img").count() == 0


def test_all_rows_are_downloaded(console: Console, tmp_path: Path) -> None:
    page = console.open("query")
    type_sql(page, "SELECT * FROM trips")
    page.get_by_role("button", name="Run").click()
    for name in ("CSV", "Parquet", "Arrow"):
        with page.expect_download() as found:
            page.get_by_role("link", name=name).click()
        found.value.save_as(tmp_path / name)
    assert pq.read_metadata(tmp_path / "Parquet").num_rows == 602
    assert len((tmp_path / "CSV").read_text().splitlines()) == 603


PAGES = [
    "",
    "t/public/trips",
    "t/public/trips/map?where=month%20%3D%201",
    "t/public/trips/history?a=5&b=6",
    "query",
    "activity",
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_everybody_can_use_a_page(console: Console, path: str, scheme: str) -> None:
    page = console.open(path, color_scheme=scheme)
    page.wait_for_load_state("networkidle")
    found = json.loads(json.dumps(Axe().run(page).response))["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]][:3]) for each in found] == []


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_phone(console: Console, path: str) -> None:
    page = console.open(path, viewport={"width": 390, "height": 800})
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_plain_tables_and_views_have_their_pages(console: Console) -> None:
    page = console.open("t/public/words")
    expect(page.locator("#definition")).to_contain_text('CREATE TABLE "public"."words"')
    page.goto(console.base + "t/public/words/map")
    expect(page.locator("#picture")).to_contain_text("words has no partitions: every query reads it whole.")
    page.goto(console.base + "t/public/oslo")
    expect(page.locator("#definition")).to_contain_text("WHERE site = 'Oslo'")
    page.goto(console.base + "t/public/nothing")
    expect(page.get_by_role("alert")).to_contain_text("There is no table 'nothing' that you may see.")
