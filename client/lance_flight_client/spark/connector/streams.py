"""Streams of a catalog's tables: the offsets and batches of those that read, and the commits of those that write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces
from lance_flight.catalog.commits.once import checked_stream
from lance_flight.engine.translation.evaluation import check_condition
from lance_flight.errors import DataError, InvalidInput, NotFound, QueryFailed, Unsupported
from pyspark.sql.types import StructType

from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector import writes
from lance_flight_client.spark.connector.backends import backend_of
from lance_flight_client.spark.connector.jvm import Arguments, pickle_handle, unpickle_handle
from lance_flight_client.spark.connector.relations import (
    DirectTable,
    QueryPortion,
    Relation,
    RootQuery,
    ServerQuery,
    ServerTable,
    changes_between,
    of_reads,
    relation_of,
    select,
    text,
)
from lance_flight_client.spark.connector.server_writes import ServerWrite
from lance_flight_client.spark.connector.table_options import STREAMED, known_options
from lance_flight_client.spark.options import NEW_ROWS, NamedTable, OptionReading, ReadOptions, StreamReadOptions
from lance_flight_client.spark.reading import DirectPlan, plan_through_server
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.streaming import (
    BEGINNING,
    History,
    Offset,
    StreamPlan,
    StreamWriter,
    TableHistory,
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
    given, partitions = _read_options(options)
    plan = _direct(relation)
    condition = given.get("filter")
    if condition is not None:
        check_condition(condition, plan.source)
    read = replace(plan, options=replace(plan.options, filter=condition, partitions=partitions))
    required = tuple(column for column in read.wanted if not column.nullable or pa.types.is_struct(column.type))
    return replace(plan_stream(read, StreamReadOptions.parse(given)), required=required)


def _read_options(options: Mapping[str, str]) -> tuple[dict[str, str], int | None]:
    """Return the options of a stream, and in how many partitions it reads."""
    given = known_options(options, _OF_READS, _READING)
    reading = OptionReading(given)
    partitions = reading.number("partitions")
    if reading.problems:
        raise InvalidInput("; ".join(reading.problems))
    return given, partitions


def _direct(relation: Relation) -> DirectPlan:
    if not isinstance(relation, DirectTable):
        raise Unsupported("streams read tables and their changes, not views and other metadata tables")
    return relation.plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPlan:
    """Plan of a stream by the SQL of a catalog: the rows that are added to a table of a server, or all changes of a table (`is_feed`)."""

    catalog: Mapping[str, str] = field(repr=False)
    table: NamedTable
    columns: Sequence[str]
    options: StreamReadOptions
    is_feed: bool
    condition: str | None = None
    partitions: int | None = None
    required: Sequence[str] = ()
    """Columns that Spark takes for NOT NULL."""

    @classmethod
    def of(
        cls, catalog: Mapping[str, str], relation: ServerTable | ServerQuery | RootQuery, options: Mapping[str, str]
    ) -> ChangesPlan:
        """Plan a stream of a table of a server, or of a change feed."""
        table = relation.options.table if isinstance(relation, ServerTable) else relation.feed
        if table is None:
            raise Unsupported("streams read tables and their changes, not views and other metadata tables")
        given, partitions = _read_options(options)
        return cls(
            catalog=dict(catalog),
            table=table,
            columns=relation.source.names,
            options=StreamReadOptions.parse(given),
            is_feed=not isinstance(relation, ServerTable),
            condition=given.get("filter"),
            partitions=partitions,
            required=[each.name for each in relation.source if not each.nullable] * isinstance(relation, ServerTable),
        )


class ChangesHistory(History):
    """The history of a table as its metadata tables tell it. Nothing keeps what a batch reads from vacuum: what is gone is an error."""

    def __init__(self, plan: ChangesPlan) -> None:
        super().__init__(plan.table.name, plan.options.starting)
        self._plan = plan
        self._backend = backend_of(plan.catalog)
        self._snapshots = f"{quote_name(plan.table.db_schema)}.{quote_name(f'{plan.table.name}$snapshots')}"

    @property
    def newest(self) -> Offset:
        return self._offset("ORDER BY version DESC")

    def behind(self, version: int) -> Offset:
        return self._offset(f"WHERE version = {version}")

    def oldest(self) -> Offset:
        return self._offset("ORDER BY version")

    def _offset(self, which: str) -> Offset:
        found = self._backend.rows(f"SELECT version, committed_at FROM {self._snapshots} {which} LIMIT 1")  # noqa: S608 - quoted
        for row in found.to_pylist():
            return Offset(version=row["version"], committed_at=row["committed_at"])
        raise NotFound(
            f"table {self.name!r} has no such version: {which}; what was removed by vacuum cannot be streamed"
        )

    def portions(self, start: Offset, end: Offset) -> Sequence[Portion]:
        if start == BEGINNING and not end.is_whole:
            return []
        for offset in (start, end):
            if offset != BEGINNING:
                self.check(offset)
        if start == BEGINNING:
            return self._tasks(self._whole(end))
        plan = self._plan
        source = changes_between(plan.table, start.version, end.version)
        where = [] if plan.condition is None else [f"({plan.condition}\n)"]
        if not plan.is_feed:
            if not plan.options.allows_changes:
                self._check_added(source, where, start, end)
            where = [*where, "_change_type = 'insert'"]
            self._check_required(source, where)
        return self._tasks(select(source, plan.columns, " AND ".join(where) or None))

    def _whole(self, end: Offset) -> str:
        """Return the query of all rows of a snapshot, each of them an insertion where it is a change."""
        plan = self._plan
        name = f"{quote_name(plan.table.db_schema)}.{quote_name(f'{plan.table.name}@{end.version}')}"
        if not plan.is_feed:
            self._check_required(name, [] if plan.condition is None else [f"({plan.condition}\n)"])
            return select(name, plan.columns, plan.condition)
        moment = "" if end.committed_at is None else end.committed_at.isoformat()
        said = {
            "_change": "'insert'",
            "_change_type": "'insert'",
            "_snapshot": str(end.version),
            "_commit_version": str(end.version),
            "_commit_timestamp": f"TIMESTAMP {text(moment)}",
        }
        columns = ", ".join(f"{said.get(each, quote_name(each))} AS {quote_name(each)}" for each in plan.columns)
        return select(f"(SELECT {columns} FROM {name}) AS whole", plan.columns, plan.condition)  # noqa: S608 - quoted

    def _check_added(self, source: str, where: Sequence[str], start: Offset, end: Offset) -> None:
        gone = " AND ".join([*where, "_change_type <> 'insert'"])
        found = self._backend.rows(f"SELECT min(_commit_version) AS version FROM {source} WHERE {gone}")  # noqa: S608 - quoted
        (version,) = found.column("version").to_pylist()
        if version is not None:
            raise QueryFailed(
                f"snapshot {version} of table {self.name!r}, between {start.version} and {end.version}, removes or changes rows; with"
                f" the option 'changes' = {NEW_ROWS!r} the stream goes on with the rows that came in their place"
            )

    def _check_required(self, source: str, where: Sequence[str]) -> None:
        """Refuse NULL of before in a column that is NOT NULL by now."""
        for column in self._plan.required:
            lacking = " AND ".join([*where, f"{quote_name(column)} IS NULL"])
            if self._backend.rows(f"SELECT 1 FROM {source} WHERE {lacking} LIMIT 1").num_rows:  # noqa: S608 - quoted
                raise DataError(f"column {column!r} of table {self.name!r} is NOT NULL, and NULL in rows of the stream")

    def _tasks(self, query: str) -> Sequence[Portion]:
        if "root" in self._plan.catalog:
            return [QueryPortion(self._plan.catalog, query)]
        read = ReadOptions.parse({**of_reads(self._plan.catalog), "query": query})
        return plan_through_server(replace(read, partitions=self._plan.partitions)).portions()


def open_stream(given: Arguments) -> dict[str, Any]:
    """Plan a stream of a table's rows: the plan that its further requests bring along, and the offset that it begins at."""
    relation, options = relation_of(given), given["stream_options"]
    plan = (
        ChangesPlan.of(given["options"], relation, options)
        if isinstance(relation, ServerTable | ServerQuery | RootQuery)
        else stream_plan_of(relation, options)
    )
    return {
        "plan": pickle_handle(plan),
        "initial": BEGINNING.to_json(),
        "versions_per_trigger": plan.options.versions_per_trigger,
    }


def _history(given: Arguments) -> History:
    """Return the history of the stream that asks, which holds the lease of its batch until `close_stream`."""
    history = _RUNNING.get(given["stream"])
    if history is not None:
        return history
    plan = unpickle_handle(given["plan"])
    opened = ChangesHistory(plan) if isinstance(plan, ChangesPlan) else TableHistory(plan)
    return _RUNNING.setdefault(given["stream"], opened)


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
    return {**writes.tasks(planned, schema), "write": pickle_handle(BatchWrite(planned, checked_stream(stream), query))}


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
