"""Transactions over the wire: the driver's and those of BEGIN, which calls belong to them, and what their ids are good for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_manager import Error
from lance_flight.flight.wire import (
    EndTransaction,
    GetSqlInfo,
    StatementIngest,
    StatementQuery,
    TableDefinitionOptions,
)
from pyarrow import flight

from tests.engine.waiting import until
from tests.flight.cookie_jar import CookieJar
from tests.flight.statements import act, begin, descriptor, planned, put, read
from tests.service.server_process import COOKIES, Asking, Client, Server, serving
from tests.stock import stored_rows

COMMIT, ROLLBACK = 1, 2
TOKEN = {"adbc.flight.sql.authorization_header": "Bearer of-this-client"}
NONE: dict[str, str] = {}
IDENTIFIED = pytest.mark.parametrize("options", [pytest.param(COOKIES, id="cookie"), pytest.param(TOKEN, id="token")])
Rows = list[tuple[Any, ...]]


class Raw:
    """A plain Flight client that says itself which transaction a call belongs to."""

    def __init__(self, server: Server, *headers: tuple[bytes, bytes]) -> None:
        self.client = flight.connect(server.uri)
        self.options = flight.FlightCallOptions(headers=list(headers))
        self.close = self.client.close

    def introduce(self) -> None:
        """Ask what drivers ask first on a new connection."""
        self.client.get_flight_info(descriptor(GetSqlInfo()), self.options)

    def begin(self) -> bytes:
        """Begin a transaction; its id."""
        return begin(self.client, self.options)

    def end(self, transaction: bytes, action: int) -> None:
        """Commit a transaction, or roll it back."""
        assert act(self.client, EndTransaction(transaction_id=transaction, action=action), self.options) == []

    def plan(self, sql: str, transaction: bytes | None = None) -> flight.FlightInfo:
        """Plan a query, or run what is none."""
        command = StatementQuery(query=sql, transaction_id=transaction)
        return self.client.get_flight_info(descriptor(command), self.options)

    def run(self, sql: str, transaction: bytes | None = None) -> int:
        """Run a statement that returns no rows; how many it affected."""
        return int(self.plan(sql, transaction).total_records)

    def read(self, info: flight.FlightInfo) -> Rows:
        """The rows of a planned query."""
        return sorted(tuple(row.values()) for row in read(self.client, info, self.options).to_pylist())

    def rows(self, sql: str, transaction: bytes | None = None) -> Rows:
        """All rows of a query, sorted."""
        return self.read(self.plan(sql, transaction))

    def ingest(self, table: str, data: pa.Table, transaction: bytes | None = None) -> None:
        """Append rows to a table."""
        options = TableDefinitionOptions(if_not_exist=1, if_exists=2)
        command = StatementIngest(table=table, table_definition_options=options, transaction_id=transaction)
        put(self.client, command, data, self.options)


def refusal(call: Callable[[], Any]) -> str:
    """Make a raw call that must fail; what the server says."""
    with pytest.raises((pa.ArrowInvalid, NotImplementedError, KeyError, flight.FlightError)) as raised:
        call()
    return str(raised.value)


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.session(NONE, autocommit=False) as opened:
        yield opened


@pytest.fixture
def raw(server: Server) -> Iterator[Raw]:
    with closing(Raw(server)) as opened:
        yield opened


@pytest.fixture(scope="module")
def template(server: Server) -> str:
    """A table with two partitions of one row, which nobody changes."""
    server.run("CREATE TABLE held (id BIGINT NOT NULL, p VARCHAR) PARTITIONED BY (p)")
    server.run("INSERT INTO held VALUES (1, 'a'), (2, 'b')")
    return "held"


@pytest.fixture
def held(server: Server, template: str, table: str) -> str:
    """A table with two partitions of one row."""
    return server.copy(template, table)


BEFORE = [(1, "a"), (2, "b")]
ROWS = pa.table({"id": [7], "p": ["a"]})


def contents(server: Asking, table: str) -> Rows:
    """What a client sees in a table."""
    return server.rows(f"SELECT id, p FROM {table} ORDER BY id, p")


def stored(server: Server, table: str) -> Rows:
    """What the pins of a table lead to."""
    return sorted(tuple(row.values()) for row in stored_rows(server.root / table).to_pylist())


# The driver's


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_the_statements_and_ingests_of_a_connection_are_seen_by_others_after_its_commit(
    server: Server, client: Client, held: str, ends: str
) -> None:
    client.run(f"DELETE FROM {held} WHERE id = 1")
    assert client.ingest(held, ROWS, "append") == 1
    assert contents(client, held) == [(2, "b"), (7, "a")]
    assert contents(server, held) == stored(server, held) == BEFORE
    getattr(client.connection, ends)()
    expected = [(2, "b"), (7, "a")] if ends == "commit" else BEFORE
    assert contents(client, held) == contents(server, held) == stored(server, held) == expected


def test_a_connection_that_closes_takes_its_changes_along(server: Server, held: str) -> None:
    with server.session(NONE, autocommit=False) as client:
        client.run(f"DELETE FROM {held}")
    assert contents(server, held) == stored(server, held) == BEFORE


def test_a_commit_that_fails_is_in_nobodys_way_when_the_driver_forgets_it(
    server: Server, client: Client, held: str
) -> None:
    client.run(f"DELETE FROM {held} WHERE p = 'a'")
    server.run(f"INSERT INTO {held} VALUES (3, 'a')")
    with pytest.raises(Error, match=r"\[serialization_failure\]"):
        client.connection.commit()
    with server.session(NONE, autocommit=False) as another:
        another.ingest(held, ROWS, "append")
        another.connection.commit()
    assert contents(server, held) == stored(server, held) == [*BEFORE, (3, "a"), (7, "a")]


# Ids of transactions


def test_an_ingest_says_with_its_id_which_transaction_it_belongs_to(server: Server, raw: Raw, held: str) -> None:
    first, second = raw.begin(), raw.begin()
    raw.ingest(held, ROWS, second)
    assert raw.rows(f"SELECT count(*) FROM {held}", first) == [(2,)]
    assert raw.rows(f"SELECT count(*) FROM {held}", second) == [(3,)]
    raw.end(second, COMMIT)
    raw.end(first, ROLLBACK)
    assert stored(server, held) == [*BEFORE, (7, "a")]


def test_an_ingest_beside_two_open_transactions_must_say_which(server: Server, raw: Raw, held: str) -> None:
    raw.introduce()
    first, second = raw.begin(), raw.begin()
    assert "[invalid_input] 2 transactions are open" in refusal(lambda: raw.ingest(held, ROWS))
    assert stored(server, held) == BEFORE
    raw.end(first, ROLLBACK)
    raw.ingest(held, ROWS)
    assert stored(server, held) == BEFORE
    raw.end(second, COMMIT)
    assert stored(server, held) == [*BEFORE, (7, "a")]
    raw.ingest(held, ROWS)
    assert stored(server, held) == [*BEFORE, (7, "a"), (7, "a")]


def test_an_ingest_joins_no_transaction_that_an_older_connection_from_its_address_may_have_begun(
    server: Server, raw: Raw, held: str
) -> None:
    """A port is used again, and a client without a driver says nothing when it comes or goes."""
    left = raw.begin()
    raw.ingest(held, ROWS)
    assert stored(server, held) == [*BEFORE, (7, "a")]
    raw.introduce()
    raw.ingest(held, ROWS)
    assert stored(server, held) == [*BEFORE, (7, "a"), (7, "a")]
    raw.end(left, ROLLBACK)


def test_a_commit_that_fails_can_be_rolled_back_and_nothing_else(server: Server, raw: Raw, held: str) -> None:
    transaction = raw.begin()
    raw.run(f"UPDATE {held} SET id = 10 WHERE p = 'a'", transaction)
    server.run(f"UPDATE {held} SET id = 20 WHERE p = 'a'")
    assert "[serialization_failure]" in refusal(lambda: raw.end(transaction, COMMIT))
    for sql in (f"SELECT * FROM {held}", f"DELETE FROM {held}"):
        assert "[conflict] the transaction has failed" in refusal(lambda sql=sql: raw.run(sql, transaction))
    assert "[conflict] the transaction has failed" in refusal(lambda: raw.ingest(held, ROWS, transaction))
    assert "[conflict] the transaction has failed" in refusal(lambda: raw.end(transaction, COMMIT))
    raw.end(transaction, ROLLBACK)
    assert "[not_found]" in refusal(lambda: raw.end(transaction, ROLLBACK))
    assert contents(server, held) == stored(server, held) == [(2, "b"), (20, "a")]


ENDED = [
    pytest.param(lambda raw, t, held: raw.rows(f"SELECT * FROM {held}", t), id="query"),
    pytest.param(lambda raw, t, held: raw.run(f"DELETE FROM {held}", t), id="statement"),
    pytest.param(lambda raw, t, held: raw.ingest(held, ROWS, t), id="ingest"),
    pytest.param(lambda raw, t, _: raw.end(t, COMMIT), id="commit"),
    pytest.param(lambda raw, t, _: raw.end(t, ROLLBACK), id="rollback"),
    pytest.param(lambda raw, _, held: raw.run(f"DELETE FROM {held}", b"never there"), id="an id that never was"),
]


@pytest.mark.parametrize("action", [COMMIT, ROLLBACK], ids=["committed", "rolled back"])
@pytest.mark.parametrize("call", ENDED)
def test_an_ended_transaction_takes_nothing(
    server: Server, raw: Raw, held: str, call: Callable[[Raw, bytes, str], Any], action: int
) -> None:
    transaction = raw.begin()
    raw.end(transaction, action)
    assert "[not_found] the transaction is not open" in refusal(lambda: call(raw, transaction, held))
    assert stored(server, held) == BEFORE


@pytest.mark.parametrize("action", [COMMIT, ROLLBACK], ids=["committed", "rolled back"])
def test_a_ticket_is_good_for_as_long_as_its_transaction(raw: Raw, held: str, action: int) -> None:
    transaction = raw.begin()
    raw.run(f"INSERT INTO {held} VALUES (3, 'new')", transaction)
    info = raw.plan(f"SELECT id FROM {held}", transaction)
    raw.end(transaction, action)
    assert "[not_found] the transaction is not open" in refusal(lambda: raw.read(info))


# Those of BEGIN, in a session that a cookie or a token tells


@IDENTIFIED
@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
def test_the_statements_and_ingests_of_a_session_are_seen_by_others_after_its_commit(
    server: Server, held: str, options: dict[str, str], ends: str
) -> None:
    with server.session(options) as client:
        client.run("BEGIN")
        client.run(f"DELETE FROM {held} WHERE id = 1")
        client.ingest(held, ROWS, "append")
        assert contents(client, held) == [(2, "b"), (7, "a")]
        assert contents(server, held) == stored(server, held) == BEFORE
        client.run(ends)
        expected = [(2, "b"), (7, "a")] if ends == "COMMIT" else BEFORE
        assert contents(client, held) == contents(server, held) == stored(server, held) == expected
        assert "[invalid_transaction_state]" in client.refuses("ROLLBACK")


@pytest.mark.parametrize("sql", ["BEGIN", "COMMIT", "ROLLBACK"])
def test_a_client_without_a_session_is_told_how_to_get_one(server: Server, sql: str) -> None:
    message = server.refuses(sql)
    assert "[invalid_transaction_state]" in message
    assert "with_cookie_middleware" in message


@pytest.mark.parametrize("sql", ["BEGIN", "COMMIT", "ROLLBACK"])
def test_a_transaction_of_the_driver_is_ended_by_the_driver(server: Server, held: str, sql: str) -> None:
    with server.session(autocommit=False) as client:
        client.run(f"DELETE FROM {held} WHERE id = 1")
        message = client.refuses(sql)
        assert "[invalid_transaction_state]" in message
        assert "commit() or rollback()" in message
        client.connection.commit()
    assert contents(server, held) == [(2, "b")]


def test_the_driver_begins_none_inside_one_of_sql(server: Server, held: str) -> None:
    with server.session() as client:
        client.run("BEGIN")
        client.run(f"DELETE FROM {held} WHERE id = 1")
        with pytest.raises(Error, match=r"\[invalid_transaction_state\].*COMMIT or ROLLBACK"):
            client.connection.adbc_connection.set_autocommit(False)
        client.run("COMMIT")
    assert contents(server, held) == [(2, "b")]


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that ends sessions which were idle for a second."""
    root = tmp_path_factory.mktemp("impatient") / "root"
    with serving(root, "--session-idle-timeout", "1") as running:
        yield running


