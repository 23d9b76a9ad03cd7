"""Transactions: what is seen in them, what their end leaves, what they refuse, how they are isolated, and who begins them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.errors import (
    AlreadyExists,
    Conflict,
    DataError,
    InvalidTransactionState,
    SerializationFailure,
    Unsupported,
)

from tests.engine.database import Client, Database, bound_rows
from tests.engine.waiting import until
from tests.stock import manifest, manifest_rows, stored_by_value, stored_rows

pytestmark = pytest.mark.slow  # every kind of statement, committed and rolled back

Rows = list[tuple[Any, ...]]


@pytest.fixture
def client(database: Database) -> Iterator[Client]:
    """A client in a transaction."""
    with database.client(autocommit=False) as client:
        yield client


@pytest.fixture
def session(database: Database) -> Iterator[Client]:
    """A client whose statements are committed one by one, until it says BEGIN."""
    with database.client() as client:
        yield client


@pytest.fixture(scope="module")
def template(database: Database) -> str:
    """A table with two partitions of one row, which nobody changes."""
    database.run("CREATE TABLE held (id BIGINT NOT NULL, p VARCHAR) PARTITIONED BY (p)")
    database.run("INSERT INTO held VALUES (1, 'a'), (2, 'b')")
    return "held"


BEFORE = [(1, "a"), (2, "b")]


def contents(database: Database, table: str) -> Rows:
    """What a client sees in a table."""
    return database.rows(f"SELECT id, p FROM {table} ORDER BY id, p")


def stored(database: Database, table: str) -> Rows:
    """What the pins of a table lead to."""
    return sorted(tuple(row.values()) for row in stored_rows(database.root / table).to_pylist())


MERGED = """MERGE INTO {t} USING (SELECT 1 AS id UNION ALL SELECT 3) s ON {t}.id = s.id
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"""
CHANGES = [
    (["INSERT INTO {t} VALUES (3, 'new'), (4, NULL)"], [*BEFORE, (3, "new"), (4, None)]),
    pytest.param(["UPDATE {t} SET p = 'b'"], [(1, "b"), (2, "b")], id="move"),
    pytest.param([MERGED], [(2, "b"), (3, None)], id="merge"),
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
    (["DELETE FROM {t}", "INSERT INTO {t} VALUES (1, 'a')", "INSERT INTO {t} SELECT id + 1, 'b' FROM {t}"], BEFORE),
    (["INSERT OVERWRITE {t} VALUES (8, 'new')", "INSERT OVERWRITE {t} VALUES (9, 'new')"], [*BEFORE, (9, "new")]),
    pytest.param(["DELETE FROM {t} WHERE id = 99"], BEFORE, id="nothing"),
]


@pytest.mark.parametrize(("statements", "expected"), CHANGES)
def test_changes_are_seen_inside_at_once_by_nobody_after_a_rollback_and_by_others_after_the_commit(
    database: Database, client: Client, copied: str, statements: list[str], expected: Rows
) -> None:
    before, version = manifest_rows(database.root / copied), manifest(database.root / copied).version
    for ends in (client.rollback, client.commit):
        assert (manifest_rows(database.root / copied), manifest(database.root / copied).version) == (before, version)
        for statement in statements:
            client.run(statement.format(t=copied))
        assert contents(client, copied) == expected
        assert contents(database, copied) == stored(database, copied) == BEFORE
        ends()
    assert contents(client, copied) == contents(database, copied) == stored(database, copied) == expected
    changed = statements != ["DELETE FROM {t} WHERE id = 99"]
    assert manifest(database.root / copied).version == version + changed
    # Whoever writes next must not take along what was staged.
    database.run(f"INSERT INTO {copied} VALUES (5, 'a'), (6, 'b'), (7, 'new')")
    later = sorted([*expected, (5, "a"), (6, "b"), (7, "new")], key=str)
    assert sorted(contents(database, copied), key=str) == sorted(stored(database, copied), key=str) == later


def test_all_statements_of_a_transaction_are_one_commit_which_says_what_they_did(
    database: Database, client: Client, copied: str
) -> None:
    client.run(f"INSERT INTO {copied} VALUES (3, 'new')")
    client.run(f"UPDATE {copied} SET id = 10 WHERE id = 1")
    client.run(f"DELETE FROM {copied} WHERE id = 2")
    client.commit()
    *_, (last,) = database.rows(f"SELECT operation FROM {copied}$snapshots ORDER BY version")
    assert last == "append 1 rows into 1 partitions; update 1 rows in 1 partitions; delete 1 rows in 1 partitions"


def test_a_transaction_reads_what_was_there_when_it_first_read(database: Database, client: Client, copied: str) -> None:
    assert contents(client, copied) == BEFORE
    database.run(f"INSERT INTO {copied} VALUES (3, 'a')")
    assert contents(client, copied) == BEFORE
    client.commit()
    assert contents(client, copied) == [*BEFORE, (3, "a")]


def test_a_statement_that_fails_changes_nothing_and_the_transaction_goes_on(
    database: Database, client: Client, copied: str
) -> None:
    client.run(f"INSERT INTO {copied} VALUES (3, 'a')")
    assert "NOT NULL" in client.refuses(f"INSERT INTO {copied} VALUES (4, 'a'), (NULL, 'new')")
    assert "NOT NULL" in client.refuses(f"UPDATE {copied} SET id = NULL WHERE id = 1")
    assert contents(client, copied) == [*BEFORE, (3, "a")]
    client.commit()
    assert contents(database, copied) == stored(database, copied) == [*BEFORE, (3, "a")]


def test_of_a_statement_that_fails_half_way_nothing_can_be_committed(
    database: Database, client: Client, copied: str
) -> None:
    with pytest.raises(DataError, match="NOT NULL"):
        client.run(f"UPDATE {copied} SET id = ? WHERE id = ?", bound_rows([(10, 1), (None, 2)]))
    assert "can only be rolled back" in client.refuses(f"SELECT * FROM {copied}")
    with pytest.raises(Conflict, match="can only be rolled back"):
        client.commit()
    assert contents(database, copied) == stored(database, copied) == BEFORE


ROWS = pa.table({"id": [7], "p": ["a"]})


@pytest.mark.parametrize("partition_by", [None, "p"], ids=["plain", "partitioned"])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_an_ingest_that_makes_its_table_makes_it_at_the_commit(
    database: Database, client: Client, table: str, ends: str, partition_by: str | None
) -> None:
    before = places(database.root)
    client.ingest(table, ROWS, "create", partition_by=partition_by)
    client.ingest(table, ROWS, "append")
    assert contents(client, table) == [(7, "a"), (7, "a")]
    assert "not_found" in database.refuses(f"SELECT * FROM {table}")
    getattr(client, ends)()
    if ends == "commit":
        assert contents(database, table) == [(7, "a"), (7, "a")]
    else:
        assert "not_found" in database.refuses(f"SELECT * FROM {table}")
        assert places(database.root) == before


def test_an_ingest_that_replaces_a_table_replaces_it_at_the_commit(
    database: Database, client: Client, copied: str
) -> None:
    client.ingest(copied, pa.table({"other": [1.5]}), "replace")
    assert client.rows(f"SELECT * FROM {copied}") == [(1.5,)]
    assert contents(database, copied) == BEFORE
    client.commit()
    assert database.rows(f"SELECT * FROM {copied}") == [(1.5,)]


def places(root: Path) -> set[str]:
    """The tables of a root, and the private places of those that are being made."""
    return {place.name for place in [*root.iterdir(), *root.glob(".lance-flight/*")]}


CREATED = [
    pytest.param("CREATE TABLE {t} (id BIGINT, p VARCHAR)", [], id="plain"),
    pytest.param("CREATE TABLE {t} (id BIGINT, p VARCHAR) PARTITIONED BY (p)", [], id="partitioned"),
    pytest.param("CREATE TABLE {t} AS SELECT 0 AS id, 'x' AS p", [(0, "x")], id="plain, from a query"),
    ("CREATE TABLE {t} PARTITIONED BY (p) AS SELECT 0 AS id, 'x' AS p", [(0, "x")]),
]
WORK = [
    "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'x')",
    "UPDATE {t} SET p = 'c' WHERE id = 2",
    "DELETE FROM {t} WHERE id = 1",
    "MERGE INTO {t} USING (SELECT 3 AS id) s ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET id = 4",
]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize(("statement", "made"), CREATED)
def test_a_new_table_can_be_worked_on_and_is_there_after_the_commit(  # noqa: PLR0917
    database: Database, client: Client, table: str, statement: str, made: Rows, ends: str
) -> None:
    before = places(database.root)
    client.run(statement.format(t=table))
    for work in WORK:
        client.run(work.format(t=table))
    expected = [*made, (2, "c"), (4, "x")]
    assert contents(client, table) == expected
    assert client.rows(f"DESCRIBE {table}")[0][0] == "id"
    assert table in [name for _, name, _ in client.rows("SHOW TABLES")]
    assert table not in [name for _, name, _ in database.rows("SHOW TABLES")]
    assert "not_found" in database.refuses(f"SELECT * FROM {table}")
    getattr(client, ends)()
    if ends == "commit":
        assert contents(database, table) == expected
    else:
        assert "not_found" in database.refuses(f"SELECT * FROM {table}")
        assert places(database.root) == before


def test_a_new_table_whose_name_is_taken_meanwhile_fails_at_the_commit(
    database: Database, client: Client, table: str
) -> None:
    client.run(f"CREATE TABLE {table} AS SELECT 1 AS mine")
    database.run(f"CREATE TABLE {table} AS SELECT 2 AS theirs")
    with pytest.raises(AlreadyExists):
        client.commit()
    assert database.rows(f"SELECT theirs FROM {table}") == [(2,)]


def test_a_new_table_that_is_dropped_again_was_never_there(database: Database, client: Client, table: str) -> None:
    before = places(database.root)
    client.run(f"CREATE TABLE {table} (id INT, p INT) PARTITIONED BY (p)")
    client.run(f"INSERT INTO {table} VALUES (1, 1)")
    client.run(f"DROP TABLE {table}")
    assert "not_found" in client.refuses(f"SELECT * FROM {table}")
    client.run(f"CREATE TABLE {table} AS SELECT 5 AS five")
    assert client.rows(f"SELECT * FROM {table}") == [(5,)]
    client.run(f"DROP TABLE {table}")
    client.commit()
    assert places(database.root) == before


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("first", ["SELECT * FROM {t}", "INSERT INTO {t} VALUES (3, 'new')", "DELETE FROM {t}"])
def test_a_table_is_dropped_at_the_commit(
    database: Database, client: Client, copied: str, first: str, ends: str
) -> None:
    client.rows(first.format(t=copied))
    client.run(f"DROP TABLE {copied}")
    assert "dropped in this transaction" in client.refuses(f"SELECT * FROM {copied}")
    assert copied not in [name for _, name, _ in client.rows("SHOW TABLES")]
    assert contents(database, copied) == stored(database, copied) == BEFORE
    getattr(client, ends)()
    if ends == "commit":
        assert "not_found" in database.refuses(f"SELECT * FROM {copied}")
        assert not (database.root / copied).exists()
    else:
        assert contents(database, copied) == stored(database, copied) == BEFORE


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
    database: Database, client: Client, copied: str, first: str, second: str
) -> None:
    other = f"{copied}_other"
    database.copy(copied, other)
    names = {"t": copied, "u": other, "n": f"{copied}_new"}
    client.run(first.format(**names))
    message = client.refuses(second.format(**names))
    assert "[unsupported] this transaction has changed table" in message
    assert "commit first" in message
    assert contents(client, other) == BEFORE
    client.commit()
    assert contents(database, other) == stored(database, other) == BEFORE
    assert "not_found" in database.refuses(f"SELECT * FROM {copied}_new_2")


def test_a_dropped_table_cannot_be_made_again_in_its_transaction(client: Client, copied: str) -> None:
    client.run(f"DROP TABLE {copied}")
    assert "[unsupported] this transaction has dropped" in client.refuses(f"CREATE TABLE {copied} (x INT)")


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
    database: Database, client: Client, table: str, statement: str
) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 1 AS id")
    message = client.refuses(statement.format(t=table))
    assert f"[unsupported] table '{table}' is not partitioned" in message
    client.commit()
    assert database.rows(f"SELECT id FROM {table}") == [(1,)]


def test_a_plain_table_takes_no_ingest_inside_a_transaction(database: Database, client: Client, table: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 1 AS id")
    with pytest.raises(Unsupported, match="is not partitioned"):
        client.ingest(table, pa.table({"id": [2]}), "append")
    client.commit()
    assert database.rows(f"SELECT id FROM {table}") == [(1,)]


def test_a_plain_table_is_read_at_one_version(database: Database, client: Client, table: str) -> None:
    database.run(f"CREATE TABLE {table} AS SELECT 1 AS id")
    assert client.rows(f"SELECT id FROM {table}") == [(1,)]
    database.run(f"INSERT INTO {table} VALUES (2)")
    assert client.rows(f"SELECT id FROM {table}") == [(1,)]
    client.rollback()
    assert sorted(client.rows(f"SELECT id FROM {table}")) == [(1,), (2,)]


def test_a_query_shows_what_the_transaction_had_done_when_it_was_planned(client: Client, copied: str) -> None:
    states = [client.plan(f"SELECT id FROM {copied}")]
    for statement in ("INSERT INTO {t} VALUES (3, 'new')", "UPDATE {t} SET id = id + 10", "DELETE FROM {t}"):
        client.run(statement.format(t=copied))
        states.append(client.plan(f"SELECT id FROM {copied}"))
    expected = [[1, 2], [1, 2, 3], [11, 12, 13], []]
    assert [sorted(client.read(planned)["id"].to_pylist()) for planned in reversed(states)] == expected[::-1]


# Isolation


def fruits(first: Client, second: Client, table: str) -> list[str]:
    """Two transactions that each insert a fruit if the other's is not there, one beside the other; which are there then."""
    for client, mine, other in [(first, "apple", "pear"), (second, "pear", "apple")]:
        if client.rows(f"SELECT count(*) FROM {table} WHERE p = '{other}'") == [(0,)]:
            client.run(f"INSERT INTO {table} VALUES (1, '{mine}')")
    for client in (first, second):
        with suppress(SerializationFailure):  # it may come or not
            client.commit()
    return [fruit for (fruit,) in first.rows(f"SELECT p FROM {table} WHERE p IN ('apple', 'pear') ORDER BY p")]


