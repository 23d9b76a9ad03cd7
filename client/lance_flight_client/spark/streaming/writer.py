"""`df.writeStream`: each batch of a stream is one commit, made once, however often Spark repeats it.

Spark makes a writer for the tasks of a batch and another one for its commit, so that what was planned comes along with
what the tasks say. The tasks know which query they belong to, the commit alone which batch it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces, WrittenPart
from lance_flight.catalog.bulk.stream_batches import StreamBatch, checked_stream
from lance_flight.errors import AlreadyCommitted
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lance_flight_client.spark.streaming.options import StreamWriteOptions
from lance_flight_client.spark.writing.planning import planned_write
from lance_flight_client.spark.writing.writer import PlannedWrite

log = logging.getLogger(__name__)

QUERY = "sql.streaming.queryId"
"""Property by which Spark's tasks know the query; it stays the same for as long as there is the checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenInBatch(WriterCommitMessage):
    """Files that a task wrote, with the write and the query that they belong to."""

    planned: PlannedWrite
    query: str | None
    parts: tuple[WrittenPart, ...]


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of one stream."""

    def __init__(self, planned: PlannedWrite, stream: str) -> None:
        self._planned = planned
        self._stream = stream

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY)
        return WrittenInBatch(planned=self._planned, query=query, parts=self._planned.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's interface
        done = _done(messages)
        parts = [part for message in done for part in message.parts]
        if not done or (not parts and done[0].planned.replaces is Replaces.NOTHING):
            # A batch without rows has nothing that could be there twice.
            return
        count = sum(part.rows for part in parts)
        try:
            done[0].planned.commit(parts, StreamBatch.now(self._stream, batchId, query=done[0].query, rows=count))
        except AlreadyCommitted as exc:
            # Spark repeats a batch whose end it does not know of.
            log.warning("%s; nothing was written", exc)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's interface
        done = _done(messages)
        if not done or len(done) == len(messages):
            # Nobody knows of any files; or a commit was begun, which has cleaned up itself if its outcome is known.
            return
        done[0].planned.shared.discard(part for message in done for part in message.parts)


def _done(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenInBatch]:
    return [cast("WrittenInBatch", message) for message in messages if message is not None]


def new_stream_writer(options: StreamWriteOptions, schema: StructType) -> StreamWriter:
    """Return the writer of the next batch; make a missing table. Errors as of `writing.planning.new_writer`."""
    stream = checked_stream(options.stream)
    return StreamWriter(planned_write(options.write, schema), stream)
