"""Whether calls are taken, over HTTP and over gRPC."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from lance_flight.admin.health import SERVICES, HealthServer
from lance_flight.admin.http import AdminServer, health_pages
from lance_flight.admin.readiness import Phase, Readiness
from lance_flight.errors import InvalidInput

from tests.engine.waiting import until

PATIENCE = 30.0
STATUS = health_pb2.HealthCheckResponse


class Probe:
    """What is asked of the root: counts how often, fails or waits when it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None
        self.go = threading.Event()
        self.go.set()

    def __call__(self) -> None:
        self.calls += 1
        assert self.go.wait(PATIENCE)
        if self.error is not None:
            raise self.error


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
def readiness(probe: Probe) -> Readiness:
    return Readiness(probe, patience=0.01)


def patient(probe: Probe) -> Readiness:
    """One that a busy machine does not make answer no."""
    made = Readiness(probe, patience=PATIENCE)
    made.enter(Phase.SERVING)
    return made


@pytest.fixture
def admin(probe: Probe) -> Iterator[tuple[Readiness, str]]:
    made = patient(probe)
    server = AdminServer("127.0.0.1", 0, health_pages(made))
    yield made, server.url
    server.close()


def get(url: str, method: str = "GET") -> tuple[int, str]:
    """The status and the body of a page."""
    try:
        with urlopen(Request(url, method=method), timeout=PATIENCE) as answer:  # noqa: S310 - our own server
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_phases_say_why_no_call_is_taken(probe: Probe) -> None:
    readiness = patient(probe)
    for phase, says in [
        (Phase.STARTING, "the server is starting"),
        (Phase.SERVING, None),
        (Phase.STOPPING, "the server is stopping"),
    ]:
        readiness.enter(phase)
        assert readiness.obstacle() == says


def test_a_root_that_fails_is_an_obstacle_until_it_works_again(probe: Probe) -> None:
    readiness = patient(probe)
    probe.error = PermissionError("/secret/place")
    assert readiness.obstacle() == "the root cannot be listed: PermissionError"
    probe.error = None
    assert readiness.obstacle() is None


def test_a_root_that_hangs_is_asked_once(readiness: Readiness, probe: Probe) -> None:
    readiness.enter(Phase.SERVING)
    probe.go.clear()
    assert {readiness.obstacle() for _ in range(3)} == {"the root did not answer within 0.01 seconds"}
    probe.go.set()
    until(lambda: readiness.obstacle() is None)
    assert probe.calls <= 2


def test_a_server_that_stops_does_not_ask_its_root(readiness: Readiness, probe: Probe) -> None:
    readiness.enter(Phase.STOPPING)
    assert readiness.obstacle() is not None
    assert probe.calls == 0


def test_the_pages_answer(admin: tuple[Readiness, str], probe: Probe) -> None:
    readiness, url = admin
    assert get(f"{url}/healthz") == (200, "ok\n")
    assert get(f"{url}/readyz") == (200, "ok\n")
    assert get(f"{url}/readyz?verbose", "HEAD") == (200, "")
    assert get(f"{url}/nothing") == (404, "/healthz\n/readyz\n")
    assert get(f"{url}/healthz", "POST")[0] == 501
    readiness.enter(Phase.STOPPING)
    assert get(f"{url}/readyz") == (503, "the server is stopping\n")
    assert get(f"{url}/healthz") == (200, "ok\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "0.0.0.0"])  # noqa: S104
def test_it_listens_on_any_kind_of_address(host: str) -> None:
    server = AdminServer(host, 0, health_pages(Readiness(lambda: None)))
    assert get(f"{server.url}/healthz") == (200, "ok\n")
    server.close()
    health = HealthServer(host, 0)
    with grpc.insecure_channel(health.uri.removeprefix("grpc://")) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
    assert answer.status == STATUS.NOT_SERVING
    health.close()


def test_a_client_that_says_nothing_does_not_keep_others_waiting(admin: tuple[Readiness, str]) -> None:
    _, url = admin
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))):
        assert get(f"{url}/healthz") == (200, "ok\n")


@pytest.mark.parametrize(
    "make", [lambda port: AdminServer("127.0.0.1", port, {}), lambda p: HealthServer("127.0.0.1", p)]
)
def test_a_port_in_use_is_refused(make: type) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidInput, match=r"cannot listen on 127\.0\.0\.1:\d+"):
            make(taken.getsockname()[1])


@pytest.fixture
def health() -> Iterator[HealthServer]:
    server = HealthServer("127.0.0.1", 0)
    yield server
    server.close()


@pytest.fixture
def stub(health: HealthServer) -> Iterator[health_pb2_grpc.HealthStub]:
    with grpc.insecure_channel(health.uri.removeprefix("grpc://")) as channel:
        yield health_pb2_grpc.HealthStub(channel)


def test_check_follows_the_server(health: HealthServer, stub: health_pb2_grpc.HealthStub) -> None:
    for serving, status in [(None, STATUS.NOT_SERVING), (True, STATUS.SERVING), (False, STATUS.NOT_SERVING)]:
        if serving is not None:
            health.set_serving(serving=serving)
        for name in SERVICES:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=PATIENCE)
            assert answer.status == status


def test_an_unknown_service_is_not_found(stub: health_pb2_grpc.HealthStub) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        stub.Check(health_pb2.HealthCheckRequest(service="another"), timeout=PATIENCE)
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND


def test_watchers_are_told_of_each_change_however_many_they_are(
    health: HealthServer, stub: health_pb2_grpc.HealthStub
) -> None:
    watched = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE) for _ in range(20)]
    with ThreadPoolExecutor(len(watched)) as pool:
        for serving, status in [(None, STATUS.NOT_SERVING), (True, STATUS.SERVING), (False, STATUS.NOT_SERVING)]:
            if serving is not None:
                health.set_serving(serving=serving)
            assert {answer.status for answer in pool.map(next, watched)} == {status}
