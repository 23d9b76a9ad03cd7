"""SET branch: a session that writes, audits and publishes, while everybody else goes on with the main branch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.service.server_process import Server
from tests.stock import stored_rows


@pytest.fixture
def audited(server: Server, table: str) -> str:
    """A table with a branch that is called as no other test calls one."""
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    server.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    server.run(f"ALTER TABLE {table} CREATE BRANCH audit")
    return table


@pytest.fixture(params=[True, False], ids=["autocommit", "transactions"])
def cursor(server: Server, request: pytest.FixtureRequest) -> Iterator[dbapi.Cursor]:
    """A cursor of a session of its own, on the branch."""
    with dbapi.connect(server.uri, autocommit=request.param) as connection, connection.cursor() as opened:
        opened.execute("SET branch = 'audit'")
        yield opened


def rows(cursor: dbapi.Cursor, sql: str) -> list[tuple[object, ...]]:
    cursor.execute(sql)
    return sorted(cursor.fetchall())


def end(cursor: dbapi.Cursor) -> None:
    """Commit, where a connection does that."""
    if not cursor.connection._autocommit:
        cursor.connection.commit()


def test_what_is_written_stays_on_the_branch_until_it_is_published(
    server: Server, audited: str, cursor: dbapi.Cursor
) -> None:
    cursor.execute(f"INSERT INTO {audited} VALUES (3, 'c')")
    cursor.execute(f"UPDATE {audited} SET p = 'z' WHERE id = 1")
    written = [(1, "z"), (2, "b"), (3, "c")]
    assert rows(cursor, f"SELECT * FROM {audited}") == written
    end(cursor)
    assert rows(cursor, f"SELECT * FROM {audited}") == written
    end(cursor)
    assert sorted(server.rows(f"SELECT * FROM {audited}")) == [(1, "a"), (2, "b")]
    assert sorted(server.rows(f'SELECT * FROM "{audited}@audit"')) == written
    assert sorted(stored_rows(server.root / audited)["id"].to_pylist()) == [1, 2]
    server.run(f"ALTER TABLE {audited} PUBLISH BRANCH audit")
    assert sorted(server.rows(f"SELECT * FROM {audited}")) == written
    assert sorted(stored_rows(server.root / audited)["id"].to_pylist()) == [1, 2, 3]


def test_a_session_goes_back_to_the_main_branch(server: Server, audited: str, cursor: dbapi.Cursor) -> None:
    cursor.execute(f"DELETE FROM {audited}")
    end(cursor)
    cursor.execute("SET branch = 'main'")
    assert rows(cursor, f"SELECT * FROM {audited}") == [(1, "a"), (2, "b")]
    end(cursor)
    assert server.value(f'SELECT count(*) FROM "{audited}@audit"') == 0


WRITES = {
    "insert": "INSERT INTO {t} VALUES (9, 'x')",
    "update": "UPDATE {t} SET id = 0",
    "delete": "DELETE FROM {t}",
    "truncate": "TRUNCATE {t}",
    "overwrite": "INSERT OVERWRITE {t} VALUES (9, 'a')",
    "drop": "DROP TABLE {t}",
    "create": "CREATE TABLE {t}_2 (id BIGINT)",
}


@pytest.mark.parametrize("partitioned_by", ["", " PARTITIONED BY (p)"], ids=["plain", "partitioned"])
@pytest.mark.parametrize("sql", WRITES.values(), ids=WRITES.keys())
def test_nothing_is_written_to_a_table_without_the_branch(
    server: Server, table: str, cursor: dbapi.Cursor, sql: str, partitioned_by: str
) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR){partitioned_by}")
    server.run(f"INSERT INTO {table} VALUES (1, 'a')")
    assert rows(cursor, f"SELECT * FROM {table}") == [(1, "a")]
    with pytest.raises(Error, match="SET branch = 'main'"):
        cursor.execute(sql.format(t=table))
    assert server.rows(f"SELECT * FROM {table}") == [(1, "a")]
    assert f"{table}_2" not in [name for _, name, _ in server.rows("SHOW TABLES")]


@pytest.mark.parametrize("name", ["'1 x'", "''", "'a$b'"])
def test_a_name_that_no_branch_can_have_is_refused(cursor: dbapi.Cursor, name: str) -> None:
    with pytest.raises(Error, match="branch name"):
        cursor.execute(f"SET branch = {name}")


def test_a_text_that_is_run_again_after_a_commit_belongs_to_the_next_transaction(server: Server, table: str) -> None:
    """Drivers prepare a text once, in the transaction that is open then."""
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR) PARTITIONED BY (p)")
    insert, count = f"INSERT INTO {table} VALUES (1, 'a')", f"SELECT count(*) FROM {table}"
    with dbapi.connect(server.uri) as connection, connection.cursor() as writer, connection.cursor() as reader:
        for number in range(1, 4):
            writer.execute(insert)
            assert rows(reader, count) == [(number,)]
            assert server.value(count) == number - 1
            connection.commit()
        writer.execute(insert)
        connection.rollback()
        assert rows(reader, count) == [(3,)]
    assert server.value(count) == 3
