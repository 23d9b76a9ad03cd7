"""What a console does with requests, texts and servers that mean it no good, or are gone: a page or a refusal, and nothing is changed."""

from __future__ import annotations

import csv
import io
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from lance_flight_client.console import queries
from lance_flight_client.console.answering import MOST_REQUESTS
from lance_flight_client.console.tables import ConsoleLimits

from tests.console.browsers import expect
from tests.console.conftest import HOSTILE, Console, Consoles
from tests.console.console_client import Client
from tests.service.server_process import Server, serving

HTML = "a\"<b>'&</script><script>alert(3)</script>"


@pytest.fixture
def client(console: Console) -> Client:
    return Client(console).enter()


def ended(client: Client, sql: str, **given: Any) -> dict[str, Any]:
    """Run a query to its end; what the console says of it."""
    status, _, text = client.call("/query", "POST", json.dumps({"sql": sql, **given}))
    assert status == 202, text
    number = json.loads(text)["id"]
    said: dict[str, Any] = {"done": False}
    while not said["done"]:
        said = json.loads(client.call(f"/query/{number}")[2])
    return {**said, "id": number}


BAD = [
    pytest.param("map?at=99999999999999999999", 400, "expected a whole number", id="a version beyond all"),
    pytest.param(f"map?at={'9' * 5000}", 400, "expected a whole number", id="more digits than Python reads"),
    pytest.param("map?at=%C2%B2", 400, "expected a whole number", id="a digit that is none"),
    pytest.param("map?at=-1", 400, "expected a whole number", id="below zero"),
    pytest.param("map?at=99", 404, "has no version 99", id="no such version"),
    pytest.param("map?spec=x", 400, "spec is &#39;x&#39; in the address", id="no spec"),
    pytest.param("map?spec=7", 400, "expected one of 1", id="another spec"),
    pytest.param("map?down=x&across=y&colour=z", 200, "37 of 37", id="other fields"),
    pytest.param("history?a=x&b=y", 400, "a is &#39;x&#39;", id="no snapshots"),
    pytest.param("history?a=1&b=99", 404, "has no version", id="one snapshot alone"),
    pytest.param("map.svg?where=wind", 400, "No field named wind", id="a wrong condition of a picture"),
    pytest.param("rows?is=x", 400, "expected a column of the table and its value", id="no condition"),
    pytest.param(f"rows?is={'[' * 5000}", 400, "expected a column of the table", id="a deep condition"),
    pytest.param("rows?is=%5B%22wind%22%2C1%5D", 400, "expected a column of the table", id="a condition on no column"),
    pytest.param("rows?is=%5B%5B%5D%2C1%5D", 400, "expected a column of the table", id="a condition on a list"),
    pytest.param("rows?sort=wind", 400, "sort is &#39;wind&#39;", id="an order by no column"),
    pytest.param("rows?" + "is=%5B%22id%22%2Cnull%5D&" * 30, 400, "more than 20 conditions", id="many conditions"),
    pytest.param("nothing/at/all", 404, "is no page of the console", id="no page"),
]


@pytest.mark.parametrize(("path", "status", "text"), BAD)
def test_a_wrong_address_has_a_page(client: Client, path: str, status: int, text: str) -> None:
    found, headers, page = client.call(f"/t/public/trips/{path}")
    assert (found, text in page) == (status, True), page
    assert headers["content-type"].startswith("text/html")
    assert "lance-flight</a>" in page


def test_a_picture_of_a_table_without_partitions_is_refused(client: Client) -> None:
    for name in ("words", "oslo"):
        status, _, text = client.call(f"/t/public/{name}/map.svg")
        assert (status, "has no partitions" in text) == (400, True)


def test_a_picture_has_its_colours_without_a_style_sheet(client: Client) -> None:
    status, headers, text = client.call("/t/public/trips/map.svg?where=month%20%3D%203")
    assert (status, headers["content-type"]) == (200, "image/svg+xml")
    assert (text.count('fill="#e3e6ea"'), text.count("<rect")) == (34, 37)


