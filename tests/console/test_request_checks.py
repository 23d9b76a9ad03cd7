"""Who is let in, and what a request has to be: hosts, origins, tokens, cookies, headers, and two principals side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.flight.passwords import hash_of
from lance_flight_client.console.answering import CHANGE_HEADER

from tests.console.browsers import expect
from tests.console.conftest import Console, Consoles
from tests.console.console_client import Client
from tests.flight.certificates import authority
from tests.service.server_process import Server, serving


@pytest.fixture
def client(own_console: Console) -> Client:
    return Client(own_console)


def test_a_token_lets_one_browser_in(client: Client) -> None:
    address = urlsplit(client.console.running.address).query
    status, headers, _ = client.call(f"/?{address}")
    assert (status, headers["location"]) == (303, "/")
    flags = {part.strip().lower() for part in headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= flags
    assert client.call(f"/?{address}")[0] == 403
    assert client.console.announced == [client.console.running.address]
    assert Client(client.console).enter().call("/")[0] == 200


@pytest.mark.parametrize(
    "path", ["/", "/t/public/trips", "/t/public/trips/map", "/query", "/activity", "/query/x", "/login"]
)
def test_nothing_is_shown_without_a_login(client: Client, path: str) -> None:
    for cookie in (None, "lance_flight_console=guessed"):
        client.cookie = cookie
        status, _, text = client.call(path)
        assert status == 403
        assert "trips" not in text
    assert client.call("/?token=guessed")[0] == 403


BODY = json.dumps({"sql": "SELECT 1"})
FORGED: list[Any] = [
    pytest.param({"Origin": "http://evil.example"}, id="another origin"),
    pytest.param({"Origin": "null"}, id="a sandboxed origin"),
    pytest.param({"Origin": None}, id="no origin"),
    pytest.param({"Sec-Fetch-Site": "cross-site"}, id="another site"),
    pytest.param({"Origin": None, "Sec-Fetch-Site": "same-site"}, id="a sibling"),
    pytest.param({CHANGE_HEADER: None}, id="no header of ours"),
    pytest.param({"Host": "evil.example"}, id="a rebound name"),
    pytest.param({"Host": "127.0.0.1"}, id="another port"),
    pytest.param({"Content-Length": "9999999"}, id="too much"),
]


@pytest.mark.parametrize("headers", FORGED)
def test_a_forged_change_is_refused(client: Client, headers: Mapping[str, str | None]) -> None:
    client.enter()
    assert client.call("/query", "POST", BODY)[0] == 202
    assert client.call("/query", "POST", BODY, headers)[0] == 403


def test_another_name_is_refused_for_pages_too(client: Client) -> None:
    client.enter()
    status, _, text = client.call("/", headers={"Host": "evil.example:1"})
    assert (status, "is not one of this console" in text) == (403, True)


def test_every_answer_keeps_the_browser_inside(client: Client) -> None:
    client.enter()
    for path in ("/", "/query", "/static/console.js", "/nothing"):
        _, headers, _ = client.call(path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")
        assert "server" not in headers


def test_nothing_outside_of_the_static_files_is_served(client: Client) -> None:
    client.enter()
    for path in (
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/",
        "/static//etc/passwd",
    ):
        assert client.call(path)[0] in {404, 405}


def test_a_query_belongs_to_its_browser(client: Client) -> None:
    client.enter()
    number = json.loads(client.call("/query", "POST", BODY)[2])["id"]
    other = Client(client.console).enter()
    assert client.call(f"/query/{number}")[0] == 200
    assert other.call(f"/query/{number}")[0] == 404
    assert other.call(f"/query/{number}/cancel", "POST", "{}")[0] == 404


def test_a_browser_runs_so_many_queries_at_once(client: Client) -> None:
    client.enter()
    long = json.dumps(
        {"sql": "SELECT sum(a.value * b.value) FROM generate_series(1, 9000000) a, generate_series(1, 900) b"}
    )
    begun = [client.call("/query", "POST", long) for _ in range(5)]
    assert [status for status, _, _ in begun] == [202] * 4 + [429]
    for _, _, text in begun[:4]:
        assert client.call(f"/query/{json.loads(text)['id']}/cancel", "POST", "{}")[0] == 202


def test_a_log_out_ends_it(client: Client) -> None:
    client.enter()
    assert client.call("/logout", "POST", "")[0] == 303
    assert client.call("/")[0] == 403


def test_beyond_this_machine_it_speaks_tls_alone(consoles: Consoles, server: Server, tmp_path: Path) -> None:
    ca = authority()
    ca.signs_a_server().write(tmp_path / "certificate", tmp_path / "key")
    files = {"certificate": str(tmp_path / "certificate"), "key": str(tmp_path / "key")}
    console = consoles(server.uri, host="0.0.0.0", hosts=["localhost"], **files)  # noqa: S104
    page = console.open()
    assert page.url.startswith("https://localhost:")
    expect(page.get_by_role("link", name="trips")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")


POLICIES = """
[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]

[roles.tenants]
members = ["alice", "bob"]
grants = ["SELECT ON events WHERE tenant = CURRENT_USER"]
"""
TOKENS = {name: f"the token of {name}" for name in ("alice", "bob", "owner")}
BEARER = "adbc.flight.sql.authorization_header"


@pytest.fixture
def shared(tmp_path: Path) -> Any:
    """A server that asks who is there."""
    (tmp_path / "tokens").write_text("".join(f'[tokens.{n}]\nsha256 = "{hash_of(t)}"\n' for n, t in TOKENS.items()))
    (tmp_path / "tokens").chmod(0o600)
    (tmp_path / "policies").write_text(POLICIES)
    given = ["--tokens-file", str(tmp_path / "tokens"), "--policy-file", str(tmp_path / "policies")]
    with serving(tmp_path / "root", *given) as server:
        options = {BEARER: f"Bearer {TOKENS['owner']}"}
        with dbapi.connect(server.uri, db_kwargs=options, autocommit=True) as owner, owner.cursor() as cursor:
            for statement in (
                "CREATE TABLE events (tenant VARCHAR, n BIGINT) PARTITIONED BY (tenant)",
                "INSERT INTO events VALUES ('alice', 1), ('alice', 2), ('bob', 777)",
            ):
                cursor.execute(statement)
        yield server


def test_two_principals_see_their_own(consoles: Consoles, shared: Server) -> None:
    console = consoles(shared.uri, credentials=None)
    pages = {}
    for name in ("alice", "bob"):
        page = pages[name] = console.open(who=name)
        assert page.url.endswith("/login")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Token").fill(TOKENS[name])
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("link", name="events")).to_be_visible()
    for name, other in (("alice", "bob"), ("bob", "alice")):
        pages[name].goto(console.base + "t/public/events/map")
        expect(pages[name].get_by_role("status")).to_contain_text("1 of 1 partitions")
        assert pages[name].locator("#picture").inner_text().count(other) == 0
    assert urlencode({"token": TOKENS["alice"]}) not in pages["alice"].url
