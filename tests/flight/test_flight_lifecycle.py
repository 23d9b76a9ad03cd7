"""From the first connection to the last call, without a clock."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from lance_flight.flight.backend import Caller
from lance_flight.flight.server import FlightSqlServer, serve_until
from pyarrow import flight

from tests.flight.flight_backend import KEY, NUMBERS, CannedBackend
from tests.flight.slow_backend import PATIENCE, SlowBackend
from tests.flight.statements import SELECT, descriptor


@dataclass(slots=True)
class EndlessBackend(CannedBackend):
    """Reads the same rows for ever, and tells when its reader is given up."""

    freed: threading.Event = field(default_factory=threading.Event)

    def read(self, caller: Caller, payload: bytes) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            try:
                while True:
                    yield from NUMBERS.to_batches()
            finally:
                self.freed.set()

        return pa.RecordBatchReader.from_batches(NUMBERS.schema, batches())


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def test_a_signal_that_comes_to_another_thread_ends_it_too() -> None:
    """Only a thread that waits for a while at most runs the handlers of signals that others have received."""
    stop, waits, is_over = threading.Event(), threading.Event(), threading.Event()

    def receive() -> None:
        assert waits.wait(PATIENCE)
        is_over.wait(0.2)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)
        is_missed = not is_over.wait(PATIENCE)
        missed.append(is_missed)
        stop.set()

    missed: list[bool] = []
    before = signal.signal(signal.SIGUSR2, lambda *_: stop.set())
    receiving = threading.Thread(target=receive)
    receiving.start()
    try:
        serve_until(FlightSqlServer(CannedBackend(), KEY), stop, grace=lambda: PATIENCE, ready=lambda _: waits.set())
    finally:
        is_over.set()
        receiving.join()
        signal.signal(signal.SIGUSR2, before)
    assert missed == [False]


def test_ready_is_told_where_connections_are_accepted(pool: ThreadPoolExecutor, backend: CannedBackend) -> None:
    stop = threading.Event()
    seen: list[pa.Table] = []

    def ready(uri: str) -> None:
        with flight.connect(uri) as client:
            ticket = client.get_flight_info(descriptor(SELECT)).endpoints[0].ticket
            seen.append(client.do_get(ticket).read_all())
        stop.set()

    served = pool.submit(serve_until, FlightSqlServer(backend, KEY), stop, grace=lambda: PATIENCE, ready=ready)
    assert served.result(PATIENCE) is True
    assert seen == [NUMBERS]


def test_a_running_call_ends_before_the_server_does(pool: ThreadPoolExecutor) -> None:
    backend, stop = SlowBackend(), threading.Event()
    server = FlightSqlServer(backend, KEY)
    served = pool.submit(serve_until, server, stop, grace=lambda: PATIENCE)
    with flight.connect(server.uri) as client:
        info = pool.submit(client.get_flight_info, descriptor(SELECT))
        assert backend.is_begun.wait(PATIENCE)
        assert len(server.in_flight) == 1
        stop.set()
        assert not served.done()
        backend.go.set()
        assert info.result(PATIENCE).total_records == 4
    assert served.result(PATIENCE) is True
    assert len(server.in_flight) == 0


def test_a_call_that_outlasts_the_grace_is_reported(pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    backend, stop = SlowBackend(), threading.Event()
    server = FlightSqlServer(backend, KEY)
    stop.set()
    with flight.connect(server.uri) as client:
        info = pool.submit(client.get_flight_info, descriptor(SELECT))
        assert backend.is_begun.wait(PATIENCE)
        assert serve_until(server, stop, grace=lambda: 0.01) is False
        assert "calls did not end within 0.01 seconds: 1" in caplog.text
        backend.go.set()
        assert info.result(PATIENCE).total_records == 4


def test_new_calls_are_refused_while_running_ones_end(pool: ThreadPoolExecutor) -> None:
    backend, stop, stopping = SlowBackend(), threading.Event(), threading.Event()
    server = FlightSqlServer(backend, KEY)
    served = pool.submit(serve_until, server, stop, grace=lambda: PATIENCE, stopping=stopping.set)
    with flight.connect(server.uri) as client, flight.connect(server.uri) as another:
        backend.go.set()
        planned = another.get_flight_info(descriptor(SELECT))
        backend.go.clear()
        backend.is_begun.clear()
        info = pool.submit(client.get_flight_info, descriptor(SELECT))
        assert backend.is_begun.wait(PATIENCE)
        stop.set()
        assert stopping.wait(PATIENCE)
        for refused in (
            lambda: another.get_flight_info(descriptor(SELECT)),
            lambda: list(another.do_action("BeginTransaction")),
            lambda: list(another.list_actions()),
        ):
            with pytest.raises(flight.FlightUnavailableError, match=r"\[unavailable\] the server is stopping"):
                refused()
        assert another.do_get(planned.endpoints[0].ticket).read_all() == NUMBERS
        backend.go.set()
        assert info.result(PATIENCE).total_records == 4
    assert served.result(PATIENCE) is True


def test_what_is_open_at_the_end_is_rolled_back(pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture) -> None:
    stop = threading.Event()
    stop.set()
    assert serve_until(FlightSqlServer(CannedBackend(begun=2), KEY), stop, grace=lambda: PATIENCE) is True
    assert "open transactions were rolled back: 2" in caplog.text


def test_a_stopped_server_takes_no_new_calls(pool: ThreadPoolExecutor, backend: CannedBackend) -> None:
    stop = threading.Event()
    server = FlightSqlServer(backend, KEY)
    stop.set()
    assert serve_until(server, stop, grace=lambda: PATIENCE) is True
    with flight.connect(server.uri) as client, pytest.raises(flight.FlightUnavailableError):
        client.get_flight_info(descriptor(SELECT))


def test_a_client_that_goes_away_frees_the_reader() -> None:
    backend = EndlessBackend()
    with FlightSqlServer(backend, KEY) as server, flight.connect(server.uri) as client:
        reader = client.do_get(client.get_flight_info(descriptor(SELECT)).endpoints[0].ticket)
        assert reader.read_chunk().data.num_rows >= 4  # small batches are joined
        reader.cancel()
        assert backend.freed.wait(PATIENCE)
        server.shutdown()
        assert len(server.in_flight) == 0
