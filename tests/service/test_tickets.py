"""Tickets: which server takes them, until when, and what a FlightInfo says of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.flight import commands
from lance_flight.flight.wire import encode_action, encode_command
from pyarrow import flight

from tests.service.server_process import Server, serving

ROWS = pa.table({"id": list(range(100))})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tickets") / "root"


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    with serving(root) as running:
        running.ingest("t", ROWS, partition_by="bucket(4, id)")
        yield running


def planned(server: Server, sql: str, endpoints: int = 1) -> flight.FlightInfo:
    options = flight.FlightCallOptions(headers=[(b"lance-flight-endpoints", str(endpoints).encode())])
    command = encode_command(commands.StatementQuery(query=sql))
    return server.client.get_flight_info(flight.FlightDescriptor.for_command(command), options)


def renewed(server: Server, endpoint: flight.FlightEndpoint) -> flight.FlightEndpoint:
    action = flight.Action(*encode_action(commands.RenewFlightEndpoint(endpoint=endpoint.serialize())))
    (result,) = server.client.do_action(action)
    return flight.FlightEndpoint.deserialize(result.body.to_pybytes())


def ids(server: Server, endpoint: flight.FlightEndpoint) -> list[int]:
    found: list[int] = server.client.do_get(endpoint.ticket).read_all()["id"].to_pylist()
    return sorted(found)


def test_another_server_takes_and_renews_a_ticket_of_the_snapshot_that_was_planned(server: Server) -> None:
    (endpoint,) = planned(server, "SELECT id FROM t").endpoints
    server.run("INSERT INTO t VALUES (1000)")
    with serving(server.root) as other:
        assert ids(other, endpoint) == list(range(100))
        assert ids(other, renewed(other, endpoint)) == list(range(100))
    server.run("DELETE FROM t WHERE id = 1000")


def test_a_ticket_outlives_the_server_that_has_issued_it(server: Server) -> None:
    with serving(server.root) as before:
        (endpoint,) = planned(before, "SELECT id FROM t").endpoints
    with serving(server.root) as after:
        assert ids(after, endpoint) == list(range(100))
        assert ids(after, renewed(after, endpoint)) == list(range(100))


def test_a_ticket_is_good_for_as_long_as_the_server_says(server: Server) -> None:
    (endpoint,) = planned(server, "SELECT id FROM t").endpoints
    left = endpoint.expiration_time.as_py() - datetime.now(UTC)
    assert timedelta(minutes=9) < left < timedelta(minutes=10)
    assert renewed(server, endpoint).expiration_time.as_py() > endpoint.expiration_time.as_py()


def test_a_ticket_is_refused_when_its_time_is_over(root: Path, server: Server) -> None:
    with serving(root, "--ticket-lifetime", "0.2") as brief:
        (endpoint,) = planned(brief, "SELECT id FROM t").endpoints
        threading.Event().wait((endpoint.expiration_time.as_py() - datetime.now(UTC)).total_seconds())
        for redeem in (ids, renewed):
            with pytest.raises(ValueError, match=r"\[ticket_expired\]"):
                redeem(brief, endpoint)  # type: ignore[operator]


ORDERED = [
    pytest.param("SELECT id FROM t ORDER BY id", True, id="sorted"),
    pytest.param("SELECT id FROM t ORDER BY id LIMIT 3", True, id="the first ones"),
    pytest.param("SELECT id % 3 AS m FROM t ORDER BY id", True, id="by what is not selected"),
    pytest.param("SELECT id FROM t", False, id="not sorted"),
    pytest.param("SELECT count(*) AS n FROM (SELECT id FROM t ORDER BY id) AS s", False, id="sorted inside"),
    pytest.param("SELECT id FROM t LIMIT 3", False, id="any ones"),
    pytest.param("SHOW ALL", False, id="no query"),
]


@pytest.mark.parametrize(("sql", "ordered"), ORDERED)
def test_an_info_says_whether_the_order_of_rows_counts(server: Server, sql: str, ordered: bool) -> None:  # noqa: FBT001
    assert planned(server, sql).ordered is ordered


def test_an_info_says_what_will_be_read(server: Server) -> None:
    info = planned(server, "SELECT id FROM t WHERE id IN (7, 8)", endpoints=4)
    said = json.loads(info.app_metadata)
    assert said["partitions"] == {"scanned": len(info.endpoints), "total": 4}
    assert said["snapshots"].keys() == {"public.t"}
    assert json.loads(planned(server, "SELECT id FROM t", endpoints=4).app_metadata)["rows"] == ROWS.num_rows
    assert json.loads(planned(server, "SELECT count(*) FROM t").app_metadata)["partitions"] == {
        "scanned": 4,
        "total": 4,
    }
