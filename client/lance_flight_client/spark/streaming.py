"""Streams: rows that snapshots add to a table, batch by batch, and batches written to a table, each once.

Spark makes a writer for the tasks of a batch and another one for its commit, so that what was planned comes along with
what the tasks say. The tasks know which query they belong to, the commit alone which batch it is.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Self, cast

import pyarrow as pa
from lance_flight.catalog.bulk.shared_writes import Replaces, WrittenFiles
from lance_flight.catalog.commits.once import StreamBatch, checked_stream
from lance_flight.catalog.history import Added, Additions
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.catalog.table import Table
from lance_flight.engine.query.scan_planning import plan_scan
from lance_flight.errors import (
    AlreadyCommitted,
    Conflict,
    InvalidInput,
    NotFound,
    QueryFailed,
    SchemaError,
    Unsupported,
)
from lance_flight.model.schema import NamespaceSchema
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lance_flight_client.dataset.conditions import RowCondition
from lance_flight_client.dataset.portions import balance_tasks, store_of, tasks_for
from lance_flight_client.spark.options import EARLIEST, LATEST, NEW_ROWS, StreamReadOptions, StreamWriteOptions
from lance_flight_client.spark.portions import DirectPortion, StreamPortion
from lance_flight_client.spark.reading import DirectPlan
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.writing import PlannedWrite, planned_write

try:
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
except ModuleNotFoundError:
    # Spark 4.1 has none of them, and a catalog's streams need none: they are planned by the connector.
    ReadLimit = ReadMaxFiles = SupportsTriggerAvailableNow = type("Missing", (), {})  # type: ignore[misc, assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A place in the history of a table: behind the rows of a snapshot. `BEGINNING` stands before everything.

    `committed_at` tells the snapshot from that of a table which was made again. Spark asks for the first offset of a query
    again when it repeats the first batch, and keeps the ends of batches alone: so the beginning is always the same, the first batch
    ends where the rows are to begin, and says itself whether `is_whole`, with all rows of its snapshot, or empty.
    """

    version: int = 0
    committed_at: datetime | None = None
    is_whole: bool = False

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave; `InvalidInput` for the offset of another source."""
        match dict(found):
            case {"version": 0}:
                return cls()
            case {"version": int(version), "committed_at": str(moment), "is_whole": bool(is_whole)}:
                return cls(version=version, committed_at=datetime.fromisoformat(moment), is_whole=is_whole)
            case _:
                raise InvalidInput(f"offset {found!r} in the checkpoint is none of lance_flight's")

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark keeps it."""
        if self.committed_at is None:
            return {"version": self.version}
        return {"version": self.version, "committed_at": self.committed_at.isoformat(), "is_whole": self.is_whole}


BEGINNING = Offset()


def last_version(start: int, newest: int, most: int | None) -> int:
    """Return the version up to which a batch goes that begins behind `start`, with at most so many versions.

    >>> last_version(3, 9, None), last_version(3, 9, 2), last_version(9, 9, 2)
    (9, 5, 9)
    """
    return newest if most is None else min(newest, start + most)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """Plan of a stream: the columns and the filter of a `read`, in the schema that the table had at planning.

    Spark takes the columns `required` for NOT NULL, as they are then.
    """

    read: DirectPlan
    options: StreamReadOptions
    schema: NamespaceSchema
    required: tuple[pa.Field, ...] = ()

    @property
    def rules(self) -> DirectPortion:
        """Read of the rows of any snapshot, by the ids of the columns; NULL where the snapshot lacks one."""
        source = pa.schema([field.with_nullable(nullable=True) for field in self.schema.arrow])
        condition = self.read.options.filter
        return DirectPortion(
            name=self.read.table.name,
            planned=self.read.planned,
            source=source,
            ids=self.schema.ids,
            schema=pa.schema([source.field(name) for name in self.read.wanted.names]),
            filters=(),
            condition=None if condition is None else RowCondition.over(condition, source.names),
            pieces=(),
        )