STARTS = [
    pytest.param([], id="an empty table"),
    pytest.param(["INSERT INTO {t} VALUES (0, 'plum')"], id="another fruit"),
    ["INSERT INTO {t} VALUES (0, 'apple'), (0, 'pear')", "DELETE FROM {t}"],
]

LEFT = {"serializable": ["apple"], "snapshot": ["apple", "pear"]}


@pytest.mark.parametrize("fields", ["p", "bucket(4, p)", "id"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("isolation", LEFT)
def test_write_skew_is_kept_out_by_serializable_alone(
    database: Database, table: str, fields: str, start: list[str], isolation: str
) -> None:
    left = LEFT[isolation]
    database.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY ({fields})")
    for statement in start:
        database.run(statement.format(t=table))
    with database.client(autocommit=False) as first, database.client(autocommit=False) as second:
        for client in (first, second):
            client.run(f"SET isolation = '{isolation}'")
        assert fruits(first, second, table) == left
    assert sorted(p for p in stored_rows(database.root / table)["p"].to_pylist() if p != "plum") == left


def test_a_serializable_transaction_that_nobody_gets_in_the_way_of_commits(
    database: Database, client: Client, copied: str
) -> None:
    client.run("SET isolation = 'serializable'")
    assert contents(client, copied) == BEFORE
    client.run(f"INSERT INTO {copied} SELECT id + 10, p FROM {copied}")
    client.commit()
    assert contents(database, copied) == [*BEFORE, (11, "a"), (12, "b")]


def test_a_serializable_transaction_that_only_reads_never_fails(
    database: Database, client: Client, copied: str
) -> None:
    client.run("SET isolation = 'serializable'")
    assert contents(client, copied) == BEFORE
    database.run(f"INSERT INTO {copied} VALUES (3, 'a')")
    client.commit()


def test_serializable_statements_of_their_own_run_again_until_they_fit(database: Database, table: str) -> None:
    database.run(f"CREATE TABLE {table} (n BIGINT) PARTITIONED BY (n)")
    writers, rounds = 4, 3

    def write(_: int) -> None:
        with database.client() as client:
            client.run("SET isolation = 'serializable'")
            for _ in range(rounds):
                assert client.run(f"INSERT INTO {table} SELECT count(*) FROM {table}") == 1

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    assert stored_by_value(database.root / table, "n") == {n: [{"n": n}] for n in range(writers * rounds)}


def test_statements_of_their_own_that_change_the_same_rows_run_again_until_they_fit(
    database: Database, copied: str
) -> None:
    writers, rounds = 4, 3

    def write(_: int) -> None:
        with database.client() as client:
            for _ in range(rounds):
                assert client.run(f"UPDATE {copied} SET id = id + 10 WHERE p = 'a'") == 1

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    assert stored(database, copied) == [(2, "b"), (1 + 10 * writers * rounds, "a")]


# SET


SET = [
    pytest.param("SET isolation = 'serializable'", id="a string"),
    pytest.param("SET isolation = serializable", id="a word"),
    pytest.param("set ISOLATION to 'Serializable';", id="TO, in any case"),
]


@pytest.mark.parametrize("ends", [None, "commit", "rollback"], ids=["itself", "after a commit", "after a rollback"])
@pytest.mark.parametrize("statement", SET)
def test_set_isolates_the_open_transaction_and_those_after_it(
    database: Database, client: Client, table: str, statement: str, ends: str | None
) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    client.run(statement)
    if ends is not None:
        getattr(client, ends)()
    with database.client(autocommit=False) as first:
        assert fruits(first, client, table) == ["apple"]


def test_set_leaves_a_transaction_that_has_read_as_it_is(database: Database, client: Client, table: str) -> None:
    for name, left in [(f"{table}_1", ["apple", "pear"]), (f"{table}_2", ["apple"])]:
        database.run(f"CREATE TABLE {name} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
        with database.client(autocommit=False) as first:
            client.rows(f"SELECT * FROM {name}")
            client.run("SET isolation = 'serializable'")
            assert fruits(first, client, name) == left


def test_set_goes_for_one_session_alone(database: Database, client: Client, table: str) -> None:
    database.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    with database.client(autocommit=False) as first, database.client(autocommit=False) as third:
        third.run("SET isolation = 'serializable'")
        assert fruits(first, client, table) == ["apple", "pear"]


# BEGIN, COMMIT and ROLLBACK


def run(client: Client, *statements: str) -> None:
    """Run statements one after another."""
    for sql in statements:
        client.run(sql)


@pytest.fixture
def counted(database: Database, table: str) -> str:
    """A partitioned table with one row."""
    database.run(f"CREATE TABLE {table} (id INT, p VARCHAR) PARTITIONED BY (p)")
    database.run(f"INSERT INTO {table} VALUES (1, 'a')")
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
        pytest.param("END", [(2, "b"), (3, "a"), (4, "c")], id="END"),
        pytest.param("ABORT", [(1, "a")], id="ABORT"),
        pytest.param("ROLLBACK", [(1, "a")], id="ROLLBACK"),
        pytest.param("ROLLBACK TRANSACTION", [(1, "a")], id="ROLLBACK TRANSACTION"),
    ],
)
def test_statements_between_become_visible_together_or_not_at_all(  # noqa: PLR0917
    database: Database, session: Client, counted: str, begin: str, end: str, left: Rows
) -> None:
    run(session, begin, f"INSERT INTO {counted} VALUES (2, 'b'), (3, 'a')", f"DELETE FROM {counted} WHERE id = 1")
    session.ingest(counted, pa.table({"id": pa.array([4], pa.int32()), "p": ["c"]}), "append")
    assert sorted(session.rows(f"SELECT * FROM {counted}")) == [(2, "b"), (3, "a"), (4, "c")]
    assert database.rows(f"SELECT * FROM {counted}") == [(1, "a")]
    run(session, end)
    assert sorted(session.rows(f"SELECT * FROM {counted}")) == sorted(database.rows(f"SELECT * FROM {counted}")) == left
    assert sorted(map(tuple, (row.values() for row in stored_rows(database.root / counted).to_pylist()))) == left
    run(session, f"INSERT INTO {counted} VALUES (9, 'z')")
    assert database.value(f"SELECT count(*) FROM {counted}") == len(left) + 1, "committed by itself again"


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
    database: Database, session: Client, counted: str, before: list[str], sql: str, says: str
) -> None:
    run(session, *before)
    message = session.refuses(sql.format(t=counted))
    assert "[invalid_transaction_state]" in message
    assert says in message
    assert database.rows(f"SELECT * FROM {counted}") == [(1, "a")]


