"""DataFusion's optimiser in one statement: the context that it plans in, the settings and rules of that, and the plan that it made last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from datafusion import DataFrame, ExecutionPlan, LogicalPlan, RuntimeEnvBuilder, SessionContext

from lance_flight.catalog.tables.scan import BATCH_ROWS
from lance_flight.engine.plans.joins import check_merge_joins, check_stacked_conditions, has_misplaced_condition
from lance_flight.engine.plans.nodes import sorts_without_columns
from lance_flight.engine.plans.scalar_expressions import LogicalScan, logical_scans
from lance_flight.engine.query.optimising.constant_conditions import (
    fails_at_constants,
    has_constant_conditions,
    has_joined_constants,
    without_constants,
    without_joined_constants,
)
from lance_flight.engine.query.optimising.pure_scans import is_pure_scan
from lance_flight.engine.query.optimising.query_errors import QueryErrors
from lance_flight.engine.query.tables.provider import Run
from lance_flight.engine.runtime.cancellation import PlanningLimits
from lance_flight.engine.sql.references import CATALOG
from lance_flight.engine.translation.evaluation import session_config
from lance_flight.errors import SqlError, Unsupported

T = TypeVar("T")

FLATTENING = "eliminate_cross_join"
"""The rule of DataFusion 55 that takes inner joins within others apart and orders them anew, and makes `=` of a comparison in which NULL is equal to NULL."""
_PUSHING = "push_down_filter"
_SELECTING = "optimize_projections"


class Optimiser:
    """Plans queries in a DataFusion context of its own, within the limits of the statement that runs.

    A plan may need other settings or fewer rules than those before it: they stay for the plans after it.
    """

    def __init__(self, run: Run, runtime: RuntimeEnvBuilder, db_schema: str, target_partitions: int) -> None:
        self._run, self.runtime, self.db_schema = run, runtime, db_schema
        config = session_config(target_partitions).with_create_default_catalog_and_schema(enabled=False)
        self.datafusion = SessionContext(config.with_default_catalog_and_schema(CATALOG, db_schema), runtime)
        self.has_merge_joins, self.batch_rows = False, BATCH_ROWS
        self._has_pushing, self._dialect = True, "generic"
        self._optimised: tuple[DataFrame, LogicalPlan] | None = None
        self._learned: tuple[DataFrame | None, dict[Any, Any]] = None, {}

    def begin(self, errors: QueryErrors, limits: PlanningLimits, target_partitions: int) -> None:
        """Plan for another run from here on."""
        self.errors, self.limits, self.target_partitions = errors, limits, target_partitions

    def run_planning(self, plan: Callable[[], T]) -> T:
        """Run a planning function; raise `SqlError` for what DataFusion refuses, `StatementTimeout` if it takes too long."""
        with self.errors.raised_as(SqlError):
            return self.limits.run(plan)

    # What is known of a plan.

    def optimise(self, frame: DataFrame) -> LogicalPlan:
        """Return the optimised plan of a query; raise `SqlError` for what DataFusion refuses only now (types that do not compare …)."""
        known = self._optimised
        if known is None or known[0] is not frame:
            # Joins give conditions to one another, once and again: a list is planned in the time that it takes to read it of one table alone.
            if self.limits.is_costly and not (self.limits.is_linear and is_pure_scan(frame.logical_plan())):
                self.run_planning(partial(self.limits.check_cost, frame))
            plan = self.run_planning(frame.optimized_logical_plan)
            known = self._optimised = frame, plan
        return known[1]

    def optimise_within(self, frame: DataFrame) -> None:
        """Optimise a query inside of a function that is run as planning already."""
        self._optimised = frame, frame.optimized_logical_plan()

    def learn_from_plan(self, frame: DataFrame, learn: Callable[..., T], *arguments: Any) -> T:
        """Return the result of `learn` on the optimised plan of a query, cached because it depends on that alone.

        `learn` must not be a method of the session: that would be a reference cycle, which only Python's collector ends.
        """
        if self._learned[0] is not frame:
            self._learned = frame, {}
        known = self._learned[1]
        if learn not in known:
            known[learn] = learn(self.optimise(frame), *arguments)
        learned: T = known[learn]
        return learned

    def text_of(self, frame: DataFrame) -> str:
        """Return the text of the optimised plan of a query, in which several checks look for words."""
        text: str = self.learn_from_plan(frame, LogicalPlan.display_indent)
        return text

    def logical_scans(self, frame: DataFrame) -> tuple[LogicalScan, ...] | None:
        """Return the scans of the optimised plan of a query; None if some are within expressions."""
        return self.learn_from_plan(frame, logical_scans, self.db_schema)

    def plan(self, frame: DataFrame) -> ExecutionPlan:
        """Create the physical plan of a query; its scans are recorded in the log of the run."""
        self._run.log.begin_plan()
        # A frame that has been run answers with the plan that it was run by.
        fresh = self.datafusion.create_dataframe_from_logical_plan(frame.logical_plan())
        plan: ExecutionPlan = self.run_planning(fresh.execution_plan)
        return plan

    # The types and the answers of a plan are made right.

    def coerce_types(self, frame: DataFrame, *, is_bound: bool = True, is_asking: bool = False) -> DataFrame:
        """Return a query whose schema has the types of its rows, without what DataFusion answers wrongly.

        DataFusion coerces the branches of UNION and CASE only as it optimises: before, it says the type of the first one.
        A query whose parameters have no values yet may be impossible to optimise: its schema is told again once they have.
        Conditions of one that `is_asking` ask whether the statement goes on.
        """
        try:
            frame = self._without_joined_constants(self._with_columns_to_sort(self._without_constants(frame)))
            if not self._has_pushing:  # also where an earlier attempt took the rule away
                check_stacked_conditions(self.datafusion, self.optimise(frame))
            plan = self.optimise(frame)
            if self.misplaces_conditions(frame, is_asking=is_asking):
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

    def misplaces_conditions(self, frame: DataFrame, *, is_asking: bool = False) -> bool:
        """Return whether DataFusion moves a condition of a query to the wrong side of a join."""
        plan = self.optimise(frame)
        # Conditions that ask whether the statement goes on stay above inner joins as well.
        return " Join:" in self.text_of(frame) and has_misplaced_condition(
            self.datafusion,
            plan,
            lambda: self.plan(frame).display_indent(),
            has_pushing=self._has_pushing and not is_asking,
            is_stacked=is_asking,
        )

    def _with_merge_joins(self, frame: DataFrame) -> DataFrame:
        """Return a query whose joins by equality are merge joins, which DataFusion makes of several partitions alone."""
        self.has_merge_joins = True
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
            if not has_constant_conditions(self.text_of(frame)):
                return frame
            # A masked table has no name outside of its view.
            with suppress(SqlError, Unsupported):
                built = self.run_planning(lambda: without_constants(self.datafusion, plan))
                if built is not None and not has_constant_conditions(self.text_of(built)):
                    return built
        if self.datafusion.remove_optimizer_rule(_PUSHING):
            self._has_pushing = False
            # Frames keep the rules that they were made with.
            return self.datafusion.create_dataframe_from_logical_plan(frame.logical_plan())
        return frame

    def _with_columns_to_sort(self, frame: DataFrame) -> DataFrame:
        """Return a query whose sorts have columns: by `ORDER BY random() LIMIT 9` DataFusion 55 cannot sort rows without any."""
        if sorts_without_columns(self.optimise(frame), self.text_of(frame)) and self.datafusion.remove_optimizer_rule(
            _SELECTING
        ):
            return self.datafusion.create_dataframe_from_logical_plan(frame.logical_plan())
        return frame

    def _without_joined_constants(self, frame: DataFrame) -> DataFrame:
        """Return a query without constants on the left side of a FULL JOIN, by which DataFusion 55 sorts no rows."""
        plan = self.optimise(frame)
        if not has_joined_constants(plan, self.text_of(frame)):
            return frame
        return self.run_planning(lambda: without_joined_constants(self.datafusion, plan))

    # Settings and rules of the context.

    def keep_joins(self) -> bool:
        """Leave the joins of plans that are made from here on in the order in which they are made; return False if they were left before.

        A plan that was optimised before has no pair of tables without a condition that DataFusion would have to order for it.
        """
        return bool(self.datafusion.remove_optimizer_rule(FLATTENING))

    def read_in_dialect(self, dialect: str) -> None:
        """Have DataFusion read texts in a dialect: that of DuckDB has lambdas, and fewer of our other words."""
        if dialect != self._dialect:
            self.datafusion.sql(f"SET datafusion.sql_parser.dialect = '{dialect}'")
            self._dialect = dialect

    def narrow_batches(self, rows: int) -> None:
        """Run what is planned from here on in batches of at most so many rows."""
        if rows < self.batch_rows:
            self.batch_rows = rows
            self.datafusion.sql(f"SET datafusion.execution.batch_size = {rows}")

    @contextmanager
    def in_batches(self, rows: int) -> Iterator[None]:
        """Set the rows of batches of frames that are made inside the block."""
        if rows == self.batch_rows:
            yield
            return
        self.datafusion.sql(f"SET datafusion.execution.batch_size = {rows}")
        try:
            yield
        finally:
            self.datafusion.sql(f"SET datafusion.execution.batch_size = {self.batch_rows}")

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