class History(ABC):
    """The history of a table that is streamed, as far as it goes now, and the offsets of its batches."""

    def __init__(self, name: str, starting: int | str) -> None:
        self.name = name
        self._starting = starting
        self._held: list[SnapshotLease] = []

    @property
    @abstractmethod
    def newest(self) -> Offset:
        """Behind all rows that there are."""

    @abstractmethod
    def behind(self, version: int) -> Offset:
        """Return the offset behind a snapshot; `NotFound` where there is none."""

    @abstractmethod
    def oldest(self) -> Offset:
        """Return the offset behind the first snapshot that there is."""

    @abstractmethod
    def portions(self, start: Offset, end: Offset) -> Sequence[Portion]:
        """Return the tasks that read the rows between two offsets; `Conflict` where the table was made again."""

    def release(self) -> None:
        """Release the leases on the snapshots of the last batch, so that vacuum may delete them."""
        self._held = []

    def following(self, start: Offset, newest: Offset, most: int | None) -> Offset:
        """Return where a batch ends that begins at `start`, with at most so many snapshots; `start` where nothing has come.

        The first one ends where the stream begins.
        """
        if start == BEGINNING:
            return self._first(newest)
        version = last_version(start.version, newest.version, most)
        if version < start.version:
            raise self._made_again()
        if version == start.version:
            self.check(start)
            return start
        return newest if version == newest.version else self.behind(version)

    def check(self, offset: Offset) -> None:
        """Raise `Conflict` where the snapshot of an offset is one of another table."""
        if self.behind(offset.version).committed_at != offset.committed_at:
            raise self._made_again()

    def _first(self, newest: Offset) -> Offset:
        if self._starting == LATEST:
            return newest
        if self._starting == EARLIEST:
            return replace(self.oldest(), is_whole=True)
        if not isinstance(self._starting, int):
            return replace(newest, is_whole=True)
        if self._starting > newest.version:
            raise NotFound(f"table {self.name!r} has no snapshot {self._starting}; the newest is {newest.version}")
        return self.behind(self._starting)

    def _made_again(self) -> Conflict:
        return Conflict(
            f"table {self.name!r} was dropped and made again since the stream had come to it; begin a new one, with another"
            " checkpoint"
        )


class TableHistory(History):
    """The history of the table of a plan in a root; what a batch reads of it is kept from vacuum until its end."""

    def __init__(self, plan: StreamPlan) -> None:
        super().__init__(plan.read.table.name, plan.options.starting)
        self._plan = plan
        self._namespace = open_table(plan.read)
        self._additions = Additions(
            namespace=self._namespace,
            may_hold=None if plan.read.options.filter is None else self._may_hold,
            allows_changes=plan.options.allows_changes,
        )

    @property
    def newest(self) -> Offset:
        return _behind(self._namespace.snapshot())

    def behind(self, version: int) -> Offset:
        return _behind(self._additions.snapshot(version))

    def portions(self, start: Offset, end: Offset) -> Sequence[Portion]:
        """Return the tasks that read the rows between two offsets.

        Errors as of `Additions.between`; `Conflict` where the table was made again, `SchemaError` for a column that has gone.
        """
        first = start.version or end.version
        self._held = self._namespace.hold_between(first, end.version)
        if start != BEGINNING:
            self.check(start)
        self.check(end)
        snapshot = self._additions.snapshot(end.version)
        self._check_columns(snapshot)
        if start != BEGINNING:
            return self._dealt(self._between(first, end.version))
        if not end.is_whole:
            return []
        if not snapshot.schema.has_columns_of(self._plan.schema):
            return self._dealt(self._additions.all_of(end.version))
        return replace(self._plan.read, version=end.version, committed_at=snapshot.committed_at, resolved={}).portions()

    def oldest(self) -> Offset:
        newest = self._namespace.snapshot().version
        # A namespace is made in several commits.
        for version, _ in self._namespace.log.history():
            try:
                return self.behind(version)
            except NotFound:
                if version >= newest:
                    raise
        raise AssertionError("a history without the newest snapshot")

    def _between(self, first: int, last: int) -> list[Added]:
        try:
            return self._additions.between(first, last)
        except QueryFailed as exc:
            raise QueryFailed(
                f"{exc}; with the option 'changes' = {NEW_ROWS!r} the stream goes on with the rows that came in their place"
            ) from exc

    def _check_columns(self, end: Snapshot) -> None:
        """Refuse a stream if columns were dropped or changed since it began; rows written before may lack some."""
        if end.version <= self._plan.read.version:
            return
        then, now = self._plan.schema, end.schema
        problems = [
            f"column {name!r} was {then.plain.field(name).type} when the query began, and was dropped or changed since"
            for name in self._plan.rules.read.names
            if (called := now.names.get(then.ids[name])) is None
            or now.plain.field(called).type != then.plain.field(name).type
        ]
        if problems:
            raise SchemaError(f"the stream of table {self._plan.read.table.name!r}; run it again", problems)

    def _may_hold(self, snapshot: Snapshot) -> Collection[str]:
        if not snapshot.schema.has_columns_of(self._plan.schema):
            # The filter says the columns as they are called now.
            return snapshot.table_ids
        planned = plan_scan(self._namespace, self._plan.read.options.filter, snapshot=snapshot)
        return {table.object_id for table in planned.tables}

    def _dealt(self, added: Sequence[Added]) -> list[StreamPortion]:
        weighed = [(rows, rows.rows) for rows in added]
        tasks = tasks_for(sum(rows.rows for rows in added), self._plan.read.options.partitions)
        rules = self._plan.rules
        return [StreamPortion(rules, task, self._plan.required) for task in balance_tasks(weighed, tasks)]


