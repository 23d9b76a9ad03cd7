"""Reads through a server when things go wrong: locations that do not answer, tickets that are refused, streams that break."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.errors import Conflict, InvalidInput
from lance_flight_client.errors import ServerError
from lance_flight_client.spark.options import ReadOptions
from lance_flight_client.spark.reading import FlightPlan, plan_through_server
from pyarrow import flight

from tests.service.server_process import Server, serving

NOBODY = "grpc://127.0.0.1:1"
SECRET = "5ecret"  # noqa: S105 - nobody's


def planned(server: Server, **given: str) -> FlightPlan:
    return plan_through_server(ReadOptions.parse({"uri": server.uri, **given}))


def located(planned: FlightPlan, *locations: str) -> FlightPlan:
    """The same, with endpoints at other locations."""
    endpoints = [(ticket, locations) for ticket, _ in planned.answer.endpoints]
    return replace(planned, answer=replace(planned.answer, endpoints=endpoints))


def identities(planned: FlightPlan) -> list[int]:
    batches = (batch for portion in planned.portions() for batch in portion.batches())
    return sorted(number for batch in batches for number in batch.column("id").to_pylist())


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"id": range(start, stop), "p": [n % 4 for n in range(start, stop)]})


@pytest.fixture
def stored(server: Server, table: str) -> str:
    """Twenty rows in four partitions."""
    server.ingest(table, numbers(0, 20), partition_by="p")
    return table


def test_there_is_a_task_for_each_endpoint(server: Server, stored: str) -> None:
    portions = planned(server, table=stored, partitions="16").portions()
    found = [{n % 4 for batch in portion.batches() for n in batch.column("id").to_pylist()} for portion in portions]
    assert sorted(map(tuple, found)) == [(0,), (1,), (2,), (3,)]
    assert len(planned(server, table=stored, partitions="2").portions()) == 2


def test_a_task_has_about_a_million_rows(server: Server, stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(planned(server, table=stored).portions()) == 1
    monkeypatch.setattr("lance_flight_client.dataset.portions.ROWS_PER_TASK", 7)
    found = planned(server, table=stored)
    assert len(found.portions()) == 3
    assert identities(found) == list(range(20))


def test_locations_are_tried_until_one_answers(server: Server, stored: str) -> None:
    before = planned(server, table=stored)
    assert identities(located(before, NOBODY, server.uri)) == list(range(20))
    assert identities(located(before, "arrow-flight-reuse-connection://?")) == list(range(20))


def test_locations_that_do_not_answer_are_all_named(server: Server, stored: str) -> None:
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:1: .*127\.0\.0\.1:2: "):
        identities(located(planned(server, table=stored), NOBODY, "grpc://127.0.0.1:2"))


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(ServerError, match=f"no server answers at {NOBODY}"):
        plan_through_server(ReadOptions.parse({"uri": NOBODY, "table": "t"}))


@pytest.fixture
def other(server: Server, tmp_path: Path) -> Iterator[Server]:
    """A second server over the same root that takes no ticket of the first."""
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    with serving(server.root, "--ticket-key-file", str(key)) as running:
        yield running


def test_a_refused_ticket_is_asked_for_again_at_the_same_version(server: Server, other: Server, stored: str) -> None:
    before = planned(server, table=stored, filter="id > 3")
    server.ingest(stored, numbers(20, 30), "append")
    server.run(f"DELETE FROM {stored} WHERE id = 7")
    assert identities(located(before, other.uri)) == list(range(4, 20))


def test_a_refused_ticket_of_a_query_is_asked_for_again_while_nothing_has_changed(
    server: Server, other: Server, stored: str
) -> None:
    before = located(planned(server, query=f"SELECT id FROM {stored} WHERE p = 1"), other.uri)
    assert identities(before) == list(range(1, 20, 4))
    server.ingest(stored, numbers(20, 30), "append")
    with pytest.raises(Conflict, match="load it again"):
        identities(before)


def test_a_statement_that_returns_no_rows_is_refused_and_not_run(server: Server, stored: str) -> None:
    for statement in (f"DELETE FROM {stored}", f"DROP TABLE {stored}", f"INSERT INTO {stored} VALUES (1, 1)"):
        with pytest.raises(InvalidInput, match="returns no rows"):
            planned(server, query=statement)
    assert server.value(f"SELECT count(*) FROM {stored}") == 20


class Headers(flight.ServerMiddlewareFactory):
    """Remembers what each call says of its caller, and grants a token."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def start_call(self, info: flight.CallInfo, headers: dict[str, Sequence[str]]) -> flight.ServerMiddleware:
        self.seen.extend(f"{info.method.name}: {value}" for value in headers.get("authorization", ()))
        return Granted()


class Granted(flight.ServerMiddleware):
    def sending_headers(self) -> dict[str, str]:
        return {"authorization": "Bearer granted"}


class Anybody(flight.ServerAuthHandler):
    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Nothing is asked for here."""

    def is_valid(self, token: bytes) -> bytes:
        return b""


class Breaking(flight.FlightServerBase):
    """One endpoint, whose stream is broken after so many batches."""

    def __init__(self, batches: int, headers: Headers) -> None:
        super().__init__("grpc://127.0.0.1:0", auth_handler=Anybody(), middleware={"headers": headers})
        self.batches = batches
        self.uri = f"grpc://127.0.0.1:{self.port}"

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        endpoint = flight.FlightEndpoint(b"ticket", [])
        info = json.dumps({"snapshots": {"public.t": 3}}).encode()
        return flight.FlightInfo(pa.schema({"id": pa.int64()}), descriptor, [endpoint], -1, -1, app_metadata=info)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        return flight.GeneratorStream(pa.schema({"id": pa.int64()}), self.stream())

    def stream(self) -> Iterator[pa.RecordBatch]:
        for number in range(self.batches):
            yield pa.record_batch({"id": [number]})
        raise flight.FlightUnavailableError("gone")


@contextmanager
def breaking(batches: int) -> Iterator[tuple[Breaking, Headers]]:
    headers = Headers()
    with Breaking(batches, headers) as running:
        yield running, headers


def test_a_stream_that_breaks_before_its_first_batch_is_read_elsewhere(server: Server, stored: str) -> None:
    with breaking(0) as (broken, _):
        assert identities(located(planned(server, table=stored), broken.uri, server.uri)) == list(range(20))


def test_a_stream_that_breaks_later_fails_the_task(server: Server, stored: str) -> None:
    with breaking(1) as (broken, _), pytest.raises(flight.FlightUnavailableError, match="gone"):
        identities(located(planned(server, table=stored, columns="id"), broken.uri, server.uri))


def test_a_server_that_asks_nobody_is_read_with_a_name_too(server: Server, stored: str) -> None:
    assert identities(planned(server, table=stored, username="me", password=SECRET)) == list(range(20))


WHO = [
    pytest.param({"token": SECRET}, "Bearer 5ecret", id="a token"),
    pytest.param({"username": "me", "password": SECRET}, "Bearer granted", id="a password"),
]


@pytest.mark.parametrize(("who", "said"), WHO)
def test_every_call_says_who_asks(who: dict[str, str], said: str) -> None:
    with breaking(1) as (broken, headers):
        found = plan_through_server(ReadOptions.parse({"uri": broken.uri, "table": "t", **who}))
        (portion,) = found.portions()
        assert next(portion.batches()).num_rows == 1
    assert f"GET_FLIGHT_INFO: {said}" in headers.seen
    assert f"DO_GET: {said}" in headers.seen
