"""The way from the text of a query to a DataFusion plan with right answers: it is written in other words until DataFusion plans it so.

Each step of it is a module of `dialects`, `compat`, `translation` or `plans`; here stands their order.

Views and masked tables that a statement names are planned on the way, each as the query that it stands for, which the optimiser takes in.
A view is looked for where a name is no table's, and a masked table stands before the stored one. DataFusion asks for names while it
plans, and must not be called then: so a view is noted, the planning fails, the view is planned, and the statement is planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import DataFrame, LogicalPlan, col
from datafusion.catalog import Table as DataFusionTable

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.roots.listings import ViewDefinition
from lance_flight.engine.compat.casts import has_moments, with_readable_moment
from lance_flight.engine.compat.checked_arithmetic import sorts_rows
from lance_flight.engine.compat.memberships import with_apart_names, with_strict_memberships
from lance_flight.engine.compat.operand_types import with_group_frames
from lance_flight.engine.compat.sort_keys import with_hidden_keys
from lance_flight.engine.compat.subqueries import (
    SIDES,
    check_recursive_queries,
    with_bounded_steps,
    with_marked_conditions,
    with_only_values,
)
from lance_flight.engine.compat.wrong_comparisons import (
    compares_bits,
    may_compare_bits,
    with_hidden_calls,
    without_signed_zeros,
)
from lance_flight.engine.dialects.query_names import (
    MOST_NAMES,
    MOST_RELATIONS,
    MOST_REUSED,
    with_fields,
    with_joined_name,
    with_named_columns,
    with_named_relations,
    with_named_series,
    with_reused_alias,
)
from lance_flight.engine.dialects.spellings import LAMBDA
from lance_flight.engine.plans.arithmetic import check_moments, may_misread_moments, may_overflow
from lance_flight.engine.plans.bounds import (
    SKETCH,
    check_plan,
    check_sent_plan,
    with_joined_subqueries,
)
from lance_flight.engine.plans.joins import (
    has_constant_not_in,
    has_correlated_not_in,
    has_shared_names,
    is_about_membership,
    is_ambiguous,
)
from lance_flight.engine.plans.moving_frames import may_move, with_exact_frames
from lance_flight.engine.plans.number_rewriting import NumberRewriting, has_wide_sums
from lance_flight.engine.query.access import MaskedTable
from lance_flight.engine.query.named_tables import NamedTables
from lance_flight.engine.query.runner import (
    QueryRunner,
    has_pairs,
    with_asking_conditions,
)
from lance_flight.engine.query.search.functions import with_searches
from lance_flight.engine.query.search.search_target import SEARCHES, Planner
from lance_flight.engine.query.statement_context import StatementContext
from lance_flight.engine.query.tables.provider import Run
from lance_flight.engine.sql.bounds import Growth
from lance_flight.engine.sql.references import Reference, quote_parts
from lance_flight.engine.translation import substrait
from lance_flight.engine.translation.hidden_columns import hidden_columns_in, with_visible_columns
from lance_flight.engine.translation.parameters import (
    SPANS,
    TERM_TYPES,
    bound_values,
    parameter_count,
    with_bound_terms,
    with_listed_values,
    with_typed_terms,
)
from lance_flight.engine.translation.plan_messages import is_about_keys
from lance_flight.engine.translation.rewriting import (
    datafusion_text,
    number_parameters,
    translate_positions,
    with_column_names,
)
from lance_flight.engine.translation.typed_calls import QUERIES_ONLY, TypedCalls, refuses_call, shown_name
from lance_flight.errors import Conflict, LanceFlightError, LimitExceeded, NotFound, Refused, SqlError, Unsupported
from lance_flight.model.arrow_types import is_number

MOST_VIEWS = 100
"""Most views that a statement reads, those that views read included."""
DEEPEST = 16
"""Most views within each other."""


class PlannedViews:
    """Views of one session, by name: their definitions, and the tables that DataFusion reads them by."""

    def __init__(self, context: StatementContext) -> None:
        self._definitions: dict[TableName, ViewDefinition] = {}
        self._tables: dict[TableName, DataFusionTable] = {}
        self._wanted: list[ViewDefinition | MaskedTable] = []
        self._path: list[TableName] = []
        self._masking: TableName | None = None
        self.masked: set[TableName] = set()
        self.begin(context)

    def begin(self, context: StatementContext) -> None:
        """Read the root of another run."""
        self._root: Root = context.root
        self._digests, self._access = context.views, context.access

    @property
    def texts(self) -> list[str]:
        """Return the queries of the views."""
        return [view.sql for view in self._definitions.values()]

    @property
    def digests(self) -> dict[str, str]:
        """Return what tells the definitions from later ones, by `schema.name`."""
        return {str(name): view.digest for name, view in self._definitions.items()}

    @property
    def are_current(self) -> bool:
        """True if no view has another definition by now."""
        return all(self._root.view(name) == view for name, view in self._definitions.items())

    def resolve(self, name: TableName) -> DataFusionTable | None:
        """Return what DataFusion reads a view by; note one that is not planned yet, and return None as without one."""
        if name in self._tables:
            return self._tables[name]
        view = self._root.view(name)
        if view is None:
            if (named := Reference.parse(name).table) != name and self._root.view(named) is not None:
                raise NotFound(
                    f"{named.name!r} is a view, which has no versions and no metadata tables; expected a table"
                )
            return None
        if self._access.lists_columns(name):
            raise Refused(
                f"{name.name!r} is a view, and {self._access.principal!r} has SELECT on listed columns of it; expected SELECT without a list"
            )
        if self._digests.get(str(name), view.digest) != view.digest:
            raise Conflict(f"view {name.name!r} was replaced since this statement was planned; run it again")
        self._wanted.append(view)
        return None

    def resolve_masked(self, table: MaskedTable) -> DataFusionTable | None:
        """Return what DataFusion reads a masked table by; note one that is not planned yet, and return None as without one."""
        if table.name not in self._tables:
            self._wanted.append(table)
        return self._tables.get(table.name)

    def is_planning(self, name: TableName) -> bool:
        """Return whether the query of this masked table is being planned, and may read the stored one."""
        return self._masking == name

    def forget_masked(self) -> None:
        """Plan masked tables anew, since their stored ones have other columns from here on."""
        for name in self.masked:
            self._tables.pop(name, None)

    def forget(self) -> None:
        """Plan all views anew when they are named next."""
        self._tables.clear()

    def plan(self, statement: Callable[[], DataFrame], frame: Callable[[str], DataFrame]) -> DataFrame:
        """Plan a statement, and with `frame` the views that it names and that are not planned yet."""
        while True:
            self._wanted.clear()
            try:
                return statement()
            except LanceFlightError:
                by_name = {view.name: view for view in self._wanted}
                if not by_name:
                    raise
            for view in by_name.values():
                if isinstance(view, MaskedTable):
                    self._plan_masked(view, frame)
                else:
                    self._plan_view(view, frame)

    def _plan_view(self, view: ViewDefinition, frame: Callable[[str], DataFrame]) -> None:
        if view.name in self._path:
            read = " reads ".join(str(name) for name in [*self._path[self._path.index(view.name) :], view.name])
            raise SqlError(f"view {view.name.name!r} reads itself: {read}")
        if len(self._path) >= DEEPEST:
            raise LimitExceeded(
                f"view {view.name.name!r} lies in {DEEPEST} others; expected at most {DEEPEST} within each other"
            )
        if len(self._definitions) >= MOST_VIEWS:
            raise LimitExceeded(f"the statement reads more than {MOST_VIEWS} views; expected at most {MOST_VIEWS}")
        self._path.append(view.name)
        try:
            planned = frame(view.sql)
        except (SqlError, NotFound) as exc:
            raise type(exc)(f"view {view.name.name!r}: {exc}") from exc
        finally:
            self._path.pop()
        self._definitions[view.name] = view
        self._tables[view.name] = planned.into_view()

    def _plan_masked(self, table: MaskedTable, frame: Callable[[str], DataFrame]) -> None:
        before, self._masking = self._masking, table.name
        try:
            planned = frame(table.sql)
        except (SqlError, NotFound) as exc:
            self._check_masks(table, frame)
            raise Refused(f"table {table.name.name!r} cannot be planned with its masks; each of them can") from exc
        finally:
            self._masking = before
        casts = table.casts(pa.schema(planned.schema()))
        if casts:
            columns = {name: col(quote_parts(name)) for name in planned.schema().names}
            planned = planned.select(
                *(column.cast(casts[name]).alias(name) if name in casts else column for name, column in columns.items())
            )
        self.masked.add(table.name)
        self._tables[table.name] = planned.into_view()

    def _check_masks(self, table: MaskedTable, frame: Callable[[str], DataFrame]) -> None:
        """Raise the error of the mask that cannot be planned."""
        for column, query in table.probes():
            try:
                frame(query)
            except (SqlError, NotFound) as exc:
                raise table.error(column, exc) from exc


MOST_MOMENTS = 100
"""Most moments of one query that DataFusion reads only in another form; each is planned anew."""
_OF_NULLS = " DISTINCT FROM "
"""A comparison in which NULL is equal to NULL."""


Writer = Callable[[str, str], str | None]
"""Writes a query otherwise, by the reason for which it was refused; None where that is another reason."""


def _with_types(write: Writer, text: str, refusal: str) -> str | None:
    """Return a query with types of parameters, and the names that its columns have without them."""
    return write(with_column_names(text), refusal)


_HAS_NO_RANGES = "Cannot run range queries on datatype"
_OTHER_WORDS: Sequence[tuple[Writer, int]] = (
    *((partial(with_joined_name, place=place), MOST_NAMES) for place in range(MOST_RELATIONS)),
    (with_reused_alias, MOST_REUSED),
    (with_named_relations, 1),
    (with_named_series, 2),
    (with_only_values, 1),
    *((partial(_with_types, partial(with_typed_terms, kind="INTERVAL", among=among)), 1) for among in SPANS),
    *((partial(_with_types, partial(with_typed_terms, kind=kind)), 1) for kind in TERM_TYPES),
)
"""What writes a text otherwise by the reason for which it was refused, and how often in turn."""


class PlanningSession(Planner, Protocol):
    """Interface that planning uses of its statement (`session.QuerySession`).

    `sent` is the text that its client sent, None while a view is planned (`is_view`). `unbound` are the calls of the query that was
    planned last without values for its parameters.
    """

    runner: QueryRunner
    named: NamedTables
    planned_views: PlannedViews
    run: Run
    sent: str | None
    is_view: bool
    unbound: TypedCalls | None

    def resolve(self, db_schema: str, reference: str) -> pads.Dataset | DataFusionTable | None:
        """Resolve a table name as written in SQL; None if there is no such table."""


class FramePlanner:
    """Plans one text, and the views that it names.

    While it `is_asking`, conditions ask whether the statement goes on (`products.with_asking_conditions`).
    """

    def __init__(self, statement: PlanningSession) -> None:
        self._statement = statement
        self._optimiser, self._runner, self._views = statement.optimiser, statement.runner, statement.planned_views
        self._is_asking, self._asks_equalities, self._names_columns = False, True, True

    def frame(self, sql: str, parameters: pa.RecordBatch | None) -> DataFrame:
        """Plan a query, with one row of parameters bound to `$1`, `$2` …; raise `SqlError` or `NotFound` if it is invalid."""
        plan_sent = substrait.plan_in(sql)
        if plan_sent is not None:
            return self._views.plan(
                lambda: self._optimiser.run_planning(lambda: self._frame_of_plan(plan_sent)),
                self._frame_of_view,
            )
        sql = with_hidden_calls(sql if parameters is None else with_listed_values(sql, parameters), parameters)
        is_bound = parameters is not None or parameter_count(sql) == 0
        self._statement.reveal(hidden_columns_in(sql))
        sql = self._statement.searches.replace(
            partial(with_searches, self._statement, sql, parameters, is_bound=is_bound)
        )
        if self._statement.named.hidden:
            datafusion_text(sql)  # refuses what is too much before tables are opened
            sql = with_visible_columns(sql, self._reveal_columns)
        return self._frame_of_text(sql, parameters, is_bound=is_bound)

    def _frame_of_plan(self, sent: bytes) -> DataFrame:
        """Plan what was sent as Substrait; `Unsupported` for what DataFusion answers wrongly, which has no other text."""
        # Its joins do not show that NULL is equal to NULL in them.
        self._optimiser.keep_joins()
        frame = self._bound_plan(substrait.plan_substrait(self._optimiser.datafusion, sent))
        plan = frame.logical_plan()
        self._runner.narrow_batches(Growth(check_sent_plan(plan)))
        frame = self._optimiser.datafusion.create_dataframe_from_logical_plan(plan)
        if has_correlated_not_in(plan) or has_shared_names(plan):
            raise Unsupported(
                "NOT IN, ANY and ALL over such a subquery are not supported in Substrait; send NOT EXISTS, or SQL"
            )
        joined = with_joined_subqueries(plan)
        check_moments(self._optimiser.datafusion, joined)
        if may_overflow(self._optimiser.datafusion, joined) or has_wide_sums(plan):
            return self._checked_plan(frame)
        if not self._runner.is_endless(frame):
            return frame
        try:
            return self._checked_plan(frame)
        except Unsupported as exc:
            if not has_pairs(self._optimiser.optimise(frame)):
                return frame
            raise Unsupported(
                "this plan looks at pairs of rows, as EXISTS beside OR does, in a way that would go on when its statement is over; send the query as SQL"
            ) from exc

    def _checked_plan(self, frame: DataFrame) -> DataFrame:
        """Plan a sent plan as SQL, with checks of its numbers; `Unsupported` if DataFusion cannot write it in SQL of the same meaning."""
        try:
            sql = substrait.text_of(self._optimiser.datafusion, frame)
            with self._naming(are_named=False):  # its columns have names of the plan
                checked = self._frame_of_text(sql, None, is_bound=True)
            return substrait.with_columns_of(
                checked, [shown_name(name) for name in checked.schema().names], frame.schema().names
            )
        except (SqlError, Unsupported) as exc:
            raise Unsupported(
                "numbers of this plan may leave BIGINT or DECIMAL(38, s), and it cannot be planned with a check of that; cast the operands of"
                " its sums and products to DECIMAL(28, 0) or DOUBLE, or send the query as SQL"
            ) from exc

    @contextmanager
    def _naming(self, *, are_named: bool) -> Iterator[None]:
        """Plan the texts of the block with computed columns that are named by their texts, or as DataFusion names them."""
        before, self._names_columns = self._names_columns, are_named
        try:
            yield
        finally:
            self._names_columns = before

    def _frame_of_text(self, sql: str, parameters: pa.RecordBatch | None, *, is_bound: bool) -> DataFrame:
        """Plan a query whose searches and hidden columns are replaced, with other words where it has no plan as it is written."""

        def columns_of(query: str) -> pa.Schema:
            shown = with_visible_columns(query, self._reveal_columns) if self._statement.named.hidden else query
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
        bound: Writer = partial(_with_types, partial(with_bound_terms, parameters=parameters))
        for change, most in ((bound, 1), *_OTHER_WORDS):
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
        for text in (*sorted(marked), sql) if self._statement.is_view else (sql, *sorted(marked)):
            try:
                frame = self._frame_as_written(text, parameters, is_bound=is_bound)
                if is_bound and not self._statement.is_view:
                    self._optimiser.plan(frame)
            except (SqlError, Unsupported) as exc:
                if text == sql and is_ambiguous(str(exc)):
                    raise
            else:
                return frame
        return self._frame_as_written(sql, parameters, is_bound=is_bound)  # as refused as it is

    def _frame_as_written(self, sql: str, parameters: pa.RecordBatch | None, *, is_bound: bool) -> DataFrame:
        named = sql
        if self._names_columns:
            listed = with_column_names(number_parameters(sql))
            named, of_columns = with_hidden_keys(listed), with_hidden_keys(listed, are_columns=True)
            if of_columns != named:
                with suppress(SqlError, Unsupported, LimitExceeded):  # FROM may have no such column
                    return self._frame_named(of_columns, parameters, is_bound=is_bound)
        try:
            return self._frame_named(named, parameters, is_bound=is_bound)
        except SqlError as exc:
            if not (is_about_keys(str(exc)) and datafusion_text(named).calls.may_be_keys):
                raise
            with suppress(SqlError, Unsupported, LimitExceeded):
                return self._frame_named(named, parameters, is_bound=is_bound, has_keys=True)
            raise

    def _frame_named(
        self, named: str, parameters: pa.RecordBatch | None, *, is_bound: bool, has_keys: bool = False
    ) -> DataFrame:
        with translate_positions(self._statement.sent, named):
            rewritten = datafusion_text(named, has_keys=has_keys)
        self._optimiser.limits.is_costly |= rewritten.is_costly
        self._optimiser.limits.is_linear &= rewritten.is_linear or not rewritten.is_costly
        self._runner.narrow_batches(rewritten.growth, parameters)
        calls = rewritten.calls
        if not is_bound:
            self._statement.unbound = calls
        values = bound_values(calls.sql, parameters)

        columns = [] if parameters is None else parameters.columns
        # A date may be beyond those of Python.
        numbers = {f"${n}": column[0].as_py() for n, column in enumerate(columns, 1) if is_number(column.type)}

        def read(text: str) -> DataFrame:
            self._optimiser.read_in_dialect("duckdb" if LAMBDA.search(text) else "generic")
            return self._optimiser.datafusion.sql_with_options(text, QUERIES_ONLY, param_values=values)

        def plan(text: str) -> DataFrame:
            frame = read(text)
            if _OF_NULLS in frame.logical_plan().display_indent() and self._optimiser.keep_joins():
                frame = read(text)
            check_recursive_queries(text, read)
            frame.schema()  # a name that cannot leave DataFusion is refused here
            if rewritten.is_nested or self._views.texts or SKETCH in text.lower():
                self._bound_plan(frame)
            if may_misread_moments(text):
                check_moments(self._optimiser.datafusion, with_joined_subqueries(frame.logical_plan()))
            right = self._with_right_answers(text, frame.logical_plan(), read, numbers)
            bounded = with_bounded_steps(right, read, self._optimiser.datafusion)
            if bounded != text:
                frame = read(bounded)
            if calls.calls and is_bound:
                _check_calls(frame)
            return frame

        with translate_positions(self._statement.sent, calls.sql):
            return self._readable(calls, plan, numbers, is_bound=is_bound)

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
            text = without_signed_zeros(text, self._statement.named.floating_columns(), values)
        if may_move(text):
            text = with_exact_frames(
                self._optimiser.datafusion,
                text,
                with_joined_subqueries(plan),
                lambda sql: with_joined_subqueries(planned(sql).logical_plan()),
                self._statement.run.check,
            )
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
                if self._statement.is_view and strict == calls.sql and not has_moments(calls.sql):
                    return frame
                coerced = self._optimiser.coerce_types(frame, is_bound=is_bound, is_asking=self._is_asking)
                if not is_bound:
                    return coerced
                if strict != calls.sql and has_constant_not_in(frame.logical_plan(), self._optimiser.optimise(coerced)):
                    calls = replace(calls, sql=strict)
                elif not is_unsigned and compares_bits(self._optimiser.text_of(coerced)):
                    is_unsigned = True
                    unsigned = without_signed_zeros(
                        calls.sql, self._statement.named.floating_columns(), values, is_any=True
                    )
                    calls = replace(calls, sql=unsigned)
                else:
                    return self._asking(calls, plan, coerced) if self._runner.is_endless(coerced) else coerced
            except (SqlError, Unsupported) as exc:
                calls = self._reworded(calls, plan, exc, is_bound=is_bound)
        raise LimitExceeded(
            f"the statement compares more than {MOST_MOMENTS} moments that are written as texts; write TIMESTAMP before them"
        )

    def _reworded(
        self, calls: TypedCalls, plan: Callable[[str], DataFrame], refusal: LanceFlightError, *, is_bound: bool
    ) -> TypedCalls:
        """Return a query that was refused as DataFusion can plan it; the `refusal` is raised where it stands."""
        message = str(refusal.__cause__ or refusal)
        reworded = replace(calls, sql=_with_other_words(calls.sql, message))
        if reworded.sql == calls.sql:
            reworded = self._numbers(plan, is_bound=is_bound).with_common_types(calls, message)
        if reworded.sql == calls.sql:
            raise refusal
        return reworded

    def _asking(self, calls: TypedCalls, plan: Callable[[str], DataFrame], endless: DataFrame) -> DataFrame:
        """Return a query, and the views that it names, planned with conditions that end with their statement; the `endless` one where that has no plan."""
        self._is_asking = True
        # Equalities inside a subquery that gives a value may be no argument of a function.
        for self._asks_equalities in (True, False):
            self._views.forget()
            with suppress(SqlError, Unsupported, LimitExceeded):
                asking = self._optimiser.coerce_types(
                    self._plan_with_calls(replace(calls, sql=self._with_asking_conditions(calls.sql)), plan),
                    is_asking=True,
                )
                self._optimiser.plan(asking)
                if asking.schema() == endless.schema():
                    break
        else:
            asking = endless
        self._is_asking = False
        return asking

    def _with_asking_conditions(self, sql: str) -> str:
        context, check = self._optimiser.datafusion, self._statement.run.check
        return with_asking_conditions(context, sql, check, equalities=self._asks_equalities)

    def _plan_with_calls(self, calls: TypedCalls, plan: Callable[[str], DataFrame]) -> DataFrame:
        """Plan a query with its calls, and the views that it names."""
        whole = partial(self._plan_whole, plan) if calls.has_checks else plan
        return self._views.plan(
            lambda: self._optimiser.run_planning(
                lambda: calls.plan(self._optimiser.datafusion, whole, self._statement.run.check)
            ),
            self._frame_of_view,
        )

    def _numbers(self, plan: Callable[[str], DataFrame], *, is_bound: bool) -> NumberRewriting:
        return NumberRewriting(
            context=self._optimiser.datafusion,
            plan=lambda calls: self._plan_with_calls(calls, plan),
            optimise=self._optimiser.optimise,
            call=self._optimiser.run_planning,
            is_bound=is_bound,
            is_view=self._statement.is_view,
        )

    def _plan_whole(self, plan: Callable[[str], DataFrame], text: str) -> DataFrame:
        """Plan a query as far as all of its calls are checked against their signatures."""
        frame = plan(text)
        self._optimiser.optimise_within(frame)
        if sorts_rows(text):
            _check_calls(frame)
        return frame

    def _bound_plan(self, frame: DataFrame) -> DataFrame:
        """Return a plan that is within the bounds of what its optimisation may make of it; `LimitExceeded` says which one it is not."""
        if check_plan(frame.logical_plan()):
            self._optimiser.limits.is_costly, self._optimiser.limits.is_linear = True, False
        return frame

    def _frame_of_view(self, sql: str) -> DataFrame:
        """Plan the query of a view, whose text no position in the client's text is about."""
        statement = self._statement
        before = statement.sent, statement.is_view
        statement.sent, statement.is_view = None, True
        try:
            with self._naming(are_named=True):
                return self.frame(sql, None)
        finally:
            statement.sent, statement.is_view = before

    def _reveal_columns(self, db_schema: str | None, reference: str) -> list[str]:
        """Return the hidden columns that a table shows to this statement; `NotFound` if there is no such table."""
        searched = self._statement.searches.search(reference) if db_schema == SEARCHES else None
        if searched is not None:
            return searched.hidden
        name = TableName(db_schema or self._statement.db_schema, reference)
        if (
            self._statement.resolve(name.db_schema, reference) is None
            and self._statement.named.masked_table(name) is None
        ):
            raise NotFound(f"no table {reference!r}")
        return self._statement.named.reveal_columns(name)


def _check_calls(frame: DataFrame) -> None:
    """Check calls against their signatures that DataFusion has not checked before: those in filters, or of parameters."""
    try:
        frame.execution_plan()
    except Exception as exc:
        # Anything else is said when the query, once coerced, is planned to run.
        if refuses_call(exc):
            raise


def _with_other_words(sql: str, refusal: str) -> str:
    """Return a query as DataFusion can plan it, after it refused it as it is; the same text if its refusal stands."""
    if _HAS_NO_RANGES in refusal:
        return with_group_frames(sql)
    readable = with_readable_moment(sql, refusal)
    if readable is None and is_about_membership(refusal):
        readable = with_strict_memberships(sql)
    return readable or sql
