"""Streams of a table's rows, planned apart from Spark: where a batch ends, and which rows it has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from lance_flight.catalog.history.additions import Added, Additions
from lance_flight.catalog.manifests.snapshot import Snapshot
from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.leases import SnapshotLease
from lance_flight.catalog.table import Table
from lance_flight.engine.query.scan_planning import plan_scan
from lance_flight.errors import Conflict, NotFound, QueryFailed, SchemaError, Unsupported
from lance_flight.model.schema import NamespaceSchema

from lance_flight_client.dataset.balancing import balanced, tasks_for
from lance_flight_client.dataset.conditions import RowCondition
from lance_flight_client.dataset.roots import store_of
from lance_flight_client.spark.reading.direct import DirectPlan
from lance_flight_client.spark.reading.portion import DirectPortion
from lance_flight_client.spark.source import Portion
from lance_flight_client.spark.streaming.offsets import BEGINNING, Offset, last_version
from lance_flight_client.spark.streaming.options import EARLIEST, LATEST, NEW_ROWS, StreamReadOptions
from lance_flight_client.spark.streaming.portion import StreamPortion


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
        source = pa.schema([each.with_nullable(nullable=True) for each in self.schema.arrow])
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


class History:
    """The history of the table of a plan, as far as it goes now; what a batch reads of it is kept from vacuum until its end."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._namespace = opened(plan.read)
        self._additions = Additions(
            namespace=self._namespace,
            may_hold=None if plan.read.options.filter is None else self._may_hold,
            allows_changes=plan.options.allows_changes,
        )
        self._held: list[SnapshotLease] = []

    @property
    def newest(self) -> Offset:
        """Behind all rows that there are."""
        return _behind(self._namespace.snapshot())

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
            self._check(start)
            return start
        return newest if version == newest.version else _behind(self._additions.snapshot(version))

    def portions(self, start: Offset, end: Offset) -> Sequence[Portion]:
        """Return the tasks that read the rows between two offsets.

        Errors as of `Additions.between`; `Conflict` where the table was made again, `SchemaError` for a column that has gone.
        """
        first = start.version or end.version
        self._held = self._namespace.hold_between(first, end.version)
        if start != BEGINNING:
            self._check(start)
        snapshot = self._check(end)
        self._check_columns(snapshot)
        if start != BEGINNING:
            return self._dealt(self._between(first, end.version))
        if not end.is_whole:
            return []
        if not snapshot.schema.has_columns_of(self._plan.schema):
            return self._dealt(self._additions.all_of(end.version))
        return replace(self._plan.read, version=end.version, committed_at=snapshot.committed_at, resolved={}).portions()

    def release(self) -> None:
        """Release the lease on the snapshots of the last batch, so that vacuum may delete them."""
        self._held = []

    def _first(self, newest: Offset) -> Offset:
        starting = self._plan.options.starting
        if starting == LATEST:
            return newest
        if starting == EARLIEST:
            return replace(_behind(self._oldest(newest.version)), is_whole=True)
        if not isinstance(starting, int):
            return replace(newest, is_whole=True)
        if starting > newest.version:
            name = self._plan.read.table.name
            raise NotFound(f"table {name!r} has no snapshot {starting}; the newest is {newest.version}")
        return _behind(self._additions.snapshot(starting))

    def _oldest(self, newest: int) -> Snapshot:
        """Return the first version that is a snapshot: a namespace is made in several commits."""
        for version, _ in self._namespace.log.history():
            try:
                return self._additions.snapshot(version)
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

    def _check(self, offset: Offset) -> Snapshot:
        snapshot = self._additions.snapshot(offset.version)
        if snapshot.committed_at != offset.committed_at:
            raise self._made_again()
        return snapshot

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
        weighed = [(each, each.rows) for each in added]
        tasks = tasks_for(sum(each.rows for each in added), self._plan.read.options.partitions)
        rules = self._plan.rules
        return [StreamPortion(rules, task, self._plan.required) for task in balanced(weighed, tasks)]

    def _made_again(self) -> Conflict:
        name = self._plan.read.table.name
        return Conflict(
            f"table {name!r} was dropped and made again since the stream had come to it; begin a new one, with another"
            " checkpoint"
        )


def plan_stream(read: DirectPlan, options: StreamReadOptions) -> StreamPlan:
    """Plan a stream of the rows that a read would return."""
    schema = opened(read).snapshot(read.version).schema
    return StreamPlan(read=read, options=options, schema=schema)


def opened(read: DirectPlan) -> Table:
    """Open the table of a read."""
    table = Root(store_of(read.options.root or "", read.options.storage)).table(read.table)
    if table.branch is not None:
        raise Unsupported(f"{read.table.name!r} is a branch; only the rows of the main branch are streamed")
    return table


def _behind(snapshot: Snapshot) -> Offset:
    return Offset(version=snapshot.version, committed_at=snapshot.committed_at)
