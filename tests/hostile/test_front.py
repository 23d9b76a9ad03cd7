"""Clients without a credential, over raw HTTP/2: HAProxy in front of replicas keeps from them what a client could take from others."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import flight

from tests.flight.statements import reader
from tests.hostile.capped import bounded, cap
from tests.hostile.http2 import Raw, connected
from tests.selection import IS_FULL
from tests.service.principals import connect, token_of, tokens_file
from tests.service.replicated import Replicated, replicated
from tests.service.server_process import Server

pytestmark = pytest.mark.slow  # server processes

MIB = 1 << 20
ATTACKER = "127.0.0.2"
"""Address of who attacks, which is another one than that of who works."""
SECONDS = 60.0 if IS_FULL else 2.0
STREAMS = 2000
ENCODED = [(b"grpc-encoding", b"gzip")]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    place = tmp_path_factory.mktemp("front")
    with replicated(place, "--tokens-file", tokens_file(place / "tokens", ("alice",))) as found:
        for process in found.replicas():
            cap(process)
        yield found


def open_many(rpc: str) -> Callable[[Raw], None]:
    """Many streams at once, whatever the other side says of how many it takes."""

    def attack(raw: Raw) -> None:
        raw.send(b"".join(raw.open(rpc) for _ in range(STREAMS)))
        time.sleep(SECONDS)

    return attack


def open_and_reset(raw: Raw) -> None:
    """Streams that are taken back as fast as they are opened."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and raw.send(b"".join(raw.open("DoPut", reset=True) for _ in range(100))):
        raw.socket.settimeout(0.0001)
        raw.drain()


def send_zeros(raw: Raw) -> None:
    """A gigabyte of zeros in a megabyte."""
    zeros = gzip.compress(bytes(64 * MIB)) * 16
    for _ in range(4):
        raw.send(raw.open("GetFlightInfo", more=ENCODED))
        raw.message(zeros, is_compressed=True)


ATTACKS: dict[str, Callable[[Raw], None]] = {
    **{f"many streams of {rpc}": open_many(rpc) for rpc in ("DoPut", "GetFlightInfo", "Handshake")},
    "streams that are reset": open_and_reset,
    "a message of zeros": send_zeros,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_client_without_a_credential_takes_nothing_from_others(running: Replicated, name: str) -> None:
    def ask() -> None:
        with connect(running.uri, "alice") as connection, connection.cursor() as cursor:
            assert cursor.execute("SELECT 1").fetchall() == [(1,)]

    before = running.children()
    with ExitStack() as stack:
        for process in running.replicas():
            alive: Any = SimpleNamespace(pid=process, poll=lambda: None)
            stack.enter_context(
                bounded(Server(running.root, running.uri, alive), asks=ask, memory=300 * MIB, threads=250)
            )
        with connected(running.uri, ATTACKER) as raw:
            ATTACKS[name](raw)
    assert running.children() == before, "no process was started again"


def test_what_a_client_says_in_the_name_of_the_proxy_is_dropped(running: Replicated) -> None:
    header = "adbc.flight.sql.rpc.call_header.lance-flight-proxy"
    with connect(running.uri, "alice") as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{header: "guessed 10.0.0.1:1"})
        ((peer,),) = cursor.execute("SELECT DISTINCT peer FROM system.queries").fetchall()
    assert peer.startswith("ipv4:127.0.0.1:")


@pytest.mark.full  # it waits for longer than HAProxy waits for a first call
def test_a_client_that_is_quiet_keeps_its_connection(running: Replicated) -> None:
    """What tells apart a client without cookies is its connection."""
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token_of('alice')}".encode())])
    with flight.connect(running.uri) as client:
        peers = []
        for seconds in (0, 12):
            time.sleep(seconds)
            peers.append(reader(client, "SELECT peer FROM system.queries", options).read_all().to_pylist())
    assert peers[0] == peers[1]