@IDENTIFIED
def test_a_statement_of_a_transaction_that_was_idle_too_long_is_not_committed_by_itself(
    impatient: Server, options: dict[str, str], table: str
) -> None:
    impatient.run(f"CREATE TABLE {table} (id INT) PARTITIONED BY (id)")
    with impatient.session(options) as client:
        client.run("BEGIN")
        client.run(f"INSERT INTO {table} VALUES (1)")
        until(lambda: not impatient.value("SELECT sum(open_transactions) FROM system.sessions"))
        message = client.refuses(f"INSERT INTO {table} VALUES (2)")
        assert "idle" in message
        assert impatient.rows(f"SELECT * FROM {table}") == []
        assert "idle" in client.refuses("COMMIT")
        if options is TOKEN:  # a cookie that has ended is refused in any case
            client.run("ROLLBACK")
            client.run(f"INSERT INTO {table} VALUES (3)")
            assert impatient.rows(f"SELECT * FROM {table}") == [(3,)]


def test_statements_of_another_client_of_the_connection_stay_out(server: Server, held: str) -> None:
    """Over one connection that a proxy shares, only calls with the cookie belong to the transaction."""
    jar = CookieJar()
    with flight.connect(server.uri, middleware=[jar]) as client:
        for sql in ("SELECT 1", "BEGIN", f"INSERT INTO {held} VALUES (4, 'b')"):
            planned(client, sql)
        cookies, jar.cookies = jar.cookies, {}
        planned(client, f"INSERT INTO {held} VALUES (3, 'c')")
        jar.cookies = cookies
        planned(client, "ROLLBACK")
    assert sorted(server.rows(f"SELECT id FROM {held}")) == [(1,), (2,), (3,)]
