"""DataFusion's optimiser in one statement: its context, settings and rules, and the queries whose rows are streamed as they are read.

Its errors are translated into errors of lance-flight (`QueryErrors`), and constants of a plan that it answers wrongly are moved out of
its way:

**Conditions of scans** that are TRUE, FALSE or NULL, as of a branch of UNION that selects a literal, where datafusion-python 54 fails.
It joins the conditions that are handed to a scan from left to right, and has no AND of a boolean and a condition of columns. So the plan
is built again without them. Unnecessary with a release in which the literals of `pyarrow_filter_expression.rs` are expressions.

**Constants of the left side of a FULL JOIN**: DataFusion 55 takes them for constants of the join, which has NULL beside rows of the right
side, and sorts no rows by them. A column that may have another value in each row is none.

Queries that read one table and process every row by itself, or read none, may be streamed in parts. The plainest of them, with columns
and pushed filters only, need no DataFusion to run, nor do the plainest searches. A query that reads nothing is done at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from datafusion import DataFrame, ExecutionPlan, Expr, LogicalPlan, RuntimeEnvBuilder, SessionContext, literal
from datafusion.expr import EmptyRelation, Filter, Join, Projection, SubqueryAlias, TableScan

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.tables.scan import BATCH_ROWS
from lance_flight.engine.functions.foreign_functions import relation_advice
from lance_flight.engine.plans.joins import check_merge_joins, check_stacked_conditions, has_misplaced_condition
from lance_flight.engine.plans.nodes import (
    Node,
    expressions,
    is_one_row,
    join_type,
    sorts_without_columns,
    strip_aliases,
)
from lance_flight.engine.plans.scalar_expressions import LogicalScan, logical_scans
from lance_flight.engine.query.plan_rebuilding import rebuilt, select_columns, vary_columns
from lance_flight.engine.query.tables.provider import Run, ScanLog
from lance_flight.engine.runtime.cancellation import PlanningLimits
from lance_flight.engine.sql.references import CATALOG, quote_parts
from lance_flight.engine.translation.evaluation import session_config
from lance_flight.engine.translation.plan_messages import plain_error
from lance_flight.errors import (
    LanceFlightError,
    LimitExceeded,
    NotFound,
    OutOfMemory,
    QueryFailed,
    Refused,
    SqlError,
    Unsupported,
    storage_error,
    without_middle,
)

STREAM_ROWS = 32 * 1024
"""Rows of a batch that is streamed directly: cores decode the batches of one data file at once, and a partition has few of 64 k."""

_ROW_BY_ROW = (Projection, Filter, SubqueryAlias)


def is_pure_scan(plan: LogicalPlan) -> bool:
    """Return whether an optimised plan reads one table and processes every row by itself."""
    node = plan.to_variant()
    if isinstance(node, TableScan):
        return _is_whole(node)
    return isinstance(node, _ROW_BY_ROW) and all(is_pure_scan(child) for child in plan.inputs())


def is_one_computed_row(plan: LogicalPlan) -> bool:
    """Return whether an optimised plan reads nothing and has one row at most, as that of `SELECT 1` does."""
    return "Subquery:" not in plan.display_indent() and _is_computed(plan)


def _is_computed(plan: LogicalPlan) -> bool:
    node = plan.to_variant()
    return isinstance(node, EmptyRelation) or (
        isinstance(node, Projection) and all(_is_computed(child) for child in plan.inputs())
    )


def bare_columns(plan: LogicalPlan) -> list[str] | None:
    """Return the table's columns that an optimised plan returns unchanged, in order; None if it does anything else."""
    node = plan.to_variant()
    if isinstance(node, TableScan):
        return [name for _, name in node.projection()] if _is_whole(node) else None
    if not isinstance(node, Projection):
        return None
    (below,) = (child.to_variant() for child in plan.inputs())
    if not isinstance(below, TableScan) or not _is_whole(below):
        return None
    columns = [_column(expression) for expression in node.projections()]
    known = [column for column in columns if column is not None]
    return known if len(known) == len(columns) else None


def stream(log: ScanLog, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch] | None:
    """Stream the only planned scan or search, under the names of `schema`; None unless there is just one."""
    batches: Iterable[pa.RecordBatch]
    read = list(dict.fromkeys(columns))
    match log.scans, log.searches:
        case [planned], []:
            batches = planned.batches([part for lane in planned.plan.lanes for part in lane], read, STREAM_ROWS)
        case [], [found]:
            batches = found(read)
        case _:
            return None
    return (_rename_columns(batch, columns, schema) for batch in batches)


