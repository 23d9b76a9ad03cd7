"""What takes few bytes to send and many to answer: it is refused, the server stays small, and another client is answered."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyarrow import flight

from tests.hostile.capped import bounded, capped
from tests.hostile.outside import described
from tests.hostile.prepared import INTO
from tests.service.server_process import Server

pytestmark = pytest.mark.slow  # a server process

MANY = 100_000_000
NULLS = pa.nulls(MANY)
BOOLEANS = pa.Array.from_buffers(pa.bool_(), MANY, [None, pa.py_buffer(bytes(MANY // 8))])
ENDS = pa.array([0, MANY], pa.int32())
RUN = pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), ["x" * 100])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with capped(tmp_path_factory.mktemp("memory") / "root") as served:
        served.run("CREATE TABLE t (n BIGINT, s VARCHAR, v FLOAT[1536])")
        served.run("INSERT INTO t (n, s) VALUES (1, 'a'), (2, 'b')")
        yield served


def rows(*columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({str(place): column for place, column in enumerate(columns)})


PARAMETERS = {
    "NULLs as texts": ("SELECT CAST(? AS VARCHAR)", rows(NULLS)),
    "NULLs as vectors": ("INSERT INTO t (v) VALUES (?)", rows(NULLS.slice(0, 100_000))),
    "booleans as numbers": ("SELECT n + ? FROM t", rows(BOOLEANS)),
    "booleans of any type": ("SELECT ?", rows(BOOLEANS)),
    "NULLs in a list": ("SELECT ?", rows(pa.ListArray.from_arrays(ENDS, NULLS))),
    "NULLs in a struct": ("SELECT ?", rows(pa.StructArray.from_arrays([NULLS] * 3, list("abc")))),
    "NULLs in one row": ("SELECT ?", rows(pa.FixedSizeListArray.from_arrays(NULLS, MANY))),
    "a run": ("SELECT ?", rows(RUN)),
}


@pytest.mark.parametrize(("sql", "parameters"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_without_bytes_are_refused(server: Server, sql: str, parameters: pa.RecordBatch) -> None:
    with bounded(server, memory=256 << 20):
        assert "parameter_limit" in server.refuses(sql, parameters)


CODES = pa.Array.from_buffers(pa.int8(), MANY, [None, pa.py_buffer(bytes(MANY))])
INGESTED = {
    "a dictionary": pa.DictionaryArray.from_arrays(CODES, ["x" * 100]),
    "a dictionary in a list": pa.ListArray.from_arrays(ENDS, pa.DictionaryArray.from_arrays(CODES, ["x" * 100])),
    "NULLs in one row": pa.FixedSizeListArray.from_arrays(pa.nulls(2_000_000_000), 2_000_000_000),
}


@pytest.mark.parametrize("column", INGESTED.values(), ids=INGESTED)
def test_batches_that_grow_as_they_are_read_are_refused(server: Server, column: pa.Array) -> None:
    batch = rows(column)
    with bounded(server), pytest.raises(flight.FlightServerError, match="batch_limit"):  # noqa: PT012 - which call fails is no matter
        writer, reader = server.client.do_put(described(INTO), batch.schema)
        with writer:
            writer.write_batch(batch)
            writer.done_writing()
            reader.read()


def test_values_that_are_missing_are_stored_in_parts(server: Server) -> None:
    missing = 200_000
    server.run("CREATE TABLE vectors (p BIGINT, b BIGINT, v FLOAT[1536]) PARTITIONED BY (p)")
    with bounded(server, memory=768 << 20):
        server.ingest("vectors", rows(BOOLEANS.slice(0, missing)).rename_columns(["b"]), "append")
    assert server.value("SELECT count(*) FROM vectors WHERE v IS NULL AND b = 0") == missing
