"""Changes of columns beside open transactions, branches and a second server."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.service.server_process import Server, serving
from tests.stock import stored_tables

CHANGES = [
    pytest.param("ADD COLUMN more INT", id="add"),
    pytest.param("DROP COLUMN n", id="drop"),
    pytest.param("RENAME COLUMN n TO m", id="rename"),
    pytest.param("ALTER COLUMN n TYPE BIGINT", id="widen"),
    pytest.param("ALTER COLUMN id SET NOT NULL", id="not null"),
]
MORE = pa.table({"id": [7, 8], "p": ["a", "c"]})
Write = Callable[[dbapi.Cursor, str], object]
WRITES: dict[str, Write] = {
    "insert": lambda cursor, table: cursor.execute(f"INSERT INTO {table} (id, p) VALUES (7, 'a'), (8, 'c')"),
    "update": lambda cursor, table: cursor.execute(f"UPDATE {table} SET id = id + 10"),
    "ingest": lambda cursor, table: cursor.adbc_ingest(table, MORE, mode="append"),
}


def made(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, p VARCHAR, n INT) PARTITIONED BY (p)")
    server.run(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 2)")


def ids(server: Server, table: str) -> list[int]:
    return [number for (number,) in server.rows(f'SELECT id FROM "{table}" ORDER BY id')]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_transaction_that_began_before_a_change_is_told_to_begin_again(
    server: Server, table: str, change: str, write: Write
) -> None:
    made(server, table)
    with closing(dbapi.connect(server.uri)) as connection, connection.cursor() as cursor:
        write(cursor, table)
        server.run(f"ALTER TABLE {table} {change}")
        with pytest.raises(Error, match="serialization_failure"):
            connection.commit()
    assert ids(server, table) == [1, 2]
    with closing(dbapi.connect(server.uri)) as connection, connection.cursor() as cursor:
        write(cursor, table)
        connection.commit()
    assert ids(server, table) in ([1, 2, 7, 8], [11, 12])


@pytest.mark.parametrize("change", [*CHANGES, pytest.param("SET PARTITIONED BY (n)", id="partitioning")])
def test_nothing_is_altered_inside_a_transaction(server: Server, table: str, change: str) -> None:
    made(server, table)
    with closing(dbapi.connect(server.uri)) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} (id) VALUES (3)")
        with pytest.raises(Error, match="inside a transaction; commit first"):
            cursor.execute(f"ALTER TABLE {table} {change}")
        connection.commit()
    assert ids(server, table) == [1, 2, 3]


@pytest.mark.parametrize("change", CHANGES)
def test_a_branch_keeps_the_columns_that_it_began_with_and_gets_those_of_main_when_it_is_published(
    server: Server, table: str, change: str
) -> None:
    made(server, table)
    server.run(f"ALTER TABLE {table} CREATE BRANCH b")
    server.run(f"ALTER TABLE {table} {change}")
    server.run(f"INSERT INTO \"{table}@b\" VALUES (3, 'a', 3), (4, 'new', 4)")
    assert server.query(f'SELECT * FROM "{table}@b"').schema.names == ["id", "p", "n"]
    assert ids(server, f"{table}@b") == [1, 2, 3, 4]
    columns = server.query(f"SELECT * FROM {table}").schema
    server.run(f"ALTER TABLE {table} PUBLISH BRANCH b")
    assert ids(server, table) == [1, 2, 3, 4]
    assert server.query(f"SELECT * FROM {table}").schema.equals(columns)
    assert server.query(f'SELECT * FROM "{table}@b"').schema.names == ["id", "p", "n"]


def test_a_branch_that_began_under_an_older_spec_is_published_under_it(server: Server, table: str) -> None:
    made(server, table)
    server.run(f"ALTER TABLE {table} CREATE BRANCH b")
    server.run(f"ALTER TABLE {table} SET PARTITIONED BY (n)")
    server.run(f"INSERT INTO \"{table}@b\" VALUES (3, 'a', 3)")
    server.run(f"ALTER TABLE {table} PUBLISH BRANCH b")
    assert ids(server, table) == [1, 2, 3]
    assert {each.spec_id for each in stored_tables(server.root / table)} == {1}


ROUNDS = 4


def test_changes_from_two_servers_at_once_are_both_there_or_refused(tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost: neither a column nor a row."""
    root = tmp_path / "root"
    with serving(root) as one, serving(root) as two:
        made(one, "t")

        def change(server: Server, number: int) -> tuple[list[str], list[int]]:
            added, stored = [], []
            for round_ in range(ROUNDS):
                name, row = f"c{number}_{round_}", 100 * (number + 1) + round_
                for sql, done in (
                    (f"ALTER TABLE t ADD COLUMN {name} INT DEFAULT {row}", lambda name=name: added.append(name)),
                    (f"INSERT INTO t (id, p) VALUES ({row}, 'a')", lambda row=row: stored.append(row)),
                ):
                    try:
                        server.run(sql)
                    except Error as exc:
                        assert "[conflict]" in str(exc) or "[serialization_failure]" in str(exc)  # noqa: PT017
                    else:
                        done()
            return added, stored

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(change, (one, two), range(2)))
        added = [name for names, _ in outcomes for name in names]
        stored = [row for _, rows in outcomes for row in rows]
        assert added
        for server in (one, two):
            assert set(server.query("SELECT * FROM t LIMIT 0").schema.names) == {"id", "p", "n", *added}
            assert ids(server, "t") == sorted([1, 2, *stored])
            for name in added:
                assert server.value(f"SELECT count(*) FROM t WHERE {name} IS NULL") == 0
        for table in stored_tables(root / "t"):
            found = [field.metadata[b"lance_flight:field_id"] for field in table.dataset.schema]
            assert len(found) == len(set(found)) == 3 + len(added)
