"""What is local to a thread in Python that is not Python's: of gRPC's for one call and no longer, of DataFusion's workers for good."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext, udf
from lance_flight import threads
from lance_flight.flight import wire
from lance_flight.flight.server import FlightSqlServer
from lance_flight.flight.wire import encode_command
from pyarrow import flight

from tests.flight.flight_backend import KEY, CannedBackend

CALLS = 20


class Noted(flight.ServerMiddleware):
    """Notes what is left of the beginning of a call at its end."""

    def __init__(self, local: threading.local, at_ends: list[str | None]) -> None:
        super().__init__()
        self._local = local
        self._at_ends = at_ends

    def call_completed(self, exception: Exception | None) -> None:
        self._at_ends.append(getattr(self._local, "of_this_call", None))


class NotedFactory(flight.ServerMiddlewareFactory):
    """Leaves something with the thread of each call."""

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()
        self.at_beginnings: list[str | None] = []
        self.at_ends: list[str | None] = []

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[str]]) -> Noted:
        self.at_beginnings.append(getattr(self._local, "of_this_call", None))
        self._local.of_this_call = info.method.name
        return Noted(self._local, self.at_ends)


@pytest.mark.parametrize(
    "query", [pytest.param("SELECT numbers", id="answered"), pytest.param("SELECT it", id="refused")]
)
def test_the_state_of_a_thread_is_kept_for_one_call(query: str) -> None:
    noted = NotedFactory()
    command = flight.FlightDescriptor.for_command(encode_command(wire.StatementQuery(query=query)))
    with (
        FlightSqlServer(CannedBackend(), KEY, middleware={"noted": noted}) as server,
        flight.connect(server.uri) as client,
    ):
        for _ in range(CALLS):
            with contextlib.suppress(pa.ArrowInvalid):
                client.get_flight_info(command)
    assert noted.at_beginnings == [None] * CALLS
    assert noted.at_ends == ["GET_FLIGHT_INFO"] * CALLS


def test_the_state_of_a_worker_is_kept_between_callbacks() -> None:
    local, counted = threading.local(), []

    def noted(values: pa.Array) -> pa.Array:
        if threading.current_thread() is not threading.main_thread():
            threads.keep_worker_state()
            local.callbacks = getattr(local, "callbacks", 0) + 1
            counted.append(local.callbacks)
        return values

    context = SessionContext(SessionConfig().with_target_partitions(2))
    context.register_udf(udf(noted, [pa.int64()], pa.int64(), "volatile", "noted"))
    context.register_record_batches("t", [[pa.record_batch({"x": [part]})] for part in (1, 2)])
    for _ in range(CALLS):
        context.sql("SELECT noted(x) AS y FROM t ORDER BY y").collect()
    workers = counted.count(1)
    assert 1 <= workers < len(counted)
    assert len(threads._workers) <= threads.MOST_WORKERS
