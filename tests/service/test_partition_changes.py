"""Partitions as things, over the wire: dropped, attached and detached."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error

from tests.service.server_process import Server
from tests.stock import stored_by_value


@pytest.fixture
def flights(server: Server, table: str) -> str:
    """Three months of two origins and of none."""
    server.run(f"CREATE TABLE {table} (day DATE, origin VARCHAR, n INT) PARTITIONED BY (month(day) AS month, origin)")
    server.run(
        f"INSERT INTO {table} SELECT CAST('2025-0' || m || '-01' AS DATE), o, n FROM (VALUES (1), (2), (3)) AS a(m),"
        " (VALUES ('JFK'), ('EWR'), (NULL)) AS b(o), (VALUES (1), (2)) AS c(n)"
    )
    return table


Value = tuple[int, str | None]
DROPPED: list[object] = [
    pytest.param("month = 3, origin = 'JFK'", lambda v: v == (3, "JFK"), id="one partition"),
    pytest.param("month = 3", lambda v: v[0] == 3, id="all below a value"),
    pytest.param("origin IS NULL", lambda v: v[1] is None, id="an inner value, NULL"),
    pytest.param("month = 4", lambda _: False, id="none"),
]


@pytest.mark.parametrize(("values", "goes"), DROPPED)
def test_a_dropped_partition_takes_its_rows_away_and_says_how_many(
    server: Server, flights: str, values: str, goes: Callable[[Value], bool]
) -> None:
    before = stored_by_value(server.root / flights, "n")
    gone = [value for value in before if goes(value)]
    assert server.run(f"ALTER TABLE {flights} DROP PARTITION ({values})") == 2 * len(gone)
    assert stored_by_value(server.root / flights, "n") == {v: rows for v, rows in before.items() if v not in gone}
    assert server.value(f"SELECT count(*) FROM {flights}") == 2 * (len(before) - len(gone))
    assert len(server.rows(f"SHOW PARTITIONS {flights}")) == len(before) - len(gone)


def test_a_partition_is_not_dropped_inside_a_transaction(server: Server, flights: str) -> None:
    before = stored_by_value(server.root / flights, "n")
    with dbapi.connect(server.uri) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {flights} VALUES ('2025-04-01', 'JFK', 1)")
        with pytest.raises(Error, match="not altered inside a transaction"):
            cursor.execute(f"ALTER TABLE {flights} DROP PARTITION (month = 3)")
        connection.rollback()
    assert stored_by_value(server.root / flights, "n") == before


def test_a_plain_table_has_no_partitions_to_drop(server: Server, table: str) -> None:
    server.run(f"CREATE TABLE {table} AS SELECT 1 AS month")
    assert "is not partitioned" in server.refuses(f"ALTER TABLE {table} DROP PARTITION (month = 1)")
    assert server.value(f"SELECT count(*) FROM {table}") == 1


def test_a_partition_dropped_on_a_branch_is_there_on_main(server: Server, flights: str) -> None:
    server.run(f"ALTER TABLE {flights} CREATE BRANCH b")
    with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET branch = 'b'")
        cursor.execute(f"ALTER TABLE {flights} DROP PARTITION (month = 3)")
        assert cursor.rowcount == 6
        cursor.execute(f"SELECT count(*) FROM {flights}")
        assert cursor.fetchone() == (12,)
    assert server.value(f"SELECT count(*) FROM {flights}") == 18
