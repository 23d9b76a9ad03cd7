"""Clients without a credential, over raw HTTP/2: HAProxy in front of replicas keeps from them what a client could take from others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import flight

from tests.flight.statements import reader
from tests.hostile.capped import bounded, cap
from tests.hostile.floods import ATTACKS
from tests.hostile.http2 import connected
from tests.service.principals import connect, token_of, tokens_file
from tests.service.replicated import Replicated, replicated
from tests.service.server_process import Server

pytestmark = pytest.mark.slow  # server processes

MIB = 1 << 20
ATTACKER = "127.0.0.2"
"""Address of who attacks, which is another one than that of who works."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    place = tmp_path_factory.mktemp("front")
    with replicated(place, "--tokens-file", tokens_file(place / "tokens", ("alice",))) as found:
        for process in found.replicas():
            cap(process)
        yield found


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
