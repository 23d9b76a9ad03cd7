"""DataFusion sessions of statements, each over one snapshot of every table that it names, and the types of parameters.

Custom partition expressions are evaluated here as well, outside of DataFusion's planning.

The type of a parameter is the one that DataFusion's type coercion casts it to. Every parameter is planned as a call of a volatile function that returns Null. Coercion casts such a call to what its context wants
(the other side of a comparison, the other branches of a CASE, an argument of a function, LIMIT, a branch of a UNION …), and nothing
folds the cast away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import WeakMethod

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, LogicalPlan, RuntimeEnvBuilder, SessionContext, udf, udtf
from datafusion.catalog import Table as DataFusionTable
from datafusion.expr import Values

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.roots.directory import TableName
from lance_flight.connections import ANONYMOUS
from lance_flight.engine.compat.casts import row_edits
from lance_flight.engine.dialects.pivots import with_read_values
from lance_flight.engine.plans.scalar_expressions import LogicalScan, has_computed, hints
from lance_flight.engine.query.access import stored_name
from lance_flight.engine.query.frame_planner import FramePlanner, PlannedViews
from lance_flight.engine.query.information_schema import INFORMATION_SCHEMA, InformationSchema
from lance_flight.engine.query.named_tables import TABLE_CHANGES, NamedTables, TableCatalog, TableChanges
from lance_flight.engine.query.optimiser import Optimiser, QueryErrors
from lance_flight.engine.query.runner import QueryRunner, shape_batches
from lance_flight.engine.query.search.functions import with_searches
from lance_flight.engine.query.search.search_target import SEARCHES, StatementSearches
from lance_flight.engine.query.statement_context import StatementContext
from lance_flight.engine.query.tables.provider import ComputedTable, JoinedKeys, Provider, Run, ScanLog
from lance_flight.engine.query.tables.table_view import Prunings, Rows, TableView
from lance_flight.engine.runtime.cancellation import PlanningLimits
from lance_flight.engine.sql.references import CATALOG, SYSTEM, Point, quote_parts
from lance_flight.engine.sql.tokens import edit_text, parameters, tokens_of
from lance_flight.engine.translation.evaluation import evaluate, register_constants, register_moment
from lance_flight.engine.translation.parameters import parameter_count
from lance_flight.engine.translation.typed_calls import NEVER, QUERIES_ONLY, TypedCalls, arrow_types
from lance_flight.errors import LanceFlightError, NotFound, SqlError, Unsupported
from lance_flight.planning.partitions import Unresolved
from lance_flight.planning.predicates import Predicate
from lance_flight.planning.pruning import Pruning
from lance_flight.threads import STATEMENTS

_MARKER = "__parameter"
_CAST = re.compile(rf"(?<!TRY_)CAST\((?:\(- )*{_MARKER}\(Int64\((?P<number>\d+)\)\)+ AS ")
_BRACKETS = re.compile(r'"[^"]*"|[()]')
Planned = Callable[[Callable[[], Any]], Any]
"""Function that runs a planning function within its limits, and raises `SqlError` for what DataFusion refuses."""
_NONE: Mapping[str, pa.DataType] = MappingProxyType({})
_TRIED = (pa.null(), pa.utf8(), pa.int64(), pa.timestamp("us"), pa.month_day_nano_interval())
"""Types of markers, tried in order until the query has a plan: `$1 || $2`, `sum($1)` and `$1 - INTERVAL '1 day'` have none of Null."""
_MOST_WANTS = 16
"""Most types of one parameter, in a statement that repeats it, that are brought together."""


def parameter_schema(sql: str, wanted: Mapping[str, pa.DataType] = _NONE) -> pa.Schema:
    """Return the schema of the parameters: one nullable field for each of `$1`, `$2` … (`?` numbered in order).

    Its type is the one that is `wanted` of it, and null where the statement wants none: any value may be bound then.
    """
    names = [f"${number}" for number in range(1, parameter_count(sql) + 1)]
    return pa.schema([pa.field(name, wanted.get(name, pa.null())) for name in names])


def wanted_types(context: SessionContext, calls: TypedCalls, planned: Planned) -> Mapping[str, pa.DataType]:
    """Infer the types that the contexts of the parameters of a query want, by `$n`; a parameter without one is left out.

    A query that DataFusion cannot plan before the values are known tells nothing.
    """
    for kind in _TRIED:
        optimised = _plan_marked(context, calls, planned, kind)
        if optimised is not None:
            return _types_in(optimised, context, planned, {} if kind == pa.null() else _markers(calls.sql, kind))
    return {}


def _plan_marked(context: SessionContext, calls: TypedCalls, planned: Planned, kind: pa.DataType) -> LogicalPlan | None:
    """Plan the query with markers of this type in place of its parameters; None if it has no plan then."""
    marked = replace(calls, sql=_mark_parameters(calls.sql))

    def plan(text: str) -> DataFrame:
        frame = context.sql_with_options(text, QUERIES_ONLY)
        if marked.calls:
            # Some calls are checked against their signatures only now: those in filters, or of parameters.
            frame.optimized_logical_plan()
        return frame

    context.register_udf(udf(_never_run, [pa.int64()], kind, "volatile", _MARKER))
    try:
        return planned(lambda: marked.plan(context, plan).optimized_logical_plan())
    except (SqlError, Unsupported):
        return None
    finally:
        context.deregister_udf(_MARKER)


def _types_in(
    optimised: LogicalPlan, context: SessionContext, planned: Planned, tried: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """Return the types that the parameters of a plan are cast to; the one that was `tried` of those that are not."""
    wanted = sorted({want for text in _texts(optimised) for want in _casts(text)})
    of_wants: dict[tuple[str, ...], list[str]] = {}
    for number, wants in groupby(wanted, itemgetter(0)):
        of_wants.setdefault(tuple(want for _, want in wants), []).append(f"${number}")
    types = dict(tried)
    for together, names in of_wants.items():
        with suppress(SqlError):  # contexts that have no type in common
            types |= dict.fromkeys(names, planned(partial(_common_type, context, together)))
    return {name: kind for name, kind in types.items() if kind != NEVER}


def _never_run(_: pa.Array) -> pa.Array:
    raise SqlError("a parameter has no value while its type is inferred")


def _markers(sql: str, kind: pa.DataType) -> dict[str, pa.DataType]:
    return {parameter.text: kind for token in tokens_of(sql) for parameter in parameters(token)}


def _mark_parameters(sql: str) -> str:
    """Replace each parameter by a call of the marker function."""
    marks = (each for token in tokens_of(sql) for each in parameters(token) if each.text[1:].isdigit())
    return edit_text(sql, [(token.start, token.stop, f"{_MARKER}({token.text[1:]})") for token in marks])


def _texts(plan: LogicalPlan) -> Iterator[str]:
    """Yield the texts of all expressions of a plan, those of long VALUES lists included, which its own text shortens."""
    text = plan.display_indent()
    yield text
    if "Values: " in text:
        yield from _value_texts(plan)


def _value_texts(plan: LogicalPlan) -> Iterator[str]:
    if not plan.inputs():
        node = plan.to_variant()
        if isinstance(node, Values):
            yield from (str(value) for row in node.values() for value in row)
    for child in plan.inputs():
        yield from _value_texts(child)


def _casts(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parameters that are cast, and the types that they are cast to."""
    for match in _CAST.finditer(text):
        depth = 1
        for bracket in _BRACKETS.finditer(text, match.end()):
            depth += {"(": 1, ")": -1}.get(bracket[0], 0)
            if depth == 0:
                yield int(match["number"]), text[match.end() : bracket.start()]
                break