def test_a_transaction_that_only_reads_takes_no_ingest(database: Database, session: Client, counted: str) -> None:
    run(session, "START TRANSACTION READ ONLY")
    database.run(f"INSERT INTO {counted} VALUES (2, 'b')")
    with pytest.raises(InvalidTransactionState, match="READ ONLY"):
        session.ingest(counted, pa.table({"id": pa.array([4], pa.int32()), "p": ["c"]}), "append")
    assert sorted(session.rows(f"SELECT id FROM {counted}")) == [(1,), (2,)]
    run(session, "COMMIT")


@pytest.mark.parametrize("then", ["ROLLBACK", "BEGIN"])
def test_a_failed_commit_leaves_nothing_and_ends_the_transaction(
    database: Database, session: Client, counted: str, then: str
) -> None:
    run(session, "BEGIN", f"UPDATE {counted} SET id = 5")
    database.run(f"UPDATE {counted} SET id = 7")
    assert "[serialization_failure]" in session.refuses("COMMIT")
    assert database.rows(f"SELECT id FROM {counted}") == session.rows(f"SELECT id FROM {counted}") == [(7,)]
    run(session, then)
    if then == "BEGIN":
        run(session, f"UPDATE {counted} SET id = 8", "COMMIT")
        assert database.rows(f"SELECT id FROM {counted}") == [(8,)]
    assert "[invalid_transaction_state]" in session.refuses("ROLLBACK")


