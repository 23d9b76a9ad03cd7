"""The tools of an assistant, called by the client of the package `mcp` over standard input and output and over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from lance_flight_client.cli import parser
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.documents import blocks
from tests.service.commands import run
from tests.service.principals import rows, token_of, tokens_file
from tests.service.server_process import COMMAND, Server, serving

PAGE = "client/docs/mcp.md"
TOOLS = ["describe_table", "explain", "list_tables", "query", "search"]
POLICIES = """
[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]

[roles.readers]
members = ["alice"]
grants = [
    "SELECT (id, body, v) ON docs WHERE tenant = CURRENT_USER",
    "SELECT (id, body, concat('***', right(phone, 4)) AS phone) ON people",
]
"""
SETUP = """
CREATE TABLE docs (id BIGINT NOT NULL COMMENT 'number', tenant VARCHAR, body VARCHAR, v FLOAT[2]) PARTITIONED BY (tenant);
INSERT INTO docs VALUES (1, 'alice', 'an open format', [1.0, 0.0]), (2, 'alice', 'a closed one', [0.0, 1.0]),
 (3, 'bob', 'an open secret', [1.0, 0.0]);
CREATE TABLE people (id BIGINT, body VARCHAR, phone VARCHAR);
INSERT INTO people VALUES (1, 'open', '5550001');
CREATE TABLE ledger (n BIGINT)
"""


@dataclass(frozen=True)
class Lake:
    """A server with policies, and ways to call its tools."""

    server: Server
    tokens: Path

    def stdio(self, name: str, *arguments: str) -> Any:
        command = ["mcp", "--uri", self.server.uri, "--token-file", str(self.tokens / name), *arguments]
        return stdio_client(StdioServerParameters(command=COMMAND, args=command))

    def call(self, name: str, tool: str, arguments: Mapping[str, Any], *options: str) -> str:
        """The text of one tool's answer over standard input and output; an error in brackets."""
        return called(self.stdio(name, *options), tool, arguments)


@dataclass(frozen=True)
class Assistant:
    """A client of the tools, which one process serves."""

    client: Client
    portal: BlockingPortal

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """The text of a tool's answer; an error in brackets."""
        answer = self.portal.call(self.client.call_tool, tool, dict(arguments))
        text = str(answer.content[0].text)
        return f"[error] {text}" if answer.is_error else text


@contextmanager
def assistant(target: Any) -> Iterator[Assistant]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(target)) as client:
        yield Assistant(client, portal)


def called(target: Any, tool: str, arguments: Mapping[str, Any]) -> str:
    with assistant(target) as asked:
        return asked.call(tool, arguments)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    place = tmp_path_factory.mktemp("mcp")
    tokens, policies = tokens_file(place / "tokens", ("alice", "owner")), place / "policies"
    policies.write_text(POLICIES)
    for name in ("alice", "owner"):
        (place / name).write_text(token_of(name))
    with serving(place / "root", "--tokens-file", tokens, "--policy-file", str(policies)) as server:
        for sql in SETUP.split(";"):
            rows(server.uri, "owner", sql)
        yield Lake(server, place)


@pytest.fixture(scope="module")
def alice(lake: Lake) -> Iterator[Assistant]:
    """The tools of a reader, without further options."""
    with assistant(lake.stdio("alice")) as asked:
        yield asked


CALLS: dict[str, tuple[str, Mapping[str, Any], Sequence[Sequence[str | None]]]] = {
    "its tables": (
        "list_tables",
        {},
        [["public", "docs", "BASE TABLE", None, "true"], ["public", "people", "BASE TABLE", None, "false"]],
    ),
    "tables of a schema": ("list_tables", {"db_schema": "nothing' OR 'a' = 'a"}, []),
    "rows and masks": ("query", {"sql": "SELECT id, phone FROM people"}, [["1", "***0001"]]),
    "parameters": ("query", {"sql": "SELECT body FROM docs WHERE id = $1", "parameters": [2]}, [["a closed one"]]),
    "by text": ("search", {"table": "docs", "text": "open", "text_column": "body", "columns": ["id"]}, [["1"]]),
    "by a vector": (
        "search",
        {"table": "docs", "vector": [0, 1], "vector_column": "v", "k": 1, "columns": ["id", "_distance"]},
        [["2", "0.0"]],
    ),
    "by both": (
        "search",
        {"table": "public.docs", "text": "open", "text_column": "body", "vector": [1, 0], "vector_column": "v", "k": 1,
         "where": "id < 2", "columns": ["id"]},
        [["1"]],
    ),
}  # fmt: skip


