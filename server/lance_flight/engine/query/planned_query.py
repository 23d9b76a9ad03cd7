"""Planned queries: their schema, their tasks, the streaming of their rows, and the cache of their plans for statements of the same text.

A task holds the statement, its parameters, the version of every table, and which part of the scan is its own.

A plan is found in two steps. What decides how a text is planned, beside its tables, is its key (`PlanKey`): parsing, names, rewriting
and the optimised plan are those of the key. Its tables are resolved anew by each statement that takes a plan (`PlannedQuery.again`):
where one has other columns, or is not there, the plan is no good and another one is made; where all are at the snapshots that they were
at, what their prunings found is known as well.

One plan runs one statement at a time: statements that run beside each other have one each. A statement that was planned waits for its
ticket: its plan is the first that the ticket gets, and the last that another statement does, because what it has found stays good.
"""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import lru_cache
from itertools import chain
from threading import Lock
from types import MappingProxyType

import pyarrow as pa
from datafusion import DataFrame, LogicalPlan
from datafusion.expr import Limit, Projection, Sort

from lance_flight.arrow_streams import decode_batch, encode_rows
from lance_flight.catalog.manifests.snapshot import BranchVersion, FixedPin, Version
from lance_flight.catalog.roots.directory import PUBLIC
from lance_flight.engine.functions.routines import calls_of, mutable_functions
from lance_flight.engine.query.access import Access
from lance_flight.engine.query.optimiser import bare_columns, is_one_computed_row, is_pure_scan, stream
from lance_flight.engine.query.partition_wise import division
from lance_flight.engine.query.partition_wise.join_order import read_tables
from lance_flight.engine.query.runner import shape_batches
from lance_flight.engine.query.session import QuerySession
from lance_flight.engine.query.statement_context import Scope, StatementContext, TableVersion
from lance_flight.engine.query.tables.table_view import Split
from lance_flight.engine.runtime.memory import Pool
from lance_flight.engine.runtime.running_statement import RunningStatement
from lance_flight.engine.runtime.session_registry import Isolation, QueryOptions
from lance_flight.engine.sql.select_lists import REFUSAL, names_of, with_marked_repeats
from lance_flight.engine.sql.tokens import token_count
from lance_flight.engine.translation import substrait
from lance_flight.engine.translation.typed_calls import shown_name
from lance_flight.errors import LanceFlightError, SqlError, TicketError