@pytest.mark.parametrize(
    ("level", "says"),
    [
        pytest.param("SNAPSHOT", None, id="snapshot"),
        pytest.param("SERIALIZABLE", "[serialization_failure]", id="serializable"),
    ],
)
def test_the_level_decides_what_a_commit_checks(
    database: Database, session: Client, counted: str, level: str, says: str | None
) -> None:
    run(session, f"BEGIN ISOLATION LEVEL {level}")
    assert session.rows(f"SELECT count(*) FROM {counted}") == [(1,)]
    run(session, f"INSERT INTO {counted} VALUES (2, 'b')")
    database.run(f"DELETE FROM {counted} WHERE id = 1")
    if says is None:
        run(session, "COMMIT")
    else:
        assert says in session.refuses("COMMIT")
    assert database.rows(f"SELECT id FROM {counted}") == ([(2,)] if says is None else [])


def test_a_statement_that_fails_leaves_the_transaction_open(database: Database, session: Client, counted: str) -> None:
    run(session, "BEGIN", f"INSERT INTO {counted} VALUES (2, 'b')")
    assert "[invalid_sql]" in session.refuses(f"SELECT nope FROM {counted}")
    run(session, "COMMIT")
    assert sorted(database.rows(f"SELECT id FROM {counted}")) == [(1,), (2,)]


