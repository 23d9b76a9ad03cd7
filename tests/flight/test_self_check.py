"""What counts as an answer where a server calls itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.flight.server import FlightSqlServer, SelfCheck
from lance_flight.flight.tls import Tls
from pyarrow import flight

from tests.flight.certificates import authority
from tests.flight.flight_backend import KEY, CannedBackend
from tests.flight.identities import Identities

PATIENCE = 20.0


@pytest.mark.parametrize("proxy", [None, "http://127.0.0.1:9"], ids=["no proxy", "a proxy"])
@pytest.mark.parametrize("has_identities", [False, True], ids=["anonymous", "asking"])
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "::1"])  # noqa: S104 - served to ourselves
def test_a_server_answers_itself(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    host: str,
    is_encrypted: bool,
    has_identities: bool,
    proxy: str | None,
) -> None:
    if proxy is not None:
        monkeypatch.setenv("http_proxy", proxy)
    own = authority().signs_a_server()
    more = {"tls": Tls(certificate=own.pem, key=own.key)} if is_encrypted else {}
    more |= {"authentication": Identities(tmp_path).authentication} if has_identities else {}
    with FlightSqlServer(CannedBackend(), KEY, host=host, **more) as server:
        assert SelfCheck(server.uri, timeout=PATIENCE).is_answered()


class Hanging(flight.FlightServerBase):
    """Answers when it is let go, or says that the call was cancelled."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.go_on = threading.Event()
        self.is_cancelling = False

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        if self.is_cancelling:
            raise flight.FlightCancelledError("stopping")
        self.go_on.wait(PATIENCE)
        return flight.FlightInfo(pa.schema([]), descriptor, [], -1, -1)

    def list_actions(self, context: flight.ServerCallContext) -> list[flight.ActionType]:
        self.get_flight_info(context, flight.FlightDescriptor.for_command(b""))
        return []


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    with Hanging() as server:
        yield server
        server.go_on.set()


def test_a_handler_that_hangs_is_no_answer(hanging: Hanging) -> None:
    check = SelfCheck(f"grpc://127.0.0.1:{hanging.port}", timeout=0.3)
    assert not check.is_answered()
    hanging.go_on.set()
    assert SelfCheck(f"grpc://127.0.0.1:{hanging.port}", timeout=PATIENCE).is_answered()


def test_a_call_that_is_cancelled_is_no_answer_and_no_interrupt(hanging: Hanging) -> None:
    hanging.is_cancelling = True
    assert not SelfCheck(f"grpc://127.0.0.1:{hanging.port}", timeout=PATIENCE).is_answered()


def test_nobody_is_no_answer() -> None:
    with FlightSqlServer(CannedBackend(), KEY) as server:
        uri = server.uri
    assert not SelfCheck(uri, timeout=0.3).is_answered()
