"""One statement's DataFusion context over one snapshot of every table that it names (architecture, Life of a query)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, ExecutionPlan, LogicalPlan, RuntimeEnvBuilder, SessionContext, udtf

from lance_flight.catalog.directory import BRANCH_SIGN, PUBLIC, Root, Table, TableName
from lance_flight.catalog.leases import Hold
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.catalog.plain import PlainTable
from lance_flight.catalog.scan import Source
from lance_flight.catalog.snapshot import Snapshot
from lance_flight.engine.execution import Execution
from lance_flight.engine.functions import QUERIES_ONLY, HashCalls, evaluate, plain_message, session_config
from lance_flight.engine.hints import hints
from lance_flight.engine.metadata_tables import METADATA_TABLES, PLAIN_METADATA_TABLES, MetadataTable
from lance_flight.engine.parameters import parameter_count
from lance_flight.engine.points import Point, Reference, naming
from lance_flight.engine.provider import Provider, ScanLog
from lance_flight.engine.row_queries import TARGET_ROWS
from lance_flight.engine.sql import for_datafusion
from lance_flight.engine.table_catalog import TableCatalog
from lance_flight.engine.table_changes import TABLE_CHANGES, ChangesTable, TableChanges, changes_table
from lance_flight.engine.tables import Floating, PartitionedView, PlainView, Rows, Share, Targets
from lance_flight.engine.transactions import SqlTransaction
from lance_flight.errors import Conflict, LanceFlightError, NotFound, QueryFailed, SqlError
from lance_flight.model.pins import FixedPin
from lance_flight.model.spec import Expression
from lance_flight.planning.enumeration import Unresolved
from lance_flight.planning.predicates import ALWAYS, Predicate, all_of

T = TypeVar("T")

CATALOG = "lance"
PLANNING_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """At which version a statement reads a table, and what that means for the rows without a fixed pin that it reads.

    `committed_at` tells the version from one of another table that has taken the name. `step` counts the statements of
    the transaction that had changed the table by then.
    """

    version: int
    resolved: Mapping[str, FixedPin] = field(default_factory=dict)
    committed_at: str = ""
    step: int | None = None


@dataclass(slots=True)
class _Evaluations:
    """Values of custom expressions: computed between two rounds of planning, never inside one (decision 25)."""

    known: dict[Any, pa.Array] = field(default_factory=dict)
    wanted: dict[Any, tuple[str, Sequence[pa.Array], pa.DataType]] = field(default_factory=dict)

    def __call__(self, expression: str, columns: Sequence[pa.Array], result_type: pa.DataType) -> pa.Array:
        key = expression, str(result_type), tuple((str(c.type), tuple(map(str, c.to_pylist()))) for c in columns)
        if key not in self.known:
            self.wanted[key] = expression, columns, result_type
            raise Unresolved(f"{expression!r} is computed before the next round of planning")
        return self.known[key]

    def compute(self) -> bool:
        """Compute what was wanted; whether there was anything."""
        wanted, self.wanted = self.wanted, {}
        for key, (expression, columns, result_type) in wanted.items():
            self.known[key] = evaluate(expression, columns, result_type)
        return bool(wanted)


class Session:
    """Everything one statement needs: the context, the tables at their snapshots, the log of its scans.

    `readings` fixes the versions of tables (from a ticket); others are read at their newest snapshot, and which one
    that was stands in `readings` afterwards. `share` restricts every scan to one part. Inside a `transaction` tables are
    read as it sees them. The rows of `target` have addresses under the name `t$rows`, in tables numbered by `targets`.
    What keeps the snapshots from being vacuumed is put into `holds`. `views` are the partitioned tables by `schema.name`,
    and `divisible` those whose rows are read, in portions if need be; `plain` are the others.
    """

    def __init__(
        self,
        root: Root,
        *,
        ways: int,
        readings: Mapping[str, Reading] | None = None,
        share: Share | None = None,
        memory_limit: int | None = None,
        transaction: SqlTransaction | None = None,
        target: TableName | None = None,
        holds: list[Hold] | None = None,
        execution: Execution | None = None,
    ) -> None:
        self.root = root
        self.transaction = transaction
        self.tables: Root | SqlTransaction = root if transaction is None else transaction
        self.targets = Targets()
        self._target = target
        self.ways = ways
        self.execution = execution or Execution()
        self.share = share or Share()
        self.readings: dict[str, Reading] = dict(readings or {})
        self.log = ScanLog()
        self.views: dict[str, PartitionedView] = {}
        self.divisible: dict[str, PartitionedView] = {}
        self.plain: dict[str, PlainView] = {}
        self._holds = holds
        self._hints: dict[str, Predicate] = {}
        self._narrowed: Predicate = ALWAYS
        self._evaluations = _Evaluations()
        self._missing: dict[str, NotFound] = {}
        self._planning = Lock()
        runtime = RuntimeEnvBuilder()
        if memory_limit is not None:
            runtime = runtime.with_disk_manager_os().with_fair_spill_pool(memory_limit)
        config = session_config(ways).with_create_default_catalog_and_schema(enabled=False)
        config = config.with_default_catalog_and_schema(CATALOG, PUBLIC)
        self.context = SessionContext(config, runtime)
        self.context.register_catalog_provider(CATALOG, TableCatalog(self.root, self.resolve))
        self.context.register_udtf(udtf(TableChanges(self._changes, self.log), TABLE_CHANGES))

    def frame(self, sql: str, parameters: pa.RecordBatch | None = None) -> DataFrame:
        """Plan a query, with one row of parameters bound to `$1`, `$2` …; `SqlError` or `NotFound` if it cannot be."""
        values = _bound(parameters)
        calls = HashCalls.of(for_datafusion(sql))
        is_bound = values is not None or parameter_count(sql) == 0

        def plan(text: str) -> DataFrame:
            frame = self.context.sql_with_options(text, QUERIES_ONLY, param_values=values)
            if calls.calls and is_bound:
                # Some calls are checked against their signatures only now: those in filters, or of parameters.
                frame.optimized_logical_plan()
            return frame

        return self.planned(lambda: calls.plan(self.context, plan))

    def optimised(self, frame: DataFrame) -> LogicalPlan:
        """The optimised plan of a query; what DataFusion refuses only now (types that do not compare …) is `SqlError`."""
        plan: LogicalPlan = self.planned(frame.optimized_logical_plan)
        return plan

    def prepare(self, frame: DataFrame) -> None:
        """Learn from the optimised plan what prunes beyond the pushed filters, custom expressions included."""
        if not self.views:
            return
        self._hints = hints(self.optimised(frame), PUBLIC)
        if any(isinstance(f.rule, Expression) for v in self.views.values() for s in v.snapshot.specs for f in s.fields):
            for _ in range(PLANNING_ROUNDS):
                self.plan(frame)
                if not self._evaluations.compute():
                    break

    def narrow(self, predicate: Predicate) -> None:
        """Prune the target by what is known of its rows beyond the query."""
        self._narrowed = predicate

    def resolve_pins(self, frame: DataFrame) -> None:
        """Fix, in `readings`, the versions of the rows without a fixed one that a query reads."""
        if not all(view.snapshot.is_pinned for view in self.views.values()):
            self.prepare(frame)
            self.plan(frame)

    def prune_by(self, table: str, predicate: Predicate) -> None:
        """Prune a table (`schema.name`) by what is known of the rows that count, for all plans that are made from here on."""
        self._hints[table] = all_of([self._hints.get(table, ALWAYS), predicate])

    def plan(self, frame: DataFrame) -> ExecutionPlan:
        """Plan how a query is run; what that decides about its scans stands in the log and the views, and nothing else."""
        self.log.reports.clear()
        self.log.scans.clear()
        for view in self.views.values():
            view.planned.clear()
        return self.planned(frame.execution_plan)

    def batches(self, frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Run a planned query; every batch is of exactly `schema`."""
        return shaped(self.stream(frame), schema)

    def stream(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Run a planned query; its batches are as DataFusion made them."""
        with self._run_errors():
            for batch in frame.execute_stream():
                yield batch.to_pyarrow()

    def stream_portion(self, frame: DataFrame, portion: Mapping[str, Rows], ways: int) -> Iterator[pa.RecordBatch]:
        """Run a query over some partition tables alone, those of each table in `divisible`, each read in so many lanes.

        Safe to call from several threads.
        """
        with self._planning:
            # A query learns what it reads when it is planned.
            for name, rows in portion.items():
                self.divisible[name].portion.rows, self.divisible[name].portion.ways = rows, ways
            try:
                with self._run_errors():
                    started = frame.execute_stream()
            finally:
                for name in portion:
                    self.divisible[name].portion.rows = self.divisible[name].portion.ways = None
        with self._run_errors():
            for batch in started:
                yield batch.to_pyarrow()

    @contextmanager
    def lanes(self, ways: int) -> Iterator[None]:
        """Frames that are made inside run their queries on so many lanes, whenever they do."""
        self.context.sql(f"SET datafusion.execution.target_partitions = {ways}")
        try:
            yield
        finally:
            self.context.sql(f"SET datafusion.execution.target_partitions = {self.ways}")

    def frame_of(self, plan: LogicalPlan, ways: int) -> DataFrame:
        """A frame of an optimised plan, or of a part of one."""
        with self.lanes(ways):
            return self.context.create_dataframe_from_logical_plan(plan)

    def resolve(self, db_schema: str, reference: str) -> pads.Dataset | None:
        """The table behind a name as it stands in SQL (`t`, `t@12`, `t@tag`, `t@time`, `t$partitions`), if there is one."""
        name = TableName(db_schema, reference)
        try:
            return self._resolved(name)
        except NotFound as exc:
            # The name may be a table function's: why it is no table matters only if DataFusion misses it.
            self._missing[f"table '{CATALOG}.{name}' not found"] = exc
            return None
        except LanceFlightError as exc:
            self.log.error = exc
            raise

    def _resolved(self, name: TableName) -> pads.Dataset:
        named = self._reference(name)
        table, at, metadata = named.table, named.at, named.metadata
        is_target = metadata == TARGET_ROWS and table == self._target

        def opened(found: Table) -> pads.Dataset:
            match found:
                case PartitionedNamespace() if is_target:
                    return Provider(self._partitioned(found, table, name.name, at, self.targets), self.log)
                case PlainTable() if is_target:
                    return Provider(self._plain(found, table, name.name, at, is_target=True), self.log)
                case PartitionedNamespace():
                    view = self._partitioned(found, table, name.name, at)
                    if metadata is not None:
                        return _metadata_table(metadata, found, view)
                    self.divisible[f"{name.db_schema}.{name.name}"] = view
                    return Provider(view, self.log)
                case PlainTable() if metadata is not None:
                    return _plain_metadata_table(metadata, found, table)
                case PlainTable():
                    plain = self._plain(found, table, name.name, at)
                    self.plain[f"{name.db_schema}.{name.name}"] = plain
                    return Provider(plain, self.log)

        return self.tables.read(table, opened)

    def _reference(self, name: TableName) -> Reference:
        named = Reference.parse(name)
        if named.table != name and self.tables.has(name):
            return Reference(name)
        if isinstance(named.at, str):
            branch = TableName(name.db_schema, f"{named.table.name}{BRANCH_SIGN}{named.at}")
            if self.tables.has(branch):
                return Reference(branch, None, named.metadata)
        return named

    def _changes(self, name: TableName, first: Point, last: Point) -> ChangesTable:
        """The rows that came and went between two points of a table's history."""

        def opened(table: Table) -> ChangesTable:
            ends = self._version(table, name, first), self._version(table, name, last)
            if self._holds is not None and isinstance(table, PartitionedNamespace):
                self._holds += table.hold_between(*ends)
            return changes_table(table, name, ends, ways=self.ways, log=self.log)

        return self.tables.read(name, opened)

    def _version(self, table: Table, name: TableName, at: Point) -> int:
        """The version that a point stands for, the same one for as long as the statement runs."""
        key = f"{name}$changes@{at}"
        if key not in self.readings:
            with naming(name, at):
                found = table.snapshot(at) if isinstance(table, PartitionedNamespace) else table.open_at(at)
            self.readings[key] = Reading(int(found.version))
        return self.readings[key].version

    def _partitioned(
        self,
        namespace: PartitionedNamespace,
        name: TableName,
        reference: str,
        at: Any,
        targets: Targets | None = None,
    ) -> PartitionedView:
        key = f"{name.db_schema}.{reference}"
        if key in self.views:
            return self.views[key]
        reading = self.readings.get(key)
        with naming(name, at):
            snapshot, step = self._snapshot(namespace, reading, at)
        _check_identity(name, reading, snapshot.committed_at)
        floating = Floating(namespace.store, reading.resolved if reading else {})
        self.readings[key] = Reading(snapshot.version, floating.known, snapshot.committed_at.isoformat(), step)
        transaction = self.transaction
        view = PartitionedView(
            name=name.name,
            store=namespace.store,
            branch=namespace.branch,
            snapshot=snapshot,
            floating=floating,
            ways=self.ways,
            share=self.share,
            log=self.log,
            hint=lambda: all_of([self._hints.get(key, ALWAYS), ALWAYS if targets is None else self._narrowed]),
            evaluate=self._evaluations,
            targets=targets,
            on_read=None
            if transaction is None or not transaction.serializable
            else partial(transaction.note_reads, namespace),
        )
        self.views[key] = view
        return view

    def _snapshot(
        self, namespace: PartitionedNamespace, reading: Reading | None, at: Any
    ) -> tuple[Snapshot, int | None]:
        """The snapshot to read, and how many statements of the transaction it shows."""
        transaction = self.transaction
        if transaction is not None and reading is not None and reading.step is not None:
            return transaction.snapshot_at(reading.step), reading.step
        if transaction is not None and reading is None and at is None:
            return transaction.snapshot(namespace), transaction.step(namespace)
        snapshot = namespace.snapshot(at if reading is None else reading.version)
        if self._holds is not None:
            self._holds.append(namespace.hold(snapshot, is_newest=reading is None and at is None))
        return snapshot, None

    def _plain(
        self, table: PlainTable, name: TableName, reference: str, at: Any, *, is_target: bool = False
    ) -> PlainView:
        key = f"{name.db_schema}.{reference}"
        reading = self.readings.get(key)
        with naming(name, at):
            if reading is not None:
                at = reading.version
            elif at is None and self.transaction is not None:
                at = self.transaction.version(table)
            dataset = table.open_at(at)
        committed_at = dataset.get_version()["timestamp"].astimezone(UTC)
        _check_identity(name, reading, committed_at)
        self.readings[key] = Reading(int(dataset.version), committed_at=committed_at.isoformat())
        schema = pa.schema([f.remove_metadata() for f in dataset.schema])
        return PlainView(
            name=name.name,
            store=table.store,
            source=Source(dataset),
            columns=schema,
            ways=self.ways,
            share=self.share,
            is_target=is_target,
        )

    @contextmanager
    def _run_errors(self) -> Iterator[None]:
        """What ends a query that runs, as an error of ours."""
        try:
            yield
        except LanceFlightError:
            raise
        except Exception as exc:
            raise self._error(exc, QueryFailed) from exc

    def planned(self, plan: Callable[[], T]) -> T:
        """What planning gives; what DataFusion refuses is `SqlError`."""
        try:
            return plan()
        except LanceFlightError:
            raise
        except Exception as exc:
            raise self._error(exc, SqlError) from exc

    def _error(self, exc: Exception, otherwise: type[LanceFlightError]) -> LanceFlightError:
        """Our own error where one of ours began it, else DataFusion's words under `otherwise`."""
        if self.log.error is not None:
            return self.log.error
        for said, why in self._missing.items():
            if said in str(exc):
                return why
        return otherwise(self.root.store.words(plain_message(exc)))


def shaped(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same batches, each of exactly `schema`, its columns found by their places."""
    for batch in batches:
        columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _metadata_table(name: str, namespace: PartitionedNamespace, view: PartitionedView) -> MetadataTable:
    if name not in METADATA_TABLES:
        raise NotFound.named("metadata table", f"${name}", [f"${known}" for known in METADATA_TABLES])
    return METADATA_TABLES[name](namespace, view)


def _check_identity(name: TableName, reading: Reading | None, committed_at: datetime) -> None:
    """Refuse a version of a table that was dropped and made again since it was chosen: it is another one."""
    if reading is not None and reading.committed_at and reading.committed_at != committed_at.isoformat():
        raise Conflict(f"table {name.name!r} was dropped and made again since this statement was planned")


def _plain_metadata_table(name: str, table: PlainTable, of: TableName) -> MetadataTable:
    if name not in PLAIN_METADATA_TABLES:
        raise NotFound(f"table {of.name!r} is not partitioned and has no ${name}")
    return PLAIN_METADATA_TABLES[name](table)


def _bound(parameters: pa.RecordBatch | None) -> dict[str, pa.Scalar] | None:
    if parameters is None:
        return None
    return {str(place + 1): column[0] for place, column in enumerate(parameters.columns)}