def _common_type(context: SessionContext, wants: Sequence[str]) -> pa.DataType:
    """Return the type that all contexts of a parameter can be given."""
    if len(wants) == 1:
        return arrow_types(context, wants[0])[0]
    nulls = ", ".join(f"arrow_cast(NULL, '{want}')" for want in wants[:_MOST_WANTS])
    common: pa.DataType = context.sql_with_options(f"SELECT coalesce({nulls})", QUERIES_ONLY).schema().field(0).type
    return common


@dataclass(slots=True)
class Evaluations:
    """Values of custom expressions: computed between two rounds of planning, never inside one (decision 25).

    A value that cannot be computed is an error for the caller: it prunes nothing, and the query runs.
    """

    known: dict[Any, pa.Array | LanceFlightError] = field(default_factory=dict)
    wanted: dict[Any, tuple[str, Sequence[pa.Array], pa.DataType]] = field(default_factory=dict)

    def __call__(self, expression: str, columns: Sequence[pa.Array], result_type: pa.DataType) -> pa.Array:
        key = expression, str(result_type), tuple((str(c.type), tuple(map(str, c.to_pylist()))) for c in columns)
        if key not in self.known:
            self.wanted[key] = expression, columns, result_type
            raise Unresolved(f"{expression!r} is computed before the next round of planning")
        known = self.known[key]
        if isinstance(known, LanceFlightError):
            raise known
        return known

    def compute(self) -> bool:
        """Compute the requested values; return whether there were any."""
        wanted, self.wanted = self.wanted, {}
        for key, (expression, columns, result_type) in wanted.items():
            try:
                self.known[key] = evaluate(expression, columns, result_type)
            except LanceFlightError as exc:
                self.known[key] = exc
        return bool(wanted)


