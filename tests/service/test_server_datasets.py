"""Datasets over a server: the same rows, fragments and orders as over its root, and what its policies leave."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from operator import methodcaller
from pathlib import Path
from typing import Any

import lance_flight
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance_flight.errors import InvalidInput, Unsupported
from lance_flight_client.dataset import views
from lance_flight_client.errors import ServerError
from lance_flight_client.flight import FlightQuery

from tests.engine.waiting import until
from tests.service.server_process import Server

LAYOUTS = pytest.mark.parametrize("layout", ["", "PARTITIONED BY (site)"], ids=["plain", "partitioned"])
ROWS = 100


def filled(server: Server, table: str, layout: str) -> None:
    server.run(f"CREATE TABLE {table} (id BIGINT, site VARCHAR, celsius DOUBLE) {layout}")
    rows = "SELECT value, 's' || CAST(value % 4 AS INT), value / 2.0"
    server.run(f"INSERT INTO {table} {rows} FROM generate_series(0, {ROWS // 2 - 1})")
    server.run(f"ALTER TABLE {table} CREATE TAG half")
    server.run(f"INSERT INTO {table} {rows} FROM generate_series({ROWS // 2}, {ROWS - 1})")
    server.run(f"ALTER TABLE {table} ADD COLUMN note VARCHAR DEFAULT 'none'")


@pytest.fixture(scope="module", params=["", "PARTITIONED BY (site)"], ids=["plain", "partitioned"])
def filled_once(server: Server, request: pytest.FixtureRequest) -> str:
    """A table of each layout that tests only read."""
    name = f"read{len(request.param)}"
    filled(server, name, request.param)
    return name


def ids(rows: Any) -> list[int]:
    return sorted(rows.to_table()["id"].to_pylist())


SELECTIONS: dict[str, dict[str, Any]] = {
    "all": {},
    "columns in another order": {"columns": ["celsius", "id"]},
    "a filter of partitions": {"filter": "site = 's1'"},
    "a filter of rows, with a comment": {"filter": "celsius > 20 OR id = 1 -- warm", "columns": ["id"]},
    "a filter that leaves nothing": {"filter": "site = 'nowhere'"},
    "a tag": {"snapshot": "half"},
    "a moment": {"snapshot": datetime(2100, 1, 1, tzinfo=UTC)},
}


@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS)
def test_a_server_gives_what_its_root_gives(server: Server, filled_once: str, selection: dict[str, Any]) -> None:
    with (
        lance_flight.dataset(server.uri, filled_once, **selection) as served,
        lance_flight.dataset(server.root, filled_once, **selection) as direct,
    ):
        assert (served.name, served.version, served.schema) == (direct.name, direct.version, direct.schema)
        assert served.count_rows() == direct.count_rows()
        order = [(name, "ascending") for name in served.schema.names]
        assert served.to_table().sort_by(order) == direct.to_table().sort_by(order)
        found = [fragment.to_table() for fragment in served.fragments()]
        assert [table.num_rows for table in found] == [fragment.count_rows() for fragment in served.fragments()]
        assert pa.concat_tables([served.schema.empty_table(), *found]).sort_by(order) == direct.to_table().sort_by(
            order
        )
    with lance_flight.dataset(server.uri, filled_once, snapshot=served.version) as again:
        assert again.version == served.version


@LAYOUTS
def test_a_version_stays_what_it_was(server: Server, table: str, layout: str) -> None:
    filled(server, table, layout)
    with lance_flight.dataset(server.uri, table, columns=["id"]) as opened:
        server.run(f"DELETE FROM {table} WHERE id > 3")
        server.run(f"ALTER TABLE {table} DROP COLUMN celsius")
        assert ids(opened) == sorted(n for part in opened.fragments() for n in ids(part)) == list(range(ROWS))


def test_fragments_are_read_by_other_processes(server: Server, table: str) -> None:
    filled(server, table, "PARTITIONED BY (site)")
    with (
        lance_flight.dataset(server.uri, table, columns=["id"]) as opened,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool,
    ):
        tables = list(pool.map(methodcaller("to_table"), opened.fragments()))
    assert [found.num_rows for found in tables] == [ROWS // 4] * 4
    assert sorted(n for found in tables for n in found["id"].to_pylist()) == list(range(ROWS))


def test_a_loader_gives_every_row_once_in_an_order_that_its_seed_decides(server: Server, filled_once: str) -> None:
    with lance_flight.dataset(server.uri, filled_once, columns=["id"], filter="id % 10 <> 9") as opened:
        for shuffle in (None, "partition", "rows"):
            orders = [
                [
                    n
                    for rank in (0, 1)
                    for batch in opened.loader(
                        8, shuffle=shuffle, seed=7, rank=rank, world_size=2, workers=0
                    ).worker_batches(0)
                    for n in batch["id"].to_pylist()
                ]
                for _ in range(2)
            ]
            assert orders[0] == orders[1]
            assert sorted(orders[0]) == [n for n in range(ROWS) if n % 10 != 9]


def test_the_server_is_asked_for_the_version_until_the_dataset_is_closed(
    server: Server, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(server, table, "")
    asked: list[str] = []
    plan = FlightQuery.plan
    monkeypatch.setattr(views, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(FlightQuery, "plan", lambda query: (asked.append(query.sql), plan(query))[1])
    opened = lance_flight.dataset(server.uri, table, columns=["id"])
    until(lambda: sum(sql.endswith("LIMIT 0") for sql in asked) > 2)
    assert {sql for sql in asked if sql.endswith("LIMIT 0")} == {
        f'SELECT "id" FROM "public"."{table}@{opened.version}" LIMIT 0'
    }
    opened.close()
    until(lambda: "kept version" not in [thread.name for thread in threading.enumerate()])
    left = lance_flight.dataset(server.uri, table)
    del left
    until(lambda: "kept version" not in [thread.name for thread in threading.enumerate()])


def test_what_a_server_does_not_do_is_refused_by_name(server: Server, table: str, tmp_path: Path) -> None:
    filled(server, table, "")
    server.run(f"CREATE VIEW {table}_view AS SELECT id FROM {table}")
    with pytest.raises(Unsupported, match="pyarrow expression, which a server does not take; expected SQL"):
        lance_flight.dataset(server.uri, table, filter=pc.field("id") > 1)
    with pytest.raises(ServerError, match=r"no column|No field named wind"):
        lance_flight.dataset(server.uri, table, filter="wind > 1")
    with pytest.raises(ServerError, match=f"no table '{table}x'"):
        lance_flight.dataset(server.uri, f"{table}x")
    with pytest.raises(ServerError, match=r"has no (version|snapshot|tag)"):
        lance_flight.dataset(server.uri, table, snapshot=99)
    with pytest.raises((InvalidInput, ServerError), match=r"view|version"):
        lance_flight.dataset(server.uri, f"{table}_view", snapshot=1)
    with pytest.raises(InvalidInput, match="takes no storage_options; it is for a root in an object store"):
        lance_flight.dataset(server.uri, table, storage_options={"a": "b"})
    with pytest.raises(InvalidInput, match="takes no token; it is for a server"):
        lance_flight.dataset(server.root, table, token="x")  # noqa: S106
    with pytest.raises(InvalidInput, match=r"'/nowhere' cannot be read"):
        lance_flight.dataset(server.uri, table, tls_ca="/nowhere")
    with pytest.raises(ServerError, match=r"no server answers at grpc://127\.0\.0\.1:1"):
        lance_flight.dataset("grpc://127.0.0.1:1", table)
    with (
        lance_flight.dataset(server.uri, table) as opened,
        pytest.raises(Unsupported, match="a server opens no blobs as files; read 'id' as a column"),
    ):
        opened.take_blobs("id", [0])