def test_other_sessions_have_transactions_of_their_own(database: Database, session: Client, counted: str) -> None:
    run(session, "BEGIN", f"INSERT INTO {counted} VALUES (2, 'b')")
    with database.client() as other:
        run(other, "BEGIN", f"INSERT INTO {counted} VALUES (3, 'c')", "COMMIT")
    run(session, "ROLLBACK")
    assert sorted(database.rows(f"SELECT id FROM {counted}")) == [(1,), (3,)]


def test_a_statement_that_was_killed_leaves_the_transaction_open(
    database: Database, session: Client, counted: str
) -> None:
    run(session, "BEGIN", f"INSERT INTO {counted} VALUES (2, 'b')")
    slow = f"INSERT INTO {counted} SELECT arrow_cast(value, 'Int32'), 'c' FROM generate_series(1, 1000000000)"
    with ThreadPoolExecutor(1) as pool:
        refused = pool.submit(session.refuses, slow)
        found = (
            f"SELECT id FROM system.queries WHERE sql LIKE '%{counted}%generate_series%' AND sql NOT LIKE '%system%'"
        )
        until(lambda: database.rows(f"{found} AND state = 'running'"))
        database.run(f"KILL '{database.value(found)}'")
        assert "[cancelled]" in refused.result()
    run(session, "COMMIT")
    assert sorted(database.rows(f"SELECT id FROM {counted}")) == [(1,), (2,)]
