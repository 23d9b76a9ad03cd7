"""Streams whose client goes away half-way: gRPC ends them like any other, and nothing may come of what was sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from lance_flight.errors import InvalidInput
from lance_flight.flight.actions import PreparedStatements, no_bindings
from lance_flight.flight.backend import Caller
from lance_flight.flight.calls import Call
from lance_flight.flight.dispatch import Updates
from lance_flight.flight.rows import InputRules
from lance_flight.flight.tickets import Prepared, TicketSealer
from lance_flight.flight.wire import (
    PreparedStatementQuery,
    PreparedStatementUpdate,
    StatementIngest,
    TableDefinitionOptions,
)

from tests.flight.flight_backend import ECHO, KEY, CannedBackend

BATCH = pa.record_batch({"1": [1, 2], "2": ["a", "b"]})
UPDATE = "UPDATE $1, $2"


@dataclass(frozen=True, slots=True)
class Chunk:
    data: pa.RecordBatch | None


@dataclass(frozen=True, slots=True)
class Reader:
    """What a DoPut reads: some batches, then the end."""

    batches: list[pa.RecordBatch]
    schema: pa.Schema = BATCH.schema

    def __iter__(self) -> Iterator[Chunk]:
        return (Chunk(batch) for batch in self.batches)

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(BATCH.schema, self.batches)


@pytest.fixture
def backend() -> CannedBackend:
    return CannedBackend(updates={UPDATE: 1})


def updates(backend: CannedBackend) -> Updates:
    return Updates(
        backend=backend,
        prepared=PreparedStatements(
            backend=backend, sealer=TicketSealer(KEY), bindings=no_bindings(), replica="here", inputs=InputRules()
        ),
        inputs=InputRules(),
    )


def handle(sql: str) -> bytes:
    return TicketSealer(KEY).handle(Prepared(text=sql, replica="here"), Caller().principal)


def update(updates: Updates, call: Call, reader: Any) -> bytes:
    return updates.prepared_statement_update(
        call, PreparedStatementUpdate(prepared_statement_handle=handle(UPDATE)), reader
    )


def binding(updates: Updates, call: Call, reader: Any) -> bytes:
    return updates.prepared_statement_query(
        call, PreparedStatementQuery(prepared_statement_handle=handle(ECHO)), reader
    )


def ingest(updates: Updates, call: Call, reader: Any) -> bytes:
    options = TableDefinitionOptions(if_not_exist=1, if_exists=1)
    return updates.statement_ingest(call, StatementIngest(table="t", table_definition_options=options), reader)


Put = Callable[[Updates, Call, Any], bytes]


@pytest.mark.parametrize("sent", [0, 1, 3])
@pytest.mark.parametrize("put", [update, binding, ingest])
def test_nothing_is_run_for_a_client_that_went_away(backend: CannedBackend, put: Put, sent: int) -> None:
    gone = Call(caller=Caller(), is_cancelled=lambda: True)
    with pytest.raises(InvalidInput, match="went away before the end"):
        put(updates(backend), gone, Reader([BATCH] * sent))
    assert (backend.ran, backend.ingested) == ([], [])


@pytest.mark.parametrize(("put", "rows"), [(update, [4]), (binding, []), (ingest, [4])])
def test_all_of_a_stream_that_ends_is_taken(backend: CannedBackend, put: Put, rows: list[int]) -> None:
    assert put(updates(backend), Call(caller=Caller()), Reader([BATCH, BATCH]))
    ran = [len(call.parameters or []) for call in backend.ran]
    assert ran + [call.rows.num_rows for call in backend.ingested] == rows
