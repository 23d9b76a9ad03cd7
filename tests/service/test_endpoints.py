"""Endpoints and their tickets: their union is the whole, and each is read by any server with the key."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from tests.flight import statements
from tests.flight.statements import asking, read, renew
from tests.service.server_process import Server, serving


def planned(server: Server, sql: str, endpoints: int | str = 1) -> flight.FlightInfo:
    """The FlightInfo of a query, with up to so many endpoints."""
    return statements.planned(server.client, sql, asking("lance-flight-endpoints", endpoints))


def identities(server: Server, info: flight.FlightInfo) -> list[Any]:
    """The column `id` of all endpoints, sorted."""
    return sorted(read(server.client, info)["id"].to_pylist())


@pytest.fixture(scope="module")
def numbers(server: Server) -> str:
    """A thousand rows in ten partitions, one of them NULL."""
    data = pa.table({"id": range(1000), "part": [None if n % 10 == 0 else n % 10 for n in range(1000)]})
    server.ingest("numbers", data, partition_by="part")
    return "numbers"


SPLITS = [
    pytest.param("SELECT * FROM numbers", 1, 1, range(1000), id="one"),
    pytest.param("SELECT * FROM numbers", 4, 4, range(1000), id="four"),
    pytest.param("SELECT * FROM numbers", 10, 10, range(1000), id="as many as partitions"),
    pytest.param("SELECT * FROM numbers", 100, 10, range(1000), id="more than partitions"),
    pytest.param("SELECT id FROM numbers WHERE part = 3", 4, 1, range(3, 1000, 10), id="one partition left"),
    pytest.param("SELECT id FROM numbers WHERE part IN (3, 4)", 4, 2, None, id="two partitions left"),
    pytest.param("SELECT id FROM numbers WHERE part IS NULL", 4, 1, range(0, 1000, 10), id="NULL left"),
    pytest.param("SELECT id FROM numbers WHERE part = 77", 4, 1, [], id="none left"),
    pytest.param("SELECT id FROM numbers WHERE id % 2 = 0", 4, 4, range(0, 1000, 2), id="a filter above the scan"),
    pytest.param("SELECT id, id + 1 AS next FROM numbers AS n", 4, 4, range(1000), id="computed columns"),
    pytest.param("SELECT count(*) AS id FROM numbers", 4, 1, [1000], id="an aggregate is not split"),
    pytest.param("SELECT id FROM numbers ORDER BY id", 4, 1, range(1000), id="an order is not split"),
    pytest.param("SELECT id FROM numbers LIMIT 1000", 4, 1, range(1000), id="a limit is not split"),
    pytest.param("SELECT DISTINCT id FROM numbers", 4, 1, range(1000), id="distinct is not split"),
    ("SELECT a.id FROM numbers a JOIN numbers b ON a.id = b.id", 4, 1, range(1000)),
    pytest.param("SELECT id FROM numbers UNION ALL SELECT 1000", 4, 1, range(1001), id="a union is not split"),
    pytest.param("SELECT 1 AS id", 4, 1, [1], id="no table"),
]


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize(("sql", "asked", "given", "expected"), SPLITS)
def test_the_union_of_the_endpoints_is_the_whole_each_row_once(
    server: Server, sql: str, asked: int, given: int, expected: Any
) -> None:
    info = planned(server, sql, asked)
    assert len(info.endpoints) == given
    wanted = [n for n in range(1000) if n % 10 in {3, 4}] if expected is None else list(expected)
    assert identities(server, info) == wanted
    assert read(server.client, info).schema == info.schema


@pytest.mark.usefixtures("numbers")
def test_each_endpoint_of_a_full_scan_has_rows_of_its_own_partitions(server: Server) -> None:
    endpoints = planned(server, "SELECT * FROM numbers", 4).endpoints
    parts = [set(server.client.do_get(each.ticket).read_all()["part"].to_pylist()) for each in endpoints]
    assert sum(map(len, parts)) == 10
    assert all(parts)


def test_a_plain_table_is_one_endpoint_or_several_with_each_row_once(server: Server, table: str) -> None:
    for start in range(0, 300, 100):
        server.ingest(table, pa.table({"id": range(start, start + 100)}), "create_append")
    assert identities(server, planned(server, f"SELECT * FROM {table}", 3)) == list(range(300))


def test_rows_stored_after_planning_do_not_appear(server: Server, table: str) -> None:
    server.ingest(table, pa.table({"id": [1, 2, 3, 4]}), partition_by="bucket(4, id)")
    infos = [planned(server, f"SELECT id FROM {table}", endpoints) for endpoints in (1, 4)]
    server.ingest(table, pa.table({"id": [5, 6, 7, 8, 1]}), "append")
    for info in infos:
        assert identities(server, info) == [1, 2, 3, 4]
    assert server.value(f"SELECT count(*) FROM {table}") == 9


def test_servers_that_share_a_key_file_read_each_others_tickets(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    root = tmp_path / "root"
    with serving(root, "--ticket-key-file", str(key)) as one, serving(root) as other:
        one.ingest("t", pa.table({"id": [1, 2]}))
        info = planned(one, "SELECT id FROM t")
        assert identities(one, info) == [1, 2]
        with pytest.raises(pa.ArrowInvalid, match="not issued under the key of this server"):
            identities(other, info)


def test_the_ticket_of_a_dropped_table_says_that_it_is_gone(server: Server, table: str) -> None:
    server.ingest(table, pa.table({"id": [1]}), partition_by="id")
    info = planned(server, f"SELECT id FROM {table}")
    server.run(f"DROP TABLE {table}")
    with pytest.raises(KeyError, match=r"\[not_found\]"):
        identities(server, info)


def test_tickets_are_read_and_renewed_by_servers_beside_and_after_theirs(tmp_path: Path) -> None:
    root = tmp_path / "root"

    def check(server: Server) -> None:
        for info, expected in ((split, list(range(100))), (aggregate, [45])):
            assert identities(server, info) == expected
            again = [renew(server.client, endpoint) for endpoint in info.endpoints]
            found = [server.client.do_get(each.ticket).read_all()["id"].to_pylist() for each in again]
            assert sorted(chain.from_iterable(found)) == expected

    with serving(root) as first:
        first.ingest("t", pa.table({"id": range(100), "part": [n % 5 for n in range(100)]}), partition_by="part")
        first.ingest("p", pa.table({"id": range(10)}))
        split = planned(first, "SELECT id FROM t", 3)
        aggregate = planned(first, "SELECT sum(t.id) AS id FROM t, p WHERE t.id = p.id")
        first.ingest("t", pa.table({"id": [1000, 5], "part": [1, 1]}), "append")
        with serving(root) as beside:
            check(beside)
    with serving(root) as after:
        check(after)


ORDERED = [
    pytest.param("SELECT id FROM numbers ORDER BY id", True, id="sorted"),
    pytest.param("SELECT id FROM numbers ORDER BY id LIMIT 3", True, id="the first ones"),
    pytest.param("SELECT id % 3 AS m FROM numbers ORDER BY id", True, id="by what is not selected"),
    pytest.param("SELECT id FROM numbers", False, id="not sorted"),
    pytest.param("SELECT count(*) AS n FROM (SELECT id FROM numbers ORDER BY id) AS s", False, id="sorted inside"),
    pytest.param("SELECT id FROM numbers LIMIT 3", False, id="any ones"),
    pytest.param("SHOW ALL", False, id="no query"),
]


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize(("sql", "ordered"), ORDERED)
def test_an_info_says_whether_the_order_of_rows_counts(server: Server, sql: str, ordered: bool) -> None:  # noqa: FBT001
    assert planned(server, sql).ordered is ordered


def test_an_info_says_what_will_be_read(server: Server, numbers: str) -> None:
    def said(sql: str, endpoints: int) -> Any:
        return json.loads(planned(server, sql, endpoints).app_metadata)

    some = said(f"SELECT id FROM {numbers} WHERE part IN (1, 2)", 4)
    assert (some["rows"], some["partitions"]) == (200, {"scanned": 2, "total": 10})
    assert some["snapshots"].keys() == {"public.numbers"}
    assert said(f"SELECT id FROM {numbers}", 4)["rows"] == 1000
    assert said(f"SELECT id FROM {numbers}", 1).get("rows") is None
    assert said(f"SELECT count(*) FROM {numbers}", 1)["partitions"] == {"scanned": 10, "total": 10}