def plan_stream(read: DirectPlan, options: StreamReadOptions) -> StreamPlan:
    """Plan a stream of the rows that a read would return."""
    schema = open_table(read).snapshot(read.version).schema
    return StreamPlan(read=read, options=options, schema=schema)


def open_table(read: DirectPlan) -> Table:
    """Open the table of a read."""
    table = Root(store_of(read.options.root or "", read.options.storage)).table(read.table)
    if table.branch is not None:
        raise Unsupported(f"{read.table.name!r} is a branch; only the rows of the main branch are streamed")
    return table


def _behind(snapshot: Snapshot) -> Offset:
    return Offset(version=snapshot.version, committed_at=snapshot.committed_at)


Json = Mapping[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One reader plans all batches of a query, in a process of its own; pickled copies of it read them."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._until: Offset | None = None

    @cached_property
    def _history(self) -> TableHistory:
        # Not before a batch is planned: the copies that read have no use for it, and it cannot be pickled.
        return TableHistory(self._plan)

    def initialOffset(self) -> dict[str, Any]:
        return BEGINNING.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark has no limit of snapshots; that of files is what it hands back as it was given, and nothing else looks at.
        return ReadMaxFiles(self._plan.options.versions_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._history.newest

    def latestOffset(self, start: Json, limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        newest = self._until or self._history.newest
        return self._history.following(Offset.from_json(start), newest, most).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._history.newest.to_json()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        portions = self._history.portions(Offset.from_json(start), Offset.from_json(end))
        return [InputPartition(portion) for portion in portions]

    def commit(self, end: Json) -> None:
        self._history.release()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return cast("Portion", partition.value).batches()


def new_stream_reader(read: DirectPlan, options: StreamReadOptions) -> StreamReader:
    """Return the reader of a stream of the rows that a read would return."""
    return StreamReader(plan_stream(read, options))


log = logging.getLogger(__name__)

QUERY = "sql.streaming.queryId"
"""Property by which Spark's tasks know the query; it stays the same for as long as there is the checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenInBatch(WriterCommitMessage):
    """Files that a task wrote, with the write and the query that they belong to."""

    planned: PlannedWrite
    query: str | None
    parts: WrittenFiles


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
        parts = tuple(part for message in done for part in message.parts)
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
    """Return the writer of the next batch; make a missing table. Errors as of `writing.new_writer`."""
    stream = checked_stream(options.stream)
    return StreamWriter(planned_write(options.write, schema), stream)