def test_a_tool_has_the_rights_of_its_user(alice: Assistant) -> None:
    for name, (tool, arguments, expected) in CALLS.items():
        assert json.loads(alice.call(tool, arguments))["rows"] == expected, name


def test_a_root_needs_no_server(lake: Lake) -> None:
    def over(*options: str) -> Any:
        command = ["mcp", "--root", str(lake.server.root), *options]
        return stdio_client(StdioServerParameters(command=COMMAND, args=command))

    with assistant(over()) as asked:
        assert json.loads(asked.call("query", {"sql": "SELECT count(*) FROM docs"}))["rows"] == [["3"]]
        assert asked.call("query", {"sql": "DELETE FROM docs"}).startswith("[error]")
    assert rows(lake.server.uri, "owner", "SELECT count(*) FROM docs") == [(3,)]
    for options in (["--uri", lake.server.uri], ["--port", "0"], ["--root", str(lake.server.root / "absent")]):
        ended = run("mcp", "--root", str(lake.server.root), *options)
        assert ended.returncode == 1
        assert b"expected" in ended.stderr


def test_tools_say_what_they_do(alice: Assistant) -> None:
    tools = alice.portal.call(alice.client.list_tools).tools
    assert sorted(tool.name for tool in tools) == TOOLS
    assert all(tool.annotations and tool.annotations.read_only_hint and tool.description for tool in tools)
    assert "list_tables" in (alice.client.instructions or "")


def test_a_table_is_described(alice: Assistant) -> None:
    described = json.loads(alice.call("describe_table", {"table": "docs"}))
    assert ["id", "BIGINT", "NO", "0", None, "number"] in described["columns"]["rows"]
    assert described["indices"]["rows"] == []
    plan = json.loads(alice.call("explain", {"sql": "SELECT id FROM docs WHERE id = 1"}))
    assert any(kind == "partitions" for kind, _ in plan["rows"])


REFUSED: dict[str, tuple[str, Mapping[str, Any], str]] = {
    "a table of others": ("query", {"sql": "SELECT * FROM ledger"}, "(not_found)"),
    "its description": ("describe_table", {"table": "ledger"}, "(not_found)"),
    "its search": ("search", {"table": "ledger", "text": "a", "text_column": "n"}, "(not_found)"),
    "a hidden column": ("query", {"sql": "SELECT tenant FROM docs"}, "(invalid_sql)"),
    "a search behind a mask": ("search", {"table": "people", "text": "open", "text_column": "body"}, "(unsupported)"),
    "no SQL": ("query", {"sql": "SELEC"}, "(invalid_sql)"),
    "two statements": ("query", {"sql": "SET access = 'all'; DELETE FROM docs"}, "("),
    "half a search": ("search", {"table": "docs", "text": "a"}, "expected both"),
    "too many": ("search", {"table": "docs", "text": "a", "text_column": "body", "k": 10**9}, "less than or equal"),
    "SQL in place of a name": ("describe_table", {"table": 'docs"; DROP TABLE docs; --'}, "(not_found)"),
    "SQL in place of a column": (
        "search",
        {"table": "docs", "text": "a", "text_column": "body') UNION SELECT * FROM ledger --"},
        "(",
    ),
}


def test_what_a_user_may_not_is_refused(alice: Assistant) -> None:
    for name, (tool, arguments, said) in REFUSED.items():
        answer = alice.call(tool, arguments)
        assert answer.startswith("[error]"), name
        assert said in answer.removeprefix("[error]"), (name, answer)


def test_nothing_changes_without_writes(lake: Lake) -> None:
    changes = [
        ("query", {"sql": sql})
        for sql in ("INSERT INTO ledger VALUES (1)", "SET access = 'all'", "CREATE TABLE t (n BIGINT)", "DROP TABLE docs",
                    "EXPLAIN ANALYZE INSERT INTO ledger VALUES (1)", "ALTER TABLE docs COMPACT")
    ] + [("explain", {"sql": "ANALYZE DELETE FROM docs"}), ("query", {"sql": "INSERT INTO ledger VALUES (1)"})]  # fmt: skip
    with assistant(lake.stdio("owner")) as asked:
        answers = [asked.call(*change) for change in changes]
    assert [answer for answer in answers if not answer.startswith("[error]")] in ([], ['{"affected_rows": 0}'])
    assert rows(lake.server.uri, "owner", "SELECT count(*) FROM ledger") == [(0,)]
    assert rows(lake.server.uri, "owner", "SELECT count(*) FROM docs") == [(3,)]
    written = lake.call("owner", "query", {"sql": "INSERT INTO ledger VALUES ($1)", "parameters": [7]}, "--writes")
    assert json.loads(written) == {"affected_rows": 1}
    assert rows(lake.server.uri, "owner", "DELETE FROM ledger WHERE n = 7") == []


