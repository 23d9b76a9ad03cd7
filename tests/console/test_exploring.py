"""An analyst finds out about a table that he has never seen: no SQL is written, and each page is an address that others can open."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from lance_flight_client.adbc import Credentials

from tests.console.browsers import expect
from tests.console.conftest import HOSTILE, Console, Consoles
from tests.service.principals import rows, token_of, tokens_file
from tests.service.server_process import Server, serving


@pytest.fixture(autouse=True)
def _no_problems(console: Console) -> Iterator[None]:
    yield
    assert console.problems == []


@pytest.fixture
def readings(server: Server) -> Iterator[None]:
    """Readings of three stations since 2024, whose partition of Lima grows, and three of which are odd."""
    server.run(
        "CREATE TABLE readings (id BIGINT, station VARCHAR, at TIMESTAMP, degrees DOUBLE, calm BOOLEAN, note VARCHAR)"
        " PARTITIONED BY (station)"
    )
    made = (
        "SELECT value, CASE value % 3 WHEN 0 THEN 'Oslo' WHEN 1 THEN 'Lima' ELSE 'Rome' END,"
        " TIMESTAMP '2024-05-01 00:00:00' + value * INTERVAL '1 hour', value % 30, value % 4 = 0,"
        " CASE WHEN value % 4 = 1 THEN repeat('long ', 1000) ELSE 'short' END FROM generate_series(1, 900)"
    )
    server.run(f"INSERT INTO readings {made}")
    server.run(
        "INSERT INTO readings SELECT 1000 + value, 'Lima', TIMESTAMP '2024-07-01 00:00:00',"
        " CASE WHEN value > 97 THEN -400 - value ELSE 20 END,"
        " value % 4 = 0, NULL FROM generate_series(1, 100)"
    )
    yield
    server.run("DROP TABLE readings")


def test_an_unknown_table_is_explored_without_sql(console: Console, readings: None) -> None:
    page = console.open()
    page.get_by_label("Filter by name").fill("read")
    expect(page.get_by_role("link", name="trips")).to_be_hidden()
    page.get_by_role("link", name="readings").click()
    # What is in it, and since when.
    expect(page.locator("#state")).to_contain_text("500 rows")
    columns = page.get_by_role("complementary", name="Columns")
    expect(columns).to_contain_text("1,000 rows, by column")
    expect(columns.locator(".column").nth(1).locator("li")).to_contain_text(["Lima 400", "Oslo 300", "Rome 300"])
    expect(columns.locator("#since")).to_have_text("at from 2024-05-01 01:00:00 to 2024-07-01 00:00:00")
    expect(columns.get_by_role("group", name="Histogram of degrees")).to_be_visible()
    # Which partition grows.
    page.get_by_role("link", name="History").click()
    page.get_by_role("link", name="compare").nth(0).click()
    page.get_by_role("link", name="with this").nth(0).click()
    expect(page.locator("#compared tbody tr td")).to_have_text(["station = Lima", "changed", "300", "400", "+100"])
    expect(page.locator("#between")).to_contain_text("station = Lima has grown most: +100 rows.")
    # Three odd rows: the lowest ones, of the place where they are.
    page.get_by_role("link", name="Rows").click()
    columns.get_by_role("link", name="the lowest degrees first").click()
    columns.get_by_role("link", name="Lima", exact=True).click()
    expect(page.locator("#state")).to_contain_text("400 rows")
    rows = page.locator("#result tbody tr")
    for place, (key, degrees) in enumerate([("1100", "-500.0"), ("1099", "-499.0"), ("1098", "-498.0")]):
        expect(rows.nth(place).locator("td:nth-child(2)")).to_have_text(key)
        expect(rows.nth(place).locator("td:nth-child(5)")).to_have_text(degrees)
    expect(page.locator("#sql")).to_have_text(
        'SELECT * FROM "public"."readings" WHERE "station" = \'Lima\' ORDER BY "degrees" NULLS LAST\nLIMIT 500'
    )
    # A value that is no text; one that no address has room for is listed without a link.
    page.get_by_role("link", name="Rows").click()
    expect(columns.locator(".column").nth(5).locator("li")).to_contain_text(["short 675", "long long", "NULL 100"])
    assert columns.locator(".column").nth(5).locator("li a").count() == 2
    columns.get_by_role("link", name="true", exact=True).click()
    expect(page.locator("#state")).to_contain_text("250 rows")
    # The same, by the first bar of the histogram; and of all rows, not of those that are here, by the head of the column.
    page.get_by_role("link", name="Rows").click()
    columns.get_by_role("group", name="Histogram of degrees").locator("a").first.click()
    expect(page.locator("#state")).to_contain_text("3 rows")
    page.get_by_role("link", name="Rows").click()
    expect(page.locator("#state")).to_contain_text("500 rows")
    for sign, degrees in (("", "-500.0"), (" DESC", "29.0")):
        page.get_by_role("button", name="degrees").click()
        expect(page.locator("#sql")).to_contain_text(f'ORDER BY "degrees"{sign} NULLS LAST')
        expect(rows.nth(0).locator("td:nth-child(5)")).to_have_text(degrees)
        expect(page.locator("#result th[aria-sort]")).to_be_in_viewport()
    columns.get_by_role("link", name="Lima", exact=True).click()
    expect(page.locator("#state")).to_contain_text("400 rows")
    # A chart of them, whose address another one opens.
    page.get_by_label("chart").select_option("scatter")
    page.get_by_label("x", exact=True).select_option(label="at")
    page.get_by_label("y", exact=True).select_option(label="degrees")
    drawn = "400 points: degrees by at"
    expect(page.get_by_role("img", name=drawn)).to_be_visible()
    other = console.open(page.url.removeprefix(console.base), who="a colleague")
    expect(other.get_by_role("img", name=drawn)).to_be_visible()
    other.get_by_role("link", name="without station = Lima").click()
    expect(other.locator("#state")).to_contain_text("500 rows")


def test_values_beyond_those_that_are_listed_are_said(console: Console) -> None:
    page = console.open("t/public/trips/rows")
    listed = page.get_by_role("complementary", name="Columns").locator(".column")
    expect(listed.nth(1).locator("li")).to_have_count(9)
    expect(listed.nth(1).locator("li").last).to_have_text("and others")
    expect(listed.nth(2).locator("li")).to_have_count(4)


def test_tables_are_sorted_and_views_show_their_query(console: Console) -> None:
    page = console.open()
    expect(page.locator("td.n", has_text="602").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    names = page.locator("#tables tbody a")
    page.get_by_role("button", name="rows", exact=True).click()
    expect(names.nth(0)).to_have_text("trips")
    expect(names.nth(1)).to_have_text("words")
    page.get_by_role("button", name="rows", exact=True).click()
    expect(names.nth(0)).to_have_text("words")
    expect(names.nth(1)).to_have_text("trips")
    names.get_by_text("oslo").click()
    page.get_by_text("The query of this view").click()
    expect(page.locator("details pre")).to_contain_text("WHERE site = 'Oslo'")
    expect(page.locator("#state")).to_contain_text("205 rows")


LARGE = [
    pytest.param("SELECT repeat('x', 1000000) AS v FROM generate_series(1, 400)", 50, id="long texts"),
    pytest.param("SELECT X'00' AS v, value FROM generate_series(1, 400)", 50, id="bytes"),
]


@pytest.mark.parametrize(("query", "rows"), LARGE)
def test_a_preview_is_bounded(consoles: Consoles, server: Server, query: str, rows: int) -> None:
    server.run(f"CREATE VIEW large AS {query}")
    try:
        page = consoles(server.uri).open("t/public/large/rows")
        expect(page.locator("#downloads")).to_be_visible()
        expect(page.locator("#result tbody tr").first).to_be_visible()
        assert int(page.locator("#result").get_attribute("aria-rowcount") or 0) - 1 <= 500
        if "X'00'" in query:
            expect(page.locator("#state")).to_contain_text(f"{rows} rows")
    finally:
        server.run("DROP VIEW large")


@pytest.fixture
def notes(server: Server) -> Iterator[None]:
    server.run("CREATE TABLE notes (id BIGINT, body VARCHAR, v FLOAT[2])")
    server.run(
        "INSERT INTO notes VALUES (1, 'the red <b>fox</b>', [0, 1]), (2, 'a red hen', [1, 0]), (3, 'a blue fox', [0.9, 0.1])"
    )
    server.run("CREATE INDEX ON notes (body) USING fts")
    yield
    server.run("DROP TABLE notes")


FOUND = [
    pytest.param({"words": "fox"}, ["1", "3"], "full_text_search", id="words"),
    pytest.param({"like the row where": "id = 2"}, ["2", "3", "1"], "vector_search", id="near a row"),
    pytest.param({"like the row where": "id = 2", "only where": "id <> 2"}, ["3", "1"], "id <> 2", id="a filter"),
    pytest.param({"words": "fox", "like the row where": "id = 2"}, ["3", "1", "2"], "weights => [0.5, 0.5]", id="both"),
]


@pytest.mark.parametrize(("fields", "ids", "sql"), FOUND)
def test_a_table_is_searched_by_fields(
    console: Console, notes: None, fields: dict[str, str], ids: list[str], sql: str
) -> None:
    page = console.open("t/public/notes/search")
    for name, text in fields.items():
        page.get_by_label(name, exact=True).fill(text)
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#downloads")).to_be_visible()
    place = 4 if "words" in fields else 3
    found = page.locator(f"#result tbody td:nth-child({place})")
    expect(found).to_have_count(len(ids))
    assert sorted(found.all_inner_texts()) == sorted(ids)
    assert found.first.inner_text() in ids[:2]
    expect(page.locator("#sql")).to_contain_text(sql)
    assert page.locator("#result b").count() == 0
    assert page.locator("#result mark").all_inner_texts() == (["fox"] * 2 if "words" in fields else [])


RUN_NOW = {
    "Vacuum": ("Old snapshots beyond its retention go.", ["2", "2", "6"]),
    "Reindex": ("Index the new rows of parts now?", ["2", "0", "7"]),
    "Compact": ("Compact the files of parts now?", ["0", "0", "9"]),
}
"""What each job asks before it runs, and what the page counts after it: small files, rows outside of the index, snapshots."""


def test_maintenance_runs_after_a_yes(consoles: Consoles, server: Server) -> None:
    before = ["2", "2", "6"]
    server.run("CREATE TABLE parts (note VARCHAR)")
    server.run("INSERT INTO parts VALUES ('a')")
    server.run("CREATE INDEX ON parts (note) USING fts")
    for note in "bc":
        server.run(f"INSERT INTO parts VALUES ('{note}')")
    try:
        page = consoles(server.uri, writes=True).open("operations")
        counts = page.locator("#backlog tr", has_text="parts").locator("td.n")
        expect(counts).to_have_text(before)
        for name, (asks, after) in RUN_NOW.items():
            for answer in ("No", "Yes"):
                page.get_by_role("button", name=f"{name} parts").click()
                expect(page.locator("#confirm")).to_contain_text(asks)
                page.locator("#confirm").get_by_role("button", name=answer).click()
                expect(page.locator("#confirm")).to_be_hidden()
                if answer == "No":
                    assert server.value("SELECT count(*) FROM parts$snapshots") == int(before[2])
            expect(page.get_by_role("status")).to_have_text(f"{name} of parts is done.")
            expect(counts).to_have_text(after)
            before = after
        reading = consoles(server.uri).open("operations")
        expect(reading.locator("#operations")).to_contain_text("start it with --writes")
        expect(reading.locator("#backlog tr", has_text="parts").locator("td.n")).to_have_text(before)
        for name in RUN_NOW:
            assert reading.get_by_role("button", name=name).count() == 0
    finally:
        server.run("DROP TABLE parts")


AUDITED = "[roles.owner]\nmembers = ['owner']\ngrants = ['ALL ON *']\n[roles.reader]\nmembers = ['reader']\ngrants = ['SELECT ON seen']\n"
LISTED = [
    pytest.param(
        "owner", [r"Servers.*host.*memory bytes.*MiB", r"Audit.*CREATE TABLE.*public\.seen"], id="administrator"
    ),
    pytest.param("reader", ["Only administrators see the servers", "only administrators see it"], id="another user"),
]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("audited")
    (place / "policy").write_text(AUDITED)
    tokens = tokens_file(place / "tokens", ["owner", "reader"])
    files = ("--policy-file", str(place / "policy"), "--audit-log", str(place / "log"))
    with serving(place / "root", "--tokens-file", tokens, *files) as running:
        rows(running.uri, "owner", "CREATE TABLE seen (n BIGINT)")
        yield running


@pytest.mark.parametrize(("who", "shown"), LISTED)
def test_operations_are_what_administrators_look_at(
    consoles: Consoles, audited: Server, who: str, shown: list[str]
) -> None:
    page = consoles(audited.uri, Credentials(token=token_of(who))).open("operations")
    for pattern in shown:
        expect(page.locator("#operations")).to_contain_text(re.compile(pattern, re.DOTALL))


LAYOUTS = [
    pytest.param("year(at), station", ["6", "131", "131", "136"], 6, id="a year and a column"),
    pytest.param('bucket(2, id), "Name, ""x"""', ["2", "399", "399", "401"], 2, id="a bucket and a quoted name"),
]


