"""Transactions over the wire: what is seen in them, what their end leaves, what they refuse, how they are isolated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from google.protobuf.any_pb2 import Any as AnyMessage
from lance_flight.flight.commands import (
    Action,
    BeginTransaction,
    Command,
    EndTransaction,
    GetSqlInfo,
    StatementIngest,
    StatementQuery,
    TableDefinitionOptions,
)
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from lance_flight.flight.wire import encode_action, encode_command
from pyarrow import flight

from tests.service.server_process import PARTITION_BY, Server
from tests.stock import manifest, manifest_rows, stored_by_value, stored_rows

COMMIT, ROLLBACK = 1, 2
Rows = list[tuple[Any, ...]]


class Client:
    """An ADBC connection that begins a transaction when it opens and after each commit or rollback."""

    def __init__(self, server: Server, *, autocommit: bool = False) -> None:
        self.server = server
        self.connection = dbapi.connect(server.uri, autocommit=autocommit)
        self.commit = self.connection.commit
        self.rollback = self.connection.rollback
        self.close = self.connection.close

    def run(self, sql: str, parameters: Any = None) -> int:
        """Run a statement that returns no rows; how many it affected."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return int(cursor.rowcount)

    def rows(self, sql: str) -> Rows:
        """All rows of a query."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def ingest(self, table: str, data: Any, mode: str = "append", *, partition_by: str | None = None) -> int:
        """Send rows."""
        with self.connection.cursor() as cursor:
            if partition_by is not None:
                cursor.adbc_statement.set_options(**{PARTITION_BY: partition_by})
            return int(cursor.adbc_ingest(table, data, mode=mode))

    def refuses(self, sql: str) -> str:
        """Run a statement that must fail; what the server says."""
        with pytest.raises(Error) as raised:
            self.rows(sql)
        return str(raised.value)


class Raw:
    """A plain Flight client that says itself which transaction a call belongs to."""

    def __init__(self, server: Server, *headers: tuple[bytes, bytes]) -> None:
        self.client = flight.connect(server.uri)
        self.options = flight.FlightCallOptions(headers=list(headers))
        self.close = self.client.close

    def introduce(self) -> None:
        """Ask what drivers ask first on a new connection."""
        self.client.get_flight_info(_descriptor(GetSqlInfo()), self.options)

    def begin(self) -> bytes:
        """Begin a transaction; its id."""
        (result,) = self._act(BeginTransaction())
        message = pb.ActionBeginTransactionResult()
        assert AnyMessage.FromString(result).Unpack(message)
        return bytes(message.transaction_id)

    def end(self, transaction: bytes, action: int) -> None:
        """Commit a transaction, or roll it back."""
        assert self._act(EndTransaction(transaction_id=transaction, action=action)) == []

    def plan(self, sql: str, transaction: bytes | None = None) -> flight.FlightInfo:
        """Plan a query, or run what is none."""
        command = StatementQuery(query=sql, transaction_id=transaction)
        return self.client.get_flight_info(_descriptor(command), self.options)

    def run(self, sql: str, transaction: bytes | None = None) -> int:
        """Run a statement that returns no rows; how many it affected."""
        return int(self.plan(sql, transaction).total_records)

    def read(self, planned: flight.FlightInfo) -> Rows:
        """The rows of a planned query."""
        found = [self.client.do_get(endpoint.ticket, self.options).read_all() for endpoint in planned.endpoints]
        return sorted(tuple(row.values()) for table in found for row in table.to_pylist())

    def rows(self, sql: str, transaction: bytes | None = None) -> Rows:
        """All rows of a query, sorted."""
        return self.read(self.plan(sql, transaction))

    def ingest(self, table: str, data: pa.Table, transaction: bytes | None = None) -> None:
        """Append rows to a table."""
        options = TableDefinitionOptions(if_not_exist=1, if_exists=2)
        command = StatementIngest(table=table, table_definition_options=options, transaction_id=transaction)
        writer, answers = self.client.do_put(_descriptor(command), data.schema, self.options)
        with writer:
            writer.write_table(data)
            writer.done_writing()
            answers.read()

    def _act(self, action: Action) -> list[bytes]:
        kind, body = encode_action(action)
        return [result.body.to_pybytes() for result in self.client.do_action(flight.Action(kind, body), self.options)]


def _descriptor(command: Command) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(encode_command(command))


def refusal(call: Callable[[], Any]) -> str:
    """Make a raw call that must fail; what the server says."""
    with pytest.raises((pa.ArrowInvalid, NotImplementedError, KeyError, flight.FlightError)) as raised:
        call()
    return str(raised.value)


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with closing(Client(server)) as opened:
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


def contents(server: Server | Client, table: str) -> Rows:
    """What a client sees in a table."""
    return server.rows(f"SELECT id, p FROM {table} ORDER BY id, p")


def stored(server: Server, table: str) -> Rows:
    """What the pins of a table lead to."""
    return sorted(tuple(row.values()) for row in stored_rows(server.root / table).to_pylist())


MERGED = """MERGE INTO {t} USING (SELECT 1 AS id UNION ALL SELECT 3) s ON {t}.id = s.id
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"""
CHANGES = [
    pytest.param(["INSERT INTO {t} VALUES (3, 'a')"], [*BEFORE, (3, "a")], id="insert"),
    pytest.param(
        ["INSERT INTO {t} VALUES (3, 'new'), (4, NULL)"], [*BEFORE, (3, "new"), (4, None)], id="new partitions"
    ),
    pytest.param(["UPDATE {t} SET id = 10 WHERE p = 'a'"], [(2, "b"), (10, "a")], id="update"),
    pytest.param(["UPDATE {t} SET p = 'b'"], [(1, "b"), (2, "b")], id="move"),
    pytest.param(["DELETE FROM {t} WHERE id = 1"], [(2, "b")], id="delete"),
    pytest.param(["TRUNCATE {t}"], [], id="truncate"),
    pytest.param(["INSERT OVERWRITE {t} VALUES (9, 'a')"], [(2, "b"), (9, "a")], id="overwrite"),
    pytest.param(
        [MERGED],
        [(2, "b"), (3, None)],
        id="merge",
    ),
    pytest.param(
        ["INSERT INTO {t} VALUES (3, 'new')", "UPDATE {t} SET id = id + 10", "DELETE FROM {t} WHERE id = 11"],
        [(12, "b"), (13, "new")],
        id="each on top of the one before",
    ),
    pytest.param(
        [
            "INSERT INTO {t} VALUES (3, 'new')",
            "UPDATE {t} SET p = 'other' WHERE id = 3",
            "DELETE FROM {t} WHERE id = 3",
        ],
        BEFORE,
        id="a row that comes, moves and goes",
    ),
    pytest.param(
        ["DELETE FROM {t}", "INSERT INTO {t} VALUES (1, 'a')", "INSERT INTO {t} SELECT id + 1, 'b' FROM {t}"],
        BEFORE,
        id="everything once more",
    ),
    pytest.param(
        ["INSERT OVERWRITE {t} VALUES (8, 'new')", "INSERT OVERWRITE {t} VALUES (9, 'new')"],
        [*BEFORE, (9, "new")],
        id="overwrite what was overwritten",
    ),
    pytest.param(["DELETE FROM {t} WHERE id = 99"], BEFORE, id="nothing"),
]


@pytest.mark.parametrize(("statements", "expected"), CHANGES)
def test_changes_are_seen_inside_at_once_and_by_others_after_the_commit(
    server: Server, client: Client, held: str, statements: list[str], expected: Rows
) -> None:
    version = manifest(server.root / held).version
    for statement in statements:
        client.run(statement.format(t=held))
    assert contents(client, held) == expected
    assert contents(server, held) == stored(server, held) == BEFORE
    client.commit()
    assert contents(client, held) == contents(server, held) == stored(server, held) == expected
    changed = statements != ["DELETE FROM {t} WHERE id = 99"]
    assert manifest(server.root / held).version == version + changed


@pytest.mark.parametrize(("statements", "expected"), CHANGES)
def test_a_rollback_leaves_nothing_that_a_reader_can_see(
    server: Server, client: Client, held: str, statements: list[str], expected: Rows
) -> None:
    before = manifest_rows(server.root / held), manifest(server.root / held).version
    for statement in statements:
        client.run(statement.format(t=held))
    client.rollback()
    assert (manifest_rows(server.root / held), manifest(server.root / held).version) == before
    assert contents(client, held) == contents(server, held) == stored(server, held) == BEFORE
    # Whoever writes next must not take along what was staged.
    server.run(f"INSERT INTO {held} VALUES (5, 'a'), (6, 'b'), (7, 'new')")
    assert contents(server, held) == stored(server, held) == [*BEFORE, (5, "a"), (6, "b"), (7, "new")]


def test_a_connection_that_closes_takes_its_changes_along(server: Server, held: str) -> None:
    with closing(Client(server)) as client:
        client.run(f"DELETE FROM {held}")
    assert contents(server, held) == stored(server, held) == BEFORE


def test_all_statements_of_a_transaction_are_one_commit_which_says_what_they_did(
    server: Server, client: Client, held: str
) -> None:
    client.run(f"INSERT INTO {held} VALUES (3, 'new')")
    client.run(f"UPDATE {held} SET id = 10 WHERE id = 1")
    client.run(f"DELETE FROM {held} WHERE id = 2")
    client.commit()
    *_, (last,) = server.rows(f"SELECT operation FROM {held}$snapshots ORDER BY version")
    assert last == "append 1 rows into 1 partitions; update 1 rows in 1 partitions; delete 1 rows in 1 partitions"


def test_a_transaction_reads_what_was_there_when_it_first_read(server: Server, client: Client, held: str) -> None:
    assert contents(client, held) == BEFORE
    server.run(f"INSERT INTO {held} VALUES (3, 'a')")
    assert contents(client, held) == BEFORE
    client.commit()
    assert contents(client, held) == [*BEFORE, (3, "a")]


def test_a_statement_that_fails_changes_nothing_and_the_transaction_goes_on(
    server: Server, client: Client, held: str
) -> None:
    client.run(f"INSERT INTO {held} VALUES (3, 'a')")
    assert "NOT NULL" in client.refuses(f"INSERT INTO {held} VALUES (4, 'a'), (NULL, 'new')")
    assert "NOT NULL" in client.refuses(f"UPDATE {held} SET id = NULL WHERE id = 1")
    assert contents(client, held) == [*BEFORE, (3, "a")]
    client.commit()
    assert contents(server, held) == stored(server, held) == [*BEFORE, (3, "a")]


def test_of_a_statement_that_fails_half_way_nothing_can_be_committed(server: Server, client: Client, held: str) -> None:
    with client.connection.cursor() as cursor, pytest.raises(Error, match="NOT NULL"):
        cursor.executemany(f"UPDATE {held} SET id = ? WHERE id = ?", [(10, 1), (None, 2)])
    assert "can only be rolled back" in client.refuses(f"SELECT * FROM {held}")
    with pytest.raises(Error, match="can only be rolled back"):
        client.commit()
    assert contents(server, held) == stored(server, held) == BEFORE


ROWS = pa.table({"id": [7], "p": ["a"]})


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_an_ingest_is_part_of_the_open_transaction(server: Server, client: Client, held: str, ends: str) -> None:
    client.run(f"INSERT INTO {held} VALUES (3, 'a')")
    assert client.ingest(held, ROWS) == 1
    assert contents(client, held) == [*BEFORE, (3, "a"), (7, "a")]
    assert contents(server, held) == stored(server, held) == BEFORE
    getattr(client, ends)()
    expected = [*BEFORE, (3, "a"), (7, "a")] if ends == "commit" else BEFORE
    assert contents(server, held) == stored(server, held) == expected


@pytest.mark.parametrize("partition_by", [None, "p"], ids=["plain", "partitioned"])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_an_ingest_that_makes_its_table_makes_it_at_the_commit(
    server: Server, client: Client, table: str, ends: str, partition_by: str | None
) -> None:
    before = places(server.root)
    client.ingest(table, ROWS, "create", partition_by=partition_by)
    client.ingest(table, ROWS)
    assert contents(client, table) == [(7, "a"), (7, "a")]
    assert "not_found" in server.refuses(f"SELECT * FROM {table}")
    getattr(client, ends)()
    if ends == "commit":
        assert contents(server, table) == [(7, "a"), (7, "a")]
    else:
        assert "not_found" in server.refuses(f"SELECT * FROM {table}")
        assert places(server.root) == before


def test_an_ingest_that_replaces_a_table_replaces_it_at_the_commit(server: Server, client: Client, held: str) -> None:
    client.ingest(held, pa.table({"other": [1.5]}), "replace")
    assert client.rows(f"SELECT * FROM {held}") == [(1.5,)]
    assert contents(server, held) == BEFORE
    client.commit()
    assert server.rows(f"SELECT * FROM {held}") == [(1.5,)]


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


def places(root: Path) -> set[str]:
    """The tables of a root, and the private places of those that are being made."""
    return {place.name for place in [*root.iterdir(), *(root / ".lance-flight").iterdir()]}


CREATED = [
    pytest.param("CREATE TABLE {t} (id BIGINT, p VARCHAR)", [], id="plain"),
    pytest.param("CREATE TABLE {t} (id BIGINT, p VARCHAR) PARTITIONED BY (p)", [], id="partitioned"),
    pytest.param("CREATE TABLE {t} AS SELECT 0 AS id, 'x' AS p", [(0, "x")], id="plain, from a query"),
    pytest.param(
        "CREATE TABLE {t} PARTITIONED BY (p) AS SELECT 0 AS id, 'x' AS p", [(0, "x")], id="partitioned, from a query"
    ),
]
WORK = [
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'x')",
    "UPDATE {t} SET p = 'c' WHERE id = 2",
    "DELETE FROM {t} WHERE id = 1",
    "MERGE INTO {t} USING (SELECT 3 AS id) s ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET id = 4",
]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize(("statement", "made"), CREATED)
def test_a_new_table_can_be_worked_on_and_is_there_after_the_commit(
    client: Client, table: str, statement: str, made: Rows, ends: str
) -> None:
    server = client.server
    before = places(server.root)
    client.run(statement.format(t=table))
    for work in WORK:
        client.run(work.format(t=table))
    expected = [*made, (2, "c"), (4, "x")]
    assert contents(client, table) == expected
    assert client.rows(f"DESCRIBE {table}")[0][0] == "id"
    assert table in [name for _, name, _ in client.rows("SHOW TABLES")]
    assert table not in [name for _, name, _ in server.rows("SHOW TABLES")]
    assert "not_found" in server.refuses(f"SELECT * FROM {table}")
    getattr(client, ends)()
    if ends == "commit":
        assert contents(server, table) == expected
    else:
        assert "not_found" in server.refuses(f"SELECT * FROM {table}")
        assert places(server.root) == before


def test_a_new_table_whose_name_is_taken_meanwhile_fails_at_the_commit(
    server: Server, client: Client, table: str
) -> None:
    client.run(f"CREATE TABLE {table} AS SELECT 1 AS mine")
    server.run(f"CREATE TABLE {table} AS SELECT 2 AS theirs")
    with pytest.raises(Error, match=r"\[already_exists\]"):
        client.commit()
    assert server.rows(f"SELECT theirs FROM {table}") == [(2,)]


def test_a_new_table_that_is_dropped_again_was_never_there(server: Server, client: Client, table: str) -> None:
    before = places(server.root)
    client.run(f"CREATE TABLE {table} (id INT, p INT) PARTITIONED BY (p)")
    client.run(f"INSERT INTO {table} VALUES (1, 1)")
    client.run(f"DROP TABLE {table}")
    assert "not_found" in client.refuses(f"SELECT * FROM {table}")
    client.run(f"CREATE TABLE {table} AS SELECT 5 AS five")
    assert client.rows(f"SELECT * FROM {table}") == [(5,)]
    client.run(f"DROP TABLE {table}")
    client.commit()
    assert places(server.root) == before


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("first", ["SELECT * FROM {t}", "INSERT INTO {t} VALUES (3, 'new')", "DELETE FROM {t}"])
def test_a_table_is_dropped_at_the_commit(server: Server, client: Client, held: str, first: str, ends: str) -> None:
    client.rows(first.format(t=held))
    client.run(f"DROP TABLE {held}")
    assert "dropped in this transaction" in client.refuses(f"SELECT * FROM {held}")
    assert held not in [name for _, name, _ in client.rows("SHOW TABLES")]
    assert contents(server, held) == stored(server, held) == BEFORE
    getattr(client, ends)()
    if ends == "commit":
        assert "not_found" in server.refuses(f"SELECT * FROM {held}")
        assert not (server.root / held).exists()
    else:
        assert contents(server, held) == stored(server, held) == BEFORE


SECOND = [
    pytest.param("INSERT INTO {t} VALUES (3, 'a')", "INSERT INTO {u} VALUES (3, 'a')", id="insert twice"),
    pytest.param("UPDATE {t} SET id = 3", "DELETE FROM {u}", id="update and delete"),
    pytest.param("TRUNCATE {t}", "TRUNCATE {u}", id="truncate twice"),
    pytest.param("INSERT INTO {t} VALUES (3, 'a')", "CREATE TABLE {n} (id INT)", id="insert and create"),
    pytest.param("CREATE TABLE {n} (id INT)", "INSERT INTO {u} VALUES (3, 'a')", id="create and insert"),
    pytest.param("CREATE TABLE {n} (id INT)", "CREATE TABLE {n}_2 (id INT)", id="create twice"),
    pytest.param("INSERT INTO {t} VALUES (3, 'a')", "DROP TABLE {u}", id="insert and drop"),
    pytest.param("DROP TABLE {t}", "DROP TABLE {u}", id="drop twice"),
    pytest.param("DROP TABLE {t}", "INSERT INTO {u} VALUES (3, 'a')", id="drop and insert"),
]


@pytest.mark.parametrize(("first", "second"), SECOND)
def test_a_second_table_is_refused_and_the_first_one_can_be_committed(
    server: Server, client: Client, held: str, first: str, second: str
) -> None:
    other = f"{held}_other"
    server.run(f"CREATE TABLE {other} PARTITIONED BY (p) AS SELECT * FROM {held}")
    names = {"t": held, "u": other, "n": f"{held}_new"}
    client.run(first.format(**names))
    message = client.refuses(second.format(**names))
    assert "[unsupported] this transaction has changed table" in message
    assert "commit first" in message
    assert contents(client, other) == BEFORE
    client.commit()
    assert contents(server, other) == stored(server, other) == BEFORE
    assert "not_found" in server.refuses(f"SELECT * FROM {held}_new_2")


def test_a_dropped_table_cannot_be_made_again_in_its_transaction(client: Client, held: str) -> None:
    client.run(f"DROP TABLE {held}")
    assert "[unsupported] this transaction has dropped" in client.refuses(f"CREATE TABLE {held} (x INT)")


PLAIN = [
    "INSERT INTO {t} VALUES (2)",
    "INSERT OVERWRITE {t} VALUES (2)",
    "UPDATE {t} SET id = 2",
    "DELETE FROM {t}",
    "TRUNCATE {t}",
    "MERGE INTO {t} USING (SELECT 1 AS id) s ON {t}.id = s.id WHEN MATCHED THEN DELETE",
]


@pytest.mark.parametrize("statement", PLAIN)
def test_a_plain_table_is_not_written_inside_a_transaction(
    server: Server, client: Client, table: str, statement: str
) -> None:
    server.run(f"CREATE TABLE {table} AS SELECT 1 AS id")
    message = client.refuses(statement.format(t=table))
    assert f"[unsupported] table '{table}' is not partitioned" in message
    client.commit()
    assert server.rows(f"SELECT id FROM {table}") == [(1,)]


def test_a_plain_table_takes_no_ingest_inside_a_transaction(server: Server, client: Client, table: str) -> None:
    server.run(f"CREATE TABLE {table} AS SELECT 1 AS id")
    with pytest.raises(Error, match="is not partitioned"):
        client.ingest(table, pa.table({"id": [2]}))
    client.commit()
    assert server.rows(f"SELECT id FROM {table}") == [(1,)]


def test_a_plain_table_is_read_at_one_version(server: Server, client: Client, table: str) -> None:
    server.run(f"CREATE TABLE {table} AS SELECT 1 AS id")
    assert client.rows(f"SELECT id FROM {table}") == [(1,)]
    server.run(f"INSERT INTO {table} VALUES (2)")
    assert client.rows(f"SELECT id FROM {table}") == [(1,)]
    client.rollback()
    assert sorted(client.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]


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


def test_a_commit_that_fails_is_in_nobodys_way_when_the_driver_forgets_it(
    server: Server, client: Client, held: str
) -> None:
    client.run(f"DELETE FROM {held} WHERE p = 'a'")
    server.run(f"INSERT INTO {held} VALUES (3, 'a')")
    with pytest.raises(Error, match=r"\[serialization_failure\]"):
        client.commit()
    with closing(Client(server)) as another:
        another.ingest(held, ROWS)
        another.commit()
    assert contents(server, held) == stored(server, held) == [*BEFORE, (3, "a"), (7, "a")]


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


def test_a_query_shows_what_the_transaction_had_done_when_it_was_planned(raw: Raw, held: str) -> None:
    transaction = raw.begin()
    states = [raw.plan(f"SELECT id FROM {held}", transaction)]
    for statement in ("INSERT INTO {t} VALUES (3, 'new')", "UPDATE {t} SET id = id + 10", "DELETE FROM {t}"):
        raw.run(statement.format(t=held), transaction)
        states.append(raw.plan(f"SELECT id FROM {held}", transaction))
    expected = [[(1,), (2,)], [(1,), (2,), (3,)], [(11,), (12,), (13,)], []]
    assert [raw.read(planned) for planned in reversed(states)] == expected[::-1]
    raw.end(transaction, ROLLBACK)


@pytest.mark.parametrize("action", [COMMIT, ROLLBACK], ids=["committed", "rolled back"])
def test_a_ticket_is_good_for_as_long_as_its_transaction(raw: Raw, held: str, action: int) -> None:
    transaction = raw.begin()
    raw.run(f"INSERT INTO {held} VALUES (3, 'new')", transaction)
    planned = raw.plan(f"SELECT id FROM {held}", transaction)
    raw.end(transaction, action)
    assert "[not_found] the transaction is not open" in refusal(lambda: raw.read(planned))


# Isolation


def fruits(first: Client, second: Client, table: str) -> list[str]:
    """Two transactions that each insert a fruit if the other's is not there, one beside the other; which are there then."""
    for client, mine, other in [(first, "apple", "pear"), (second, "pear", "apple")]:
        if client.rows(f"SELECT count(*) FROM {table} WHERE p = '{other}'") == [(0,)]:
            client.run(f"INSERT INTO {table} VALUES (1, '{mine}')")
    for client in (first, second):
        try:
            client.commit()
        except Error as exc:
            assert "[serialization_failure]" in str(exc)  # noqa: PT017 - it may come or not
    return [fruit for (fruit,) in first.rows(f"SELECT p FROM {table} WHERE p IN ('apple', 'pear') ORDER BY p")]


