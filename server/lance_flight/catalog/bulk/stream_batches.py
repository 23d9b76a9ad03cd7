"""Batches of streams that write to a table: each is committed once, however often it is repeated.

A stream numbers its batches and never goes back, so that its last one says of all others whether they were committed:
one entry for each stream, however long it runs. What makes room for other streams are those of more than `KEPT` that
have not written for the longest time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from lance_flight.catalog.manifests.guard_notes import entries_of, with_note
from lance_flight.catalog.manifests.manifest_rows import checked_name, guard_row
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.errors import AlreadyCommitted, AlreadyExists

STREAMS = "lance_flight:streams"
KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch:
    """A batch of a stream (`Once`): how many rows it brought, and when it was committed.

    `query` tells two streams of the same name apart, where it is known: the second one counts its batches from the
    beginning, and would lose those that the first one has had.
    """

    stream: str
    batch: int
    query: str | None
    rows: int
    at: datetime

    @classmethod
    def now(cls, stream: str, batch: int, *, query: str | None, rows: int) -> StreamBatch:
        """Return a batch that is about to be committed; `InvalidInput` for a stream that cannot be remembered."""
        at = datetime.now(UTC).replace(microsecond=0)
        return cls(stream=checked_stream(stream), batch=batch, query=query, rows=rows, at=at)

    @property
    def name(self) -> str:
        return f"stream {self.stream!r}"

    def check(self, newest: Snapshot) -> None:
        """Raise `AlreadyExists` where another query has the name, as `AlreadyCommitted` for the batch itself."""
        last = last_batch(newest, self.stream)
        if last is None:
            return
        if self.query is not None and last.query is not None and self.query != last.query:
            raise AlreadyExists(
                f"{self.name} is that of query {last.query}, which has committed batch {last.batch}, and this is query"
                f" {self.query}; expected another name for a query with another checkpoint"
            )
        if self.batch <= last.batch:
            raise AlreadyCommitted(
                f"batch {self.batch} of {self.name} was committed; the last one is {last.batch}, of {last.at.isoformat()}"
            )

    def noted(self, head: pa.Table) -> pa.Table:
        others = [batch for batch in _of(head) if batch.stream != self.stream]
        said = [[batch.stream, batch.batch, batch.query, batch.rows, batch.at.isoformat()] for batch in [*others, self]]
        return with_note(head, STREAMS, said[-KEPT:])


def checked_stream(stream: str) -> str:
    """Return the name itself; `InvalidInput` for an empty or a long one."""
    return checked_name("the name of a stream", stream)


def last_batches(snapshot: Snapshot) -> list[StreamBatch]:
    """Return the last batch of each stream that a snapshot remembers; the stream that wrote last comes last."""
    return list(_of(guard_row(snapshot)))


def last_batch(snapshot: Snapshot, stream: str) -> StreamBatch | None:
    """Return the last batch of a stream, if the snapshot remembers one."""
    return next((batch for batch in last_batches(snapshot) if batch.stream == stream), None)


def _of(head: pa.Table) -> Iterator[StreamBatch]:
    for entry in entries_of(head, STREAMS):
        match entry:
            case [str(stream), int(batch), str() | None as query, int(rows), str(moment)]:
                yield StreamBatch(stream=stream, batch=batch, query=query, rows=rows, at=datetime.fromisoformat(moment))
