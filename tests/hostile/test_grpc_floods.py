"""The SQL endpoint for LanceDB's clients without a proxy in front: clients without a credential, slow readers, and greedy users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from lance_flight.serving.replicas import free_ports

from tests.flight.grpc_client import GrpcClient, statement
from tests.hostile.capped import bounded, capped
from tests.hostile.floods import ATTACKS
from tests.hostile.http2 import connected
from tests.service.principals import token_of, tokens_file
from tests.service.server_process import Server

pytestmark = pytest.mark.slow  # server processes

MIB = 1 << 20
LONG = "SELECT repeat('x', 100) AS x FROM generate_series(1, 10000000)"


@contextmanager
def serving_capped(place: Path) -> Iterator[tuple[Server, str]]:
    (port,) = free_ports(1)
    options = "--tokens-file", tokens_file(place / "tokens", ("alice", "eve")), "--lancedb-sql-port", str(port)
    with capped(place / "root", *options, "--server-memory-limit", "256MiB") as server:
        yield server, f"grpc://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    with serving_capped(tmp_path_factory.mktemp("floods")) as found:
        yield found


def client(uri: str, name: str) -> GrpcClient:
    return GrpcClient.to(uri, [("x-api-key", token_of(name))], **{"grpc.use_local_subchannel_pool": 1})


@pytest.mark.parametrize("name", ATTACKS)
def test_a_client_without_a_credential_takes_nothing_from_others(running: tuple[Server, str], name: str) -> None:
    server, uri = running
    with (
        client(uri, "alice") as alice,
        bounded(server, asks=lambda: alice.rows("SELECT 1"), memory=300 * MIB, threads=250),
        connected(uri, "127.0.0.2") as raw,
    ):
        ATTACKS[name](raw)


def test_slow_readers_hold_no_more_than_streams_may(tmp_path: Path) -> None:
    with (
        serving_capped(tmp_path) as (server, uri),
        client(uri, "alice") as alice,
        bounded(server, asks=lambda: alice.rows("SELECT 1"), memory=400 * MIB, threads=250),
    ):
        greedy = [client(uri, "eve") for _ in range(12)]
        waiting = []
        for eve in greedy:
            with suppress(grpc.RpcError):
                answers = eve.call("DoGet", [eve.info(LONG).endpoints[0].ticket.serialize()])
                next(answers)
                waiting.append(answers)
        for eve in greedy:
            eve.channel.close()
    assert waiting


@pytest.mark.full  # reads 300 MiB of SQL; test_grpc_server counts the answers that are kept, and their bytes
def test_statements_that_are_not_polled_are_bounded(running: tuple[Server, str]) -> None:
    server, uri = running
    text = statement("SELECT 1 -- " + "x" * (3 * MIB)).serialize()
    with (
        client(uri, "alice") as alice,
        bounded(server, asks=lambda: alice.rows("SELECT 1"), memory=900 * MIB, threads=250),
        client(uri, "eve") as eve,
    ):
        for _ in range(100):
            with suppress(grpc.RpcError):
                eve.poll(text)
