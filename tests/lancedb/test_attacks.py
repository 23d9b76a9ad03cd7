"""Attacks on the REST catalog: other tenants' rows, masked columns, wrong tokens, tricks in names, and bodies that are too large, too slow or no rows."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import lance
import pyarrow as pa
import pytest
from lance_flight.rest.routes import ROUTES, Route
from lancedb.index import FTS
from lancedb.remote.errors import HttpError

from tests.documents import text_of
from tests.engine.waiting import until
from tests.flight.certificates import authority
from tests.lancedb.rest_server import connect, serving_rest
from tests.service.forked import constants
from tests.service.principals import rows, token_of, tokens_file
from tests.service.server_process import Server

POLICIES = """
[roles.owner]
members = ["owner"]
grants = ["ALL ON *"]

[roles.tenants]
members = ["alice"]
grants = [
    "SELECT, WRITE ON events WHERE tenant = CURRENT_USER",
    "SELECT (id, NULL AS income, v) ON people",
    "SELECT ON notes WHERE tenant = CURRENT_USER",
    "SELECT (id, 'hidden' AS note, v) ON letters",
]
"""
SECRET = 987_654_321
REFUSALS = text_of("client/docs/lancedb.md", "Operations")
VECTORS = pa.list_(pa.float32(), 2)
EVENTS = pa.table({"tenant": ["alice", "bob"], "n": [1, SECRET], "v": pa.array([[0.0, 1.0], [1.0, 0.0]], VECTORS)})
PEOPLE = pa.table({"id": [1, 2], "income": [SECRET, SECRET + 1], "v": pa.array([[0.0, 1.0], [1.0, 0.0]], VECTORS)})


class Asked:
    """A server of two tenants, asked by plain HTTP."""

    def __init__(self, server: Server, address: str) -> None:
        self.server, self.address = server, address
        self.host, self.port = urlsplit(address).hostname or "", urlsplit(address).port or 0

    def ask(
        self, path: str, body: object = None, *, name: str | None = "alice", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        said = {} if name is None else {"x-api-key": token_of(name)}
        payload = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        method = "GET" if path.endswith("list") or path == "/v1/table" else "POST"
        try:
            connection.request(method, path, payload if method == "POST" else None, said | (headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def code(self, path: str, body: object = None, **more: Any) -> tuple[int, int]:
        """The status and the code of an error."""
        status, text = self.ask(path, body, **more)
        return status, json.loads(text)["code"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("attacked")
    tokens, policies = tokens_file(folder / "tokens", ("alice", "bob", "owner")), folder / "policies"
    policies.write_text(POLICIES)
    limits = ["--ingest-idle-timeout", "2", "--parameter-limit", "1MiB", "--batch-limit", "1MiB"]
    with serving_rest(folder / "root", "--tokens-file", tokens, "--policy-file", str(policies), *limits) as (
        server,
        address,
    ):
        owner = connect(address, token_of("owner"))
        owner.create_table("events", EVENTS.replace_schema_metadata({"lance_flight.partition_by": "tenant"}))
        owner.create_table("people", PEOPLE)
        owner.create_table("hidden", PEOPLE)
        texts = pa.array(["alice writes", f"bob conceals {SECRET}"])
        notes = EVENTS.append_column("note", texts).replace_schema_metadata(
            {"lance_flight.partition_by": "tenant", "about": str(SECRET)}
        )
        letters = pa.table({"id": [1, 2], "note": texts, "v": PEOPLE["v"]})
        for name, table in (("notes", notes), ("letters", letters.replace_schema_metadata({"about": str(SECRET)}))):
            made = owner.create_table(name, table)
            made.create_index("note", config=FTS(stem=False, remove_stop_words=False))
            made.tags.create("first", made.version)
        owner.open_table("notes").branches.create("work")
        yield Asked(server, address)


QUERIES = {
    "all rows": {"k": 10, "vector": []},
    "a filter that ends its brackets": {"k": 10, "vector": [], "filter": "true) OR (true"},
    "a filter with a comment": {"k": 10, "vector": [], "filter": "true -- "},
    "a union in a filter": {"k": 10, "vector": [], "filter": "n IN (SELECT n FROM events) OR true"},
    "a filter of a search": {"k": 10, "vector": [1.0, 0.0], "filter": "tenant = 'bob' OR true"},
    "a search": {"k": 10, "vector": [1.0, 0.0]},
    "a filter after a search": {"k": 10, "vector": [1.0, 0.0], "filter": "n > 1", "prefilter": False},
    "several vectors": {"k": 10, "vector": [[1.0, 0.0], [0.0, 1.0]]},
    "a column with a subquery": {"k": 10, "vector": [], "columns": {"x": "(SELECT max(income) FROM hidden)"}},
    "another table's column": {"k": 10, "vector": [], "columns": ["income"]},
    "an order": {"k": 10, "vector": [], "order_by": [{"column_name": "n", "ascending": False}]},
    "an old version": {"k": 10, "vector": [], "version": 1},
    "a branch": {"k": 10, "vector": [], "branch": "work"},
    "a search of a branch": {"k": 10, "vector": [1.0, 0.0], "branch": "work"},
    "a text": {"k": 10, "full_text_query": {"query": "conceals", "columns": ["note"]}},
    "a text of any column": {"k": 10, "full_text_query": {"query": "conceals"}},
    "a text, filtered after": {"k": 10, "full_text_query": {"query": "conceals"}, "filter": "true", "prefilter": False},
    "a word with errors": {
        "k": 10,
        "full_text_query": {"query": {"match": {"terms": "conceal", "column": "note", "fuzziness": 2}}},
    },
    "rows by offsets": {"k": 10, "vector": [], "filter": "_rowoffset IN (0, 1)", "columns": ["v", "_rowoffset"]},
    "rows by ids": {"k": 10, "vector": [], "filter": "_rowid IN (0, 1, 4294967296)", "with_row_id": True},
    "a cast": {"k": 10, "vector": [], "columns": {"x": "income::int"}, "filter": "cast(income as bigint) > 1"},
    "a condition on a masked column": {"k": 10, "vector": [], "filter": "note LIKE 'bob%'", "columns": ["id"]},
    "a pattern on a masked column": {
        "k": 10,
        "vector": [],
        "filter": "regexp_match(note, 'conceal')",
        "columns": ["id"],
    },
}


@pytest.mark.parametrize("table", ["events", "people", "hidden", "notes", "letters"])
@pytest.mark.parametrize("name", QUERIES)
def test_no_query_returns_what_is_hidden(asked: Asked, name: str, table: str) -> None:
    query = QUERIES[name]
    for operation, body in (("query", query), ("explain_plan", {"query": query}), ("analyze_plan", query)):
        status, answer = asked.ask(f"/v1/table/{table}/{operation}", body)
        assert str(SECRET).encode() not in answer
        if operation == "query" and status == 200:
            found = pa.ipc.open_file(answer).read_all()
            values = [value for column in found.columns for value in column.to_pylist()]
            assert not {SECRET, SECRET + 1, "bob"} & {each for each in values if not isinstance(each, list)}
            # Not even how many rows have a word that they do not show.
            assert not found.num_rows or not name.startswith(_OF_HIDDEN_TEXTS)


_OF_HIDDEN_TEXTS = ("a text", "a word", "a condition on", "a pattern on")


LISTS = {
    "of all tables": "/v1/table?page_token=hidde&limit=5",
    "of the tables of the root": "/v1/namespace/$/table/list?page_token=hidde",
    "of namespaces": "/v1/namespace/$/list?page_token=hidde",
}


@pytest.mark.parametrize("path", LISTS.values(), ids=LISTS.keys())
def test_a_page_token_of_another_lists_only_what_one_may_see(asked: Asked, path: str) -> None:
    connection = http.client.HTTPConnection(asked.host, asked.port, timeout=30)
    connection.request("GET", path, headers={"x-api-key": token_of("alice")})
    answer = connection.getresponse().read()
    connection.close()
    assert b"hidden" not in answer
    assert b"notes" in answer


SAID = {
    "describe": {},
    "describe an old version": {"version": 1},
    "describe a branch": {"branch": "work"},
    "describe a tag": {"tag": "first"},
    "stats": {},
    "version/list/": {},
    "tags/create": {"tag": "x", "version": 1},
    "tags/delete": {"tag": "first"},
    "branches/create": {"name": "x"},
    "branches/delete": {"name": "work"},
    "restore": {"version": 1},
    "drop": {},
    "rename": {"new_table_name": "x"},
    "create_index": {"column": "note", "index_type": "FTS"},
    "index/note_idx/drop": {},
    "schema_metadata/update": {"about": "mine"},
    "update_field_metadata": {"updates": [{"path": "v", "metadata": {"about": "mine"}}]},
    "alter_columns": {"alterations": [{"path": "v", "rename": "w"}]},
    "drop_columns": {"columns": ["v"]},
}


@pytest.mark.parametrize("table", ["notes", "letters"])
@pytest.mark.parametrize("operation", SAID)
def test_no_operation_tells_of_hidden_rows_or_changes_them(asked: Asked, operation: str, table: str) -> None:
    status, answer = asked.ask(f"/v1/table/{table}/{operation.split(maxsplit=1)[0]}", SAID[operation])
    assert status in ((200, 400, 403, 404) if operation.startswith(("describe", "stats", "version")) else (403, 404))
    assert str(SECRET).encode() not in answer or table == "notes"
    owner = connect(asked.address, token_of("owner")).open_table(table)
    assert (owner.count_rows(), owner.schema.metadata) == (2, {b"about": str(SECRET).encode()})
    assert list(owner.tags.list()) == ["first"]
    assert [index.name for index in owner.list_indices()] == ["note_idx"]


DENIED = {
    "describe": ({}, 404),
    "count_rows": ({}, 404),
    "stats": ({}, 404),
    "drop": ({}, 404),
    "delete": ({"predicate": "true"}, 404),
    "update": ({"updates": [["income", "1"]]}, 404),
    "add_columns": ({"new_columns": [{"name": "x", "expression": "income"}]}, 404),
    "create_index": ({"column": "id", "index_type": "BTREE"}, 404),
    "index/list": ({}, 404),
    "tags/create": ({"tag": "x", "version": 1}, 404),
    "restore": ({"version": 1}, 404),
}


@pytest.mark.parametrize(("operation", "expected"), DENIED.items(), ids=DENIED.keys())
def test_a_table_without_grant_is_as_if_it_were_not_there(
    asked: Asked, operation: str, expected: tuple[dict[str, Any], int]
) -> None:
    body, status = expected
    path = f"/v1/table/hidden/{operation}"
    if operation == "index/list":
        connection_status, _ = asked.ask(path + "/", body)
        assert connection_status == status
        return
    assert asked.ask(path, body)[0] in (status, 403)
    assert rows(asked.server.uri, "owner", "SELECT count(*), sum(income) FROM hidden") == [(2, 2 * SECRET + 1)]


def test_a_version_of_a_branch_hides_what_the_branch_hides(asked: Asked) -> None:
    owner = connect(asked.address, token_of("owner")).open_table("notes").branches.checkout("work")
    versions = [each["version"] for each in owner.list_versions()]
    assert versions
    for version in versions:
        point = {"branch": "work", "version": version}
        for query in ({"vector": []}, {"vector": [1.0, 0.0]}):
            status, answer = asked.ask("/v1/table/notes/query", {**point, **query, "k": 10})
            assert (status, pa.ipc.open_file(answer).read_all()["tenant"].to_pylist()) == (200, ["alice"])
        assert asked.ask("/v1/table/notes/count_rows", point)[1] == b"1"


def test_neither_a_location_nor_a_view_shows_what_one_may_not_read(asked: Asked) -> None:
    places = {
        name: json.loads(asked.ask(f"/v1/table/{name}/describe", name="owner")[1])["location"]
        for name in ("hidden", "people")
    }
    for name, location in places.items():
        body = {"source_location": location, "location": location}
        assert asked.ask("/v1/table/mine/clone", body)[0] in (403, 404)
        assert asked.ask(f"/v1/table/{name}/register", body)[0] in (403, 404, 406)
    assert asked.ask("/v1/view/mine/create", {"query": "SELECT * FROM hidden"})[0] in (403, 404)
    assert asked.ask("/v1/view/told/create", {"query": f"SELECT {SECRET} AS n FROM hidden"}, name="owner")[0] == 200
    status, answer = asked.ask("/v1/view/told/describe")
    assert (status, str(SECRET).encode() in answer) == (404, False)
    assert asked.ask("/v1/view/told/drop")[0] in (403, 404)
    assert b"told" not in asked.ask("/v1/namespace/$/view/list")[1]
    assert b"told" in asked.ask("/v1/namespace/$/view/list", name="owner")[1]


def test_changes_keep_to_the_rows_of_their_tenant(asked: Asked) -> None:
    alice = connect(asked.address, token_of("alice")).open_table("events")
    assert alice.count_rows() == 1
    assert alice.delete("tenant = 'bob' OR n > 1").num_deleted_rows == 0
    assert alice.update(where="n > 1", values={"n": 0}).rows_updated == 0
    with pytest.raises(HttpError, match="refused"):
        alice.add(EVENTS.slice(1))
    with pytest.raises(HttpError, match="refused"):
        alice.merge_insert("n").when_not_matched_insert_all().execute(EVENTS.slice(1).set_column(1, "n", pa.array([5])))
    merged = alice.merge_insert("n").when_not_matched_by_source_delete("n > 1").execute(EVENTS.slice(0, 1))
    assert merged.num_deleted_rows == 0
    assert rows(asked.server.uri, "owner", "SELECT tenant, n FROM events ORDER BY n") == [("alice", 1), ("bob", SECRET)]
    # Places of files are for callers who read all of a table.
    for path in ("events", "people"):
        assert "location" not in json.loads(asked.ask(f"/v1/table/{path}/describe")[1])
    assert asked.code("/v1/namespace/events/list") == (403, 15)
    assert asked.code("/v1/table/another/declare") == (403, 15)


TOKENS = {
    "none": ({}, 401),
    "a wrong key": ({"x-api-key": "guessed"}, 401),
    "a wrong token": ({"authorization": "Bearer guessed"}, 401),
    "another scheme": ({"authorization": "Digest x"}, 401),
    "two credentials": ({"authorization": f"Bearer {token_of('owner')}", "x-api-key": token_of("alice")}, 401),
    "a page in a browser": ({"authorization": f"Bearer {token_of('alice')}", "origin": "http://elsewhere"}, 403),
    "a right token": ({"authorization": f"Bearer {token_of('alice')}"}, 200),
}


@pytest.mark.parametrize(("headers", "status"), TOKENS.values(), ids=TOKENS.keys())
def test_a_token_is_asked_for(asked: Asked, headers: dict[str, str], status: int) -> None:
    assert asked.ask("/v1/table", name=None, headers=headers)[0] == status
    assert asked.ask("/v1/table/events/count_rows", name=None, headers=headers)[0] == status


PATHS = {
    "a way up": "/v1/table/../describe",
    "a way up, encoded": "/v1/table/%2e%2e%2f%2e%2e%2fetc/describe",
    "a name with a way up": "/v1/table/a$..$b/describe",
    "an absolute path": "/v1/table/%2fetc%2fpasswd/describe",
    "a version in a name": "/v1/table/events@1/describe",
    "a quote in a name": "/v1/table/events%22/describe",
    "NUL": "/v1/table/ev%00ents/describe",
    "a hidden table of metadata": "/v1/table/events$partitions/describe",
    "an empty part": "/v1/table/a$$b/describe",
    "a long name": f"/v1/table/{'x' * 5000}/describe",
    "many parts": f"/v1/table/{'$'.join('x' * 100)}/describe",
    "a long delimiter": "/v1/table/events/describe?delimiter=123456789",
    "a delimiter that is a way up": f"/v1/table/{quote('..a..b', safe='')}/describe?delimiter=.",
    "another delimiter": "/v1/table/private|key/describe?delimiter=|",
    "the root as a table": "/v1/table/$/describe",
    "the private directory": "/v1/table/.lance-flight/describe",
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_a_name_leads_nowhere_but_to_tables(asked: Asked, path: str) -> None:
    for operation in ("describe", "drop", "declare", "query"):
        status, answer = asked.ask(path.replace("describe", operation), {"k": 1, "vector": []}, name="owner")
        if status == 200:
            place = Path(json.loads(answer)["location"])
            assert operation == "declare"
            assert place.parent == asked.server.root
        else:
            assert status in (400, 404, 406), answer


BODIES = {
    "no JSON": (b"{", 400),
    "a list": (b"[1]", 400),
    "too large": (b'{"x": "' + b"x" * (2 << 20) + b'"}', 413),
    "deeply nested": (b'{"x":' * 20_000 + b"1" + b"}" * 20_000, 400),
    "a version of another type": ({"version": "1"}, 400),
    "a negative version": ({"version": -1}, 400),
    "a huge limit": ({"k": 10**30, "vector": []}, 200),
    "a vector of texts": ({"k": 1, "vector": ["x"]}, 400),
    "NaN": (b'{"k": 1, "vector": [NaN, 1]}', 400),
    "another length": ({"k": 1, "vector": [1.0]}, 400),
    "a query in debug text": (
        {"k": 1, "full_text_query": {"string_query": {"query": "Boolean(must=[Match(MatchQuery { terms: 1 })])"}}},
        406,
    ),
    "debug text with what is no value": (
        {"k": 1, "full_text_query": {"string_query": {"query": "Match(MatchQuery { terms: 1.2.3 })"}}},
        406,
    ),
    "debug text with an escape of Rust": (
        {"k": 1, "full_text_query": {"string_query": {"query": 'Match(MatchQuery { terms: "a\\0" })'}}},
        406,
    ),
    "half of a pair in a condition": ({"k": 1, "vector": [], "filter": "tenant = '\ud800'"}, 400),
    "half of a pair in a name": ({"k": 1, "vector": [], "branch": "\udfff"}, 400),
    "a whole pair": ({"k": 1, "vector": [], "filter": "tenant = '\U0001f4a5'"}, 200),
    "a huge version": ({"k": 1, "vector": [], "version": 10**30}, 400),
    "a huge bound": ({"k": 1, "vector": [1.0, 1.0], "lower_bound": 10**400}, 400),
    "a large bound": ({"k": 1, "vector": [1.0, 1.0], "upper_bound": 10**30}, 200),
    "an order that is no list": ({"k": 1, "vector": [], "order_by": True}, 400),
    "a long name": ({"k": 1, "vector": [], "filter": "a" * 70_000}, 400),
    "a nested text query": ({"k": 1, "full_text_query": {"query": {"boolean": {"must": [{"boolean": {}}]}}}}, 400),
}


@pytest.mark.parametrize(("body", "status"), BODIES.values(), ids=BODIES.keys())
def test_a_body_is_checked(asked: Asked, body: object, status: int) -> None:
    assert asked.ask("/v1/table/events/query", body)[0] == status


def test_an_address_has_few_parameters(asked: Asked) -> None:
    assert asked.code("/v1/table/events/count_rows?" + "a=1&" * 300) == (400, 13)


def test_rows_are_checked(asked: Asked) -> None:
    rows_type = {"content-type": "application/vnd.apache.arrow.stream"}
    for body in (b"", b"no rows", encoded(EVENTS)[:-200]):
        assert asked.ask("/v1/table/events/insert", body, name="owner", headers=rows_type)[0] == 400
    assert asked.ask("/v1/table/events/insert", encoded(LARGE), name="owner", headers=rows_type)[0] == 413
    assert rows(asked.server.uri, "owner", "SELECT count(*) FROM events") == [(2,)]


LARGE = pa.table({"tenant": ["x" * (3 << 20)], "n": [1], "v": pa.array([[1.0, 1.0]], VECTORS)})
CLAIM = b"\xff\xff\xff\xff" + (1_900_000_000).to_bytes(4, "little")


@pytest.mark.parametrize(
    "path",
    ["events/insert", "claimed/create", "events/add_columns", "events/merge_insert?on=n&when_matched_update_all=true"],
)
def test_nothing_is_collected_of_a_message_that_is_too_large(asked: Asked, path: str) -> None:
    begun = encoded(EVENTS.slice(0, 0))[:-8]
    # The message of a schema, also as older versions of Arrow write it, and one of rows; its body. Columns are added by a schema alone.
    claims = {CLAIM: 400, CLAIM[4:]: 400, begun + CLAIM: 413, encoded(LARGE)[:4000]: 413}
    for claim, status in list(claims.items())[: 2 if path.endswith("add_columns") else 4]:
        head = (
            f"POST /v1/table/{path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token_of('owner')}\r\n"
            "content-type: application/vnd.apache.arrow.stream\r\ncontent-length: 2000000000\r\n\r\n"
        )
        with socket.create_connection((asked.host, asked.port), timeout=20) as connection:
            connection.sendall(head.encode() + claim)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            # Were it to wait for the rest, it would end by the time for that.
            said = answer.read()
            assert (answer.status, b"_limit)" in said) == (status, True), said


def encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("path", ["query", "insert"])
def test_no_body_is_read_without_a_token(asked: Asked, path: str) -> None:
    head = f"POST /v1/table/events/{path} HTTP/1.1\r\nhost: x\r\nx-api-key: guessed\r\ncontent-length: 1000000\r\n\r\n"
    with socket.create_connection((asked.host, asked.port), timeout=20) as connection:
        connection.sendall(head.encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert (answer.status, answer.getheader("connection")) == (401, "close")


def test_slow_bodies_end_and_hold_up_nobody(asked: Asked) -> None:
    head = "POST /v1/table/events/insert HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: 1000000\r\n\r\n"
    slow = [socket.create_connection((asked.host, asked.port)) for _ in range(20)]
    for connection in slow:
        connection.sendall(head.format(token_of("owner")).encode() + encoded(EVENTS)[:100])
    begun = time.monotonic()
    assert asked.ask("/v1/table/events/count_rows") == (200, b"1")
    for connection in slow:
        connection.settimeout(20)
        assert connection.recv(100).startswith((b"HTTP/1.1 408", b"HTTP/1.1 400"))
        connection.close()
    assert time.monotonic() - begun < 20
    assert rows(asked.server.uri, "owner", "SELECT count(*) FROM events") == [(2,)]


def test_connections_without_a_request_are_closed(tmp_path: Path) -> None:
    shorter = constants({"rest.server.IDLE_SECONDS": 1.0})
    with serving_rest(tmp_path / "root", environment=shorter) as (_, address):
        parts = urlsplit(address)
        for sent in (b"", b"GET /v1/table HTTP/1.1\r\nhost: x\r\n"):
            with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
                connection.sendall(sent)
                assert connection.recv(1) == b""


def test_a_query_ends_when_its_client_goes_away(asked: Asked) -> None:
    connect(asked.address, token_of("owner")).create_table("numbers", pa.table({"n": range(3000)}))
    endless = "(SELECT count(*) FROM numbers a, numbers b, numbers c WHERE a.n + b.n * c.n % 7 = 3)"
    body = json.dumps({"k": 1, "vector": [], "columns": {"x": endless}}).encode()
    head = f"POST /v1/table/numbers/query HTTP/1.1\r\nhost: x\r\nx-api-key: {token_of('owner')}\r\ncontent-length: {len(body)}\r\n\r\n"
    running = (
        "SELECT count(*) FROM system.queries WHERE sql LIKE '%7 = 3%' AND state = 'running' AND sql NOT LIKE '%system%'"
    )
    with socket.create_connection((asked.host, asked.port)) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: rows(asked.server.uri, "owner", running) == [(1,)])
    until(lambda: rows(asked.server.uri, "owner", running) == [(0,)])


def test_connections_are_encrypted_with_the_certificate_of_the_server(tmp_path: Path) -> None:
    signer, paths = authority(), (tmp_path / "server.pem", tmp_path / "server.key")
    signer.signs_a_server().write(*paths)
    encryption = "--tls-certificate", str(paths[0]), "--tls-key", str(paths[1])
    with serving_rest(tmp_path / "root", *encryption) as (_, address):
        port = urlsplit(address).port or 0
        assert is_trusted(port, signer.pem)
        assert not is_trusted(port, authority("nobody").pem)
        renewed = authority("another authority")
        renewed.signs_a_server().write(*paths)
        until(lambda: is_trusted(port, renewed.pem))


def is_trusted(port: int, authorities: bytes) -> bool:
    """Whether a server answers with a certificate that one of the authorities has signed."""
    context = ssl.create_default_context(cadata=authorities.decode())
    connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
    try:
        connection.request("GET", "/v1/table")
        return connection.getresponse().read() == b'{"tables":[]}'
    except ssl.SSLError:
        return False
    finally:
        connection.close()


CODES = {
    "namespace/made/create": ({}, 409, 2),
    "namespace/made/drop": ({}, 409, 3),
    "namespace/absent/drop": ({}, 404, 1),
    "namespace/absent/exists": ({}, 404, 1),
    "table/made$absent/exists": ({}, 404, 4),
    "table/made$t/tags/version": ({"tag": "x"}, 404, 8),
    "table/made$t/tags/create": ({"tag": "first", "version": 1}, 409, 9),
    "table/made$t/tags/update": ({"tag": "x", "version": 1}, 404, 8),
    "table/made$t/tags/update?": ({"tag": "first", "version": 99}, 404, 11),
    "table/made$t/version/list?limit=many": ({}, 400, 13),
    "table/made$t/index/x/drop": ({}, 404, 6),
    "table/made$t/branches/create": ({"name": "b"}, 406, 0),
    "table/made$t/count_rows": ({"version": 99}, 404, 11),
    "table/made$t/query": ({"k": 1, "vector": [], "columns": ["absent"]}, 400, 12),
    "table/made$t/update": ({"updates": [["id"]]}, 400, 13),
    "table/made.t/restore?delimiter=.": ({"version": 99}, 404, 11),
}


def test_errors_have_the_codes_of_the_catalog(asked: Asked) -> None:
    owner = connect(asked.address, token_of("owner"))
    owner.create_namespace(["made"])
    owner.create_table("t", PEOPLE, namespace_path=["made"]).tags.create("first", 1)
    found = {path: asked.code(f"/v1/{path}", body, name="owner") for path, (body, _, _) in CODES.items()}
    assert owner.open_table("t", namespace_path=["made"]).tags.get_version("first") == 1
    assert found == {path: (status, code) for path, (_, status, code) in CODES.items()}


def test_a_declared_table_is_described_to_who_has_declared_it(asked: Asked) -> None:
    path = "/v1/table/promised"
    _, declared = asked.ask(f"{path}/declare", {}, name="owner")
    _, described = asked.ask(f"{path}/describe", {}, name="owner")
    location = json.loads(declared)["location"]
    found = {
        "location": location,
        "table_uri": location,
        "table": "promised",
        "namespace": [],
        "is_only_declared": True,
    }
    assert json.loads(described) == found
    assert asked.code(f"{path}/describe", {}, name="alice") == (404, 4)
    lance.write_dataset(PEOPLE, location)
    status, described = asked.ask(f"{path}/describe", {}, name="owner")
    assert (status, json.loads(described)["version"], json.loads(described)["is_only_declared"]) == (200, 1, False)


REFUSED = [route for route in ROUTES if not route.is_offered]


@pytest.mark.parametrize("route", REFUSED, ids=[route.operation for route in REFUSED])
def test_an_operation_that_is_not_offered_says_why(asked: Asked, route: Route) -> None:
    path = route.path.replace("{id}", "events").replace("{step}", "create")
    status, answer = asked.ask(path, {}, name="owner")
    said = json.loads(answer)
    assert (status, said["code"]) == (406, 0)
    assert re.search(rf"{route.operation} is not offered: .+; expected .+", said["error"])
    assert f"`{route.operation}`" in REFUSALS


def test_operations_that_there_are_not_say_so(asked: Asked) -> None:
    status, document = asked.ask("/v1/nowhere")
    assert (status, json.loads(document)["code"]) == (406, 0)
    connection = http.client.HTTPConnection(asked.host, asked.port, timeout=10)
    connection.request("GET", "/v1/openapi.json")
    paths = json.loads(connection.getresponse().read())["paths"]
    assert paths["/v1/table/{id}/query"]["post"]["operationId"] == "QueryTable"
    connection.close()
