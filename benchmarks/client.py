"""One raw Flight client for both servers, so that neither is charged for a driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from lance_flight.flight.protocol import flight_sql_pb2 as pb
from pyarrow import flight

from benchmarks import data
from benchmarks.servers import Server

_Options = pb.CommandStatementIngest.TableDefinitionOptions
Pause = Callable[[pa.RecordBatch], None]
Rows: TypeAlias = pa.Table | pa.RecordBatchReader


class _Client:
    """A connection that is closed at the end of a `with`."""

    def __init__(self, server: Server) -> None:
        self._client = flight.connect(server.uri)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _read(self, ticket: flight.Ticket) -> Iterator[pa.RecordBatch]:
        for chunk in self._client.do_get(ticket):
            yield chunk.data

    def _put(self, descriptor: flight.FlightDescriptor, rows: Rows, *, answered: bool) -> bytes:
        writer, answers = self._client.do_put(descriptor, rows.schema)
        with writer:
            for batch in rows.to_batches(data.BATCH_ROWS) if isinstance(rows, pa.Table) else rows:
                writer.write_batch(batch)
            writer.done_writing()
            return bytes(answers.read()) if answered else b""


class SqlClient(_Client):
    """Flight SQL, as far as the benchmarks need it."""

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The batches of a query, one endpoint after another."""
        yield from self.fetch(self.plan(sql))

    def plan(self, sql: str) -> flight.FlightInfo:
        """Have a query planned; what its rows are fetched by."""
        return self._client.get_flight_info(_command(pb.CommandStatementQuery(query=sql)))

    def fetch(self, planned: flight.FlightInfo) -> Iterator[pa.RecordBatch]:
        """The batches of a planned query, one endpoint after another."""
        for endpoint in planned.endpoints:
            yield from self._read(endpoint.ticket)

    def row(self, sql: str) -> dict[str, object]:
        """The one row of a query, by column."""
        (row,) = self.rows(sql)
        return row

    def rows(self, sql: str) -> list[dict[str, object]]:
        """All rows of a query, by column."""
        return [row for batch in self.stream(sql) for row in batch.to_pylist()]

    def update(self, sql: str) -> int:
        """Run a statement that returns no rows; how many it affected."""
        command = _command(pb.CommandStatementUpdate(query=sql))
        return _affected(self._put(command, pa.table({}), answered=True))

    def ingest(self, name: str, rows: Rows, *, partition_by: str | None = None) -> int:
        """Store rows in a table, which is made if it is not there; how many the server says it stored."""
        command = pb.CommandStatementIngest(
            table=name,
            table_definition_options=_Options(
                if_not_exist=_Options.TABLE_NOT_EXIST_OPTION_CREATE, if_exists=_Options.TABLE_EXISTS_OPTION_APPEND
            ),
            options={} if partition_by is None else {"partition_by": partition_by},
        )
        return _affected(self._put(_command(command), rows, answered=True))

    @contextmanager
    def prepared(self, sql: str) -> Iterator[Prepared]:
        """A statement that the server keeps, with values bound to each run."""
        request = pb.ActionCreatePreparedStatementRequest(query=sql)
        (answer,) = self._client.do_action(flight.Action("CreatePreparedStatement", _packed(request)))
        created = AnyMessage.FromString(answer.body.to_pybytes())
        result = pb.ActionCreatePreparedStatementResult()
        created.Unpack(result)
        yield Prepared(self, result.prepared_statement_handle)
        closing = pb.ActionClosePreparedStatementRequest(prepared_statement_handle=result.prepared_statement_handle)
        list(self._client.do_action(flight.Action("ClosePreparedStatement", _packed(closing))))

    def bound(self, handle: bytes, values: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batches of a prepared query with these values."""
        command = _command(pb.CommandPreparedStatementQuery(prepared_statement_handle=handle))
        answer = self._put(command, pa.Table.from_batches([values]), answered=True)
        kept = pb.DoPutPreparedStatementResult.FromString(answer).prepared_statement_handle or handle
        info = self._client.get_flight_info(_command(pb.CommandPreparedStatementQuery(prepared_statement_handle=kept)))
        for endpoint in info.endpoints:
            yield from self._read(endpoint.ticket)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared query of a client."""

    client: SqlClient
    handle: bytes

    def rows(self, values: pa.RecordBatch) -> list[dict[str, object]]:
        """All rows of a run with these values, by column."""
        return [row for batch in self.client.bound(self.handle, values) for row in batch.to_pylist()]


class BareClient(_Client):
    """What `bare.BareServer` understands: paths."""

    def stream(self, path: str) -> Iterator[pa.RecordBatch]:
        """The batches of a Lance table."""
        return self._read(flight.Ticket(path))

    def write(self, path: str, rows: Rows) -> None:
        """Write a Lance table."""
        self._put(flight.FlightDescriptor.for_path(path), rows, answered=False)

    def call(self) -> None:
        """Make an empty call."""
        list(self._client.list_actions())


@dataclass(frozen=True, slots=True)
class SlowReader:
    """A reader that takes `seconds` longer than it must, in pauses as long as the batch before them is large."""

    seconds: float
    rows: int

    def __call__(self, batch: pa.RecordBatch) -> None:
        time.sleep(self.seconds * batch.num_rows / self.rows)


def drain(batches: Iterator[pa.RecordBatch], pause: Pause | None = None) -> int:
    """Read everything and throw it away; how many rows there were."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        if pause is not None:
            pause(batch)
    return rows


def check(what: str, batches: Iterator[pa.RecordBatch], facts: data.Facts) -> None:
    """Read everything and hold it against what the data says, every column of it having arrived."""
    rows = sum_id = sum_b = 0
    sum_a = 0.0
    for batch in batches:
        data.expect(f"{what}: columns", batch.schema.names, data.SCHEMA.names)
        rows += batch.num_rows
        sum_id += pc.sum(batch["id"]).as_py() or 0
        sum_a += pc.sum(batch["a"]).as_py() or 0.0
        sum_b += pc.sum(batch["b"]).as_py() or 0
    found = {"rows": rows, "sum_id": sum_id, "sum_a": sum_a, "sum_b": sum_b}
    expect_facts(what, found, facts)


def expect_facts(what: str, found: Mapping[str, object], facts: data.Facts) -> None:
    """`WrongAnswer` where one of the numbers of `found`, named as in `Facts`, is another."""
    for name, value in found.items():
        data.expect(f"{what}: {name}", value, getattr(facts, name))


def _command(message: Message) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(_packed(message))


def _packed(message: Message) -> bytes:
    packed = AnyMessage()
    packed.Pack(message)
    return packed.SerializeToString()


def _affected(answer: bytes) -> int:
    return int(pb.DoPutUpdateResult.FromString(answer).record_count)