STARTS = [
    pytest.param([], id="an empty table"),
    pytest.param(["INSERT INTO {t} VALUES (0, 'plum')"], id="another fruit"),
    pytest.param(
        ["INSERT INTO {t} VALUES (0, 'apple'), (0, 'pear')", "DELETE FROM {t}"],
        id="partitions that are there, and empty",
    ),
]

LEFT = {"serializable": ["apple"], "snapshot": ["apple", "pear"]}


@pytest.mark.parametrize("fields", ["p", "bucket(4, p)", "id"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("isolation", LEFT)
def test_write_skew_is_kept_out_by_serializable_alone(
    server: Server, table: str, fields: str, start: list[str], isolation: str
) -> None:
    left = LEFT[isolation]
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY ({fields})")
    for statement in start:
        server.run(statement.format(t=table))
    with closing(Client(server)) as first, closing(Client(server)) as second:
        for client in (first, second):
            client.run(f"SET isolation = '{isolation}'")
        assert fruits(first, second, table) == left
    assert sorted(p for p in stored_rows(server.root / table)["p"].to_pylist() if p != "plum") == left


def test_a_serializable_transaction_that_nobody_gets_in_the_way_of_commits(
    server: Server, client: Client, held: str
) -> None:
    client.run("SET isolation = 'serializable'")
    assert contents(client, held) == BEFORE
    client.run(f"INSERT INTO {held} SELECT id + 10, p FROM {held}")
    client.commit()
    assert contents(server, held) == [*BEFORE, (11, "a"), (12, "b")]


def test_a_serializable_transaction_that_only_reads_never_fails(server: Server, client: Client, held: str) -> None:
    client.run("SET isolation = 'serializable'")
    assert contents(client, held) == BEFORE
    server.run(f"INSERT INTO {held} VALUES (3, 'a')")
    client.commit()


def test_serializable_statements_of_their_own_run_again_until_they_fit(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (n BIGINT) PARTITIONED BY (n)")
    writers, rounds = 4, 5

    def write(_: int) -> None:
        with closing(Client(server, autocommit=True)) as client:
            client.run("SET isolation = 'serializable'")
            for _ in range(rounds):
                assert client.run(f"INSERT INTO {table} SELECT count(*) FROM {table}") == 1

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    assert stored_by_value(server.root / table, "n") == {n: [{"n": n}] for n in range(writers * rounds)}


def test_statements_of_their_own_that_change_the_same_rows_run_again_until_they_fit(server: Server, held: str) -> None:
    writers, rounds = 4, 5

    def write(_: int) -> None:
        with closing(Client(server, autocommit=True)) as client:
            for _ in range(rounds):
                assert client.run(f"UPDATE {held} SET id = id + 10 WHERE p = 'a'") == 1

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    assert stored(server, held) == [(2, "b"), (1 + 10 * writers * rounds, "a")]


# SET


SET = [
    pytest.param("SET isolation = 'serializable'", id="a string"),
    pytest.param("SET isolation = serializable", id="a word"),
    pytest.param("set ISOLATION to 'Serializable';", id="TO, in any case"),
]


@pytest.mark.parametrize("ends", [None, "commit", "rollback"], ids=["itself", "after a commit", "after a rollback"])
@pytest.mark.parametrize("statement", SET)
def test_set_isolates_the_open_transaction_and_those_after_it(
    server: Server, client: Client, table: str, statement: str, ends: str | None
) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    client.run(statement)
    if ends is not None:
        getattr(client, ends)()
    with closing(Client(server)) as first:
        assert fruits(first, client, table) == ["apple"]


def test_set_leaves_a_transaction_that_has_read_as_it_is(server: Server, client: Client, table: str) -> None:
    for name, left in [(f"{table}_1", ["apple", "pear"]), (f"{table}_2", ["apple"])]:
        server.run(f"CREATE TABLE {name} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
        with closing(Client(server)) as first:
            client.rows(f"SELECT * FROM {name}")
            client.run("SET isolation = 'serializable'")
            assert fruits(first, client, name) == left


def test_set_goes_for_one_session_alone(server: Server, client: Client, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    with closing(Client(server)) as first, closing(Client(server)) as third:
        third.run("SET isolation = 'serializable'")
        assert fruits(first, client, table) == ["apple", "pear"]


NO_SETTINGS = [
    pytest.param("SET isolation = 'none'", "[invalid_input] isolation is 'none'", id="a value that is none"),
    pytest.param("SET isolation = ''", "expected 'snapshot' or 'serializable'", id="an empty value"),
    pytest.param("SET isolatoin = 'snapshot'", "did you mean 'isolation'", id="a setting that is none"),
    pytest.param("SET isolation", "[invalid_sql] expected TO", id="no value"),
    pytest.param("SET isolation = 'snapshot' 'x'", "the end of the statement", id="two values"),
    pytest.param("SET = 'snapshot'", "the name of a setting", id="no name"),
]


@pytest.mark.parametrize(("statement", "says"), NO_SETTINGS)
def test_set_refuses_what_it_does_not_know(client: Client, statement: str, says: str) -> None:
    assert says in client.refuses(statement)


# What a session is


BEARER, OTHER_BEARER = (b"authorization", b"Bearer one"), (b"authorization", b"Bearer two")
COOKIE, OTHER_COOKIE = (b"cookie", b"id=one"), (b"cookie", b"id=two")
JOINED, BESIDE = BEFORE, [*BEFORE, (7, "a")]
SESSIONS = [
    pytest.param((BEARER,), (BEARER,), JOINED, id="one bearer token"),
    pytest.param((BEARER, COOKIE), (BEARER, OTHER_COOKIE), JOINED, id="one bearer token, whatever the cookies"),
    pytest.param((COOKIE,), (COOKIE,), JOINED, id="one cookie"),
    pytest.param((BEARER,), (OTHER_BEARER,), BESIDE, id="two bearer tokens"),
    pytest.param((COOKIE,), (OTHER_COOKIE,), BESIDE, id="two cookies"),
    pytest.param((BEARER,), (), BESIDE, id="a bearer token and none"),
    pytest.param((), (), BESIDE, id="two connections"),
]


@pytest.mark.parametrize(("first", "second", "left"), SESSIONS)
def test_an_ingest_joins_the_transaction_of_its_session_and_no_other(
    server: Server, held: str, first: tuple[Any, ...], second: tuple[Any, ...], left: Rows
) -> None:
    with closing(Raw(server, *first)) as one, closing(Raw(server, *second)) as two:
        transaction = one.begin()
        assert one.rows(f"SELECT id FROM {held}", transaction) == [(1,), (2,)]
        two.ingest(held, ROWS)
        assert ((7,) in one.rows(f"SELECT id FROM {held}", transaction)) == (left == JOINED)
        one.end(transaction, ROLLBACK)
    assert contents(server, held) == stored(server, held) == left


def test_transactions_of_one_server_are_unknown_to_another_session_without_their_id(raw: Raw, held: str) -> None:
    transaction = raw.begin()
    raw.run(f"DELETE FROM {held}", transaction)
    assert raw.rows(f"SELECT id FROM {held}") == [(1,), (2,)]
    raw.end(transaction, ROLLBACK)
