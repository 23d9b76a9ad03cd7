"""Crafted IPC streams in every DoPut: each is answered, and the server answers another client right after."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator

import grpc
import pytest
from lance_flight.flight import wire
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.hostile.crafted import craft, messages
from tests.hostile.frames import call, descriptor
from tests.hostile.outside import SECRET, Guarded, guarded
from tests.hostile.prepared import ANSWERED, prepared
from tests.service.server_process import Server

TRIES = int(os.environ.get("LANCE_FLIGHT_CRAFTED", "0")) or (
    60 if os.environ.get("LANCE_FLIGHT_TESTS") == "full" else 8
)
ANSWER_SECONDS = 5.0
SEEN: Counter[str] = Counter()


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server that takes no dictionaries, as one does that asks who calls."""
    with guarded(tmp_path_factory.mktemp("strict"), "--dictionary-ingest", "off") as served:
        yield served


@pytest.fixture
def channel(strict: Guarded) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(strict.server.uri.removeprefix("grpc://")) as opened:
        yield opened


def ingest(**where: object) -> wire.StatementIngest:
    options = wire.TableDefinitionOptions(if_not_exist=1, if_exists=3)
    return wire.StatementIngest(table="fed", table_definition_options=options, **where)  # type: ignore[arg-type]


PUTS: dict[str, tuple[str, Callable[[Guarded], bytes]]] = {
    "an ingest": ("DoPut", lambda _: encode_command(ingest())),
    "a temporary ingest": ("DoPut", lambda _: encode_command(ingest(temporary=True))),
    "parameters of a query": (
        "DoPut",
        lambda target: encode_command(
            wire.PreparedStatementQuery(prepared_statement_handle=prepared(target.server.client, "SELECT $1"))
        ),
    ),
    "parameters of an update": (
        "DoPut",
        lambda target: encode_command(
            wire.PreparedStatementUpdate(
                prepared_statement_handle=prepared(target.server.client, "INSERT INTO plain VALUES ($1)")
            )
        ),
    ),
    "an update": ("DoPut", lambda _: encode_command(wire.StatementUpdate(query="DELETE FROM plain"))),
    "a command that is none": ("DoPut", lambda _: b"nothing that is known"),
    "an exchange": ("DoExchange", lambda _: encode_command(ingest())),
}


@pytest.mark.parametrize("put", PUTS)
def test_a_server_survives_crafted_streams(strict: Guarded, channel: grpc.Channel, put: str) -> None:
    rpc, command = PUTS[put]
    asked = descriptor(command(strict))
    for seed in range(TRIES):
        what, made = craft(random.Random(f"{put} {seed}"))  # noqa: S311 - repeatable, not secret
        status, words = call(channel, rpc, messages(asked, made))
        SEEN[status] += 1
        assert strict.server.process.poll() is None, f"seed {seed}: {what}"
        assert answers_another(strict.server), f"seed {seed}: {what}"
        assert status in ANSWERED, f"seed {seed}: {what}: {words}"
        for never in ("[internal]", "Traceback", '.py"', ".py:", SECRET):
            assert never not in words, f"seed {seed}: {what}: {words}"


def answers_another(server: Server) -> bool:
    """Whether another client gets its answer in time."""
    with flight.connect(server.uri) as client:
        found = client.get_flight_info(
            flight.FlightDescriptor.for_command(encode_command(wire.StatementQuery(query="SELECT 1 AS one"))),
            flight.FlightCallOptions(timeout=ANSWER_SECONDS),
        )
        return client.do_get(found.endpoints[0].ticket).read_all().to_pylist() == [{"one": 1}]


def test_how_many_streams_were_crafted(strict: Guarded, say: Callable[[str], None]) -> None:
    assert strict.server.value("SELECT count(*) FROM t") == 2
    said = ", ".join(f"{status} {count}" for status, count in sorted(SEEN.items()))
    say(f"crafted streams: {sum(SEEN.values())} in {len(PUTS)} calls ({said}), crashes 0")