BODIES = [
    pytest.param("{", id="half"),
    pytest.param("[" * 100_000, id="deep"),
    pytest.param("[]", id="a list"),
    pytest.param('{"sql": 1}', id="a number"),
    pytest.param('{"sql": " "}', id="nothing"),
    pytest.param('{"sql": "\\ud800"}', id="half a character"),
    pytest.param('{"sql": "SELECT 1", "before": "SELECT 1"}', id="statements that are no list"),
    pytest.param(json.dumps({"sql": "SELECT 1", "before": ["SELECT 1"] * 51}), id="more statements than one runs"),
    pytest.param('{"sql": "SELECT $1", "parameters": {"1": 1}}', id="a parameter that is no text"),
    pytest.param('{"sql": "SELECT $1", "parameters": ["1"]}', id="parameters without names"),
    pytest.param('{"sql": "SELECT 1", "view": ["plan"]}', id="no view that there is"),
    pytest.param(json.dumps({"sql": "SELECT $1", "parameters": {"1": "9" * 400}}), id="more digits than a number has"),
]


@pytest.mark.parametrize("body", BODIES)
def test_a_wrong_body_is_refused(client: Client, body: str) -> None:
    status, headers, text = client.call("/query", "POST", body)
    assert (status, headers["content-type"]) == (400, "application/json"), text


def test_a_wrong_number_of_rows_is_refused(client: Client) -> None:
    number = ended(client, "SELECT 1")["id"]
    for after in ("x", "%C2%B2", "9" * 50):
        assert client.call(f"/query/{number}?after={after}")[0] == 400
    assert json.loads(client.call(f"/query/{number}?after=5")[2])["rows"] == []


def test_a_form_is_no_way_to_exhaust_it(consoles: Consoles, server: Server) -> None:
    client = Client(consoles(server.uri, credentials=None)).enter()
    assert client.call("/login", "POST", "&".join(f"a{n}=1" for n in range(100_000)))[0] == 400


def test_values_that_python_has_not_are_shown(client: Client) -> None:
    sql = "SELECT arrow_cast(4611686018427387904, 'Timestamp(Second, None)') AS x, [1, NULL] AS l, X'6162' AS b"
    said = ended(client, sql)
    assert (said["error"], said["rows"]) == (None, [["146138514283-06-19 07:45:04", "[1, NULL]", "X'6162'"]])
    assert [each["type"] for each in said["columns"]] == ["TIMESTAMP(0)", "BIGINT[]", "VARBINARY"]


