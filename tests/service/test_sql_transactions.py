"""BEGIN, COMMIT and ROLLBACK as statements of a session that a cookie or a token tells."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from lance_flight.flight.commands import StatementQuery
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.flight.cookie_jar import CookieJar
from tests.service.server_process import Server, serving
from tests.stock import stored_rows

COOKIES = {"adbc.flight.sql.rpc.with_cookie_middleware": "true"}
TOKEN = {"adbc.flight.sql.authorization_header": "Bearer of-this-client"}
Rows = list[tuple[Any, ...]]


class Client:
    """An ADBC connection whose driver begins no transaction, unless `autocommit` is off."""

    def __init__(self, server: Server, options: dict[str, str], *, autocommit: bool = True) -> None:
        self.connection = dbapi.connect(server.uri, db_kwargs=options, autocommit=autocommit)
        self.close = self.connection.close

    def run(self, *statements: str) -> int:
        """Run statements that return no rows; how many the last one affected."""
        with self.connection.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)
            return int(cursor.rowcount)

    def rows(self, sql: str) -> Rows:
        """All rows of a query."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return sorted(cursor.fetchall())

    def ingest(self, table: str, data: pa.Table) -> None:
        """Append rows."""
        with self.connection.cursor() as cursor:
            cursor.adbc_ingest(table, data, mode="append")

    def refuses(self, sql: str) -> str:
        """Run a statement that must fail; what the server says."""
        with pytest.raises(Error) as raised:
            self.rows(sql)
        return str(raised.value)


@pytest.fixture(params=[pytest.param(COOKIES, id="cookie"), pytest.param(TOKEN, id="token")])
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[Client]:
    with closing(Client(server, request.param)) as opened:
        yield opened


@pytest.fixture
def other(server: Server) -> Iterator[Client]:
    with closing(Client(server, COOKIES)) as opened:
        yield opened


@pytest.fixture
def counted(server: Server, table: str) -> str:
    """A partitioned table with one row."""
    server.run(f"CREATE TABLE {table} (id INT, p VARCHAR) PARTITIONED BY (p)")
    server.run(f"INSERT INTO {table} VALUES (1, 'a')")
    return table


BEGINNINGS = [
    "BEGIN",
    "begin work",
    "BEGIN TRANSACTION;",
    "START TRANSACTION",
    "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE",
]


@pytest.mark.parametrize("begin", BEGINNINGS)
@pytest.mark.parametrize(
    ("end", "left"),
    [
        pytest.param("COMMIT", [(2, "b"), (3, "a"), (4, "c")], id="COMMIT"),
        pytest.param("COMMIT WORK", [(2, "b"), (3, "a"), (4, "c")], id="COMMIT WORK"),
        pytest.param("ROLLBACK", [(1, "a")], id="ROLLBACK"),
        pytest.param("ROLLBACK TRANSACTION", [(1, "a")], id="ROLLBACK TRANSACTION"),
    ],
)
def test_statements_between_become_visible_together_or_not_at_all(  # noqa: PLR0917
    server: Server, client: Client, counted: str, begin: str, end: str, left: Rows
) -> None:
    client.run(begin, f"INSERT INTO {counted} VALUES (2, 'b'), (3, 'a')", f"DELETE FROM {counted} WHERE id = 1")
    client.ingest(counted, pa.table({"id": pa.array([4], pa.int32()), "p": ["c"]}))
    assert client.rows(f"SELECT * FROM {counted}") == [(2, "b"), (3, "a"), (4, "c")]
    assert server.rows(f"SELECT * FROM {counted}") == [(1, "a")]
    client.run(end)
    assert client.rows(f"SELECT * FROM {counted}") == sorted(server.rows(f"SELECT * FROM {counted}")) == left
    assert sorted(map(tuple, (row.values() for row in stored_rows(server.root / counted).to_pylist()))) == left


def test_each_statement_is_committed_by_itself_again_after_the_end(
    server: Server, client: Client, counted: str
) -> None:
    client.run("BEGIN", f"DELETE FROM {counted}", "ROLLBACK", f"INSERT INTO {counted} VALUES (2, 'b')")
    assert sorted(server.rows(f"SELECT id FROM {counted}")) == [(1,), (2,)]


def test_a_table_that_was_made_goes_with_its_rollback(server: Server, client: Client, table: str) -> None:
    client.run("BEGIN", f"CREATE TABLE {table} (id INT) PARTITIONED BY (id)", f"INSERT INTO {table} VALUES (1)")
    assert client.rows(f"SELECT id FROM {table}") == [(1,)]
    client.run("ROLLBACK")
    assert "[not_found]" in server.refuses(f"SELECT * FROM {table}")


