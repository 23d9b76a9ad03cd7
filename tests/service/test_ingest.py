"""Ingest over the wire: the driver's modes, partitioning by header and by option, types that travel, and large messages."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from adbc_driver_manager import Error
from adbc_driver_manager.dbapi import Connection
from lance_flight_client.adbc import connect, ingest
from lance_flight_client.errors import ServerError

from tests.service.server_process import Server
from tests.stock import stored_by_value, stored_tables

ROWS = pa.table({"id": [1, 2, 3, 4], "c": ["US", "DE", None, "US"]})
MORE = pa.table({"id": [5, 6], "c": ["DE", "FR"]})
SPLIT = {"US": [{"id": 1}, {"id": 4}], "DE": [{"id": 2}], None: [{"id": 3}]}


def test_each_mode_of_the_driver(server: Server, table: str) -> None:
    with pytest.raises(Error, match=f"not_found.*{table}"):
        server.ingest(table, ROWS, "append")
    assert server.ingest(table, ROWS, "create", partition_by="c") == 4
    with pytest.raises(Error, match="already_exists"):
        server.ingest(table, MORE, "create")
    for mode, left in {"append": 6, "create_append": 8, "replace": 2}.items():
        assert server.ingest(table, MORE, mode) == 2
        assert server.value(f"SELECT count(*) FROM {table}") == left


TYPES = [
    pa.array(["a", None]).dictionary_encode(),
    pa.array(["a", None], pa.string_view()),
    pa.array([Decimal("1.50"), None], pa.decimal32(5, 2)),
    pa.array([b"a", None], pa.large_binary()),
    pa.array([2**64 - 1, None], pa.uint64()),
    pa.array([1.5, None], pa.float16()),
    pa.array([{"x": [1]}, None]),
    pa.array([[("k", 1)], None], pa.map_(pa.utf8(), pa.int32())),
    pa.array([1, None], pa.duration("us")),
    pa.array([0, None], pa.timestamp("ms", "America/New_York")),
]


def test_values_of_many_types_travel(server: Server, table: str) -> None:
    rows = pa.table({"id": [1, 2], **{f"c{place}": column for place, column in enumerate(TYPES)}})
    assert server.ingest(table, rows, partition_by="c4") == 2
    assert server.query(f"SELECT * FROM {table} ORDER BY id").to_pylist() == rows.to_pylist()


def test_a_header_partitions_the_table_that_an_ingest_creates(server: Server, table: str) -> None:
    server.ingest(table, ROWS, partition_by="c")
    assert stored_by_value(server.root / table, "id") == SPLIT
    server.ingest(table, MORE, "append")
    assert stored_by_value(server.root / table, "id") == {
        "US": [{"id": 1}, {"id": 4}],
        "DE": [{"id": 2}, {"id": 5}],
        "FR": [{"id": 6}],
        None: [{"id": 3}],
    }


def test_a_header_says_which_rows_are_overwritten(server: Server, table: str) -> None:
    server.ingest(table, ROWS, partition_by="c")
    new = pa.table({"id": [7], "c": ["DE"]})
    assert ingest(server.connection, table, new, mode="append", overwrite="partitions") == 1
    assert {row["id"] for each in stored_by_value(server.root / table, "id").values() for row in each} == {1, 3, 4, 7}
    assert server.value(f'SELECT count(*) FROM "{table}$snapshots"') == 3


def test_rows_with_a_commit_id_are_stored_once(server: Server, table: str) -> None:
    assert ingest(server.connection, table, ROWS, mode="create_append", partition_by="c", commit_id="day 1") == 4
    with pytest.raises(ServerError, match=r"already_committed.*day 1"):
        ingest(server.connection, table, ROWS, mode="create_append", partition_by="c", commit_id="day 1")
    assert stored_by_value(server.root / table, "id") == SPLIT


EMPTY = {
    "no batch": ROWS.slice(0, 0).combine_chunks(),
    "no batch of a reader": pa.RecordBatchReader.from_batches(ROWS.schema, []),
}


@pytest.mark.parametrize("rows", EMPTY.values(), ids=EMPTY)
def test_our_client_sends_a_table_without_rows(
    server: Server, table: str, rows: pa.Table | pa.RecordBatchReader
) -> None:
    with connect(server.uri) as connection:
        assert ingest(connection, table, rows) == 0
    assert server.value(f"SELECT count(*) FROM {table}") == 0


@pytest.mark.parametrize("partition_by", ["c", None], ids=["partitioned", "plain"])
def test_an_ingest_chooses_the_version_of_the_files(server: Server, table: str, partition_by: str | None) -> None:
    sent = ingest(server.connection, table, ROWS, partition_by=partition_by, file_version="2.0")
    assert sent == ROWS.num_rows
    server.ingest(table, MORE, "append")
    if partition_by is None:
        assert lance.dataset(str(server.root / f"{table}.lance")).data_storage_version == "2.0"
        return
    assert set(server.rows(f"SELECT file_version FROM {table}$files")) == {("2.0",)}
    assert {stored.dataset.data_storage_version for stored in stored_tables(server.root / table)} == {"2.0"}
    assert sorted(server.rows(f"SELECT id FROM {table}")) == [(n,) for n in range(1, 7)]


def test_an_ingest_with_an_unknown_version_of_files_is_refused(server: Server, table: str) -> None:
    with pytest.raises(ServerError, match=r"invalid_input.*file_version is '3\.0'; expected 2\.0, 2\.1 or 2\.2"):
        ingest(server.connection, table, ROWS, partition_by="c", file_version="3.0")


def plain(uri: str) -> Connection:
    """A connection of the driver's own."""
    return dbapi.connect(uri, autocommit=True)


LARGE = {
    "a batch of 40 MB": (["x" * 40_000] * 1000, connect, 1000),
    "a row of 20 MB": (["x" * 20_000_000, "y"], connect, 2),
    "a batch of 40 MB over a connection of the driver's": (["x" * 40_000] * 1000, plain, 1000),
    "a row of 20 MB over a connection of the driver's": (
        ["x" * 20_000_000, "y"],
        plain,
        "raise the option adbc.flight.sql.client_option.with_max_msg_size",
    ),
}


@pytest.mark.parametrize(("values", "open_", "expected"), LARGE.values(), ids=LARGE.keys())
def test_rows_larger_than_a_message_of_the_driver(
    server: Server, table: str, values: list[str], open_: Callable[[str], Connection], expected: int | str
) -> None:
    rows = pa.table({"s": values})
    with open_(server.uri) as connection:
        if isinstance(expected, str):
            with pytest.raises(ServerError, match=expected):
                ingest(connection, table, rows)
            assert not (server.root / f"{table}.lance").exists()
        else:
            assert ingest(connection, table, rows) == expected
            assert server.value(f"SELECT sum(length(s)) FROM {table}") == sum(map(len, values))