@pytest.mark.parametrize(("by", "counts", "cells"), LAYOUTS)
def test_rows_are_laid_out_by_other_fields(
    console: Console, server: Server, by: str, counts: list[str], cells: int
) -> None:
    server.run(
        'CREATE TABLE laid (id BIGINT, station VARCHAR, at TIMESTAMP, "Name, ""x""" VARCHAR) PARTITIONED BY (station)'
    )
    server.run(
        "INSERT INTO laid SELECT value, CAST(value % 3 AS VARCHAR), TIMESTAMP '2023-12-15 00:00:00' + value * INTERVAL '1 hour',"
        f" '{HOSTILE}' FROM generate_series(1, 800)"
    )
    try:
        page = console.open("t/public/laid/map")
        page.get_by_role("link", name="How would the rows lie").click()
        candidates = page.locator("main > div .layouts tbody tr")
        expect(candidates.filter(has_text="year(at), month(at), station")).to_contain_text("6")
        page.get_by_label("PARTITIONED BY").fill(by)
        page.get_by_role("button", name="Show").click()
        expect(page.locator(".layouts").first.locator("tbody tr").nth(0).locator("td.n").first).to_have_text("3")
        expect(page.locator(".layouts").first.locator("tbody tr").nth(1).locator("td.n")).to_have_text(counts)
        expect(page.locator("svg.map rect[data-at]")).to_have_count(cells)
        expect(page.locator("#statement")).to_have_text(f'ALTER TABLE "public"."laid" SET PARTITIONED BY ({by})')
        assert server.value("SELECT count(*) FROM laid$specs") == 1
        page.goto(console.base + "t/public/laid/layout?by=id);DROP")
        expect(page.get_by_role("alert")).to_contain_text("by is")
    finally:
        server.run("DROP TABLE laid")