REFUSED: list[Any] = [
    pytest.param([], "COMMIT", "COMMIT without a transaction", id="COMMIT without BEGIN"),
    pytest.param([], "ROLLBACK", "each statement was committed by itself", id="ROLLBACK without BEGIN"),
    pytest.param(["BEGIN", "COMMIT"], "ROLLBACK", "ROLLBACK without", id="ROLLBACK after COMMIT"),
    pytest.param(["BEGIN"], "BEGIN", "expected COMMIT or ROLLBACK first", id="BEGIN twice"),
    pytest.param(["BEGIN READ ONLY"], "INSERT INTO {t} VALUES (2, 'b')", "READ ONLY", id="a write in READ ONLY"),
    pytest.param(["BEGIN READ ONLY"], "DROP TABLE {t}", "READ ONLY", id="DROP in READ ONLY"),
    pytest.param(["BEGIN READ ONLY"], "CREATE TABLE {t}_new (id INT)", "READ ONLY", id="CREATE in READ ONLY"),
]


@pytest.mark.parametrize(("before", "sql", "says"), REFUSED)
def test_what_does_not_fit_the_transaction_is_refused_by_its_code(  # noqa: PLR0917
    server: Server, client: Client, counted: str, before: list[str], sql: str, says: str
) -> None:
    if before:
        client.run(*before)
    message = client.refuses(sql.format(t=counted))
    assert "[invalid_transaction_state]" in message
    assert says in message
    assert server.rows(f"SELECT * FROM {counted}") == [(1, "a")]


def test_a_transaction_that_only_reads_takes_no_ingest(server: Server, client: Client, counted: str) -> None:
    client.run("START TRANSACTION READ ONLY")
    server.run(f"INSERT INTO {counted} VALUES (2, 'b')")
    with pytest.raises(Error, match=r"\[invalid_transaction_state\].*READ ONLY"):
        client.ingest(counted, pa.table({"id": pa.array([4], pa.int32()), "p": ["c"]}))
    assert client.rows(f"SELECT id FROM {counted}") == [(1,), (2,)]
    client.run("COMMIT")


MISSPELT = [
    pytest.param("BEGIN ISOLATION LEVEL CHAOS", "SERIALIZABLE, SNAPSHOT", id="no such level"),
    pytest.param("START", "TRANSACTION", id="START alone"),
    pytest.param("BEGIN NOW", "ISOLATION LEVEL", id="a word too many"),
    pytest.param("COMMIT PREPARED", "the end of the statement", id="COMMIT of another kind"),
    pytest.param("ROLLBACK TO SAVEPOINT x", "savepoint", id="a savepoint"),
    pytest.param("SAVEPOINT x", "not offered", id="SAVEPOINT"),
    pytest.param("END", "COMMIT", id="END"),
]


@pytest.mark.parametrize(("sql", "says"), MISSPELT)
def test_words_that_are_not_read_are_named(server: Server, sql: str, says: str) -> None:
    message = server.refuses(sql)
    assert "[invalid_sql]" in message
    assert says in message


@pytest.mark.parametrize("sql", ["BEGIN", "COMMIT", "ROLLBACK"])
def test_a_client_without_a_session_is_told_how_to_get_one(server: Server, sql: str) -> None:
    message = server.refuses(sql)
    assert "[invalid_transaction_state]" in message
    assert "with_cookie_middleware" in message


@pytest.mark.parametrize("sql", ["BEGIN", "COMMIT", "ROLLBACK"])
def test_a_transaction_of_the_driver_is_ended_by_the_driver(server: Server, counted: str, sql: str) -> None:
    with closing(Client(server, COOKIES, autocommit=False)) as client:
        client.run(f"INSERT INTO {counted} VALUES (2, 'b')")
        message = client.refuses(sql)
        assert "[invalid_transaction_state]" in message
        assert "commit() or rollback()" in message
        client.connection.commit()
    assert sorted(server.rows(f"SELECT id FROM {counted}")) == [(1,), (2,)]


def test_the_driver_begins_none_inside_one_of_sql(server: Server, client: Client, counted: str) -> None:
    client.run("BEGIN", f"INSERT INTO {counted} VALUES (2, 'b')")
    with pytest.raises(Error, match=r"\[invalid_transaction_state\].*COMMIT or ROLLBACK"):
        client.connection.adbc_connection.set_autocommit(False)
    client.run("COMMIT")
    assert sorted(server.rows(f"SELECT id FROM {counted}")) == [(1,), (2,)]


@pytest.mark.parametrize("then", ["ROLLBACK", "BEGIN"])
def test_a_failed_commit_leaves_nothing_and_ends_the_transaction(
    server: Server, client: Client, counted: str, then: str
) -> None:
    client.run("BEGIN", f"UPDATE {counted} SET id = 5")
    server.run(f"UPDATE {counted} SET id = 7")
    assert "[serialization_failure]" in client.refuses("COMMIT")
    assert server.rows(f"SELECT id FROM {counted}") == client.rows(f"SELECT id FROM {counted}") == [(7,)]
    client.run(then)
    if then == "BEGIN":
        client.run(f"UPDATE {counted} SET id = 8", "COMMIT")
        assert server.rows(f"SELECT id FROM {counted}") == [(8,)]
    assert "[invalid_transaction_state]" in client.refuses("ROLLBACK")