def _rename_columns(batch: pa.RecordBatch, columns: list[str], schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    arrays = batch.columns if batch.schema.names == columns else [batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_whole(scan: Any) -> bool:
    """Return whether a scan returns all rows that its filters leave; one with a LIMIT does not, which counts over the whole table."""
    return scan.fetch() is None


def _column(expression: Any) -> str | None:
    """Return the column that an expression refers to, without its aliases; None for any other expression."""
    kind = expression.variant_name()
    if kind == "Alias":
        return _column(expression.to_variant().expr())
    return str(expression.to_variant().name()) if kind == "Column" else None


_FAILURE = re.compile(
    r"pyarrow\.lib\.BooleanScalar|'bit_wise_(?:and|or)' has no kernel matching input types \(bool, bool\)"
)
_CONSTANT = re.compile(
    r"_filters=\[(?:.*(?:\bBoolean\(\w+\) (?:AND|OR)\b|\b(?:AND|OR) Boolean\()|(?:.*, )?Boolean\(\w+\)(?:, |\]$))",
    re.MULTILINE,
)
"""A constant in a condition of a scan, or for one, also of a scan in a subquery that datafusion-python does not show."""


def fails_at_constants(exc: Exception) -> bool:
    """Return whether DataFusion has failed to join conditions of which one is a constant."""
    return _FAILURE.search(str(exc.__cause__)) is not None


def has_constant_conditions(shown: str) -> bool:
    """Return whether an optimised plan hands a constant to a scan: where it is optimised again, there are two."""
    return _CONSTANT.search(shown) is not None


def without_constants(context: SessionContext, plan: LogicalPlan) -> DataFrame | None:
    """Return an optimised plan without the constants that it hands to scans; None where it cannot be built again."""
    root = Node.of(plan)
    scans = {node: _without(context, node) for node in root.walk() if isinstance(node.variant, TableScan)}
    with suppress(Unsupported):
        return rebuilt(context, root, {scan: frame for scan, frame in scans.items() if frame is not None})
    return None


_FULL = "Full Join:"
_ORDERED = re.compile(r"^\s*Sort: |\b(?:ORDER|PARTITION) BY \[", re.MULTILINE)
_EQUALITY = re.compile(r"(?:Filter: |_filters=\[).* = ")


def has_joined_constants(plan: LogicalPlan, shown: str) -> bool:
    """Return whether an optimised plan orders rows of a FULL JOIN whose left side may have constants."""
    return _FULL in shown and _ORDERED.search(shown) is not None and any(_left_sides(Node.of(plan)))


def without_joined_constants(context: SessionContext, plan: LogicalPlan) -> DataFrame:
    """Return an optimised plan in which the left sides of FULL JOINs have no constants; `Unsupported` where it cannot be built again."""
    root = Node.of(plan)
    frames: dict[Node, DataFrame] = {}
    for side in reversed(list(_left_sides(root))):
        frames[side] = vary_columns(context, rebuilt(context, side, frames), side.outputs or ())
    return rebuilt(context, root, frames)


def _left_sides(root: Node) -> Iterator[Node]:
    """Yield the left sides of FULL JOINs that may have constants, those within others last."""
    for node in root.walk():
        if isinstance(node.variant, Join) and join_type(node.variant) == "Full":
            side = node.inputs[0]
            if any(map(_may_be_constant, side.walk())):
                yield side


def _may_be_constant(node: Node) -> bool:
    """Return whether a node may give a column one value in all rows."""
    if isinstance(node.variant, Projection):
        return any(strip_aliases(each).variant_name() == "Literal" for each in expressions(node.variant.projections()))
    return _EQUALITY.search(node.said) is not None or is_one_row(node)


def _without(context: SessionContext, node: Node) -> DataFrame | None:
    """Return a scan without constants; None for one that has none."""
    conditions = [Expr(condition) for condition in node.variant.filters()]
    constants = [condition for condition in conditions if _is_constant(condition)]
    if not constants or node.variant.fetch() is not None:
        return None
    frame = context.table(quote_parts(*(part for part in node.variant.fqn() if part)))
    is_true = all(constant.python_value().as_py() is True for constant in constants)
    kept = [condition for condition in conditions if not _is_constant(condition)] if is_true else [literal(value=False)]
    for condition in kept:
        frame = frame.filter(condition)
    return select_columns(context, frame, node.outputs or ())


def _is_constant(condition: Any) -> bool:
    return str(Expr(condition).variant_name()) == "Literal"


_NO_MEMORY = "Resources exhausted"
"""Text that DataFusion puts into every error of its memory pool."""
_NO_FIELD = re.compile(r"No field named (?:[^\s,]+\.)?\"?(?P<column>[^\s\".,]+)\"?[.,]")
_NO_BUFFER = "ArrowMemoryError("
"""Text in the message of an error of a function that is computed by pyarrow."""
_TOO_WIDE = "offset overflow"
"""Text in errors and panics of arrow-rs for texts that are too long for one batch."""
_TOO_LARGE = "value: LimitExceeded("
"""Text in the message of an error that a bounded function raised."""


_LONGEST = 100_000
"""Characters of a message that are read: one may have a value of megabytes, and each pattern holds Python's lock meanwhile."""


class QueryErrors:
    """Errors of one statement: those that its `log` has recorded, and the reasons why its names could not be resolved.

    `withheld` are columns without SELECT that the principal knows of, with their tables. Where tables are `masked`, what is said of a failed
    run names no value: it may be one that a mask was computed of.
    """

    def __init__(self, root: Root, log: ScanLog, withheld: Mapping[str, str], masked: Collection[TableName]) -> None:
        self._withheld = withheld
        self._masked = masked
        self._root = root
        self._log = log
        self._missing: dict[str, str] = {}

    def note_missing(self, reference: str, name: TableName, why: str) -> None:
        """Record why a name is no table: that matters only if DataFusion misses it, since it may be a table function's."""
        self._missing[f"table '{CATALOG}.{name}' not found"] = why
        for said in (reference, str(name), f"{CATALOG}.{name}"):
            self._missing[f"No table named '{said}'"] = why  # of a Substrait plan

    @contextmanager
    def raised_as(self, otherwise: type[LanceFlightError]) -> Iterator[None]:
        """Raise errors of the block as errors of lance-flight; DataFusion's own ones become `otherwise`."""
        try:
            yield
        except LanceFlightError as exc:
            raise self._without_values(exc) from exc.__cause__
        except Exception as exc:
            raise self._without_values(self._translate(_short(exc), otherwise)) from exc

    def _without_values(self, error: LanceFlightError) -> LanceFlightError:
        if not self._masked or type(error) is not QueryFailed:
            return error
        names = ", ".join(sorted({repr(name.name) for name in self._masked}))
        return QueryFailed(
            f"an expression failed on a value; which one is not told of a query that reads masked columns, of {names}"
        )

    def _translate(self, exc: Exception, otherwise: type[LanceFlightError]) -> LanceFlightError:
        """Return the error of lance-flight that caused an exception, else DataFusion's message as `otherwise`."""
        if self._log.error is not None:
            return self._log.error
        for said, why in self._missing.items():
            if said in str(exc):
                return NotFound(why + relation_advice(why))
        if isinstance(exc, MemoryError) or _NO_BUFFER in str(exc):
            return OutOfMemory(
                "rows of the result take more memory at once than the server has for those of all clients; expected shorter"
                " values, or fewer in a list"
            )
        if _TOO_WIDE in str(exc).lower():
            return LimitExceeded(
                "the values of one column take more than 2 GiB in a batch of rows; expected shorter values, or fewer rows beside them"
            )
        refused = storage_error(exc, "spill_directory")
        if refused is not None:
            return refused
        if _NO_MEMORY in str(exc):
            otherwise = OutOfMemory
        elif _TOO_LARGE in str(exc):
            otherwise = LimitExceeded
        plain = plain_error(exc, otherwise)
        message = str(plain)
        missing = _NO_FIELD.search(message)
        if missing is not None and missing["column"] in self._withheld:
            column = missing["column"]
            return Refused(
                f"no SELECT on column {column!r} of table {self._withheld[column]!r}; a role in the policy file grants it"
            )
        return type(plain)(self._root.store.words(message + relation_advice(message)))


def _short(exc: Exception) -> Exception:
    """Return an exception whose message is no longer than is read."""
    message = str(exc)
    return exc if len(message) <= _LONGEST else RuntimeError(without_middle(message, _LONGEST))


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