def test_a_result_is_kept_up_to_so_many_characters(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MOST_RESULT", 1_000_000)
    said = ended(client, "SELECT repeat('x', 2000) AS x FROM generate_series(1, 9000)")
    assert said["cut"]
    assert 500 <= said["count"] <= 1500


def test_all_rows_are_there_at_the_limit_and_no_more_are_said(consoles: Consoles, server: Server) -> None:
    client = Client(consoles(server.uri, limits=ConsoleLimits(rows=600))).enter()
    for count, is_cut in ((599, False), (600, False), (601, True)):
        said = ended(client, f"SELECT value FROM generate_series(1, {count})")
        assert (said["count"], said["cut"]) == (min(count, 600), is_cut)


def test_a_statement_leaves_nothing_to_the_next(client: Client) -> None:
    for sql in ("SET statement_timeout = '3600'", "BEGIN", "SET schema = 'information_schema'"):
        ended(client, sql)
    settings = dict(ended(client, "SHOW ALL")["rows"])
    assert settings["schema"] == "public"
    assert settings["statement_timeout"] != "3600"
    assert ended(client, "COMMIT")["error"] is not None


CHANGES = [
    "DROP TABLE words",
    "SELECT 1; DROP TABLE words",
    "EXPLAIN ANALYZE DELETE FROM words",
    "SET access = 'write'",
    "CREATE TEMPORARY TABLE z (x BIGINT)",
]


@pytest.mark.parametrize("sql", CHANGES)
def test_nothing_is_changed_by_any_way_without_writes(client: Client, server: Server, sql: str) -> None:
    said = ended(client, sql, writes=True)
    assert said["error"] or sql.startswith("CREATE TEMP")
    assert client.call(f"/query/{said['id']}.csv")[0] in {400, 502}
    ended(client, "SELECT 1", before=[sql], writes=True)
    assert "reads only" in client.call("/operations/public/words/vacuum", "POST", "")[2]
    for view in ("plan", "measure"):
        explained = ended(client, sql, view=view, writes=True)
        assert (client.call(f"/query/{explained['id']}/plan")[0] == 200) == (explained["error"] is None)
    assert server.value("SELECT count(*) FROM words") == 2


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"]


def test_no_cell_of_a_download_is_a_formula_of_a_spreadsheet(client: Client) -> None:
    values = ", ".join(f"({n}, '{text}')" for n, text in enumerate([*FORMULAS, "1-1", "a=b"]))
    said = ended(client, f'SELECT column1 - 1 AS "=n", column2 AS text FROM (VALUES {values}) ORDER BY 1')
    text = client.call(f"/query/{said['id']}.csv")[2]
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == ["'=n", "text"]
    assert [row[0] for row in rows[1:]] == [str(n - 1) for n in range(10)]
    assert [row[1] for row in rows[1:]] == [*(f"'{each}" for each in FORMULAS), "1-1", "a=b"]


def test_no_statement_is_killed_by_any_way_without_writes(client: Client, consoles: Consoles, server: Server) -> None:
    planned = "SELECT id FROM trips WHERE month = 1"
    count = f"SELECT count(*) FROM system.queries WHERE sql = {planned!r}"
    with server.connection.cursor() as cursor:
        cursor.adbc_execute_partitions(planned)
        number = server.value(f"SELECT id FROM system.queries WHERE sql = {planned!r}")
        status, _, page = client.call(f"/activity/{number}/kill", "POST", "")
        assert (status, "reads only" in page) == (200, True)
        for sql in (f"KILL '{number}'", f"/* */ kill '{number}'"):
            assert "(refused)" in ended(client, sql, writes=True)["error"]
        assert "Kill</button>" not in client.call("/activity/rows")[2]
        assert server.value(count) == 1
        writing = Client(consoles(server.uri, writes=True)).enter()
        assert "Kill</button>" in writing.call("/activity/rows")[2]
        assert "problem" not in writing.call(f"/activity/{number}/kill", "POST", "")[2]
        assert server.value(count) == 0


def test_a_link_and_a_download_change_nothing_with_writes_either(consoles: Consoles, server: Server) -> None:
    console = consoles(server.uri, writes=True)
    page = console.open("query#" + "DROP%20TABLE%20words")
    expect(page.get_by_role("alert").filter(has_text="the session reads only")).to_be_visible()
    client = Client(console).enter()
    said = ended(client, "INSERT INTO words VALUES (9, 'nine')", writes=True)
    assert (said["error"], said["affected"]) == (None, 1)
    assert client.call(f"/query/{said['id']}.csv")[0] == 502
    assert server.value("SELECT count(*) FROM words") == 3
    assert ended(client, "DELETE FROM words WHERE id = 9", writes=True)["affected"] == 1


def test_rows_that_a_format_has_not_are_refused_by_a_page(client: Client) -> None:
    number = ended(client, "SELECT INTERVAL '1 month' AS i")["id"]
    status, headers, text = client.call(f"/query/{number}.parquet")
    assert (status, "cannot be written as parquet" in text) == (400, True), text
    assert headers["content-type"].startswith("text/html")
    assert client.call("/query/nothing.csv")[0] == 404


def test_names_of_others_stay_text(console: Console, server: Server) -> None:
    quoted = '"' + HTML.replace('"', '""') + '"'
    table = "tä <i>#%41&?+"
    server.run(f'CREATE TABLE "{table}" (x BIGINT, {quoted} VARCHAR) PARTITIONED BY ({quoted})')
    server.run(f"INSERT INTO \"{table}\" VALUES (1, '{HOSTILE}')")
    try:
        page = console.open()
        page.get_by_role("link", name=table).click()
        page.locator(".facets").get_by_role("link", name=HOSTILE[:30]).click()
        expect(page.locator("#state")).to_contain_text("1 row")
        expect(page.locator(".chip")).to_contain_text(HOSTILE[:30])
        page.get_by_role("link", name="Partitions").click()
        expect(page.get_by_role("status")).to_contain_text("1 of 1")
        page.get_by_label("WHERE").fill("x = 1")
        expect(page.get_by_label("Why", exact=True)).to_contain_text("not used: x = 1")
        for link in ("Columns", "History", "Partitions"):
            page.get_by_role("link", name=link).click()
            assert page.get_by_role("link", name=link).get_attribute("aria-current") == "page"
        page.get_by_role("link", name="Query").last.click()
        expect(page.locator("#result tbody tr")).to_contain_text([HOSTILE])
        page.get_by_role("button", name="Plan").click()
        expect(page.locator("#planned")).to_contain_text("1 of 1 partitions")
        page.goto(console.base + "activity")
        expect(page.locator("#activity")).to_contain_text(table)
        assert page.locator("main i, main img, main b:not(.tree b)").count() == 0
        assert page.locator("script:not([src]):not([type])").count() == 0
        assert console.problems == []
    finally:
        server.run(f'DROP TABLE "{table}"')


def test_a_table_that_was_made_again_is_another(console: Console, server: Server) -> None:
    made = "CREATE TABLE again (x BIGINT, k VARCHAR) PARTITIONED BY (k)"
    client = Client(console).enter()
    versions = []
    for values, count in (("(1, 'a')", 1), ("(1, 'b'), (2, 'c')", 2)):
        server.run(made)
        server.run(f"INSERT INTO again VALUES {values}")
        versions.append(server.value("SELECT max(version) FROM again$snapshots"))
        assert f"{count} of {count}</strong>" in client.call("/t/public/again/map")[2]
        server.run("DROP TABLE again")
    assert versions[0] == versions[1]


def test_two_consoles_on_one_host_do_not_log_each_other_out(
    consoles: Consoles, console: Console, server: Server
) -> None:
    page, other = console.open(), consoles(server.uri)
    page.goto(other.running.address)
    page.goto(console.base)
    expect(page.get_by_role("link", name="trips")).to_be_visible()
    assert len({each["name"] for each in page.context.cookies()}) == 2


def test_a_used_address_is_good_for_its_browser(own_console: Console) -> None:
    address = own_console.running.address
    page = own_console.open()
    for _ in range(2):
        expect(page.get_by_role("link", name="trips")).to_be_visible()
        assert "token" not in page.url
        page.goto(address)


def test_a_browser_has_so_many_requests_under_way(console: Console, client: Client) -> None:
    login = console.running._logins.find(client.cookie.partition("=")[2])  # type: ignore[union-attr]
    assert login is not None
    for _ in range(MOST_REQUESTS):
        assert login.requests.acquire(blocking=False)
    assert client.call("/")[0] == 429
    login.requests.release()
    assert client.call("/")[0] == 200
    assert client.call("/nothing")[0] == 404
    assert client.call("/")[0] == 200


def test_pages_go_on_with_a_server_that_was_started_again(consoles: Consoles, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with serving(tmp_path / "root", "--port", str(port)) as first:
        first.run("CREATE TABLE t (x BIGINT, k VARCHAR) PARTITIONED BY (k)")
        first.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        console = consoles(first.uri)
        page = console.open("t/public/t/map")
        expect(page.get_by_role("status")).to_contain_text("2 of 2")
    page.get_by_label("WHERE").fill("k = 'a'")
    expect(page.locator("#trouble")).to_contain_text("connection", timeout=30_000)
    with serving(tmp_path / "root", "--port", str(port)):
        page.get_by_label("WHERE").fill("k = 'b'")
        expect(page.get_by_role("status")).to_contain_text("1 of 2")
        expect(page.locator("#trouble")).to_be_hidden()
        page.goto(console.base + "query#DROP%20TABLE%20t")
        expect(page.get_by_role("alert").filter(has_text="the session reads only")).to_be_visible()


def test_a_page_says_that_its_console_is_gone(own_console: Console) -> None:
    page = own_console.open("activity")
    own_console.running.stop()
    expect(page.locator("#trouble")).to_contain_text("The console does not answer")