T = TypeVar("T")

PLANNING_ROUNDS = 4
FEW_TABLES = 1_000
"""Most partition tables that are pruned before a query is run, which takes negligible time."""


class QuerySession:
    """A DataFusion context, and what the statement that is run in it reads.

    What is planned in it can be run `again` for another statement of the same text: what belongs to one run (its `context`, the log of
    its scans, its tables) is made anew then, and DataFusion's plans read the tables of that run. A run `is_resumed` where the one before it was of the
    same statement, at the same snapshots: its ticket follows its plan.
    """

    def __init__(self, context: StatementContext) -> None:
        self.searches = StatementSearches()
        self._derived: dict[str, pads.Dataset] = {}
        self.unbound: TypedCalls | None = None
        self._wanted: tuple[TypedCalls, Mapping[str, pa.DataType]] | None = None
        self._planning = Lock()
        self._evaluations = Evaluations()
        self.run = Run()
        self._is_steady = True
        self.is_resumed = False
        self.planned_views = PlannedViews(context)
        runtime, lanes = context.runtime or RuntimeEnvBuilder(), context.execution.target_partitions
        self.optimiser = Optimiser(self.run, runtime, context.db_schema, lanes or context.target_partitions)
        self.runner = QueryRunner(self.optimiser, self.run)
        self._begin(context, {})
        datafusion = self.optimiser.datafusion
        # What DataFusion holds is not seen by Python's collector: through it the session would keep itself for ever.
        datafusion.register_catalog_provider(CATALOG, TableCatalog(self.root, _weak(self.resolve)))
        register_constants(datafusion, self.access.principal or ANONYMOUS, CATALOG, self.db_schema)
        register_moment(datafusion, self.run.moment)
        changes = TableChanges(_weak(self.changes), self.run, self.db_schema)
        datafusion.register_udtf(udtf(changes, TABLE_CHANGES))

    def _begin(
        self,
        context: StatementContext,
        known: Mapping[TableName, Provider],
        *,
        is_costly: bool = False,
        is_linear: bool = True,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        """Create the state of one run."""
        running = context.running
        # Nothing that is kept with a plan may keep the call that the statement came by.
        self.context = context = replace(context, running=None)
        self.root, self.db_schema, self.access = context.root, context.db_schema, context.access
        self.transaction, self.tables = context.transaction, context.tables
        self.execution, self.share = context.execution, context.share
        if running is None:
            self.run.begin(ScanLog())
        else:
            log = ScanLog(running.cancellation, running.partitions, running.ahead, running.measured)
            self.run.begin(log, running.began)
        self.progress: Progress | None = None if running is None else running.report_progress
        self.sent = None if running is None else running.sql
        self.is_view = False
        self.named = NamedTables(context, self.log, self._evaluations, known, hidden)
        self._errors = QueryErrors(self.root, self.log, self.named.withheld, self.planned_views.masked)
        limits = PlanningLimits(self.log.cancellation, context.planning_timeout, is_costly, is_linear)
        self.optimiser.begin(self._errors, limits, self.execution.target_partitions or context.target_partitions)
        self._prepared: DataFrame | None = None

    @property
    def log(self) -> ScanLog:
        """Record of the scans of this run."""
        return self.run.log

    @property
    def may_read_directly(self) -> bool:
        """True if the query names a stored table or a search, whose rows can be read without DataFusion."""
        return bool(self.named.providers or self.searches.tables)

    @property
    def is_costly(self) -> bool:
        """True if planning the query, or computing the constants that planning folds, may take long."""
        return self.optimiser.limits.is_costly

    @property
    def is_steady(self) -> bool:
        """True if its plans read stored tables alone and searches of these, so that they may be run again."""
        is_kept = self._is_steady and not self.optimiser.has_merge_joins
        if not (is_kept and self.named.is_steady and self.searches.are_steady):
            return False
        return not (self.is_searching and (self.planned_views.texts or self.planned_views.masked))

    @property
    def is_searching(self) -> bool:
        """True if it has searches, which each run makes anew (`search_again`)."""
        return bool(self.searches.tables)

    def again(self, context: StatementContext) -> bool:
        """Begin another run; return False if a table has other columns by now, so that the plans are invalid."""
        known, before, cancellation = dict(self.named.providers), self.named.views, self.log.cancellation
        self.planned_views.begin(context)
        if not self.planned_views.are_current:
            return False
        limits, hidden = self.optimiser.limits, self.named.hidden
        self._begin(context, known, is_costly=limits.is_costly, is_linear=limits.is_linear, hidden=hidden)
        for name in known:
            self.named.dataset(name)
        self.is_resumed = self.log.cancellation is cancellation and all(
            key in self.named.views and self.named.views[key].snapshot is view.snapshot for key, view in before.items()
        )
        return self.named.providers == known

    @property
    def view_texts(self) -> list[str]:
        """Return the queries of the SQL views that it reads."""
        return self.planned_views.texts

    @property
    def view_digests(self) -> dict[str, str]:
        """Return what tells the SQL views that it reads from later ones, by `schema.name`."""
        return self.planned_views.digests

    def end(self) -> None:
        """Release the scans of the run that is over, and its progress callback."""
        self.progress = None
        self._derived.clear()
        self.log.begin_plan()

    @property
    def views(self) -> Mapping[str, TableView]:
        """Return the tables that are named, by `schema.name`."""
        return self.named.views

    @property
    def scanned(self) -> Mapping[str, TableView]:
        """The tables whose rows are read."""
        return self.named.scanned

    @property
    def divisible(self) -> Mapping[str, TableView]:
        """Return the tables whose rows are read."""
        return self.named.divisible

    def frame(self, sql: str, parameters: pa.RecordBatch | None = None) -> DataFrame:
        """Plan a query, with one row of parameters bound to `$1`, `$2` …; raise `SqlError` or `NotFound` if it is invalid."""
        sql = self.with_read_values(sql)
        # A view is planned for a query that has its turn, maybe in another thread.
        with STATEMENTS.turn(0 if self.is_view else len(sql), self.log.cancellation.check):
            return FramePlanner(self).frame(sql, parameters)

    def with_read_values(self, sql: str) -> str:
        """Write the columns that rows tell, as those of a PIVOT without IN, into a query, from the same snapshots as it reads."""
        return with_read_values(sql, self._read)

    def _read(self, sql: str) -> pa.Table:
        """Return the few rows of a query that another one needs to be planned."""
        frame = self.frame(sql)
        self.prepare(frame)
        columns = pa.schema(frame.schema())
        return pa.Table.from_batches(self.batches(frame, columns), columns)

    def reveal(self, hidden: frozenset[str]) -> None:
        """Show these hidden columns too of the tables that are named from here on."""
        if self.named.reveal(hidden):
            self.planned_views.forget_masked()

    def wanted_types(self) -> Mapping[str, pa.DataType]:
        """Return the types that their contexts want of the parameters, by `$n`, of the query that was planned last without values."""
        if self.unbound is None:
            return self.searches.parameter_types
        if self._wanted is None or self._wanted[0] is not self.unbound:
            types = wanted_types(self.optimiser.datafusion, self.unbound, self.optimiser.run_planning)
            self._wanted = self.unbound, types
        return {**self._wanted[1], **self.searches.parameter_types}

    def literal_rows(self, sql: str) -> DataFrame:
        """Plan a VALUES list of plain literals, without most of the rewrites that `frame` makes."""
        exact = edit_text(sql, row_edits(sql))
        planner = self.optimiser
        return planner.coerce_types(
            planner.run_planning(lambda: planner.datafusion.sql_with_options(exact, QUERIES_ONLY))
        )

    def rows_of(self, rows: pads.Dataset) -> DataFrame:
        """Return the rows of a dataset that is read in place of a scan by this run alone."""
        return self.optimiser.datafusion.table(quote_parts(CATALOG, *self.name_rows(rows)))

    def name_rows(self, rows: pads.Dataset) -> tuple[str, str]:
        """Return the schema and the name by which this run alone reads a dataset."""
        name = f"rows_of_scan_{len(self._derived) + 1}"
        self._derived[name] = rows
        return SEARCHES, name

    def prepare(self, frame: DataFrame) -> None:
        """Collect the predicates that prune beyond the pushed filters from the optimised plan, custom expressions included."""
        if self.views and self._prepared is not frame:
            hints_by_table = hints(self.optimiser.logical_scans(frame) or ())
            self.named.hints.begin(
                {
                    table: self.views[table].with_stored_expressions(hint) if table in self.views else hint
                    for table, hint in hints_by_table.items()
                }
            )
            self.settle(frame)
            self._prepared = frame

    def settle(self, frame: DataFrame) -> None:
        """Evaluate the expressions that pruning needs, in as many rounds of pruning as that takes."""
        if any(view.has_expressions for view in self.views.values()) or any(
            map(has_computed, self.named.hints.by_table.values())
        ):
            for _ in range(PLANNING_ROUNDS):
                self.prune(frame)
                if not self._evaluations.compute():
                    break

    def prune(self, frame: DataFrame) -> Prunings:
        """Prune the scans of a query; the physical plan is made only if scans are within its expressions, or filters have many values."""
        scans = self.optimiser.logical_scans(frame)
        if scans is None or any(scan.has_many_values for scan in scans):
            self.optimiser.plan(frame)
            return dict(self.log.prunings)
        by_table: dict[str, list[Pruning]] = {}
        for scan in scans:
            if scan.table in self.views:
                by_table.setdefault(scan.table, []).append(self.views[scan.table].prune(scan.pushed))
        return by_table

    def narrow(self, predicate: Predicate) -> None:
        """Prune the target by a predicate on its rows beyond the query."""
        self.named.hints.of_target = predicate

    def plan_ahead(self, frame: DataFrame) -> None:
        """Fix, in `readings`, the versions of the unpinned tables that a query reads, and record its scans.

        Where all versions are fixed and there are many tables, what it scans shows when it is run: pruning takes its time.
        """
        snapshots = [view.snapshot for view in self.views.values()]
        if not all(snapshot.is_pinned for snapshot in snapshots):
            self.prepare(frame)
            self.optimiser.plan(frame)
        elif snapshots and sum(snapshot.table_count for snapshot in snapshots) <= FEW_TABLES:
            self.prepare(frame)
            if self.optimiser.logical_scans(frame) is not None:
                self.prune(frame)

    def prune_by(self, table: str, predicate: Predicate) -> None:
        """Prune a table (`schema.name`) by a predicate on its relevant rows, for all plans that are made from here on."""
        self.named.hints.add(table, predicate)

    def filter_by(self, table: str, column: str, keys: JoinedKeys) -> None:
        """Leave rows of a table (`schema.name`) out that have none of the values which the other side of a join has."""
        self.named.hints.add_keys(table, column, keys)

    def plan_columns(self, frame: DataFrame) -> None:
        """Record the scan of a query that returns columns of one table: a search alone needs no physical plan for that."""
        match self.optimiser.logical_scans(frame):
            case [LogicalScan(table=table, filters=())] if table.startswith(f"{SEARCHES}."):
                search = self.searches.search(table.removeprefix(f"{SEARCHES}."))
            case _:
                search = None
        if search is None:
            self.optimiser.plan(frame)
        else:
            self.log.begin_plan()
            search.get_fragments()

    def whole(self, db_schema: str, reference: str) -> TableView | None:
        """Return a stored table all rows of which are searched, whatever plans before required; None if the name is no such table's."""
        table = self.resolve(db_schema, reference)
        self.named.hints.begin({})
        return self.scanned.get(f"{db_schema}.{reference}") if isinstance(table, Provider) else None

    def search_again(self, sql: str, parameters: pa.RecordBatch | None) -> bool:
        """Make the searches of a statement anew, in another run of its plan; return False if the plan is not that of the statement."""
        return self.searches.again(partial(with_searches, self, sql, parameters, is_bound=True))

    def batches(self, frame: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Run a planned query; every batch has exactly `schema`."""
        return shape_batches(self.stream(frame), schema)

    def stream(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Run a planned query; its batches have DataFusion's schema."""
        self.searches.run_steps()
        yield from self.runner.stream(frame)

    def directly(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a query that runs without DataFusion."""
        self.searches.run_steps()
        yield from self.runner.read(batches)

    def stream_portion(
        self, frame: DataFrame, portion: Mapping[str, Rows], target_partitions: int
    ) -> Iterator[pa.RecordBatch]:
        """Run a query over some partition tables of each table in `divisible`, each read in so many lanes.

        Safe to call from several threads.
        """
        self.searches.run_steps()
        self.runner.check_windows(frame)
        with self._planning, ExitStack() as reading:
            # A query learns what it reads when it is planned.
            for name, rows in portion.items():
                view = replace(self.divisible[name], only=rows, target_partitions=target_partitions)
                reading.enter_context(self.named.provider_of(name).reading(view))
            started = [self.runner.start(frame, target_partitions)]
        yield from self.runner.stream_begun(started.pop)

    def changes(self, name: TableName, first: Point, last: Point) -> ComputedTable:
        """Return the rows added and removed between two points of a table's history."""
        return self.named.changes(name, first, last)

    def resolve(self, db_schema: str, reference: str) -> pads.Dataset | DataFusionTable | None:
        """Resolve a table name as written in SQL (`t`, `t@12`, `t@tag`, `t@time`, `t$partitions`); None if there is no such table."""
        computed = self._computed_table(db_schema, reference)
        if computed is not None:
            self._is_steady = False
            return computed
        if db_schema == SEARCHES:
            return self.searches.tables.get(reference) or self._derived.get(reference)
        name = TableName(db_schema, reference)
        try:
            masked = self.named.masked_table(name)
            if masked is not None:
                return self.planned_views.resolve_masked(masked)
            if stored_name(name) == name or self.planned_views.is_planning(stored_name(name)):
                return self.named.dataset(name)
        except NotFound as exc:
            # The error itself would keep the frames of all callers, and the rows of this very statement with them.
            self._errors.note_missing(reference, name, str(exc))
        except LanceFlightError as exc:
            self.log.error = exc
            raise
        try:
            return self.planned_views.resolve(name)
        except NotFound as exc:
            self._errors.note_missing(reference, name, str(exc))
            return None
        except LanceFlightError as exc:
            self.log.error = exc
            raise

    def _computed_table(self, db_schema: str, reference: str) -> ComputedTable | None:
        """Return a table of the schemas that are not stored; None if there is none of this name."""
        if db_schema == SYSTEM and self.context.system is not None:
            return self.context.system.table(reference)
        if db_schema == INFORMATION_SCHEMA:
            check = self.log.cancellation.check
            return InformationSchema(root=self.root, tables=self.tables, access=self.access, check=check).table(
                reference
            )
        return None


def _weak(method: Callable[..., T]) -> Callable[..., T]:
    """Wrap a method so that the wrapper does not keep its object alive."""
    reference = WeakMethod(method)

    def call(*arguments: Any) -> T:
        session = reference()
        if session is None:
            raise ReferenceError("the statement has ended")
        answer: T = session(*arguments)
        return answer

    return call
