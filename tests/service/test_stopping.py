"""A server that is told to stop: what runs goes to its end, what comes is refused, what is open is rolled back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from lance_flight.flight.wire import StatementQuery
from pyarrow import flight

from tests.engine.waiting import until
from tests.flight.statements import begin, descriptor, planned, reader
from tests.service.operated import Operated, operated
from tests.service.server_process import Server, started
from tests.stock import stored_tables

ROWS = 2_000_000
PATIENCE = 60.0
MANY = pa.table({"id": np.arange(ROWS)})


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Operated]:
    with operated(tmp_path / "root", "--grace", str(PATIENCE)) as server:
        yield server


def streaming(running: Operated) -> flight.FlightStreamReader:
    """A stream of which one batch is read; the rest is more than fits anywhere between server and client."""
    running.server.ingest("many", MANY)
    result = reader(running.server.client, "SELECT id, id + 1, id + 2, id + 3 FROM many")
    assert result.read_chunk().data.num_rows > 0
    return result


def test_a_running_stream_goes_to_its_end_and_new_calls_are_refused(running: Operated) -> None:
    assert running.page("/readyz") == (200, "ok\n")
    result = streaming(running)
    running.stop()
    assert running.page("/readyz") == (503, "the server is stopping\n")
    assert running.page("/healthz")[0] == 200
    with flight.connect(running.server.uri) as another, pytest.raises(flight.FlightUnavailableError, match="stopping"):
        planned(another, "SELECT 1")
    with pytest.raises(dbapi.OperationalError, match="stopping"):
        running.server.rows("SELECT 1")
    assert sum(chunk.data.num_rows for chunk in result) > ROWS // 2
    assert running.server.process.wait(PATIENCE) == 0


def test_a_running_ingest_is_stored(running: Operated) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield from MANY.to_batches()
        # The driver reads ahead of the call that sends the rows.
        another = Server(running.server.root, running.server.uri, running.server.process)
        until(lambda: another.value("SELECT count(*) FROM system.queries WHERE kind = 'ingest'"))
        another.close()
        running.stop()
        yield from MANY.to_batches()

    reader = pa.RecordBatchReader.from_batches(MANY.schema, rows())
    assert running.server.ingest("t", reader) == 2 * ROWS
    assert running.server.process.wait(PATIENCE) == 0
    with started(running.server.root) as again:
        assert again.value("SELECT count(*) FROM t") == 2 * ROWS


def test_open_transactions_are_rolled_back(running: Operated) -> None:
    running.server.run("CREATE TABLE t (id BIGINT, p INT) PARTITIONED BY (p)")
    transaction = begin(running.server.client)
    insert = StatementQuery(query="INSERT INTO t VALUES (1, 1), (2, 2)", transaction_id=transaction)
    assert running.server.client.get_flight_info(descriptor(insert)).total_records == 2
    running.stop()
    assert running.server.process.wait(PATIENCE) == 0
    assert "open transactions were rolled back: 1" in running.log()
    assert stored_tables(running.server.root / "t") == []


def test_the_second_signal_ends_at_once(running: Operated) -> None:
    result = streaming(running)
    running.stop()
    running.server.process.send_signal(signal.SIGINT)
    assert running.server.process.wait(PATIENCE) == 128 + signal.SIGINT
    with pytest.raises((flight.FlightError, OSError)):
        result.read_all()