def test_answers_are_bounded(lake: Lake) -> None:
    with assistant(lake.stdio("alice", "--max-rows", "7", "--max-characters", "5000")) as asked:
        many = json.loads(asked.call("query", {"sql": "SELECT value FROM generate_series(1, 2000000000)"}))
        assert (len(many["rows"]), "cut after 7 rows" in many["note"]) == (7, True)
        long = asked.call("query", {"sql": "SELECT repeat('x', 1000000) AS x FROM generate_series(1, 100)"})
    assert len(long) < 6000
    assert "cut after 2 rows" in json.loads(long)["note"]
    slow = {
        "sql": "SELECT sum(sin(a.value) * sin(b.value)) FROM generate_series(1, 2000000000) a, generate_series(1, 1000) b"
    }
    assert "(statement_timeout)" in lake.call("alice", "query", slow, "--timeout", "1")


@contextmanager
def http(uri: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The tools over HTTP; the address of one process."""
    command = [COMMAND, "mcp", "--uri", uri, "--port", "0", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def address(lake: Lake) -> Iterator[str]:
    # Its own credentials are nobody else's.
    with http(lake.server.uri, environment={"LANCE_FLIGHT_TOKEN": token_of("owner")}) as found:
        yield found


def as_user(address: str, token: str) -> Any:
    client = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"})
    return streamable_http_client(address, http_client=client)


def test_each_caller_over_http_has_its_own_rights(lake: Lake, address: str) -> None:
    count = "query", {"sql": "SELECT count(*) AS n FROM docs"}
    for name, found in {"alice": "2", "owner": "3"}.items():
        assert json.loads(called(as_user(address, token_of(name)), *count))["rows"] == [[found]]
    assert "(unauthenticated)" in called(as_user(address, "guessed"), *count)


CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
BAD = {
    "no token": ({}, CALL, 401),
    "a password": ({"authorization": "Basic YTpi"}, CALL, 401),
    "another host": ({"authorization": "Bearer x", "host": "evil.example"}, CALL, 421),
    "another page": ({"authorization": "Bearer x", "origin": "https://evil.example"}, CALL, 403),
    "a large body": ({"authorization": "Bearer x", "content-length": "2000000"}, b'"', 413),
    "no JSON": ({"authorization": "Bearer x"}, b"{", 400),
}


@pytest.mark.parametrize("name", BAD)
def test_a_request_that_is_no_call_is_refused(address: str, name: str) -> None:
    headers, body, status = BAD[name]
    request = urllib.request.Request(address, body, {**HEADERS, **headers})  # noqa: S310 - of this machine
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request, timeout=30)  # noqa: S310
    assert raised.value.code == status


def test_an_open_server_needs_no_token(tmp_path: Path) -> None:
    with serving(tmp_path / "root") as server, http(server.uri, "--allow-host", "lake.example") as address:
        assert json.loads(called(address, "query", {"sql": "SELECT 1 AS n"}))["rows"] == [["1"]]
        named = urllib.request.Request(address, CALL, {**HEADERS, "host": "lake.example:8443"})  # noqa: S310 - of this machine
        with urllib.request.urlopen(named, timeout=30) as answer:  # noqa: S310
            assert len(json.load(answer)["result"]["tools"]) == len(TOOLS)


WRONG_OPTIONS = {
    "a user for all callers": (["--port", "0", "--user", "a"], "--user"),
    "another interface": (["--port", "0", "--host", "0.0.0.0"], "--https-certificate"),  # noqa: S104
    "no rows": (["--max-rows", "0"], "--max-rows"),
    "no characters": (["--max-characters", "0"], "--max-characters"),
    "no server": (["--uri", "127.0.0.1:1"], "no server answers"),
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_wrong_options_are_named(name: str) -> None:
    arguments, said = WRONG_OPTIONS[name]
    ran = run("mcp", *arguments)
    assert (ran.returncode, said in ran.stderr.decode()) == (1, True), ran.stderr


def test_without_the_extra_the_error_names_it(lake: Lake) -> None:
    program = (
        "import sys; sys.modules['mcp'] = None; from lance_flight_client.cli import main;"
        f"sys.exit(main(['mcp', '--uri', {lake.server.uri!r}]))"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, "lance-flight[mcp]" in ran.stderr) == (1, True), ran.stderr


def test_the_configuration_of_the_page_starts_the_command() -> None:
    (text,) = blocks(PAGE, "json")
    (given,) = json.loads(text)["mcpServers"].values()
    options = parser().parse_args(given["args"])
    assert (given["command"], options.uri) == ("lance-flight", "grpc+tls://lake.example.com:32010")
