"""The editor's page in a real browser: several statements, parameters, tables to click, saved and past queries, completion and layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.console.browsers import expect
from tests.console.conftest import Console

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(autouse=True)
def _no_problems(console: Console) -> Iterator[None]:
    yield
    assert console.problems == []


def expect_text(page: Page, text: str) -> None:
    expect(page.locator(".cm-line")).to_have_text(text.split("\n"))


RUNS = [
    pytest.param(
        "SET schema = 'information_schema'; -- one; session\nSELECT ';' AS sign, count(*) > 0 AS n FROM tables;",
        "0 rows affected; 1 row,",
        ["1", ";", "true"],
        id="one session",
    ),
    pytest.param(
        "SELECT value FROM generate_series(1, 7); SELECT 'b'", "7 rows; 1 row,", ["1", "b"], id="earlier rows"
    ),
    pytest.param("SELECT wind; SELECT 1", "ended after", [], id="the first one fails"),
]


@pytest.mark.parametrize(("sql", "state", "cells"), RUNS)
def test_statements_run_one_after_another(console: Console, sql: str, state: str, cells: list[str]) -> None:
    page = console.open("query#" + quote(sql))
    expect(page.locator("#state")).to_contain_text(state)
    expect(page.locator("#result tbody td")).to_have_text(cells)


def test_parameters_are_fields_and_part_of_the_address(console: Console) -> None:
    sql = "SELECT count(*) AS n FROM trips WHERE site = $1 AND month < $2 -- $3"
    page = console.open("query?p.1=Oslo&p.2=0#" + quote(sql))
    expect(page.locator("#result tbody td").last).to_have_text("0")
    page.get_by_label("$2").fill("8")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#result tbody td").last).to_have_text("120")
    assert "p.1=Oslo&p.2=8" in page.url
    page.get_by_label("$1").fill("Oslo' OR 'a' = 'a")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#result tbody td").last).to_have_text("0")


def test_queries_are_saved_and_found_again(console: Console) -> None:
    page = console.open("query", who="a keeper")
    shelf = page.get_by_role("complementary", name="Tables and queries")
    shelf.get_by_text("words", exact=True).click()
    shelf.get_by_role("button", name="first 100 rows").click()
    expect(page.locator("#state")).to_contain_text("2 rows")
    expect_text(page, "SELECT * FROM words LIMIT 100")
    shelf.get_by_text("Saved").click()
    page.get_by_label("Name of the query").fill("<b>all</b>")
    page.get_by_role("button", name="Save").click()
    page.keyboard.press("Tab")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("SELECT 1 AS one")
    page.reload()
    shelf.get_by_text("Saved").click()
    shelf.get_by_role("button", name="<b>all</b>", exact=True).click()
    expect_text(page, "SELECT * FROM words LIMIT 100")
    shelf.get_by_text("History").click()
    expect(page.locator("#past li").first).to_contain_text("SELECT * FROM words LIMIT 100")
    shelf.get_by_role("button", name="forget <b>all</b>").click()
    expect(page.locator("#saved")).to_contain_text("None")


COMPLETED = [
    pytest.param("SELECT  FROM trips WHERE mi", "miles", "trips", id="a column of the table"),
    pytest.param("SELECT date_d", "date_diff", "date_diff('unit', a, b)", id="a function with its call"),
]


@pytest.mark.parametrize(("typed", "first", "detail"), COMPLETED)
def test_what_fits_is_completed_first(console: Console, typed: str, first: str, detail: str) -> None:
    with (page := console.open("query")).expect_response("**/functions"):
        page.reload()
    page.keyboard.type(typed)
    chosen = page.locator(".cm-tooltip-autocomplete li[aria-selected]")
    expect(chosen).to_contain_text(first)
    expect(chosen).to_contain_text(detail)


FORMATTED = [
    pytest.param(
        "select a, (select max(b) from u where x between 1 and 2) m from t left join u on a = b where 'or' <> c or d",
        "select a, (\n  select max(b)\n  from u\n  where x between 1 and 2\n) m\nfrom t\nleft join u on a = b\n"
        "where 'or' <> c\n  or d",
        id="clauses",
    ),
    pytest.param(
        'select "from", $$ where $$ -- and this\nfrom t /* or that */ limit 1',
        'select "from", $$ where $$ -- and this\nfrom t /* or that */\nlimit 1',
        id="what is no word stays",
    ),
]


@pytest.mark.parametrize(("sql", "laid_out"), FORMATTED)
def test_a_query_is_laid_out(console: Console, sql: str, laid_out: str) -> None:
    page = console.open("query")
    page.keyboard.insert_text(sql)
    page.get_by_role("button", name="Format").click()
    expect_text(page, laid_out)