_EXECUTION = tuple(field.name for field in fields(QueryOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Work of one endpoint for a `statement` that `began` at a moment; one inside a `transaction` can run on the server that holds it alone.

    `branch`, `db_schema` and `isolation` are those of its session. The names of `temporary` meant tables of that session, which it
    alone can read. `views` are the digests of the views that it was planned with. One with a `report` has been done: it gives
    the report alone (`engine.statements.answering`).
    """

    sql: str
    statement: str = ""
    began: datetime | None = None
    parameters: pa.RecordBatch | None = None
    readings: Mapping[str, TableVersion] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    share: Split = field(default_factory=Split)
    transaction: bytes | None = None
    branch: str | None = None
    db_schema: str = PUBLIC
    session: str = ""
    temporary: tuple[str, ...] = ()
    execution: QueryOptions = field(default_factory=QueryOptions)
    isolation: Isolation = Isolation.SNAPSHOT
    report: bytes | None = None

    def to_bytes(self) -> bytes:
        """Serialize the task as compact JSON."""
        value = {
            "sql": self.sql,
            "statement": self.statement,
            "began": None if self.began is None else self.began.isoformat(),
            "parameters": None if self.parameters is None else _to_text(encode_rows(self.parameters)),
            "readings": {
                name: [r.version, _pins_to_json(r.resolved), r.committed_at, r.step]
                for name, r in self.readings.items()
            },
            "views": dict(self.views),
            "share": [self.share.part, self.share.of],
            "branch": self.branch,
            "db_schema": self.db_schema,
            "session": self.session,
            "temporary": self.temporary,
            "execution": {name: getattr(self.execution, name) for name in _EXECUTION},
            "isolation": self.isolation.value,
            "transaction": None if self.transaction is None else self.transaction.hex(),
            "report": None if self.report is None else _to_text(self.report),
        }
        return json.dumps(value, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> Task:
        """Deserialize a task; raise `TicketError` for any other bytes."""
        try:
            value = json.loads(payload)
            if not isinstance(value, dict):
                raise TicketError("a ticket of another form")
            unknown = value.keys() - _KEYS
            if unknown:
                raise TicketError(f"a ticket with {', '.join(sorted(unknown))}, which a newer server has issued")
            return cls(
                sql=value["sql"],
                statement=value["statement"],
                began=None if value.get("began") is None else datetime.fromisoformat(value["began"]),
                parameters=None if value["parameters"] is None else decode_batch(base64.b64decode(value["parameters"])),
                readings={
                    name: TableVersion(version, _pins_from_json(pins), at, step)
                    for name, (version, pins, at, step) in value["readings"].items()
                },
                views=dict(value.get("views", {})),
                share=Split(*value["share"]),
                branch=value["branch"],
                db_schema=value["db_schema"],
                session=value["session"],
                temporary=tuple(value["temporary"]),
                execution=QueryOptions(**value["execution"]),
                isolation=Isolation(value["isolation"]),
                transaction=None if value["transaction"] is None else bytes.fromhex(value["transaction"]),
                report=None if value.get("report") is None else base64.b64decode(value["report"]),
            )
        except (ValueError, KeyError, TypeError, pa.ArrowInvalid) as exc:
            raise TicketError(f"a ticket that does not hold a task: {exc}") from exc


_KEYS = frozenset(field.name for field in fields(Task))
"""What a task says: a server that does not know one of them would give other rows than were asked for."""


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _pins_to_json(pins: Mapping[str, FixedPin]) -> dict[str, list[str | int | None]]:
    return {name: [pin.columns.read_branch, pin.version] for name, pin in pins.items()}


def _pins_from_json(value: Mapping[str, list[str | int | None]]) -> dict[str, FixedPin]:
    return {
        name: Version(int(version or 0)) if branch is None else BranchVersion(str(branch), int(version or 0))
        for name, (branch, version) in value.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """Query that is ready to run: its exact schema, one task for each endpoint, the snapshot of each table.

    The tasks can be run until it `expires`; in that order, if the rows are `ordered`. `rows` is the number of rows in the tables of
    a query with several endpoints, before any filter, and that of a report. `partitions` are the numbers of scanned tables and of all
    tables, if the plan gives them already.
    """

    schema: pa.Schema
    tasks: tuple[Task, ...]
    expires: datetime
    snapshots: Mapping[str, int] = field(default_factory=dict)
    rows: int | None = None
    ordered: bool = False
    partitions: tuple[int, int] | None = None


def tasks_of(
    running: RunningStatement,
    parameters: pa.RecordBatch | None,
    readings: Mapping[str, TableVersion],
    shares: int,
    scope: Scope,
    *,
    sql: str = "",
    views: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Task, ...]:
    """Return the tasks of a query, one for each endpoint; `sql` is its text where that is not the statement's own."""
    whole = Task(
        sql=sql or running.sql,
        statement=running.id,
        began=running.began,
        parameters=parameters,
        readings=readings,
        views=views,
        transaction=scope.transaction,
        branch=scope.branch,
        db_schema=scope.db_schema,
        session="" if scope.session is None else scope.session.id,
        temporary=tuple(sorted(name.name for name in scope.temporary.names)),
        execution=scope.execution,
        isolation=scope.isolation,
    )
    return tuple(replace(whole, share=Split(part, shares)) for part in range(shares))


@dataclass(frozen=True, slots=True)
class PlanKey:
    """Key of a cached plan: everything that planning a text depends on, except for its tables.

    Texts that differ in vectors that are searched for alone have the same key (`query.search.arguments.without_vectors`).
    """

    text: str
    db_schema: str
    branch: str | None
    execution: QueryOptions
    access: Access
    pool: Pool = field(default_factory=Pool)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedQuery:
    """Query in the session that it was planned in, with the `parameters` that are bound in it.

    It is run by one statement at a time, and again by others of its `key` (None: by none); `PlanCache` keeps it between them.
    """

    session: QuerySession
    frame: DataFrame
    schema: pa.Schema
    text: str
    parameters: pa.RecordBatch | None = None
    key: PlanKey | None = None

    @classmethod
    def of(cls, session: QuerySession, text: str, parameters: pa.RecordBatch | None = None) -> PlannedQuery:
        """Plan a query; nothing is read yet but the values of a PIVOT without IN, which its text has from here on."""
        text = session.with_read_values(text)
        frame = _frame(session, text, parameters)
        fields = frame.schema()
        names = names_of([shown_name(name) for name in fields.names])
        schema = pa.schema([field.with_name(name) for field, name in zip(fields, names, strict=True)])
        return cls(session, frame, schema, text, parameters)

    def again(self, context: StatementContext, text: str, parameters: pa.RecordBatch | None) -> PlannedQuery | None:
        """Begin the query again for another statement of its key; return None if its tables have other columns, so that it must be planned anew."""
        is_searching = self.session.is_searching
        if (text != self.text and not is_searching) or not self.session.again(context):
            return None
        is_same = _is_same(parameters, self.parameters)
        if is_searching:
            if text == self.text and is_same and self.session.is_resumed:
                self.session.searches.go_on(self.session.log)
                return self
            again = replace(self, text=text, parameters=parameters)
            return again if self.session.search_again(text, parameters) else None
        if is_same:
            return self
        return replace(PlannedQuery.of(self.session, self.text, parameters), key=self.key)

    def was_begun_for(self, running: RunningStatement | None) -> bool:
        """Return whether this very statement was the last one that it was begun for."""
        return running is not None and self.session.log.cancellation is running.cancellation

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Run the query; every batch has exactly `schema`."""
        session, frame = self.session, self.frame
        session.prepare(frame)
        if session.optimiser.learn_from_plan(frame, is_one_computed_row) and not session.is_costly:
            return shape_batches(session.runner.collect(frame), self.schema)
        columns = session.optimiser.learn_from_plan(frame, bare_columns)
        if columns is not None and session.may_read_directly:
            session.plan_columns(frame)
            direct = stream(session.log, columns, self.schema)
            if direct is not None:
                return session.directly(direct)
        return division.rows(session, frame, self.schema)


def _frame(session: QuerySession, text: str, parameters: pa.RecordBatch | None) -> DataFrame:
    """Plan a query, with aliases for columns of one name, which DataFusion refuses."""
    try:
        return session.frame(text, parameters)
    except SqlError as exc:
        if REFUSAL not in str(exc):
            raise
    return session.frame(with_marked_repeats(text), parameters)


def _is_same(one: pa.RecordBatch | None, other: pa.RecordBatch | None) -> bool:
    return one is other if one is None or other is None else one.equals(other)


def split(planned: PlannedQuery, endpoints: int) -> tuple[int, int | None]:
    """Return the number of endpoints of a query, and the rows of the tables that they read; 1 and None if it is not split.

    A pure scan of one table has as many parts as it reads partition tables.
    """
    session, frame = planned.session, planned.frame
    if endpoints == 1 or not session.views or not is_pure_scan(session.optimiser.optimise(frame)):
        return 1, None
    if any(view.hides_layout for view in session.views.values()):
        return 1, None
    scans = session.optimiser.logical_scans(frame)
    if scans is None or len(scans) != 1:
        # A scalar subquery scans as well, and must see all of its table.
        return 1, None
    session.prepare(frame)
    prunings = session.prune(frame)
    parts = min(endpoints, sum(pruning.scanned for of_scan in prunings.values() for pruning in of_scan))
    if parts <= 1:
        return 1, None
    counted = [session.views[table].row_counts(read_tables(found)) for table, found in prunings.items()]
    return parts, sum(int(counts.sum()) for counts_of_table in counted for counts in counts_of_table)


def is_ordered(plan: LogicalPlan) -> bool:
    """Return whether the query's own ORDER BY determines the order of its rows; an unoptimised plan has the sort at its top."""
    node = plan.to_variant()
    if isinstance(node, Sort):
        return True
    return isinstance(node, _KEEP_ORDER) and all(is_ordered(child) for child in plan.inputs())


_KEEP_ORDER = (Limit, Projection)


MOST_PLANS = 256
MOST_BYTES = 64 << 20
LONGEST_TEXT = 2 << 20
_LONG_TEXT = 64 << 10
"""Characters from which on what is in a text decides about the size of its plan, not its length alone."""
_OF_A_PLAN = 96 << 10
"""Estimated bytes of DataFusion's context and a plan of a few nodes."""
_OF_A_CHARACTER = 256
"""Estimated bytes of a plan for each character of its text: lists of keys take 190, long select lists 250."""
_OF_A_TOKEN = 512
"""Estimated bytes of a plan for each token of a long text: lists of keys take 330, which are long texts if the keys are."""
_OF_A_PARTITION = 256
"""Estimated bytes of a snapshot for each of its partition tables."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """A cached plan with its estimated `size`; one that `is_awaited` waits for the ticket of the statement that it was planned for."""

    key: PlanKey
    planned: PlannedQuery
    size: int
    is_awaited: bool


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """Counts of a cache: hits, misses, kept plans, and their bytes."""

    hits: int
    misses: int
    plans: int
    size: int


class PlanCache:
    """Least-recently-used cache of one server's plans that no statement is running. Safe to share among threads."""

    def __init__(self, *, most_plans: int = MOST_PLANS, most_bytes: int = MOST_BYTES) -> None:
        self._most_plans, self._most_bytes = most_plans, most_bytes
        self._plans: OrderedDict[int, _Kept] = OrderedDict()
        self._of_key: dict[PlanKey, list[int]] = {}
        self._lock = Lock()
        self._next = self._hits = self._misses = self._size = 0

    @property
    def counts(self) -> CacheCounts:
        """Return the counts of the cache."""
        with self._lock:
            return CacheCounts(self._hits, self._misses, len(self._plans), self._size)

    def take(
        self, key: PlanKey, text: str, context: StatementContext, parameters: pa.RecordBatch | None
    ) -> PlannedQuery | None:
        """Take a cached plan and begin it again for a statement; None if no plan is valid for it."""
        taken = None
        while taken is None and (kept := self._pop(key, context.running)) is not None:
            holds = [] if context.holds is None else list(context.holds)
            with suppress(LanceFlightError):  # planning it anew says what is the matter
                taken = kept.again(context, text, parameters)
            if taken is None and context.holds is not None:
                context.holds[:] = holds
        with self._lock:
            self._hits += taken is not None
            self._misses += taken is None
        return taken

    def keep(self, key: PlanKey, planned: PlannedQuery, *, is_awaited: bool = False) -> None:
        """Return a plan that is not running any more to the cache, if it may run again; `is_awaited` by the ticket of its statement."""
        planned.session.end()
        texts = [key.text, *planned.session.view_texts]
        if not all(map(is_steady, texts)) or not planned.session.is_steady:
            return
        size = _size(key, planned)
        if size > self._most_bytes:
            return
        with self._lock:
            number = self._next = self._next + 1
            self._plans[number] = _Kept(key, planned, size, is_awaited)
            self._of_key.setdefault(key, []).append(number)
            self._size += size
            while len(self._plans) > self._most_plans or self._size > self._most_bytes:
                self._drop(next(iter(self._plans)))

    def _pop(self, key: PlanKey, running: RunningStatement | None) -> PlannedQuery | None:
        """Remove and return the plan of a key that was made for this statement, else the last of those that no ticket awaits, else the first."""
        with self._lock:
            numbers = self._of_key.get(key)
            if not numbers:
                return None
            kept = [(number, self._plans[number]) for number in reversed(numbers)]
            own = (number for number, entry in kept if entry.planned.was_begun_for(running))
            free = (number for number, entry in kept if not entry.is_awaited)
            return self._drop(next(chain(own, free), numbers[0]))

    def _drop(self, number: int) -> PlannedQuery:
        kept = self._plans.pop(number)
        numbers = self._of_key[kept.key]
        numbers.remove(number)
        if not numbers:
            del self._of_key[kept.key]
        self._size -= kept.size
        return kept.planned


def is_steady(text: str) -> bool:
    """Return whether a text means the same whenever it is planned: planning computes `now()`, and a Substrait plan shows no calls.

    >>> is_steady("SELECT 1"), is_steady("SELECT now()")
    (True, False)
    """
    if len(text) > _LONG_TEXT:
        return len(text) <= LONGEST_TEXT and _find_steady(text)
    return _is_steady(text)


def _find_steady(text: str) -> bool:
    return substrait.plan_in(text) is None and not any(calls_of(text, mutable_functions()))


_is_steady = lru_cache(MOST_PLANS)(_find_steady)


def _size(key: PlanKey, planned: PlannedQuery) -> int:
    partitions = sum(view.snapshot.table_count for view in planned.session.views.values())
    bound = 0 if planned.parameters is None else planned.parameters.get_total_buffer_size()
    return _OF_A_PLAN + _size_of_text(key.text) + _OF_A_PARTITION * partitions + bound


def _size_of_text(text: str) -> int:
    return _OF_A_CHARACTER * len(text) if len(text) <= _LONG_TEXT else len(text) + _OF_A_TOKEN * token_count(text)
