"""DataFusion sessions of statements, each over one snapshot of every table that the statement names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakMethod

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, ExecutionPlan, LogicalPlan, RecordBatchStream, RuntimeEnvBuilder, SessionContext, udtf
from datafusion.catalog import Table as DataFusionTable

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.roots.directory import TableName
from lance_flight.catalog.tables.scan import BATCH_ROWS, rows_within
from lance_flight.engine.compat.checked_arithmetic import sorts_rows
from lance_flight.engine.compat.float_signs import compares_bits, may_compare_bits, without_signed_zeros
from lance_flight.engine.compat.folded_comparisons import with_hidden_calls
from lance_flight.engine.compat.joined_names import MOST_NAMES, MOST_RELATIONS, with_joined_name
from lance_flight.engine.compat.literals import has_moments, row_edits, with_readable_moment
from lance_flight.engine.compat.marked_conditions import SIDES, with_marked_conditions
from lance_flight.engine.compat.memberships import with_apart_names, with_strict_memberships
from lance_flight.engine.compat.recursive_queries import check_recursive_queries, with_bounded_steps
from lance_flight.engine.dialects.named_columns import with_fields, with_named_columns
from lance_flight.engine.dialects.reused_aliases import MOST_REUSED, with_reused_alias
from lance_flight.engine.dialects.spellings import LAMBDA
from lance_flight.engine.plans.bounds import (
    COLLECTING,
    SKETCH,
    check_plan,
    check_sent_plan,
    check_windows,
    constant_bytes,
    with_joined_subqueries,
)
from lance_flight.engine.plans.date_arithmetic import check_date_arithmetic, may_add_times
from lance_flight.engine.plans.integer_arithmetic import may_overflow
from lance_flight.engine.plans.joins import (
    check_merge_joins,
    check_stacked_conditions,
    has_constant_not_in,
    has_correlated_not_in,
    has_misplaced_condition,
    has_shared_names,
    is_about_membership,
    is_ambiguous,
)
from lance_flight.engine.plans.nodes import Node, sorts_without_columns
from lance_flight.engine.plans.number_rewriting import NumberRewriting, has_wide_sums
from lance_flight.engine.plans.scalar_expressions import LogicalScan, has_computed, hints, logical_scans
from lance_flight.engine.query.computed_tables import ComputedTable
from lance_flight.engine.query.constant_conditions import fails_at_constants, has_constant_conditions, without_constants
from lance_flight.engine.query.evaluations import Evaluations
from lance_flight.engine.query.information_schema import INFORMATION_SCHEMA, InformationSchema
from lance_flight.engine.query.named_tables import NamedTables, TableCatalog
from lance_flight.engine.query.parameter_types import wanted_types
from lance_flight.engine.query.planned_views import PlannedViews
from lance_flight.engine.query.policies.restrictions import stored_name
from lance_flight.engine.query.products import (
    ending,
    has_pairs,
    has_product,
    has_unprotected_pairs,
    join_filters,
    with_asking_conditions,
)
from lance_flight.engine.query.provider import JoinedKeys, Provider, Run, ScanLog
from lance_flight.engine.query.pure_scans import is_pure_scan
from lance_flight.engine.query.query_errors import QueryErrors
from lance_flight.engine.query.search.functions import with_searches
from lance_flight.engine.query.search.search_target import SEARCHES, StatementSearches
from lance_flight.engine.query.statement_context import StatementContext
from lance_flight.engine.query.table_changes import TABLE_CHANGES, TableChanges
from lance_flight.engine.query.tables import Prunings, Rows, TableView
from lance_flight.engine.runtime.cancellation import PlanningLimits
from lance_flight.engine.runtime.streams import cancellable
from lance_flight.engine.sql.activity import SYSTEM
from lance_flight.engine.sql.growth import Growth
from lance_flight.engine.sql.references import CATALOG, Point, quote_parts
from lance_flight.engine.sql.tokens import edit_text
from lance_flight.engine.translation import substrait
from lance_flight.engine.translation.evaluation import register_constants, session_config
from lance_flight.engine.translation.hidden_columns import hidden_columns_in, with_visible_columns
from lance_flight.engine.translation.parameters import bound_values, parameter_count, with_listed_values
from lance_flight.engine.translation.positions import translate_positions
from lance_flight.engine.translation.rewriting import datafusion_text, number_parameters
from lance_flight.engine.translation.typed_calls import QUERIES_ONLY, TypedCalls, refuses_call, shown_name
from lance_flight.errors import LanceFlightError, LimitExceeded, NotFound, QueryFailed, SqlError, Unsupported
from lance_flight.model.arrow_types import is_number
from lance_flight.model.long_texts import STATEMENTS
from lance_flight.planning.predicates import Predicate
from lance_flight.planning.pruning import Pruning
from lance_flight.shares import ANONYMOUS

T = TypeVar("T")

PLANNING_ROUNDS = 4
FEW_TABLES = 1_000
"""Most partition tables that are pruned before a query is run, which takes negligible time."""
MOST_MOMENTS = 100
"""Most moments of one query that DataFusion reads only in another form; each is planned anew."""
_OF_NULLS, _FLATTENING = " DISTINCT FROM ", "eliminate_cross_join"
"""A comparison in which NULL is equal to NULL, and the rule of DataFusion 55 that takes inner joins within others apart, orders them anew, and makes `=` of it."""
_PUSHING = "push_down_filter"
_SELECTING = "optimize_projections"
_OTHER_WORDS: Sequence[tuple[Callable[[str, str], str | None], int]] = (
    *((partial(with_joined_name, place=place), MOST_NAMES) for place in range(MOST_RELATIONS)),
    (with_reused_alias, MOST_REUSED),
)
"""What writes a text otherwise by the reason for which it was refused, and how often in turn."""
_WIDEST_BATCH, _USUAL_TEXT, _FEWEST_ROWS = 16 << 20, 128, 256
"""Bytes of a batch as far as the text of a statement tells, those of a text in a column that it reads, and rows of its copies."""
COLLECTED_ROWS = 64
"""Rows of a batch where each may have a copy of all that an aggregate has collected."""
_COPYING = re.compile(r"\b(?:Join|WindowAggr|Subquery|Unnest)\b")
SMALL_BATCH_ROWS = 256
"""Rows of a batch of every pair of rows that cannot be ended before its end."""
_JOINING = re.compile(r"\bJoin|<subquery>")


class QuerySession:
    """A DataFusion context, and what the statement that is run in it reads.

    What is planned in it can be run `again` for another statement of the same text: what belongs to one run (its `context`, the log of
    its scans, its tables) is made anew then, and DataFusion's plans read the tables of that run. A run `is_resumed` where the one before it was of the
    same statement, at the same snapshots: its ticket follows its plan.
    """

    def __init__(self, context: StatementContext) -> None:
        self.searches = StatementSearches()
        self._derived: dict[str, pads.Dataset] = {}
        self._unbound: TypedCalls | None = None
        self._wanted: Mapping[str, pa.DataType] | None = None
        self._planning = Lock()
        self._evaluations = Evaluations()
        self._run = Run()
        self._is_steady, self._is_asking, self._asks_equalities = True, False, True
        self._has_pushing, self.has_merge_joins = True, False
        self.is_resumed = False
        self._batch_rows = BATCH_ROWS
        self._dialect = "generic"
        self._optimised: tuple[DataFrame, LogicalPlan] | None = None
        self._learned: tuple[DataFrame | None, dict[Any, Any]] = None, {}
        self._ended: tuple[tuple[Node, int, int], Callable[[], DataFrame]] | None = None
        self._planned_views = PlannedViews(context)
        self._begin(context, {})
        self.datafusion = _context(self.target_partitions, context.runtime or RuntimeEnvBuilder(), self.db_schema)
        # What DataFusion holds is not seen by Python's collector: through it the session would keep itself for ever.
        self.datafusion.register_catalog_provider(CATALOG, TableCatalog(self.root, _weak(self.resolve)))
        register_constants(self.datafusion, self.access.principal or ANONYMOUS, CATALOG, self.db_schema)
        changes = TableChanges(_weak(self.changes), self._run, self.db_schema)
        self.datafusion.register_udtf(udtf(changes, TABLE_CHANGES))

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
        self.target_partitions = self.execution.target_partitions or context.target_partitions
        self._run.log = (
            ScanLog() if running is None else ScanLog(running.cancellation, running.partitions, running.ahead)
        )
        self.progress: Progress | None = None if running is None else running.report_progress
        self._sent = None if running is None else running.sql
        self._is_view = False
        self.named = NamedTables(context, self.log, self._evaluations, known, hidden)
        self._errors = QueryErrors(self.root, self.log, self.named.withheld, self._planned_views.masked)
        self._limits = PlanningLimits(self.log.cancellation, context.planning_timeout, is_costly, is_linear)
        self._prepared: DataFrame | None = None

    @property
    def log(self) -> ScanLog:
        """Record of the scans of this run."""
        return self._run.log

    @property
    def may_read_directly(self) -> bool:
        """True if the query names a stored table or a search, whose rows can be read without DataFusion."""
        return bool(self.named.providers or self.searches.tables)

    @property
    def is_costly(self) -> bool:
        """True if planning the query, or computing the constants that planning folds, may take long."""
        return self._limits.is_costly

    @property
    def is_steady(self) -> bool:
        """True if its plans read stored tables alone and searches of these, so that they may be run again."""
        if not (self._is_steady and self.named.is_steady and self.searches.are_steady):
            return False
        return not (self.is_searching and (self._planned_views.texts or self._planned_views.masked))

    @property
    def is_searching(self) -> bool:
        """True if it has searches, which each run makes anew (`search_again`)."""
        return bool(self.searches.tables)

    def again(self, context: StatementContext) -> bool:
        """Begin another run; return False if a table has other columns by now, so that the plans are invalid."""
        known, before, cancellation = dict(self.named.providers), self.named.views, self.log.cancellation
        self._planned_views.begin(context)
        if not self._planned_views.are_current:
            return False
        limits, hidden = self._limits, self.named.hidden
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
        return self._planned_views.texts

    @property
    def view_digests(self) -> dict[str, str]:
        """Return what tells the SQL views that it reads from later ones, by `schema.name`."""
        return self._planned_views.digests

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
        # A view is planned for a query that has its turn, maybe in another thread.
        with STATEMENTS.turn(0 if self._is_view else len(sql), self.log.cancellation.check):
            return self._frame(sql, parameters)

    def _frame(self, sql: str, parameters: pa.RecordBatch | None) -> DataFrame:
        plan_sent = substrait.plan_in(sql)
        if plan_sent is not None:
            return self._planned_views.plan(
                lambda: self.run_planning(lambda: self._frame_of_plan(plan_sent)),
                self._frame_of_view,
            )
        sql = with_hidden_calls(sql if parameters is None else with_listed_values(sql, parameters), parameters)
        is_bound = parameters is not None or parameter_count(sql) == 0
        self.reveal(hidden_columns_in(sql))
        sql = self.searches.replace(partial(with_searches, self, sql, parameters, is_bound=is_bound))
        if self.named.hidden:
            datafusion_text(sql)  # refuses what is too much before tables are opened
            sql = with_visible_columns(sql, self._reveal_columns)
        return self._frame_of_text(sql, parameters, is_bound=is_bound)

    def _frame_of_plan(self, sent: bytes) -> DataFrame:
        """Plan what was sent as Substrait; `Unsupported` for what DataFusion answers wrongly, which has no other text."""
        # Its joins do not show that NULL is equal to NULL in them.
        self.datafusion.remove_optimizer_rule(_FLATTENING)
        frame = self._bound_plan(substrait.plan_substrait(self.datafusion, sent))
        plan = frame.logical_plan()
        self._narrow_batches(Growth(check_sent_plan(plan)))
        frame = self.datafusion.create_dataframe_from_logical_plan(plan)
        if has_correlated_not_in(plan) or has_shared_names(plan):
            raise Unsupported(
                "NOT IN, ANY and ALL over such a subquery are not supported in Substrait; send NOT EXISTS, or SQL"
            )
        joined = with_joined_subqueries(plan)
        check_date_arithmetic(self.datafusion, joined)
        if may_overflow(self.datafusion, joined) or has_wide_sums(plan):
            return self._checked_plan(frame)
        if not self._is_endless(frame):
            return frame
        try:
            return self._checked_plan(frame)
        except Unsupported as exc:
            if not has_pairs(self.optimise(frame)):
                return frame
            raise Unsupported(
                "this plan looks at pairs of rows, as EXISTS beside OR does, in a way that would go on when its statement is over; send the query as SQL"
            ) from exc

    def _checked_plan(self, frame: DataFrame) -> DataFrame:
        """Plan a sent plan as SQL, with checks of its numbers; `Unsupported` if DataFusion cannot write it in SQL of the same meaning."""
        try:
            sql = substrait.text_of(self.datafusion, frame)
            checked = self._frame_of_text(sql, None, is_bound=True)
            return substrait.with_columns_of(
                checked, [shown_name(name) for name in checked.schema().names], frame.schema().names
            )
        except (SqlError, Unsupported) as exc:
            raise Unsupported(
                "numbers of this plan may leave BIGINT or DECIMAL(38, s), and it cannot be planned with a check of that; cast the operands of"
                " its sums and products to DECIMAL(28, 0) or DOUBLE, or send the query as SQL"
            ) from exc

    def _frame_of_text(self, sql: str, parameters: pa.RecordBatch | None, *, is_bound: bool) -> DataFrame:
        """Plan a query whose searches and hidden columns are replaced, with other words where it has no plan as it is written."""

        def columns_of(query: str) -> pa.Schema:
            shown = with_visible_columns(query, self._reveal_columns) if self.named.hidden else query
            return self._frame_as_written(shown, parameters, is_bound=is_bound).schema()

        sql = with_named_columns(sql, columns_of)
        try:
            return self._frame_with_marks(sql, parameters, is_bound=is_bound)
        except (SqlError, NotFound) as exc:
            fields = with_fields(sql, str(exc), columns_of)
            if fields is not None:
                return self._frame_of_text(fields, parameters, is_bound=is_bound)
            frame = self._frame_in_other_words(sql, str(exc), parameters, is_bound=is_bound)
            if frame is None:
                raise
            return frame

    def _frame_in_other_words(
        self, sql: str, refusal: str, parameters: pa.RecordBatch | None, *, is_bound: bool
    ) -> DataFrame | None:
        """Plan a query that was refused, with each way to write it otherwise in turn; None where it has no such plan."""
        for change, most in _OTHER_WORDS:
            text, why = sql, refusal
            for _ in range(most):
                changed = change(text, why)
                if changed is None:
                    break
                try:
                    return self._frame_with_marks(changed, parameters, is_bound=is_bound)
                except (SqlError, NotFound) as exc:
                    text, why = changed, str(exc)
        return None

    def _frame_with_marks(self, sql: str, parameters: pa.RecordBatch | None, *, is_bound: bool) -> DataFrame:
        if with_marked_conditions(sql) == sql:
            return self._frame_as_written(sql, parameters, is_bound=is_bound)
        written = number_parameters(sql)
        marked = {with_marked_conditions(written, side) for side in range(SIDES)}
        # A view has a physical plan only with the query that reads it: it shows too late what has none.
        for text in (*sorted(marked), sql) if self._is_view else (sql, *sorted(marked)):
            try:
                frame = self._frame_as_written(text, parameters, is_bound=is_bound)
                if is_bound and not self._is_view:
                    self.plan(frame)
            except (SqlError, Unsupported) as exc:
                if text == sql and is_ambiguous(str(exc)):
                    raise
            else:
                return frame
        return self._frame_as_written(sql, parameters, is_bound=is_bound)  # as refused as it is

    def _frame_as_written(self, sql: str, parameters: pa.RecordBatch | None, *, is_bound: bool) -> DataFrame:
        with translate_positions(self._sent, sql):
            rewritten = datafusion_text(sql)
        self._limits.is_costly |= rewritten.is_costly
        self._limits.is_linear &= rewritten.is_linear or not rewritten.is_costly
        self._narrow_batches(rewritten.growth, parameters)
        calls = rewritten.calls
        if not is_bound:
            self._unbound, self._wanted = calls, None
        values = bound_values(calls.sql, parameters)

        columns = [] if parameters is None else parameters.columns
        # A date may be beyond those of Python.
        numbers = {f"${n}": column[0].as_py() for n, column in enumerate(columns, 1) if is_number(column.type)}

        def run_planning(text: str) -> DataFrame:
            self._read_in_dialect("duckdb" if LAMBDA.search(text) else "generic")
            return self.datafusion.sql_with_options(text, QUERIES_ONLY, param_values=values)

        def plan(text: str) -> DataFrame:
            frame = run_planning(text)
            if _OF_NULLS in frame.logical_plan().display_indent() and self.datafusion.remove_optimizer_rule(
                _FLATTENING
            ):
                frame = run_planning(text)
            check_recursive_queries(text, run_planning)
            frame.schema()  # a name that cannot leave DataFusion is refused here
            if rewritten.is_nested or self._planned_views.texts or SKETCH in text.lower():
                self._bound_plan(frame)
            if may_add_times(text):
                check_date_arithmetic(self.datafusion, with_joined_subqueries(frame.logical_plan()))
            right = self._with_right_answers(text, frame.logical_plan(), run_planning, numbers)
            bounded = with_bounded_steps(right, run_planning, self.datafusion)
            if bounded != text:
                frame = run_planning(bounded)
            if calls.calls and is_bound:
                _check_calls(frame)
            return frame

        with translate_positions(self._sent, calls.sql):
            return self._readable(calls, plan, numbers, is_bound=is_bound)

    def _read_in_dialect(self, dialect: str) -> None:
        """Have DataFusion read texts in a dialect: that of DuckDB has lambdas, and fewer of our other words."""
        if dialect != self._dialect:
            self.datafusion.sql(f"SET datafusion.sql_parser.dialect = '{dialect}'")
            self._dialect = dialect

    def _with_right_answers(
        self, text: str, plan: LogicalPlan, planned: Callable[[str], DataFrame], values: Mapping[str, object]
    ) -> str:
        """Return the text of a query without what DataFusion answers wrongly, as its plan shows."""
        if has_correlated_not_in(plan):
            text = with_strict_memberships(text)
            plan = planned(text).logical_plan()
        if has_shared_names(plan):
            text = with_apart_names(text)
        if may_compare_bits(text):
            text = without_signed_zeros(text, self.named.floating_columns(), values)
        return text

    def _readable(
        self,
        calls: TypedCalls,
        plan: Callable[[str], DataFrame],
        values: Mapping[str, object],
        *,
        is_bound: bool,
    ) -> DataFrame:
        """Plan a query, again where DataFusion refuses it as it is written, or its plan shows a wrong answer."""
        is_typed = is_unsigned = False
        if self._is_asking:
            calls = replace(calls, sql=self._with_asking_conditions(calls.sql))
        for _ in range(MOST_MOMENTS):
            try:
                frame = self._plan_with_calls(calls, plan)
                if not is_typed:
                    is_typed = True
                    calls, frame = self._numbers(plan, is_bound=is_bound).rewrite(calls, frame)
                # A view is coerced with the query that reads it.
                strict = with_strict_memberships(calls.sql)
                if self._is_view and strict == calls.sql and not has_moments(calls.sql):
                    return frame
                coerced = self._coerce_types(frame, is_bound=is_bound)
                if not is_bound:
                    return coerced
                if strict != calls.sql and has_constant_not_in(frame.logical_plan(), self.optimise(coerced)):
                    calls = replace(calls, sql=strict)
                elif not is_unsigned and compares_bits(self._shown(coerced)):
                    is_unsigned = True
                    unsigned = without_signed_zeros(calls.sql, self.named.floating_columns(), values, is_any=True)
                    calls = replace(calls, sql=unsigned)
                else:
                    return self._asking(calls, plan, coerced) if self._is_endless(coerced) else coerced
            except (SqlError, Unsupported) as exc:
                readable = _with_other_words(calls.sql, exc)
                if readable == calls.sql:
                    raise
                calls = replace(calls, sql=readable)
        raise LimitExceeded(
            f"the statement compares more than {MOST_MOMENTS} moments that are written as texts; write TIMESTAMP before them"
        )

    def _asking(self, calls: TypedCalls, plan: Callable[[str], DataFrame], endless: DataFrame) -> DataFrame:
        """Return a query, and the views that it names, planned with conditions that end with their statement; the `endless` one where that has no plan."""
        self._is_asking = True
        # Equalities inside a subquery that gives a value may be no argument of a function.
        for self._asks_equalities in (True, False):
            self._planned_views.forget()
            with suppress(SqlError, Unsupported, LimitExceeded):
                asking = self._coerce_types(
                    self._plan_with_calls(replace(calls, sql=self._with_asking_conditions(calls.sql)), plan)
                )
                self.plan(asking)
                if asking.schema() == endless.schema():
                    break
        else:
            asking = endless
        self._is_asking = False
        return asking

    def _with_asking_conditions(self, sql: str) -> str:
        check = partial(_check_running, self._run)
        return with_asking_conditions(self.datafusion, sql, check, equalities=self._asks_equalities)

    def _join_tree(self, frame: DataFrame) -> Node | None:
        """Return the tree of a query that has joins, with joins in place of its subqueries; `SqlError` if DataFusion has none."""
        with self._errors.raised_as(SqlError):
            return self.learn_from_plan(frame, join_filters, self.datafusion)

    def _is_endless(self, frame: DataFrame) -> bool:
        """Return whether joins of a query go on for long when their statement is over."""
        if _JOINING.search(self._shown(frame)) is None:
            return False
        try:
            root = self._join_tree(frame)
            if root is not None:
                self._ending(root, self.target_partitions)
        except (SqlError, Unsupported):
            return True
        return root is not None and has_unprotected_pairs(root)

    def _plan_with_calls(self, calls: TypedCalls, plan: Callable[[str], DataFrame]) -> DataFrame:
        """Plan a query with its calls, and the views that it names."""
        whole = partial(self._plan_whole, plan) if calls.has_checks else plan
        return self._planned_views.plan(
            lambda: self.run_planning(lambda: calls.plan(self.datafusion, whole, partial(_check_running, self._run))),
            self._frame_of_view,
        )

    def _numbers(self, plan: Callable[[str], DataFrame], *, is_bound: bool) -> NumberRewriting:
        return NumberRewriting(
            context=self.datafusion,
            plan=lambda calls: self._plan_with_calls(calls, plan),
            optimise=self.optimise,
            call=self.run_planning,
            is_bound=is_bound,
            is_view=self._is_view,
        )

    def _plan_whole(self, plan: Callable[[str], DataFrame], text: str) -> DataFrame:
        """Plan a query as far as all of its calls are checked against their signatures."""
        frame = plan(text)
        self._optimised = frame, frame.optimized_logical_plan()
        if sorts_rows(text):
            _check_calls(frame)
        return frame

    def _coerce_types(self, frame: DataFrame, *, is_bound: bool = True) -> DataFrame:
        """Return a query whose schema has the types of its rows.

        DataFusion coerces the branches of UNION and CASE only as it optimises: before, it says the type of the first one.
        A query whose parameters have no values yet may be impossible to optimise: its schema is told again once they have.
        """
        try:
            frame = self._with_columns_to_sort(self._without_constants(frame))
            if not self._has_pushing:  # also where an earlier attempt took the rule away
                check_stacked_conditions(self.datafusion, self.optimise(frame))
            plan = self.optimise(frame)
            if self.misplaces_conditions(frame):
                frame = self._with_merge_joins(frame)
                plan = self.optimise(frame)
                check_merge_joins(lambda: self.plan(frame))
        except (SqlError, Unsupported):
            if is_bound:
                raise
            return frame
        coerced = self.datafusion.create_dataframe_from_logical_plan(plan)
        if coerced.schema().types == frame.schema().types:
            return frame
        self._optimised = coerced, plan
        return coerced

    def keep_joins(self) -> None:
        """Leave the joins of plans that are made from here on in the order in which they are made.

        A plan that was optimised before has no pair of tables without a condition that DataFusion would have to order for it.
        """
        self.datafusion.remove_optimizer_rule(_FLATTENING)

    def misplaces_conditions(self, frame: DataFrame) -> bool:
        """Return whether DataFusion moves a condition of a query to the wrong side of a join."""
        plan = self.optimise(frame)
        # Conditions that ask whether the statement goes on stay above inner joins as well.
        return " Join:" in self._shown(frame) and has_misplaced_condition(
            self.datafusion,
            plan,
            lambda: self.plan(frame).display_indent(),
            has_pushing=self._has_pushing and not self._is_asking,
            is_stacked=self._is_asking,
        )

    def _with_merge_joins(self, frame: DataFrame) -> DataFrame:
        """Return a query whose joins by equality are merge joins, which DataFusion makes of several partitions alone."""
        self._is_steady, self.has_merge_joins = False, True
        self.datafusion.sql("SET datafusion.optimizer.prefer_hash_join = false")
        self.datafusion.sql("SET datafusion.optimizer.repartition_joins = true")  # others are hash joins
        self.target_partitions = max(self.target_partitions, 2)
        with self.lanes(self.target_partitions):
            return self.datafusion.create_dataframe_from_logical_plan(frame.logical_plan())

    def _without_constants(self, frame: DataFrame) -> DataFrame:
        """Return a query whose scans get conditions of columns alone; where it cannot be built, no conditions are moved down to scans."""
        try:
            plan = self.optimise(frame)
        except SqlError as exc:
            if not fails_at_constants(exc):
                raise
        else:
            if not has_constant_conditions(self._shown(frame)):
                return frame
            # A masked table has no name outside of its view.
            with suppress(SqlError, Unsupported):
                built = self.run_planning(lambda: without_constants(self.datafusion, plan))
                if built is not None and not has_constant_conditions(self._shown(built)):
                    return built
        if self.datafusion.remove_optimizer_rule(_PUSHING):
            self._has_pushing = False
            # Frames keep the rules that they were made with.
            return self.datafusion.create_dataframe_from_logical_plan(frame.logical_plan())
        return frame

    def _with_columns_to_sort(self, frame: DataFrame) -> DataFrame:
        """Return a query whose sorts have columns: by `ORDER BY random() LIMIT 9` DataFusion 55 cannot sort rows without any."""
        if sorts_without_columns(self.optimise(frame), self._shown(frame)) and self.datafusion.remove_optimizer_rule(
            _SELECTING
        ):
            return self.datafusion.create_dataframe_from_logical_plan(frame.logical_plan())
        return frame

    def reveal(self, hidden: frozenset[str]) -> None:
        """Show these hidden columns too of the tables that are named from here on."""
        if self.named.reveal(hidden):
            self._planned_views.forget_masked()

    def _bound_plan(self, frame: DataFrame) -> DataFrame:
        """Return a plan that is within the bounds of what its optimisation may make of it; `LimitExceeded` says which one it is not."""
        if check_plan(frame.logical_plan()):
            self._limits.is_costly, self._limits.is_linear = True, False
        return frame

    def _frame_of_view(self, sql: str) -> DataFrame:
        """Plan the query of a view, whose text no position in the client's text is about."""
        before = self._sent, self._is_view
        self._sent, self._is_view = None, True
        try:
            return self.frame(sql)
        finally:
            self._sent, self._is_view = before

    def wanted_types(self) -> Mapping[str, pa.DataType]:
        """Return the types that their contexts want of the parameters, by `$n`, of the query that was planned last without values."""
        if self._wanted is None:
            self._wanted = wanted_types(self.datafusion, self._unbound, self.run_planning) if self._unbound else {}
        return {**self._wanted, **self.searches.parameter_types}

    def _reveal_columns(self, db_schema: str | None, reference: str) -> list[str]:
        """Return the hidden columns that a table shows to this statement; `NotFound` if there is no such table."""
        searched = self.searches.search(reference) if db_schema == SEARCHES else None
        if searched is not None:
            return searched.hidden
        name = TableName(db_schema or self.db_schema, reference)
        if self.resolve(name.db_schema, reference) is None and self.named.masked_table(name) is None:
            raise NotFound(f"no table {reference!r}")
        return self.named.reveal_columns(name)

    def literal_rows(self, sql: str) -> DataFrame:
        """Plan a VALUES list of plain literals, without most of the rewrites that `frame` makes."""
        exact = edit_text(sql, row_edits(sql))
        return self._coerce_types(self.run_planning(lambda: self.datafusion.sql_with_options(exact, QUERIES_ONLY)))

    def rows_of(self, rows: pads.Dataset) -> DataFrame:
        """Return the rows of a dataset that is read in place of a scan by this run alone."""
        name = f"rows_of_scan_{len(self._derived) + 1}"
        self._derived[name] = rows
        return self.datafusion.table(quote_parts(CATALOG, SEARCHES, name))

    def optimise(self, frame: DataFrame) -> LogicalPlan:
        """Return the optimised plan of a query; raise `SqlError` for what DataFusion refuses only now (types that do not compare …)."""
        known = self._optimised
        if known is None or known[0] is not frame:
            # Joins give conditions to one another, once and again: a list is planned in the time that it takes to read it of one table alone.
            if self.is_costly and not (self._limits.is_linear and is_pure_scan(frame.logical_plan())):
                self.run_planning(partial(self._limits.check_cost, frame))
            plan = self.run_planning(frame.optimized_logical_plan)
            known = self._optimised = frame, plan
        return known[1]

    def prepare(self, frame: DataFrame) -> None:
        """Collect the predicates that prune beyond the pushed filters from the optimised plan, custom expressions included."""
        if self.views and self._prepared is not frame:
            hints_by_table = hints(self.logical_scans(frame) or ())
            self.named.hints.begin(
                {
                    table: self.views[table].with_stored_expressions(hint) if table in self.views else hint
                    for table, hint in hints_by_table.items()
                }
            )
            self.settle(frame)
            self._prepared = frame

    def logical_scans(self, frame: DataFrame) -> tuple[LogicalScan, ...] | None:
        """Return the scans of the optimised plan of a query; None if some are within expressions."""
        return self.learn_from_plan(frame, logical_scans, self.db_schema)

    def learn_from_plan(self, frame: DataFrame, learn: Callable[..., T], *arguments: Any) -> T:
        """Return the result of `learn` on the optimised plan of a query, cached because it depends on that alone.

        `learn` must not be a method of this session: that would be a reference cycle, which only Python's collector ends.
        """
        if self._learned[0] is not frame:
            self._learned = frame, {}
        known = self._learned[1]
        if learn not in known:
            known[learn] = learn(self.optimise(frame), *arguments)
        learned: T = known[learn]
        return learned

    def _shown(self, frame: DataFrame) -> str:
        """Return the text of the optimised plan of a query, in which several checks look for words."""
        shown: str = self.learn_from_plan(frame, LogicalPlan.display_indent)
        return shown

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
        scans = self.logical_scans(frame)
        if scans is None or any(scan.has_many_values for scan in scans):
            self.plan(frame)
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
            self.plan(frame)
        elif snapshots and sum(snapshot.table_count for snapshot in snapshots) <= FEW_TABLES:
            self.prepare(frame)
            if self.logical_scans(frame) is not None:
                self.prune(frame)

    def prune_by(self, table: str, predicate: Predicate) -> None:
        """Prune a table (`schema.name`) by a predicate on its relevant rows, for all plans that are made from here on."""
        self.named.hints.add(table, predicate)

    def filter_by(self, table: str, column: str, keys: JoinedKeys) -> None:
        """Leave rows of a table (`schema.name`) out that have none of the values which the other side of a join has."""
        self.named.hints.add_keys(table, column, keys)

    def plan(self, frame: DataFrame) -> ExecutionPlan:
        """Create the physical plan of a query; its scans are recorded in the log."""
        self.log.begin_plan()
        # A frame that has been run answers with the plan that it was run by.
        fresh = self.datafusion.create_dataframe_from_logical_plan(frame.logical_plan())
        plan: ExecutionPlan = self.run_planning(fresh.execution_plan)
        return plan

    def plan_columns(self, frame: DataFrame) -> None:
        """Record the scan of a query that returns columns of one table: a search alone needs no physical plan for that."""
        match self.logical_scans(frame):
            case [LogicalScan(table=table, filters=())] if table.startswith(f"{SEARCHES}."):
                search = self.searches.search(table.removeprefix(f"{SEARCHES}."))
            case _:
                search = None
        if search is None:
            self.plan(frame)
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
        self._check_windows(frame)
        with self._errors.raised_as(QueryFailed):
            # It is planned physically first: what DataFusion refuses then is no failure of the run.
            yield from cancellable(partial(self._start, frame), self.log.cancellation, self.log.ahead)

    def collect(self, frame: DataFrame) -> Iterator[pa.RecordBatch]:
        """Run a short query at once, in a quarter of the time of streaming it; it cannot be cancelled."""
        with self._errors.raised_as(QueryFailed):
            yield from frame.collect()

    def directly(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a query that runs without DataFusion."""
        self.searches.run_steps()
        with self._errors.raised_as(QueryFailed):
            yield from batches

    def stream_portion(
        self, frame: DataFrame, portion: Mapping[str, Rows], target_partitions: int
    ) -> Iterator[pa.RecordBatch]:
        """Run a query over some partition tables of each table in `divisible`, each read in so many lanes.

        Safe to call from several threads.
        """
        self.searches.run_steps()
        self._check_windows(frame)
        with self._planning, ExitStack() as reading:
            # A query learns what it reads when it is planned.
            for name, rows in portion.items():
                view = replace(self.divisible[name], only=rows, target_partitions=target_partitions)
                reading.enter_context(self.named.provider_of(name).reading(view))
            started = [self._start(frame, target_partitions)]
        with self._errors.raised_as(QueryFailed):
            yield from cancellable(started.pop, self.log.cancellation, self.log.ahead)

    def _check_windows(self, frame: DataFrame) -> None:
        with self._errors.raised_as(QueryFailed):
            check_windows(
                frame.logical_plan(),
                self.datafusion.create_dataframe_from_logical_plan,
                lambda counting: cancellable(counting.execute_stream_partitioned, self.log.cancellation),
            )

    def _narrow_batches(self, growth: Growth, parameters: pa.RecordBatch | None = None) -> None:
        """Plan from here on in batches of few rows where the text and its parameters alone make rows wide: each row has a copy of a literal."""
        longest = max(
            [growth.longest, *(column.nbytes for column in ([] if parameters is None else parameters.columns))]
        )
        width = growth.copies * max(longest, _USUAL_TEXT)
        rows = max(1, _WIDEST_BATCH // width)
        if rows < self._batch_rows:
            self._batch_rows = rows
            self.datafusion.sql(f"SET datafusion.execution.batch_size = {rows}")

    def _start(self, frame: DataFrame, target_partitions: int | None = None) -> Sequence[RecordBatchStream]:
        """Begin a query so that it ends when it is cancelled, in batches of few rows where these are wide: operators make as many as the session says."""
        rows = rows_within(frame.schema(), self._batch_rows)
        plan = frame.logical_plan()
        if _copies_collected_values(plan):
            rows = min(rows, COLLECTED_ROWS)
        # A portion is made of an optimised plan.
        constants = self.learn_from_plan(frame, constant_bytes) if target_partitions is None else constant_bytes(plan)
        rows = min(rows, max(1, _WIDEST_BATCH // max(1, constants)))
        # A merge join with a condition reads wrong columns.
        if not self.has_merge_joins and _JOINING.search(plan.display_indent()) is not None:
            try:
                root = self._join_tree(frame)
                if root is not None:
                    return self._in_batches(
                        rows, lambda: self._ending(root, target_partitions or self.target_partitions)
                    )
            except (SqlError, Unsupported):
                if self.learn_from_plan(frame, has_product):
                    rows = min(rows, SMALL_BATCH_ROWS)
        if rows == self._batch_rows:
            return self._in_batches(rows, lambda: frame)
        return self._in_batches(rows, lambda: self.datafusion.create_dataframe_from_logical_plan(plan))

    def _ending(self, root: Node, target_partitions: int) -> DataFrame:
        key = root, target_partitions, self._batch_rows
        if self._ended is None or self._ended[0] != key:
            runtime, check = self.context.runtime or RuntimeEnvBuilder(), partial(_check_running, self._run)
            self._ended = (
                key,
                self.run_planning(lambda: ending(self.datafusion, runtime, root, target_partitions, check)),
            )
        return self._ended[1]()

    def _in_batches(self, rows: int, plan: Callable[[], DataFrame]) -> Sequence[RecordBatchStream]:
        """Begin a query that is planned anew, in batches of so many rows."""

        def execute() -> Sequence[RecordBatchStream]:
            frame = plan()
            streams: Sequence[RecordBatchStream] = frame.execute_stream_partitioned()
            if self.log.is_explained:
                # It is the plan that runs: its operators count what they do.
                self.log.executed.append(frame.execution_plan())
            return streams

        if rows == self._batch_rows:
            return self.run_planning(execute)
        self.datafusion.sql(f"SET datafusion.execution.batch_size = {rows}")
        try:
            return self.run_planning(execute)
        finally:
            self.datafusion.sql(f"SET datafusion.execution.batch_size = {self._batch_rows}")

    @contextmanager
    def lanes(self, target_partitions: int) -> Iterator[None]:
        """Set the target partitions of frames that are made inside the block, whenever these run."""
        self.datafusion.sql(f"SET datafusion.execution.target_partitions = {target_partitions}")
        try:
            yield
        finally:
            self.datafusion.sql(f"SET datafusion.execution.target_partitions = {self.target_partitions}")

    def frame_of(self, plan: LogicalPlan, target_partitions: int) -> DataFrame:
        """Return a frame of an optimised plan, or of a part of one."""
        with self.lanes(target_partitions):
            return self.datafusion.create_dataframe_from_logical_plan(plan)

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
                return self._planned_views.resolve_masked(masked)
            if stored_name(name) == name or self._planned_views.is_planning(stored_name(name)):
                return self.named.dataset(name)
        except NotFound as exc:
            # The error itself would keep the frames of all callers, and the rows of this very statement with them.
            self._errors.note_missing(reference, name, str(exc))
        except LanceFlightError as exc:
            self.log.error = exc
            raise
        try:
            return self._planned_views.resolve(name)
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

    def run_planning(self, plan: Callable[[], T]) -> T:
        """Run a planning function; raise `SqlError` for what DataFusion refuses, `StatementTimeout` if it takes too long."""
        with self._errors.raised_as(SqlError):
            return self._limits.run(plan)


def _check_calls(frame: DataFrame) -> None:
    """Check calls against their signatures that DataFusion has not checked before: those in filters, or of parameters."""
    try:
        frame.execution_plan()
    except Exception as exc:
        # Anything else is said when the query, once coerced, is planned to run.
        if refuses_call(exc):
            raise


def _check_running(run: Run) -> None:
    """Raise an error if the statement that runs now has been cancelled."""
    run.log.cancellation.check()


def _with_other_words(sql: str, refusal: LanceFlightError) -> str:
    """Return a query as DataFusion can plan it, after it refused it as it is; the same text if its refusal stands."""
    message = str(refusal.__cause__ or refusal)
    readable = with_readable_moment(sql, message)
    if readable is None and is_about_membership(message):
        readable = with_strict_memberships(sql)
    return readable or sql


def shape_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same batches with exactly `schema`, with their columns matched by position.

    A column may change the form of its values (views, dictionaries), never a value: a cast of other types would lose some.
    """
    for batch in batches:
        for column, field in zip(batch.columns, schema, strict=True):
            if not _has_values_of(column.type, field.type):
                raise TypeError(f"column {field.name!r} has rows of {column.type}; expected {field.type}, as planned")
        columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _has_values_of(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether two types hold the same values, in whatever form."""
    if stored == wanted or pa.types.is_null(stored):
        return True
    if pa.types.is_dictionary(stored):
        return _has_values_of(stored.value_type, wanted)
    if pa.types.is_decimal(stored) and pa.types.is_decimal(wanted):
        return bool(stored.scale == wanted.scale and stored.precision <= wanted.precision)
    for kinds in _FORMS:
        if any(is_kind(stored) for is_kind in kinds):
            return (
                any(is_kind(wanted) for is_kind in kinds)
                and stored.num_fields == wanted.num_fields
                and all(map(_has_values_of, _types_within(stored), _types_within(wanted)))
            )
    return False


_FORMS = (
    (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view),
    (pa.types.is_struct,),
    (pa.types.is_map,),
)
"""Kinds of types that hold the same values."""


def _types_within(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(place).type for place in range(kind.num_fields)]


def _copies_collected_values(plan: LogicalPlan) -> bool:
    """Return whether a plan may write what an aggregate has collected beside each row of another relation."""
    text = plan.display_indent()
    return bool(COLLECTING.search(text) and _COPYING.search(text))


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


def _context(target_partitions: int, runtime: RuntimeEnvBuilder, db_schema: str) -> SessionContext:
    config = session_config(target_partitions).with_create_default_catalog_and_schema(enabled=False)
    return SessionContext(config.with_default_catalog_and_schema(CATALOG, db_schema), runtime)
