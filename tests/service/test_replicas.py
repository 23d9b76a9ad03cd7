"""`serve --replicas N`: real replicas behind a real HAProxy, which are killed, frozen and replaced while clients work."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from cryptography.hazmat.primitives import serialization
from lance_flight.admin.health import HealthServer
from lance_flight.config import ServerConfig
from lance_flight.errors import InvalidInput
from lance_flight.serving import replicas
from lance_flight.serving.replicas import (
    Front,
    Replica,
    configuration,
    find_program,
    free_ports,
    health_check,
    replica_settings,
    replicas_of,
    siblings_of,
)
from pyarrow import flight

from tests.engine.waiting import PATIENCE, until
from tests.flight.certificates import authority
from tests.flight.statements import planned, reader
from tests.service import commands
from tests.service.replicated import Replicated, replicated
from tests.service.server_process import COMMAND
from tests.stock import stored_rows

WRITERS = 4


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Replicated]:
    with replicated(tmp_path / "place") as found:
        yield found


def connected(uri: str) -> dbapi.Connection:
    return dbapi.connect(uri, autocommit=True)


def rows(connection: dbapi.Connection, sql: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@dataclass
class Load:
    """Writers that insert rows of their own until they are told to stop, each on a connection that it makes again after an error."""

    uri: str
    stop: threading.Event = field(default_factory=threading.Event)
    sent: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def write(self, first: int) -> None:
        number = first
        while not self.stop.is_set():
            try:
                with flight.connect(self.uri) as client:
                    while not self.stop.is_set():
                        number += WRITERS
                        self.sent.append(number)
                        run(client, f"INSERT INTO t VALUES ({number})")
                        self.stored.append(number)
            except (flight.FlightError, pa.ArrowException) as exc:
                self.errors.append(str(exc))


def run(client: flight.FlightClient, sql: str) -> None:
    """Run a statement; one that is never answered is an error of the call, and not a test that hangs."""
    planned(client, sql, flight.FlightCallOptions(timeout=PATIENCE))


@contextmanager
def loaded(running: Replicated) -> Iterator[Load]:
    with flight.connect(running.uri) as client:
        run(client, "CREATE TABLE t (x BIGINT) PARTITIONED BY (bucket(2, x))")
    load = Load(running.uri)
    writers = [threading.Thread(target=load.write, args=[number], daemon=True) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield load
    finally:
        load.stop.set()
        for writer in writers:
            writer.join(PATIENCE)


def check_stored(running: Replicated, load: Load) -> None:
    """Every row that was acknowledged is there once, and nothing that was not sent."""
    found = sorted(stored_rows(running.root / "t")["x"].to_pylist())
    assert len(found) == len(set(found))
    assert set(load.stored) <= set(found) <= set(load.sent)


def test_clients_are_shared_among_replicas_and_see_each_other_and_all_processes_end(running: Replicated) -> None:
    processes = [*running.children().values()]
    with closing(connected(running.uri)) as one, closing(connected(running.uri)) as other:
        rows(one, "CREATE TABLE t AS SELECT 1 AS x")
        assert rows(other, "SELECT x FROM t") == [(1,)]
        (peers,) = zip(*rows(one, "SELECT DISTINCT peer FROM system.statements"), strict=True)
        assert len(peers) >= 2
        assert len(running.replicas()) == 2
        running.process.terminate()
        assert running.process.wait(PATIENCE) == 0
    assert not [number for number in processes if Path(f"/proc/{number}").exists()]


def test_nothing_acknowledged_is_lost_when_a_replica_is_killed(running: Replicated) -> None:
    with loaded(running) as load:
        until(lambda: len(load.stored) > 5)
        before = running.replicas()
        os.kill(before[0], signal.SIGKILL)
        running.until("replica . was ended by SIGKILL; it is started again")
        count = len(load.stored)
        until(lambda: len(load.stored) > count + 5 and len(running.replicas()) == 2)
    assert len(load.errors) <= WRITERS, load.errors
    check_stored(running, load)


def test_replacing_every_replica_breaks_no_call_that_has_begun(running: Replicated) -> None:
    with loaded(running) as load:
        until(lambda: len(load.stored) > 5)
        before = set(running.replicas())
        running.process.send_signal(signal.SIGUSR2)
        until(lambda: len(running.replicas()) == 2 and not before & set(running.replicas()))
        count = len(load.stored)
        until(lambda: len(load.stored) > count + 5)
        running.until(
            '"level": "warning", .*"message": "haproxy: Server replicas/replica1 is going DOWN for maintenance'
        )
    # gRPC answers so what comes between its shutdown and the moment in which a client hears of that; no handler has seen it.
    assert set(load.errors) <= {"Flight cancelled call, with message: CANCELLED"}
    assert len(load.errors) <= WRITERS
    assert len(stored_rows(running.root / "t")) == len(load.stored)
    check_stored(running, load)


def test_a_stop_while_replicas_are_replaced_waits_for_their_calls(tmp_path: Path) -> None:
    with replicated(tmp_path / "place", "--log-level", "info") as running, flight.connect(running.uri) as client:
        run(client, "CREATE TABLE many AS SELECT a.value AS id FROM range(3000000) AS a")
        result = reader(client, "SELECT id, id + 1 FROM many")
        result.read_chunk()
        running.process.send_signal(signal.SIGUSR2)
        running.until("stopping, calls in flight: 1")
        running.process.terminate()
        running.until("stopping, calls in flight: 0")
        assert len(result.read_all()) > 0
        assert running.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("port", ["0", "chosen"])
def test_the_operator_gets_the_metrics_of_haproxy_and_no_client_does(tmp_path: Path, port: str) -> None:
    first = port if port == "0" else str(consecutive_ports(3))
    with replicated(tmp_path / "place", "--admin-port", first) as running:
        (address,) = re.findall(r"metrics of HAProxy at (http://127.0.0.1:(\d+)/metrics)", running.log.read_text())
        assert port == "0" or int(address[1]) == int(first) + 2, "the port after those of the replicas"
        told = page(address[0]).decode()
        assert 'haproxy_server_status{proxy="replicas",server="replica2",state="UP"} 1' in told
        with pytest.raises(HTTPError, match="404"):
            page(address[0].replace("/metrics", "/"))
        with pytest.raises((OSError, HTTPException)):
            page(f"{running.uri.replace('grpc', 'http')}/metrics")


def page(address: str) -> bytes:
    with urlopen(address) as answer:  # noqa: S310 - an address of HTTP
        return bytes(answer.read())


def consecutive_ports(count: int) -> int:
    """Return the first of so many ports of which none is taken at the moment."""
    while True:
        (first,) = free_ports(1)
        with suppress(OSError, OverflowError), ExitStack() as held:
            for port in range(first, first + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


def test_what_haproxy_warns_of_is_logged_once(running: Replicated) -> None:
    os.kill(running.process.pid, signal.SIGUSR2)
    running.until("Server replicas/replica2 is going DOWN for maintenance")
    running.until("Server replicas/replica2 is UP/READY")
    lines = running.log.read_text().splitlines()
    assert len([line for line in lines if "replicas/replica1 is going DOWN" in line]) == 1
    assert all(line.startswith("{") for line in lines), "each as the log has them"


def test_haproxy_is_started_again(running: Replicated) -> None:
    os.kill(running.children()["haproxy"], signal.SIGKILL)
    running.until("haproxy was ended by SIGKILL; it is started again")
    until(lambda: answers(running))


def answers(running: Replicated) -> bool:
    try:
        with closing(connected(running.uri)) as connection:
            return rows(connection, "SELECT 1") == [(1,)]
    except dbapi.Error:
        return False


def test_a_frozen_haproxy_and_a_frozen_replica_are_replaced(tmp_path: Path) -> None:
    with replicated(tmp_path / "place", "--unresponsive-after", "2") as running:
        before = running.children()["haproxy"]
        os.kill(before, signal.SIGSTOP)
        running.until("haproxy has not answered for 2 seconds")
        until(lambda: running.children().get("haproxy", before) != before and answers(running))
        assert "replica" not in "".join(line for line in running.log.read_text().splitlines() if "not answered" in line)
        replicas = running.replicas()
        os.kill(replicas[0], signal.SIGSTOP)
        running.until("replica . has not answered for 2 seconds")
        until(lambda: len(running.replicas()) == 2 and replicas[0] not in running.replicas())
        with closing(connected(running.uri)) as connection:
            assert rows(connection, "SELECT 1") == [(1,)]


def test_renewed_certificates_are_shown_by_all(tmp_path: Path) -> None:
    signing = authority()
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    signing.signs_a_server().write(certificate, key)
    with replicated(tmp_path / "place", "--tls-certificate", str(certificate), "--tls-key", str(key)) as running:
        assert running.uri.startswith("grpc+tls://")
        renewed = signing.signs_a_server()
        renewed.write(certificate, key)
        wanted = renewed.certificate.public_bytes(serialization.Encoding.DER)
        until(lambda: {shown_certificate(running.uri) for _ in range(6)} == {wanted})
        with flight.connect(running.uri, tls_root_certs=signing.pem) as client:
            run(client, "CREATE TABLE t AS SELECT 1 AS x")


def shown_certificate(uri: str) -> bytes | None:
    """The certificate of a new connection, as DER; None where none is made at this moment."""
    host, _, port = uri.removeprefix("grpc+tls://").rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host, int(port)), timeout=PATIENCE) as plain,
            context.wrap_socket(plain) as encrypted,
        ):
            return encrypted.getpeercert(binary_form=True)
    except OSError:
        return None


def test_nothing_is_left_by_a_stop_before_it_is_ready(tmp_path: Path) -> None:
    root, place = tmp_path / "root", tmp_path / "temporary"
    place.mkdir()
    command = [COMMAND, "serve", str(root), "--create", "--replicas", "2", "--port", "0"]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(place)}) as process:
        until(lambda: len(Replicated(process, root, root, "").children()) == 2)
        process.terminate()
        process.wait(PATIENCE)
    assert list(place.iterdir()) == []


def test_an_address_that_is_taken_is_not_said_to_be_served(tmp_path: Path) -> None:
    ready, slow = tmp_path / "ready", tmp_path / "haproxy"
    slow.write_text(f'#!/bin/sh\nsleep 1\nexec {find_program()} "$@"\n')
    slow.chmod(0o700)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refusal(
            str(tmp_path / "root"), "--create", "--replicas", "2", "--ready-file", str(ready), "--port",
            str(taken.getsockname()[1]), path=f"{tmp_path}:{os.environ['PATH']}",
        )  # fmt: skip
    assert "cannot bind" in said
    assert not ready.exists()


def test_no_port_is_chosen_twice_or_may_be_given_to_a_connection() -> None:
    ports = free_ports(400)
    assert len(set(ports)) == 400
    assert max(ports) < 32_768  # where the ports of outgoing connections begin on Linux
    with pytest.raises(InvalidInput, match="address of this machine"):
        free_ports(1, "192.0.2.1")


@pytest.mark.parametrize(
    ("settings", "free", "ports", "health"),
    [
        (ServerConfig(), [5000, 7000, 5001, 5002, 5003], [5000, 5001], [5002, 5003]),
        (ServerConfig(health_port=7005), [7005, 7006, 5000, 5001, 5002, 7000, 5003], [5000, 5001], [7005, 7006]),
        (ServerConfig(admin_port=7005), [7006, 7007, 5000, 5001, 5002, 5003, 5004, 5005], [5000, 5001], [5002, 5003]),
    ],
)
def test_no_replica_takes_a_port_that_is_meant_for_something_else(
    monkeypatch: pytest.MonkeyPatch, settings: ServerConfig, free: list[int], ports: list[int], health: list[int]
) -> None:
    monkeypatch.setattr(replicas, "_PORTS", free)
    monkeypatch.setattr(replicas.random.SystemRandom, "sample", lambda _, ports, __: ports)
    monkeypatch.setattr(replicas.socket, "create_server", lambda *_, **__: nullcontext())
    found = replicas_of(settings, 2, 7000)
    assert ([each.port for each in found], [each.health_port for each in found]) == (ports, health)


SHARED = ServerConfig(
    server_memory_limit=100,
    memory_limit=0,
    running_statements=5,
    stream_memory_limit=7,
    admin_port=9000,
    ready_file="r",
    host="0.0.0.0",  # noqa: S104
)
REPLICAS = [Replica(1, 40001, 40011), Replica(2, 40002, 40012)]


def test_a_replica_has_its_share_and_knows_the_others() -> None:
    mine = replica_settings(SHARED, REPLICAS[1], len(REPLICAS))
    found = [mine.server_memory_limit, mine.memory_limit, mine.running_statements, mine.admin_port, mine.health_port]
    assert found == [50, 0, 3, 9001, 40012]
    assert mine.stream_memory_limit == 4
    assert (mine.host, mine.port, mine.peers, mine.ready_file) == ("127.0.0.1", 40002, SHARED.peers, "")
    assert siblings_of(REPLICAS[1], REPLICAS, "grpc+tls") == ("grpc+tls://127.0.0.1:40001",)
    assert not mine.takes_dictionaries, "the public address is not this machine alone"


def refusal(*arguments: str, path: str = os.environ["PATH"]) -> str:
    found = commands.run("serve", *arguments, environment={"PATH": path})
    assert found.returncode == 1
    return found.stderr.decode()


REFUSED: dict[str, tuple[Sequence[str], str]] = {
    "open to all": (["--replicas", "2", "--host", "0.0.0.0"], "is not loopback and there is no authentication"),  # noqa: S104
    "too many": (["--replicas", "65"], "--replicas is 65; expected 1 to 64"),
    "no place": (["--replicas", "2", "--ready-file", "/nowhere/at/all/ready"], "is no directory"),
    "no parent": (["--replicas", "2", "--no-supervise"], "expected it without --no-supervise"),
    "no root": (["--replicas", "2"], "is not there; expected a directory, or --create"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_served_is_said(tmp_path: Path, arguments: Sequence[str], message: str) -> None:
    assert message in refusal(str(tmp_path / "none"), *arguments)


def test_haproxy_checks_by_the_health_service() -> None:
    service = HealthServer("127.0.0.1", 0)
    try:
        assert [checked(service), service.set_serving(serving=True), checked(service)] == [False, None, True]
    finally:
        service.close()


def checked(service: HealthServer) -> bool:
    """Whether an answer has what HAProxy expects."""
    expected = re.search(r"expect binary (\w+)", configuration(Front(address="127.0.0.1:1"), REPLICAS))
    assert expected is not None
    host, _, port = service.uri.removeprefix("grpc://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(health_check())
        connection.settimeout(PATIENCE)
        answer = b""
        while b"grpc-status" not in answer and bytes.fromhex(expected[1]) not in answer and b"\x08\x02" not in answer:
            answer += connection.recv(4096)
    return bytes.fromhex(expected[1]) in answer
