"""Portions of scans as Arrow streams: errors at any batch, and tasks that stop reading. No JVM runs here."""

from __future__ import annotations

import io
import json
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.errors import QueryFailed
from lance_flight_client.spark.connector import jvm

ROWS = pa.record_batch({"id": [1, 2, 3]})


@dataclass(frozen=True)
class Failing:
    """A portion of some batches, and an error after them."""

    batches_before: int
    error: Exception | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from [ROWS] * self.batches_before
        if self.error is not None:
            raise self.error


REFUSED = QueryFailed("reading 't' failed: no file")
ENDS = {
    "no-rows": (Failing(0), {}),
    "rows": (Failing(3), {}),
    "error-first": (
        Failing(0, REFUSED),
        {"code": "query_failed", "sqlstate": "22000", "message": "reading 't' failed: no file"},
    ),
    "error-later": (
        Failing(2, REFUSED),
        {"code": "query_failed", "sqlstate": "22000", "message": "reading 't' failed: no file"},
    ),
    "other-error": (Failing(1, OSError("disk")), {"code": "error", "sqlstate": "HY000", "message": "OSError: disk"}),
}


@pytest.mark.parametrize(("portion", "error"), ENDS.values(), ids=ENDS)
def test_a_stream_ends_with_what_ended_its_rows(portion: Failing, error: dict[str, str]) -> None:
    sent = io.BytesIO()
    jvm.send(jvm.PICKLER.dumps(portion), sent)
    sent.seek(0)
    with pa.ipc.open_stream(sent) as stream:
        assert stream.read_all().num_rows == 3 * portion.batches_before
    assert json.loads(sent.read()) == ({"error": error} if error else {})


def test_what_is_no_portion_is_answered_with_an_error() -> None:
    sent = io.BytesIO()
    jvm.send(b"nothing", sent)
    assert b'{"error": {"code": "error", "sqlstate": "HY000", "message": "UnpicklingError' in sent.getvalue()


def test_the_socket_is_the_users_alone_and_outlives_tasks_that_leave() -> None:
    path = Path(jvm.address())
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IRWXU
    for read in (0, 10, None):
        with socket.socket(socket.AF_UNIX) as task:
            task.connect(str(path))
            asked = jvm.PICKLER.dumps(Failing(10_000))
            task.sendall(len(asked).to_bytes(4, "big") + asked)
            if read is not None:
                task.recv(read)
                continue
            with task.makefile("rb") as stream, pa.ipc.open_stream(stream) as rows:
                assert sum(batch.num_rows for batch in rows) == 30_000
