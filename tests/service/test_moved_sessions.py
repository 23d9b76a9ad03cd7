"""Sessions and prepared statements of clients that go on at another server over the same root, as behind one address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.flight.tickets import OF_A_COOKIE
from lance_flight.flight.wire import (
    CloseSession,
    Command,
    EndTransaction,
    PreparedStatementQuery,
    StatementQuery,
)
from pyarrow import flight

from tests.flight.cookie_jar import CookieJar
from tests.flight.statements import act, begin, bind, descriptor, prepare, read
from tests.service.server_process import Server, serving

TOKEN = (b"authorization", b"Bearer mine")
OTHER_TOKEN = (b"authorization", b"Bearer another")


@dataclass
class Client:
    """A client with the cookies of a jar, which calls whichever server it is told to."""

    clients: dict[str, flight.FlightClient]
    headers: tuple[tuple[bytes, bytes], ...]

    def run(self, at: str, sql: str) -> list[dict[str, Any]]:
        """Run a statement at a server; its rows."""
        return self._read(at, StatementQuery(query=sql))

    def _read(self, at: str, command: Command) -> list[dict[str, Any]]:
        client, options = self.clients[at], flight.FlightCallOptions(headers=list(self.headers))
        info = client.get_flight_info(descriptor(command), options)
        return read(client, info, options).to_pylist() if info.schema.names else []

    def setting(self, at: str, name: str) -> str:
        """The value of a setting."""
        return {row["name"]: row["value"] for row in self.run(at, "SHOW ALL")}[name]

    def prepare(self, at: str, sql: str) -> bytes:
        """Prepare a statement; its handle."""
        return bytes(prepare(self.clients[at], sql).prepared_statement_handle)

    def bind(self, at: str, handle: bytes, value: int) -> bytes:
        """Bind a parameter; the handle that has it."""
        return bind(self.clients[at], handle, pa.table({"1": pa.array([value], pa.int64())}))

    def execute(self, at: str, handle: bytes) -> list[dict[str, Any]]:
        """Run a prepared query; its rows."""
        return self._read(at, PreparedStatementQuery(prepared_statement_handle=handle))


@pytest.fixture
def client(server: Server, other: Server) -> Iterator[Callable[..., Client]]:
    servers = {"first": server, "second": other}
    with ExitStack() as stack:

        def opened(*headers: tuple[bytes, bytes], jar: CookieJar | None = None) -> Client:
            jar = jar or CookieJar()
            made = {at: stack.enter_context(flight.connect(each.uri, middleware=[jar])) for at, each in servers.items()}
            return Client(made, headers)

        yield opened


MEANS = {"cookie": (), "token": (TOKEN,)}


@pytest.mark.parametrize("headers", MEANS.values(), ids=MEANS)
def test_a_session_begins_again_elsewhere_as_it_was(client: Callable[..., Client], headers: tuple[Any, ...]) -> None:
    mine = client(*headers)
    mine.run("first", "SET group_rows = 7")
    mine.run("first", "SET branch = 'audit'")
    assert mine.setting("second", "group_rows") == "7"
    mine.run("second", "SET group_rows = 8")
    assert mine.setting("second", "branch") == "audit"
    assert mine.setting("first", "group_rows") == "8", "what was set there last is known where it began"
    assert client(OTHER_TOKEN).setting("second", "group_rows") != "8"


def test_a_session_without_settings_of_its_own_goes_on_elsewhere(client: Callable[..., Client]) -> None:
    mine = client()
    mine.run("first", "SELECT 1 AS one")
    assert mine.setting("second", "branch") == "main"


def test_a_session_that_reads_only_does_so_elsewhere(client: Callable[..., Client], table: str) -> None:
    mine = client()
    mine.run("first", f"CREATE TABLE {table} (x BIGINT)")
    mine.run("first", "SET access = 'read'")
    with pytest.raises(pa.ArrowException, match="the session reads only"):
        mine.run("second", f"INSERT INTO {table} VALUES (1)")


@pytest.mark.parametrize("headers", MEANS.values(), ids=MEANS)
def test_no_statement_of_a_transaction_is_committed_elsewhere_by_itself(
    client: Callable[..., Client], table: str, headers: tuple[Any, ...]
) -> None:
    mine = client(*(() if not headers else ((b"authorization", b"Bearer begins"),)))
    mine.run("first", f"CREATE TABLE {table} (x BIGINT) PARTITIONED BY (bucket(2, x))")
    mine.run("first", "BEGIN")
    mine.run("first", f"INSERT INTO {table} VALUES (1)")
    for sql in (f"INSERT INTO {table} VALUES (2)", f"INSERT INTO {table} VALUES (3)", "COMMIT"):
        with pytest.raises(Exception, match=r"\[40001\] \[conflict\] the transaction was begun on another server"):
            mine.run("second", sql)
    mine.run("second", "ROLLBACK")
    mine.run("second", f"INSERT INTO {table} VALUES (4)")
    mine.run("first", f"INSERT INTO {table} VALUES (5)")
    rows = client(OTHER_TOKEN).run("second", f"SELECT x FROM {table} ORDER BY x")
    assert rows == [{"x": 4}, {"x": 5}], "the first server goes on without the transaction, too"


def test_what_was_set_last_counts_where_an_answer_was_lost(client: Callable[..., Client]) -> None:
    jar = CookieJar()
    mine = client(jar=jar)
    mine.run("first", "SELECT 1 AS one")
    before = dict(jar.cookies)
    mine.run("first", "SET access = 'read'")
    jar.cookies.clear()
    jar.cookies.update(before)
    mine.run("second", "SET branch = 'audit'")
    assert mine.setting("first", "branch") == "audit"
    assert mine.setting("first", "access") == "read", "which a session keeps"


@pytest.mark.parametrize("headers", MEANS.values(), ids=MEANS)
def test_temporary_tables_are_missed_elsewhere_once(client: Callable[..., Client], headers: tuple[Any, ...]) -> None:
    mine = client(*(() if not headers else ((b"authorization", b"Bearer temporary"),)))
    mine.run("first", "SET group_rows = 7")
    mine.run("first", "CREATE TEMPORARY TABLE mine (x BIGINT)")
    with pytest.raises(Exception, match=r"\[40001\] \[conflict\].*temporary tables at the one before"):
        mine.run("second", "SELECT 1 AS one")
    assert mine.run("second", "SELECT 1 AS one") == [{"one": 1}]
    assert mine.setting("second", "group_rows") == "7"


def test_a_transaction_that_has_ended_is_not_missed(client: Callable[..., Client]) -> None:
    mine = client()
    mine.run("first", "SELECT 1 AS one")
    mine.run("first", "BEGIN")
    mine.run("first", "COMMIT")
    assert mine.run("second", "SELECT 1 AS one") == [{"one": 1}]


def test_a_transaction_of_a_driver_is_not_open_elsewhere(client: Callable[..., Client]) -> None:
    mine = client()
    begun = begin(mine.clients["first"])
    with pytest.raises(Exception, match=r"\[40001\] \[conflict\].* and had an open transaction at the one before"):
        mine.run("second", "SELECT 1 AS one")
    ending = EndTransaction(transaction_id=begun, action=EndTransaction.END_TRANSACTION_COMMIT)
    with pytest.raises(Exception, match=r"\[40001\] \[conflict\] the transaction was begun on another server"):
        act(mine.clients["second"], ending)


def test_a_closed_session_is_not_found_where_it_was(client: Callable[..., Client]) -> None:
    mine = client()
    mine.run("first", "SET group_rows = 7")
    act(mine.clients["first"], CloseSession())
    with pytest.raises(pa.ArrowInvalid, match="finds no session"):
        mine.run("first", "SELECT 1 AS one")


def test_an_altered_cookie_begins_nothing(client: Callable[..., Client]) -> None:
    jar = CookieJar()
    mine = client(jar=jar)
    mine.run("first", "SET group_rows = 7")
    text = jar.cookies[OF_A_COOKIE]
    jar.cookies[OF_A_COOKIE] = text[:40] + ("A" if text[40] != "A" else "B") + text[41:]
    with pytest.raises(pa.ArrowInvalid, match="finds no session"):
        mine.run("second", "SELECT 1 AS one")


def test_a_session_outlives_its_server(tmp_path: Path) -> None:
    jar = CookieJar()
    with serving(tmp_path / "root") as server, flight.connect(server.uri, middleware=[jar]) as opened:
        Client({"it": opened}, ()).run("it", "SET group_rows = 7")
    with serving(tmp_path / "root") as server, flight.connect(server.uri, middleware=[jar]) as opened:
        assert Client({"it": opened}, ()).setting("it", "group_rows") == "7"


QUERY = "SELECT $1 + 1 AS n"
ELSEWHERE = "was prepared on another server.*expected it to be prepared again"


def test_parameters_in_a_handle_go_with_it(client: Callable[..., Client]) -> None:
    mine = client()
    bound = mine.bind("first", mine.prepare("first", QUERY), 1)
    assert mine.execute("second", bound) == [{"n": 2}]
    assert mine.execute("first", mine.bind("second", bound, 2)) == [{"n": 3}]


def test_a_client_that_ignores_new_handles_gets_no_older_parameters(client: Callable[..., Client]) -> None:
    mine = client()
    handle = mine.prepare("first", QUERY)
    mine.bind("first", handle, 1)
    assert mine.execute("first", handle) == [{"n": 2}]
    for refused in (lambda: mine.execute("second", handle), lambda: mine.bind("second", handle, 2)):
        with pytest.raises(flight.FlightUnavailableError, match=ELSEWHERE):
            refused()
    assert mine.execute("first", handle) == [{"n": 2}]


def test_a_statement_without_parameters_runs_anywhere(client: Callable[..., Client]) -> None:
    mine = client()
    assert mine.execute("second", mine.prepare("first", "SELECT 1 AS n")) == [{"n": 1}]
