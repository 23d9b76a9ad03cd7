"""Portions of scans as Arrow streams: every type, errors at any batch, tasks that stop reading, and a process that dies."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from lance_flight.errors import QueryFailed
from lance_flight_client.spark.connector.reading import portions
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from tests.service.server_process import Server
from tests.spark.connector_results import texts, values
from tests.spark.processes import descendants

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
    "error-first": (Failing(0, REFUSED), {"code": "query_failed", "message": "reading 't' failed: no file"}),
    "error-later": (Failing(2, REFUSED), {"code": "query_failed", "message": "reading 't' failed: no file"}),
    "other-error": (Failing(1, OSError("disk")), {"code": "error", "message": "OSError: disk"}),
}


@pytest.mark.parametrize(("portion", "error"), ENDS.values(), ids=ENDS)
def test_a_stream_ends_with_what_ended_its_rows(portion: Failing, error: dict[str, str]) -> None:
    sent = io.BytesIO()
    portions.send(portions.PICKLER.dumps(portion), sent)
    sent.seek(0)
    with pa.ipc.open_stream(sent) as stream:
        assert stream.read_all().num_rows == 3 * portion.batches_before
    assert json.loads(sent.read()) == ({"error": error} if error else {})


def test_what_is_no_portion_is_answered_with_an_error() -> None:
    sent = io.BytesIO()
    portions.send(b"nothing", sent)
    assert b'{"error": {"code": "error", "message": "UnpicklingError' in sent.getvalue()


def test_the_socket_is_the_users_alone_and_outlives_tasks_that_leave() -> None:
    path = Path(portions.address())
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IRWXU
    for read in (0, 10, None):
        with socket.socket(socket.AF_UNIX) as task:
            task.connect(str(path))
            asked = portions.PICKLER.dumps(Failing(10_000))
            task.sendall(len(asked).to_bytes(4, "big") + asked)
            if read is not None:
                task.recv(read)
                continue
            with task.makefile("rb") as stream, pa.ipc.open_stream(stream) as rows:
                assert sum(batch.num_rows for batch in rows) == 30_000


DAY = dt.date(2025, 3, 1)
NOW = dt.datetime(1969, 3, 1, 7, 8, 9, 123456)
TYPES: dict[str, tuple[pa.DataType, list[object]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-128, 127]),
    "int16": (pa.int16(), [-32768, 32767]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "uint32": (pa.uint32(), [0, 2**32 - 1]),
    "uint64": (pa.uint64(), [0, 2**64 - 1]),
    "float32": (pa.float32(), [-1.5, float("inf")]),
    "float64": (pa.float64(), [-0.0, float("nan")]),
    "decimal5": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.01")]),
    "decimal18": (pa.decimal128(18, 0), [Decimal(-(10**18) + 1), Decimal(10**18 - 1)]),
    "decimal19": (pa.decimal128(19, 0), [Decimal(-(10**19) + 1), Decimal(10**19 - 1)]),
    "decimal38": (pa.decimal128(38, 9), [Decimal("-1.000000001"), Decimal(10**28)]),
    "text": (pa.utf8(), ["", "ü" * 20]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
    "date": (pa.date32(), [DAY, dt.date(1900, 1, 1)]),
    "moment": (pa.timestamp("us"), [NOW, dt.datetime(2500, 1, 1)]),
    "moment_utc": (pa.timestamp("ms", "UTC"), [dt.datetime(2025, 1, 1, tzinfo=dt.UTC)] * 2),
    "duration": (pa.duration("us"), [dt.timedelta(days=-1), dt.timedelta(microseconds=1)]),
    "list": (pa.list_(pa.int32()), [[], [1, None]]),
    "decimals": (pa.list_(pa.decimal128(5, 2)), [[Decimal("1.10")], [None]]),
    "struct": (
        pa.struct({"a": pa.decimal128(9, 1), "b": pa.struct({"c": pa.utf8()})}),
        [{"a": Decimal("1.5"), "b": {"c": "x"}}, {"a": None, "b": None}],
    ),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0], [3.0, 4.0]]),
}
NULLS = {"none": [], "some": [None], "only": None}


def typed(nulls: str) -> pa.Table:
    """A column of each type, with nulls among its values or instead of them."""
    given = NULLS[nulls]
    names = {
        name: pa.array([None] * 4 if given is None else [*found, *given, *found], kind)
        for name, (kind, found) in TYPES.items()
    }
    return pa.table(names)


@pytest.mark.parametrize("codegen", ["true", "false"])
@pytest.mark.parametrize("order", [("none", "some", "only"), ("only", "none", "some")], ids="-".join)
def test_every_type_is_read_as_without_the_connector(
    sql: SparkSession, server: Server, table: str, order: tuple[str, ...], codegen: str
) -> None:
    for nulls in order:
        server.ingest(table, typed(nulls), "create_append")
    session = sql.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", codegen)
    for name in ("", ".root", ".python"):
        setting = f"spark.sql.catalog.lake{name}"
        session.conf.set(setting, sql.conf.get(setting))
    rows = session.read.format("lance_flight").options(root=str(server.root), table=table).load()
    assert values(session.table(f"lake.{table}")) == values(rows)
    assert rows.count() == sum(typed(nulls).num_rows for nulls in order)


def test_a_limit_ends_a_task_before_its_rows(sql: SparkSession, server: Server, table: str) -> None:
    server.ingest(table, pa.table({"id": range(300_000)}))
    assert len(sql.sql(f"SELECT id FROM lake.{table} LIMIT 3").collect()) == 3
    assert values(sql.sql(f"SELECT count(DISTINCT id) FROM lake.{table}")) == texts([(300_000,)])


def test_a_process_that_dies_is_named_and_started_again(sql: SparkSession, server: Server, table: str) -> None:
    server.ingest(table, pa.table({"id": range(1000)}))
    found = sql.table(f"lake.{table}")
    assert found.count() == 1000
    (process,) = descendants("lance_flight_client.spark.connector")
    os.kill(process, signal.SIGKILL)
    with suppress(IllegalArgumentException):
        # The statement that meets its end may fail.
        found.selectExpr("min(id)").collect()
    assert found.selectExpr("sum(id)").collect() == [(499_500,)]


def test_a_task_tells_what_python_could_not_read(sql: SparkSession, server: Server, table: str) -> None:
    server.ingest(table, pa.table({"id": range(1000)}))
    found = sql.table(f"lake.{table}")
    assert found.agg({"id": "max"}).collect() == [(999,)]
    for file in (server.root / f"{table}.lance" / "data").iterdir():
        file.unlink()
    with pytest.raises(Py4JJavaError, match=f"reading '{table}' failed"):
        found.selectExpr("sum(id)").collect()
