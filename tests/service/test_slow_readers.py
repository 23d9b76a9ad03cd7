"""Clients that open results and do not read on: what is held for them is bounded, and given back to those who wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from tests.engine.waiting import until
from tests.flight.statements import reader
from tests.selection import IS_FULL
from tests.service.server_process import Server, serving

MIB = 1 << 20
BIG = "SELECT value, repeat('x', 1000) AS word FROM generate_series(1, 2000000000)"
ROWS, WIDTH = 60_000 if IS_FULL else 20_000, 512
QUERIES = {
    "scanned": "SELECT id, v FROM wide",
    "joined": "SELECT a.id, a.v, b.v AS w FROM wide a JOIN wide b ON a.id = b.id",
    "of texts": "SELECT id, word FROM long",
}
"""Results of many rows of 1 to 4 KiB."""
MOST_CHUNKS = 200


@contextmanager
def unread(server: Server, sql: str, count: int) -> Iterator[list[flight.FlightStreamReader]]:
    """Results of which their clients, each with a connection of its own, have taken the first rows."""
    with ExitStack() as stack:
        readers = [reader(stack.enter_context(flight.connect(server.uri)), sql) for _ in range(count)]
        for each in readers:
            stack.callback(each.cancel)
            assert each.read_chunk().data.num_rows
        yield readers


def read_on(each: flight.FlightStreamReader) -> str:
    """Read a result to its end, which must be an error; its text."""
    with pytest.raises((flight.FlightError, pa.ArrowException, OSError)) as raised:
        drain(each)
    return str(raised.value)


def drain(each: flight.FlightStreamReader) -> None:
    """Read on, though not without an end."""
    for _ in range(MOST_CHUNKS):
        each.read_chunk()


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two tables of wide rows."""
    ids = np.arange(ROWS)
    values = pa.array(np.random.default_rng(1).random(ROWS * WIDTH, np.float32))
    columns = {
        "wide": {"v": pa.FixedSizeListArray.from_arrays(values, WIDTH)},
        "long": {"word": [f"{n:05}" * 400 for n in ids]},
    }
    with serving(tmp_path_factory.mktemp("slow") / "root") as server:
        for name, more in columns.items():
            rows = pa.table({"id": ids, "p": [f"p{n % 4}" for n in ids], **more})
            server.ingest(name, rows.to_reader(4096), partition_by="p")
        yield server


def test_a_stream_whose_client_takes_nothing_ends_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path / "root", "--stream-idle-timeout", "0.3") as server, unread(server, BIG, 1) as (slow,):
        until(lambda: server.value("SELECT count(*) FROM system.statements WHERE outcome = 'limit_exceeded'") == 1)
        assert server.value("SELECT count(*) FROM system.queries") == 1, "it is over, whatever its client does"
        text = "[54000] [limit_exceeded] the client has taken no rows for 0.3 seconds (stream_idle_timeout)"
        assert text in read_on(slow)


def test_stalled_clients_make_room_for_others(tmp_path: Path) -> None:
    """More clients than there is room for open results and do nothing: each new one gets its turn."""
    options = ("--stream-memory-limit", str(MIB), "--stream-idle-timeout", "0.3")
    log = tmp_path / "log"
    with serving(tmp_path / "root", *options, log=log) as server, unread(server, BIG, 4) as stalled:
        assert server.query("SELECT 1 AS n")["n"].to_pylist() == [1]
        until(lambda: server.value("SELECT count(*) FROM system.queries") == 1)
        for each in stalled:
            read_on(each)
        assert "is closed: its client takes no rows, and others have no room" in log.read_text()


@pytest.mark.parametrize("sql", QUERIES.values(), ids=QUERIES)
def test_a_client_that_reads_on_gets_all_rows(wide: Server, sql: str) -> None:
    assert reader(wide.client, sql).read_all().num_rows == ROWS
