"""The console in a real browser: what a newcomer does in the first minutes, by mouse and by keys, and what hostile text does not do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lance_flight_client.console import partitions, tables
from lance_flight_client.console.partitions import MOST_SVG_CELLS
from lance_flight_client.console.tables import ConsoleLimits

from tests.console.browsers import expect
from tests.console.conftest import HOSTILE, Console, Consoles
from tests.service.server_process import Server

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

LONG = "SELECT sum(a.value * b.value) FROM generate_series(1, 30000000) a, generate_series(1, 1000) b"


@pytest.fixture(autouse=True)
def _no_problems(console: Console) -> Iterator[None]:
    """No script fails in any page of a test, and no dialog opens."""
    yield
    assert console.problems == []


def type_sql(page: Page, sql: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)


def test_a_newcomer_looks_at_partitions_queries_and_compares_snapshots(console: Console) -> None:
    page = console.open()
    row = page.locator("tr", has=page.get_by_role("link", name="trips"))
    expect(row).to_contain_text("602")
    expect(row).to_contain_text("37")
    row.get_by_role("link", name="trips").click()
    expect(page.locator("#state")).to_contain_text("500 rows")
    page.get_by_role("link", name="Partitions").click()
    expect(page.get_by_role("status")).to_contain_text("37 of 37 partitions")
    assert page.locator("svg.map rect").count() == 37
    page.get_by_label("WHERE").fill("site = 'Oslo' AND month < 8")
    expect(page.get_by_role("status")).to_contain_text("7 of 37 partitions would be read")
    assert page.locator("svg.map rect.off").count() == 30
    expect(page.get_by_label("Why", exact=True)).to_contain_text("used: site = 'Oslo'")
    assert "where=site" in page.url
    page.get_by_role("link", name="run this query").click()
    expect(page.locator("#state")).to_contain_text("120 rows")
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("#planned h2")).to_have_text("trips: 7 of 37 partitions")
    assert page.locator("#planned rect[data-at].off").count() == 30
    expect(page.get_by_label("Why trips")).to_contain_text("used: site = 'Oslo'")
    expect(page.locator(".tree").first).to_contain_text("DatasetExec")
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


def test_what_is_written_before_the_scripts_have_come_is_not_lost(console: Console) -> None:
    page = console.open()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    def open_without_scripts(path: str) -> None:
        with page.expect_request("**/static/console.js"):
            page.goto(console.base + path, wait_until="commit")

    page.route("**/static/console.js", hold)
    open_without_scripts("t/public/trips/map")
    page.get_by_label("WHERE").fill("month = 3")
    held.pop().continue_()
    expect(page.get_by_role("status")).to_contain_text("3 of 37 partitions would be read")
    open_without_scripts("t/public/trips/map?where=month+%3D+3")
    page.get_by_label("WHERE").fill("")
    page.get_by_label("colour").select_option("files")
    held.pop().continue_()
    expect(page.get_by_role("status")).to_contain_text("37 of 37 partitions")
    expect(page.locator("figcaption")).to_contain_text("more files")


def test_a_wrong_condition_is_said_beside_the_map(console: Console) -> None:
    page = console.open("t/public/trips/map")
    page.get_by_label("WHERE").fill("wind > 3")
    # The cause comes first, and the code that is looked up last.
    expect(page.get_by_role("alert")).to_have_text(re.compile(r"^No field named wind.*\(invalid_sql\)$", re.DOTALL))
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
    monkeypatch.setattr(partitions, "MOST_SVG_CELLS", 20)
    page = console.open("t/public/trips/map?where=month%20%3D%203")
    canvas = page.locator("canvas.map")
    expect(page.get_by_role("application")).to_have_accessible_name(
        "Map of 37 partitions: arrow keys go from cell to cell, Enter opens one"
    )
    drawn = """canvas => {
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
        const found = new Set()
        for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] === 255) found.add([...pixels.slice(at, at + 3)].join())
        return found.size
    }"""
    assert canvas.evaluate(drawn) >= 3
    page.get_by_label("WHERE").fill("month = 4")
    expect(page.get_by_role("status")).to_contain_text("3 of 37")
    expect(page.get_by_label("Why", exact=True)).to_contain_text("used: month = 4")
    assert page.locator("canvas.map").evaluate(drawn) >= 3
    page.get_by_role("application").focus()
    expect(page.locator(".cell")).to_have_text(
        re.compile(r"^month = 1, site = Lima: 17 rows, .* KiB, 1 file; not read$")
    )
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".cell")).to_have_text(re.compile(r"^month = 4, site = Rome: 16 rows, .*; read$"))
    page.get_by_role("application").hover(position={"x": 150, "y": 60})
    expect(page.locator(".cell")).to_have_text(re.compile("^month = [23], site = "))


def test_a_map_that_is_larger_than_any_canvas_is_drawn_where_it_is_seen(
    console: Console, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.run("CREATE TABLE many (id BIGINT) PARTITIONED BY (id)")
    server.run("INSERT INTO many VALUES (5000)")
    partitions_at = tables.partitions_at

    def many(*of: Any) -> pa.Table:
        """The one partition that is there, among others like it."""
        (row,) = (found := partitions_at(*of)).to_pylist()
        others = [{**row, "id": n, "object_id": f"other {n}"} for n in range(MOST_SVG_CELLS + 1) if n != row["id"]]
        return pa.Table.from_pylist([*others, row], schema=found.schema)

    monkeypatch.setattr(tables, "partitions_at", many)
    page = console.open("t/public/many/map?where=id%20%3D%205000")
    box, canvas = page.get_by_role("application"), page.locator("canvas.map")
    assert box.evaluate("box => box.scrollHeight") > MOST_SVG_CELLS * 20
    assert canvas.evaluate("canvas => canvas.height") < 2_000
    box.evaluate("box => { box.scrollTop = box.scrollHeight }")
    read = """canvas => {
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
        let found = 0
        for (let at = 0; at < pixels.length; at += 4) found += pixels[at] < 30 && pixels[at + 1] < 120
        return found > 100
    }"""
    page.wait_for_function(f"({read})(document.querySelector('canvas.map'))")
    page.keyboard.press("Shift+Tab")
    box.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".cell")).to_contain_text("id = 1: 1 rows")
    assert box.evaluate("box => box.scrollTop") < 100
    server.run("DROP TABLE many")


def tab_to(page: Page, name: str, role: str = "link") -> None:
    """Go by the tab key to what has a name."""
    wanted = page.get_by_role(role, name=name).first  # type: ignore[arg-type]
    expect(wanted).to_be_visible()
    for _ in range(100):
        page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"no tab stop is {name!r}")


def test_a_link_keeps_the_focus_while_its_row_is_filled(console: Console) -> None:
    page = console.open()
    held: list[Route] = []
    page.route("**/summary", lambda route: held.append(route))  # noqa: PLW0108 - a method of a list takes no attributes
    page.reload()
    tab_to(page, "trips")
    for route in held:
        route.continue_()
    expect(page.get_by_role("row", name="trips")).to_contain_text("602")
    expect(page.get_by_role("link", name="trips")).to_be_focused()


def test_the_whole_story_needs_no_pointer(console: Console) -> None:
    page = console.open()
    tab_to(page, "trips")
    page.keyboard.press("Enter")
    tab_to(page, "Partitions")
    page.keyboard.press("Enter")
    expect(page.get_by_label("WHERE")).to_be_focused()
    page.keyboard.type("site = 'Oslo' AND month < 8")
    expect(page.get_by_role("status")).to_contain_text("7 of 37 partitions would be read")
    tab_to(page, "arrow keys", "application")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".cell")).to_contain_text("month = 2, site = Lima: 17 rows")
    page.keyboard.press("Shift+Tab")
    page.locator("body").press("/")
    tab_to(page, "run this query")
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_contain_text("120 rows")
    # The rows are there a moment before the query is known to have ended.
    expect(page.get_by_role("button", name="Plan", exact=True)).to_be_enabled()
    page.keyboard.press("Control+Shift+Enter")
    expect(page.locator("#planned h2")).to_have_text("trips: 7 of 37 partitions")
    assert "view=plan#" in page.url
    page.go_back()
    page.goto(console.base + "t/public/trips")
    tab_to(page, "History")
    page.keyboard.press("Enter")
    for name in ("compare", "with this"):
        tab_to(page, name)
        page.keyboard.press("Enter")
        page.wait_for_load_state()
    expect(page.locator("#compared")).to_contain_text("month = 2, site = Bern")
    tab_to(page, "query as of")
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_contain_text("100 rows")


def test_a_plan_is_an_address(console: Console) -> None:
    sql = 'SELECT * FROM trips a JOIN "trips@7" b ON a.id = b.id JOIN words ON a.id = words.id WHERE b.month = 3'
    page = console.open("query?view=plan#" + quote(sql))
    expect(page.locator("#planned h2")).to_have_text(["trips: 37 of 37 partitions", "trips@7: 3 of 36 partitions"])
    assert page.locator("#result tr").count() == 0
    page.goto(console.base + "query?view=plan#" + quote("SELECT wind FROM trips"))
    page.reload()
    expect(page.get_by_role("alert").filter(has_text="No field named wind")).to_be_visible()


def test_a_measured_plan_shows_what_each_operator_did(console: Console) -> None:
    page = console.open("query#" + quote("SELECT site, count(*) FROM trips WHERE month = 3 AND id > 9 GROUP BY site"))
    expect(page.locator("#state")).to_contain_text("3 rows")
    page.get_by_role("button", name="Measure").click()
    expect(page.locator("#state")).to_have_text("run and measured")
    tree = page.locator("#tree-1")
    expect(tree.locator("summary")).to_have_text("Operators, as they ran")
    expect(tree.locator("li").first).to_contain_text(re.compile(r"^\w+Exec 3 rows, [\d.]+ ms"))
    expect(tree.locator("em")).to_have_text("3 of 37 partitions of trips")
    expect(tree.locator("li").last).to_contain_text(re.compile(r"^DatasetExec 49 rows, [\d.]+ ms"))
    again = console.open(page.url.removeprefix(console.base))
    expect(again.locator("#tree-1 summary")).to_have_text("Operators, as they ran")
    again.get_by_role("button", name="Plan", exact=True).click()
    expect(again.locator("#tree-1 summary")).to_have_text("Operators")


def test_operators_count_while_a_query_runs(console: Console) -> None:
    sql = (
        "SET schema = 'public'; SELECT count(*) FROM trips t JOIN generate_series(1, 200000) a ON t.id + a.value > $1"
        " JOIN generate_series(1, 200000) b ON a.value + b.value > t.id WHERE t.month = 3"
    )
    page = console.open("query?view=measure&p.1=7#" + quote(sql))
    tree = page.get_by_role("region", name="Operators so far")
    expect(tree.locator("li", has_text="NestedLoopJoinExec").last).to_contain_text(
        re.compile(r"Exec [1-9][\d,]{4,} rows")
    )
    expect(tree.locator("em")).to_have_text("3 of 37 partitions of trips")
    expect(page.locator("#state")).to_contain_text("running")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert").filter(has_text="cancelled")).to_be_visible()
    expect(tree.locator("em")).to_have_text("3 of 37 partitions of trips")
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.locator("#planned h2")).to_have_text("trips: 3 of 37 partitions")


SHIFT = """new Promise(resolve => {
    let shift = 0
    new PerformanceObserver(list => list.getEntries().forEach(each => { shift += each.value })).observe({type: "layout-shift", buffered: true})
    setTimeout(() => resolve(shift), 500)
})"""
SLOW = "SELECT value, repeat('x', CAST(value / 150 AS INT)) AS text FROM generate_series(1, 9000)"


@pytest.mark.parametrize(
    ("path", "settled"),
    [
        pytest.param("", "td.n:not(:text('…'))", id="sizes"),
        pytest.param(f"query#{quote(SLOW)}", "#state:text('9,000 rows')", id="rows"),
        pytest.param("t/public/trips/map?where=month%20%3D%201", ".cells[data-is-shown]", id="map"),
        pytest.param("activity", "#activity", id="activity"),
    ],
)
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_moves_while_rows_come(console: Console, path: str, settled: str, width: int) -> None:
    page = console.open(path, width=width)
    page.locator(settled).first.wait_for()
    page.wait_for_load_state("networkidle")
    assert page.evaluate(SHIFT) < 0.02


def test_dots_of_the_time_line_are_two_clicks_too(console: Console) -> None:
    page = console.open("t/public/trips/history")
    page.locator("svg.line circle").last.click()
    expect(page.locator("#between")).to_contain_text("Snapshot 8 is chosen")
    page.locator("svg.line circle").first.click()
    expect(page.locator("#between")).to_contain_text("Between snapshots 6 and 8: 37 partitions added")


def test_history_is_a_graph_and_shows_changed_rows_first(console: Console, server: Server) -> None:
    branch = "b" * 60
    server.run("CREATE TABLE forked (id BIGINT, note VARCHAR) PARTITIONED BY (id)")
    try:
        server.run(f"INSERT INTO forked VALUES (1, '{HOSTILE}')")
        server.run(f"ALTER TABLE forked CREATE BRANCH {branch}")
        server.run(f"INSERT INTO \"forked@{branch}\" VALUES (7, 'on the branch')")
        server.run("INSERT INTO forked VALUES (2, 'two')")
        server.run("ALTER TABLE forked CREATE TAG done")
        page = console.open("t/public/forked/history")
        titles = page.locator("svg.line title").all_text_contents()
        assert [title.rpartition("; ")[2] for title in titles if ";" in title] == [f"branch {branch}", "tag done"]
        assert [title.startswith(f"branch {branch}, snapshot") for title in titles] == [False] * 3 + [True]
        ends = [line.get_attribute("x2") for line in page.locator("svg.line line").all()]
        # The branch goes out from the second snapshot of four, and has the third.
        assert ends == ["100%", "33.33%", "66.67%"]
        page.get_by_role("link", name="compare").nth(0).click()
        page.get_by_role("link", name="with this").nth(1).click()
        expect(page.locator("#state")).to_contain_text("2 rows")
        expect(page.locator("#result tbody tr").filter(has_text=HOSTILE)).to_contain_text("insert")
        expect(page.locator("#compared tbody tr")).to_have_count(2)
        assert page.locator("#result").bounding_box()["y"] < page.locator("#compared").bounding_box()["y"]  # type: ignore[index]
        page.get_by_role("link", name=f"query branch {branch}").click()
        expect(page.locator("#result tbody tr").filter(has_text="on the branch")).to_have_count(1)
    finally:
        server.run("DROP TABLE forked")
    page.goto(console.base + "t/public/words/history")
    # The oldest two: other tests change this table, too.
    page.get_by_role("link", name="compare").last.click()
    page.get_by_role("link", name="with this").last.click()
    expect(page.locator("#between")).to_contain_text("Between snapshots 1 and 2")
    expect(page.locator("#result tbody tr").filter(has_text=HOSTILE)).to_contain_text("insert")


def test_activity_is_what_users_run(console: Console) -> None:
    page = console.open("query#" + quote("SELECT 40 + 2 AS answer"))
    expect(page.locator("#result")).to_contain_text("42")
    page.goto(console.base + "activity")
    expect(page.locator("#activity")).to_contain_text("SELECT 40 + 2 AS answer")
    assert "information_schema.tables" not in page.locator("#activity").inner_text()
    page.evaluate(
        "htmx.ajax('POST', '/activity/nothing/kill', {target: '#activity', headers: {'x-lance-flight-console': '1'}})"
    )
    expect(page.get_by_role("alert").filter(has_text="the session reads only")).to_be_visible()


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


def test_partitions_lead_to_their_rows(console: Console) -> None:
    page = console.open("t/public/trips/map?down=site")
    page.get_by_text("As a table (37)").click()
    rows = page.locator("#picture table tbody tr")
    expect(rows).to_have_count(37)
    assert [row.split("\t")[:2] for row in rows.all_inner_texts()][:3] == [["2", "Bern"], ["1", "Lima"], ["2", "Lima"]]
    rows.nth(1).get_by_role("link", name="rows").click()
    expect(page.locator("#state")).to_contain_text("17 rows")
    expect(page.locator("#sql")).to_contain_text('WHERE "month" = 1 AND "site" = \'Lima\'')
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("row", name="tag summer")).to_be_visible()


def test_a_cell_of_the_map_leads_to_its_partition(console: Console, server: Server) -> None:
    page = console.open("t/public/trips/map")
    page.locator("svg.map rect[data-at='0,2']").click()
    expect(page.locator("#partition")).to_have_text("month = 1, site = Oslo")
    expect(page.locator("#versions tbody tr")).to_have_count(2)
    expect(page.locator("#versions tbody tr").first).to_contain_text("18")
    expect(page.locator("#files tbody tr")).to_have_count(2)
    page.locator("#members").get_by_role("link", name="rows").click()
    expect(page.locator("#state")).to_contain_text("18 rows")
    page.go_back()
    page.get_by_role("link", name="the map").click()
    tab_to(page, "Enter opens one", "application")
    expect(page.locator(".cell")).to_contain_text("month = 1, site = Lima")
    page.keyboard.press("Enter")
    expect(page.locator("#partition")).to_have_text("month = 1, site = Lima")
    server.run(
        "CREATE TABLE hidden (id BIGINT, at TIMESTAMP, note VARCHAR) PARTITIONED BY (year(at), bucket(2, id), note)"
    )
    try:
        rows = f"(1, TIMESTAMP '2024-05-01 00:00:00', '{HOSTILE}'), (1, TIMESTAMP '2025-05-01 00:00:00', 'it''s')"
        server.run(f"INSERT INTO hidden VALUES {rows}, (1, TIMESTAMP '2025-06-01 00:00:00', NULL)")
        page.goto(console.base + "t/public/hidden/map?down=at_year&across=id_bucket")
        page.locator("svg.map rect[data-at='1,0']").click()
        expect(page.locator("#partition")).to_have_text("2 partitions")
        for note in ("it's", "NULL"):
            with page.expect_navigation():
                page.get_by_role("row", name=note).get_by_role("link", name="rows").click()
            expect(page.locator("#state")).to_contain_text("1 row,")
            page.go_back()
        page.goto(console.base + "t/public/hidden/map?down=at_year&across=note")
        page.locator("svg.map rect[data-at^='0,']").click()
        expect(page.locator("#partition")).to_contain_text(f"note = {HOSTILE}")
        page.locator("#members").get_by_role("link", name="rows").click()
        expect(page.locator("#state")).to_contain_text("1 row,")
        page.goto(console.base + "t/public/hidden/partition?of=nothing")
        expect(page.get_by_role("alert")).to_contain_text("There is no such partition")
    finally:
        server.run("DROP TABLE hidden")


def test_keys_are_told_and_lead_to_pages(console: Console) -> None:
    page = console.open("activity")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("this help")
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.type("gt")
    expect(page.get_by_role("heading", name="Tables")).to_be_visible()


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


def test_a_running_statement_is_killed(consoles: Consoles, server: Server) -> None:
    console = consoles(server.uri, writes=True)
    page = console.open("query")
    type_sql(page, LONG)
    page.get_by_role("button", name="Run").click()
    activity = console.open("activity")
    activity.locator("tr", has_text="sum(a.value").get_by_role("button", name="Kill").hover()
    activity.mouse.down()
    for _ in range(2):  # the list is asked for anew while the button is held down
        activity.wait_for_event("requestfinished", lambda asked: asked.url.endswith("/activity/rows"))
    activity.mouse.up()
    with activity.expect_response("**/kill") as killed:
        activity.get_by_role("button", name="Yes").click()
    assert killed.value.ok
    expect(page.get_by_role("alert")).to_contain_text("cancelled")


def test_limits_hold(consoles: Consoles, server: Server) -> None:
    page = consoles(server.uri, limits=ConsoleLimits(rows=50, seconds=1.0)).open("query")
    type_sql(page, "SELECT id FROM trips")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#state")).to_contain_text(re.compile("^50 rows"))
    expect(page.locator("#state")).to_contain_text("there are more")
    type_sql(page, LONG)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("ended after 1 s")


def test_nothing_is_changed_unless_writes_are_wanted(console: Console, consoles: Consoles, server: Server) -> None:
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
    "t/public/trips/rows?is=%5B%22site%22%2C%22Oslo%22%5D&sort=miles&chart=scatter&x=id&y=miles",
    "t/public/oslo/rows",
    "t/public/trips/map?where=month%20%3D%201",
    "t/public/trips/partition?spec=1&row=0&column=2",
    "t/public/trips/layout?by=site",
    "t/public/trips/history?a=5&b=6",
    "t/public/trips/map?where=wind",
    "t/public/words/history",
    "t/public/nothing",
    "query",
    "query#SELECT%20*%20FROM%20trips",
    "query?view=measure#SELECT%20site%2C%20count(*)%20FROM%20trips%20GROUP%20BY%20site",
    "query?view=plan#SELECT%20*%20FROM%20trips%20WHERE%20month%20%3D%203",
    "activity",
    "operations",
    "t/public/words/search",
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_everybody_can_use_a_page(console: Console, path: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = console.open(path, scheme=scheme)
    page.wait_for_load_state("networkidle")
    found = json.loads(json.dumps(Axe().run(page).response))["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"]][:3]) for each in found] == []


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_phone(console: Console, path: str) -> None:
    page = console.open(path, width=390)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_long_names_wrap_on_a_phone(console: Console, server: Server) -> None:
    name, column = "t" * 80, "c" * 80
    server.run(f"CREATE TABLE {name} ({column} VARCHAR, id BIGINT) PARTITIONED BY ({column}, id)")
    try:
        server.run(f"INSERT INTO {name} VALUES (repeat('v', 200), 1)")
        for path in ("rows", "map", "partition?spec=1&row=0&column=0", "history", f"layout?by={column}", "search", ""):
            page = console.open(f"t/public/{name}/{path}".rstrip("/"), width=390)
            expect(page.get_by_role("heading", name=name)).to_be_visible()
            page.wait_for_load_state("networkidle")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    finally:
        server.run(f"DROP TABLE {name}")


def test_plain_tables_and_views_have_their_pages(console: Console) -> None:
    page = console.open("t/public/words")
    expect(page.locator("#definition")).to_contain_text('CREATE TABLE "public"."words"')
    page.goto(console.base + "t/public/words/map")
    expect(page.locator("#picture")).to_contain_text("words has no partitions: every query reads it whole.")
    page.goto(console.base + "t/public/oslo")
    expect(page.locator("#definition")).to_contain_text("WHERE site = 'Oslo'")
    page.goto(console.base + "t/public/nothing")
    expect(page.get_by_role("alert")).to_contain_text("There is no table 'nothing' that you may see.")
