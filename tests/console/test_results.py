"""The grid of a result in a real browser: few nodes for many rows, sort, filter, values in full, texts to copy, and charts by address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.console.browsers import expect
from tests.console.conftest import HOSTILE, Console

if TYPE_CHECKING:
    from playwright.sync_api import Page

MANY = "SELECT " + ", ".join(f"value * {n} AS c{n}" for n in range(1, 21)) + " FROM generate_series(1, 10000)"
PIXEL = (
    "89504E470D0A1A0A0000000D4948445200000001000000010806000000"
    "1F15C4890000000D49444154789C6360606060000000050001A5F645400000000049454E44AE426082"
)
"""A PNG of one pixel."""


@pytest.fixture(autouse=True)
def _no_problems(console: Console) -> Iterator[None]:
    yield
    assert console.problems == []


def run(console: Console, sql: str, parameters: str = "") -> Page:
    page = console.open(f"query{parameters}#{quote(sql)}")
    expect(page.locator("#tools")).to_be_visible()
    return page


def test_ten_thousand_rows_are_few_nodes(console: Console) -> None:
    page = run(console, MANY)
    expect(page.locator("#state")).to_contain_text("10,000 rows")
    expect(page.locator("#result tbody tr").first).to_be_visible()
    assert page.locator("*").count() <= 2_000
    page.locator(".result").evaluate("box => { box.scrollTop = box.scrollHeight }")
    expect(page.locator("#result tbody tr").last).to_contain_text("200000")
    assert page.locator("*").count() <= 2_000
    assert page.locator("#result").get_attribute("aria-rowcount") == "10001"
    page.locator(".result").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#viewed")).to_have_text("c2, row 3 BIGINT")
    expect(page.locator("#viewer pre")).to_have_text("6")


SORTED = (
    "SELECT * FROM (VALUES (9, 'b'), (NULL, 'a10'), (10, NULL), (-1, 'a9'), (9007199254740993, 'B'),"
    " (9007199254740992, 'c')) AS t (n, s)"
)
ORDERS = [
    pytest.param("n", 1, ["-1", "9", "10", "9007199254740992", "9007199254740993", "NULL"], id="numbers"),
    pytest.param("n", 2, ["9007199254740993", "9007199254740992", "10", "9", "-1", "NULL"], id="numbers, down"),
    pytest.param("s", 1, ["a9", "a10", "b", "B", "c", "NULL"], id="texts"),
    pytest.param("s", 3, ["b", "a10", "NULL", "a9", "B", "c"], id="as they came"),
]


@pytest.mark.parametrize(("name", "clicks", "values"), ORDERS)
def test_a_click_on_a_column_sorts_the_rows(console: Console, name: str, clicks: int, values: list[str]) -> None:
    page = run(console, SORTED)
    for _ in range(clicks):
        page.locator(".sorts").nth("ns".index(name)).click()
    expect(page.locator(f"#result tbody td:nth-child({2 + 'ns'.index(name)})")).to_have_text(values)


def test_rows_are_filtered_and_copied(console: Console) -> None:
    sql = (
        "SELECT * FROM (VALUES (1, 'a|b', '=1+1'), (2, 'a\"b', NULL), (9007199254740993, 'c', 'x')) AS t (n, s, \"=f\")"
    )
    page = run(console, sql)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label("Filter these rows").fill("A")
    expect(page.locator("#state")).to_contain_text("2 of 3 rows")
    copies = {
        "CSV": 'n,s,\'=f\n1,a|b,\'=1+1\n2,"a""b",\n',
        "Markdown": '| n | s | =f |\n| ---: | --- | --- |\n| 1 | a\\|b | =1+1 |\n| 2 | a"b | NULL |\n',
    }
    for name, text in copies.items():
        page.get_by_role("button", name=name).click()
        expect(page.locator("#state")).to_have_text("copied 2 rows")
        assert page.evaluate("navigator.clipboard.readText()") == text
        page.get_by_label("Filter these rows").fill("a")
    page.get_by_label("Filter these rows").fill("")
    page.get_by_role("button", name="JSON").click()
    expect(page.locator("#state")).to_have_text("copied 3 rows")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied[1:] == [{"n": 2, "s": 'a"b', "=f": None}, {"n": 9007199254740993, "s": "c", "=f": "x"}]


VALUES = [
    pytest.param(f"X'{PIXEL}'", "img[src^='data:image/png;base64,iVBOR']", "", id="an image"),
    pytest.param("[1.5, -2, 3]", "svg.chart path", "3 numbers, -2 to 3, length 3.9051", id="a vector"),
    pytest.param('\'{"a":[1,{"b":null}]}\'', "pre", '{\n  "a": [\n    1,\n    {\n', id="JSON in lines"),
    pytest.param("'[12345678901234567890]'", "pre", "[12345678901234567890]", id="a number that would be rounded"),
    pytest.param(f"'{HOSTILE}'", "pre", HOSTILE, id="hostile text"),
    pytest.param("repeat('é', 5000)", "pre", "é" * 5000, id="a text that the grid cuts"),
    pytest.param("NULL", "p.null", "NULL", id="NULL"),
]


@pytest.mark.parametrize(("value", "shown", "text"), VALUES)
def test_a_value_is_viewed_in_full(console: Console, value: str, shown: str, text: str) -> None:
    page = run(console, f"SELECT {value} AS v")
    page.locator("#result tbody td").nth(1).click()
    expect(page.locator(f"#viewer {shown}")).to_be_visible()
    expect(page.locator("dialog .value")).to_contain_text(text)
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#viewer")).to_be_hidden()
    assert page.locator("script:not([src]):not([type])").count() == 0


CHART = "SELECT month, count(*) AS trips, sum(miles) AS miles, now() AS at FROM trips GROUP BY month ORDER BY month"


@pytest.mark.parametrize(
    ("kind", "x", "marks", "words"),
    [
        pytest.param("bar", "month", 12, "12 bars: trips by month", id="bars"),
        pytest.param("line", "at", 1, "12 points: trips by at", id="a line over moments"),
        pytest.param("scatter", "miles", 1, "12 points: trips by miles", id="points"),
        pytest.param("histogram", "", 30, "Histogram of trips, 12 rows", id="a histogram"),
    ],
)
def test_a_chart_is_an_address(console: Console, kind: str, x: str, marks: int, words: str) -> None:
    page = run(console, CHART)
    page.get_by_label("chart").select_option(kind)
    if x:
        page.get_by_label("x", exact=True).select_option(label=x)
    page.get_by_label("y", exact=True).select_option(label="trips")
    expect(page.get_by_role("img", name=words)).to_be_visible()
    again = console.open(page.url.removeprefix(console.base))
    expect(again.get_by_role("img", name=words)).to_be_visible()
    expect(again.locator("#drawn :is(.mark, .stroke, .points)")).to_have_count(marks)
