"""Streams of a catalog's tables: the offsets and batches of those that read, and the commits of those that write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.commits.once import checked_stream
from lance_flight.engine.translation.evaluation import check_condition
from lance_flight.errors import InvalidInput, Unsupported
from pyspark.sql.types import StructType

from lance_flight_client.spark.connector import writes
from lance_flight_client.spark.connector.jvm import Arguments, pickle_handle, unpickle_handle
from lance_flight_client.spark.connector.relations import DirectTable, Relation, ServerTable, relation_of, text
from lance_flight_client.spark.connector.server_writes import ServerWrite
from lance_flight_client.spark.connector.table_options import STREAMED, known_options
from lance_flight_client.spark.options import OptionReading, StreamReadOptions
from lance_flight_client.spark.reading import DirectPlan
from lance_flight_client.spark.streaming import (
    BEGINNING,
    History,
    Offset,
    StreamPlan,
    StreamWriter,
    WrittenInBatch,
    plan_stream,
)
from lance_flight_client.spark.writing import PlannedWrite

_OF_READS = (*STREAMED, "partitions")
_NAME = "stream"
_READING, _WRITING = "readStream of a table", "writeStream of a table"
_RUNNING: dict[str, History] = {}
"""Streams of the JVM, by the number that it gives each."""


@dataclass(frozen=True, slots=True)
class BatchWrite:
    """A write of one batch: which stream it belongs to, and the query that is known by its checkpoint."""

    planned: PlannedWrite | ServerWrite
    stream: str
    query: str


def stream_plan_of(relation: Relation, options: Mapping[str, str]) -> StreamPlan:
    """Plan a stream of the rows of a table; `InvalidInput` for options that it does not have."""
    given = known_options(options, _OF_READS, _READING)
    reading = OptionReading(given)
    partitions = reading.number("partitions")
    if reading.problems:
        raise InvalidInput("; ".join(reading.problems))
    plan = _direct(relation)
    condition = given.get("filter")
    if condition is not None:
        check_condition(condition, plan.source)
    read = replace(plan, options=replace(plan.options, filter=condition, partitions=partitions))
    required = tuple(column for column in read.wanted if not column.nullable or pa.types.is_struct(column.type))
    return replace(plan_stream(read, StreamReadOptions.parse(given)), required=required)


def _direct(relation: Relation) -> DirectPlan:
    if not isinstance(relation, DirectTable):
        raise Unsupported(
            "streams read and write the tables of a root, not those of a server, nor views and metadata tables; expected a catalog"
            " with the option 'root' (through a server: foreachBatch)"
        )
    return relation.plan


def open_stream(given: Arguments) -> dict[str, Any]:
    """Plan a stream of a table's rows: the plan that its further requests bring along, and the offset that it begins at."""
    plan = stream_plan_of(relation_of(given), given["stream_options"])
    return {
        "plan": pickle_handle(plan),
        "initial": BEGINNING.to_json(),
        "versions_per_trigger": plan.options.versions_per_trigger,
    }


def _history(given: Arguments) -> History:
    """Return the history of the stream that asks, which holds the lease of its batch until `close_stream`."""
    history = _RUNNING.get(given["stream"])
    return _RUNNING.setdefault(given["stream"], History(unpickle_handle(given["plan"]))) if history is None else history


def newest_offset(given: Arguments) -> dict[str, Any]:
    """Return the offset behind all rows that there are."""
    return _history(given).newest.to_json()


def next_offset(given: Arguments) -> dict[str, Any]:
    """Return where the batch ends that begins at `start`: at `until` at the latest, with so many snapshots at most."""
    history, until = _history(given), given["until"]
    newest = history.newest if until is None else Offset.from_json(until)
    return history.following(Offset.from_json(given["start"]), newest, given.get("most")).to_json()


def plan_batch(given: Arguments) -> dict[str, Any]:
    """Plan the tasks of a batch; what they read is kept from vacuum until `release_stream`."""
    portions = _history(given).portions(Offset.from_json(given["start"]), Offset.from_json(given["end"]))
    return {"portions": [pickle_handle(portion) for portion in portions], "keys": [], "values": []}


def release_stream(given: Arguments) -> None:
    """Release what the last batch of a stream has read."""
    _history(given).release()


def close_stream(given: Arguments) -> None:
    """Forget a stream that runs no more, and release its lease."""
    ended = _RUNNING.pop(given["stream"], None)
    if ended is not None:
        ended.release()


def begin_batch(given: Arguments) -> dict[str, Any]:
    """Begin the write of a stream's batch; a stream without a name has the id of its query, which its checkpoint keeps."""
    relation = relation_of(given)
    query: str = given["query"]
    stream = known_options(given["stream_options"], (_NAME,), _WRITING).get(_NAME, query)
    schema, replaces = StructType.fromJson(json.loads(given["schema"])), Replaces(given["replaces"])
    if isinstance(relation, ServerTable):
        planned: PlannedWrite | ServerWrite = ServerWrite.begin(relation, schema, replaces)
    else:
        planned = writes.begun_in_root(relation, schema, replaces, ())
    return {**writes.tasks(planned), "write": pickle_handle(BatchWrite(planned, checked_stream(stream), query))}


def commit_batch(given: Arguments) -> None:
    """Commit what the tasks of a batch have written, unless the table has the batch already."""
    write: BatchWrite = unpickle_handle(given["write"])
    number = int(given["batch"])
    if isinstance(write.planned, ServerWrite):
        batch = f" ONCE {text(write.stream)} BATCH {number} QUERY {text(write.query)}"
        write.planned.commit(writes.messages_of(given["messages"]), once=batch)
        return
    writer, messages = _ended_batches(write, write.planned, given)
    writer.commit(messages, number)


def abort_batch(given: Arguments) -> None:
    """Remove what the tasks of a batch have written."""
    write: BatchWrite = unpickle_handle(given["write"])
    if isinstance(write.planned, ServerWrite):
        write.planned.abort()
        return
    writer, messages = _ended_batches(write, write.planned, given)
    writer.abort(messages, given["batch"])


def _ended_batches(
    write: BatchWrite, planned: PlannedWrite, given: Arguments
) -> tuple[StreamWriter, list[WrittenInBatch | None]]:
    messages = [
        None if message is None else WrittenInBatch(planned=planned, query=write.query, parts=message.parts)
        for message in writes.messages_of(given["messages"])
    ]
    return StreamWriter(planned, write.stream), messages


METHODS: Sequence[Callable[[Arguments], Any]] = (
    open_stream,
    newest_offset,
    next_offset,
    plan_batch,
    release_stream,
    close_stream,
    begin_batch,
    commit_batch,
    abort_batch,
)
"""Methods of streams (`methods.METHODS`)."""