@pytest.mark.parametrize(
    ("level", "says"),
    [
        pytest.param("SNAPSHOT", None, id="snapshot"),
        pytest.param("SERIALIZABLE", "[serialization_failure]", id="serializable"),
    ],
)
def test_the_level_decides_what_a_commit_checks(
    server: Server, client: Client, counted: str, level: str, says: str | None
) -> None:
    client.run(f"BEGIN ISOLATION LEVEL {level}")
    assert client.rows(f"SELECT count(*) FROM {counted}") == [(1,)]
    client.run(f"INSERT INTO {counted} VALUES (2, 'b')")
    server.run(f"DELETE FROM {counted} WHERE id = 1")
    if says is None:
        client.run("COMMIT")
    else:
        assert says in client.refuses("COMMIT")
    assert server.rows(f"SELECT id FROM {counted}") == ([(2,)] if says is None else [])


def test_a_statement_that_fails_leaves_the_transaction_open(server: Server, client: Client, counted: str) -> None:
    client.run("BEGIN", f"INSERT INTO {counted} VALUES (2, 'b')")
    assert "[invalid_sql]" in client.refuses(f"SELECT nope FROM {counted}")
    client.run("COMMIT")
    assert sorted(server.rows(f"SELECT id FROM {counted}")) == [(1,), (2,)]


def test_other_sessions_have_transactions_of_their_own(
    server: Server, client: Client, other: Client, counted: str
) -> None:
    client.run("BEGIN", f"INSERT INTO {counted} VALUES (2, 'b')")
    other.run("BEGIN", f"INSERT INTO {counted} VALUES (3, 'c')", "COMMIT")
    client.run("ROLLBACK")
    assert sorted(server.rows(f"SELECT id FROM {counted}")) == [(1,), (3,)]


def test_a_session_that_is_closed_rolls_back(server: Server, counted: str) -> None:
    client = Client(server, COOKIES)
    client.run("BEGIN", f"INSERT INTO {counted} VALUES (2, 'b')")
    assert server.value("SELECT sum(open_transactions) FROM system.sessions") >= 1
    client.close()
    assert server.rows(f"SELECT id FROM {counted}") == [(1,)]


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that ends sessions which were idle for a moment."""
    root = tmp_path_factory.mktemp("impatient") / "root"
    with serving(root, "--session-idle-timeout", "0.3") as running:
        yield running


@pytest.mark.parametrize("options", [pytest.param(COOKIES, id="cookie"), pytest.param(TOKEN, id="token")])
def test_a_statement_of_a_transaction_that_was_idle_too_long_is_not_committed_by_itself(
    impatient: Server, options: dict[str, str], table: str
) -> None:
    impatient.run(f"CREATE TABLE {table} (id INT) PARTITIONED BY (id)")
    with closing(Client(impatient, options)) as client:
        client.run("BEGIN", f"INSERT INTO {table} VALUES (1)")
        while impatient.value("SELECT sum(open_transactions) FROM system.sessions"):
            pass
        message = client.refuses(f"INSERT INTO {table} VALUES (2)")
        assert "idle" in message
        assert impatient.rows(f"SELECT * FROM {table}") == []
        assert "idle" in client.refuses("COMMIT")
        if options is TOKEN:  # a cookie that has ended is refused in any case
            client.run("ROLLBACK", f"INSERT INTO {table} VALUES (3)")
            assert impatient.rows(f"SELECT * FROM {table}") == [(3,)]


def test_a_statement_that_was_killed_leaves_the_transaction_open(
    server: Server, client: Client, other: Client, counted: str
) -> None:
    client.run("BEGIN", f"INSERT INTO {counted} VALUES (2, 'b')")
    slow = f"INSERT INTO {counted} SELECT arrow_cast(value, 'Int32'), 'c' FROM generate_series(1, 1000000000)"
    with ThreadPoolExecutor(1) as pool:
        refused = pool.submit(client.refuses, slow)
        found = (
            f"SELECT id FROM system.queries WHERE sql LIKE '%{counted}%generate_series%' AND sql NOT LIKE '%system%'"
        )
        while not (running := other.rows(f"{found} AND state = 'running'")):
            pass
        other.run(f"KILL '{running[0][0]}'")
        assert "[cancelled]" in refused.result()
    client.run("COMMIT")
    assert sorted(server.rows(f"SELECT id FROM {counted}")) == [(1,), (2,)]


def test_statements_of_another_client_of_the_connection_stay_out(server: Server, counted: str) -> None:
    """Over one connection that a proxy shares, only calls with the cookie belong to the transaction."""
    jar = CookieJar()
    with flight.connect(server.uri, middleware=[jar]) as client:
        for sql in ("SELECT 1", "BEGIN", f"INSERT INTO {counted} VALUES (2, 'b')"):
            client.get_flight_info(command(sql))
        cookies, jar.cookies = jar.cookies, {}
        client.get_flight_info(command(f"INSERT INTO {counted} VALUES (3, 'c')"))
        jar.cookies = cookies
        client.get_flight_info(command("ROLLBACK"))
    assert sorted(server.rows(f"SELECT id FROM {counted}")) == [(1,), (3,)]


def command(sql: str) -> flight.FlightDescriptor:
    """The descriptor of a statement."""
    return flight.FlightDescriptor.for_command(encode_command(StatementQuery(query=sql)))
